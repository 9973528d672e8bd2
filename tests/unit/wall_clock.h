/* wall_clock.h: a wall clock that seems to have been set back an hour once it was read: a wait
 * until a time on it does not end. Link with --wrap=clock_gettime. */
#ifndef DZ_TESTS_WALL_CLOCK_H
#define DZ_TESTS_WALL_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

static _Atomic bool wall_is_ahead;

int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    int rc = __real_clock_gettime(clock, out);
    if (clock == CLOCK_REALTIME && atomic_load(&wall_is_ahead))
        out->tv_sec += 3600;
    return rc;
}

#endif
