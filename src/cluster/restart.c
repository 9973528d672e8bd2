#include "cluster/restart.h"

/* 0, first, 2 * first, 4 * first ... most */
static uint64_t delay_after(unsigned times)
{
    if (times == 0)
        return 0;
    uint64_t delay = DZ_RESTART_FIRST;
    for (unsigned i = 1; i < times && delay < DZ_RESTART_MOST; i++)
        delay *= 2;
    return delay < DZ_RESTART_MOST ? delay : DZ_RESTART_MOST;
}

uint64_t dz_restart_after_death(dz_restart *restart, uint64_t lived, bool was_ready)
{
    if (was_ready && lived >= DZ_RESTART_STEADY)
        restart->deaths = 0;
    if (!was_ready)
        restart->failed_starts++;
    return delay_after(restart->deaths++);
}

uint64_t dz_restart_after_failed_fork(dz_restart *restart)
{
    /* Never at once: what is short must have time to come back. */
    return delay_after(++restart->deaths);
}

void dz_restart_note_ready(dz_restart *restart)
{
    restart->failed_starts = 0;
}
