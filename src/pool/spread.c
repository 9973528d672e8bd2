#include "pool/spread.h"

#include <sched.h>
#include <stddef.h>
#include <unistd.h>

#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>

/* Restartable sequences: the kernel writes a thread's core where all of its process may read it. */
static const _Atomic uint32_t *own_core(void)
{
    if (__rseq_size == 0)
        return NULL;
    char *area = (char *)__builtin_thread_pointer() + __rseq_offset;
    return (const _Atomic uint32_t *)(void *)(area + offsetof(struct rseq, cpu_id));
}
#else
static const _Atomic uint32_t *own_core(void)
{
    return NULL;
}
#endif

void dz_spread_init(dz_spread *spread)
{
    pthread_mutex_init(&spread->lock, NULL);
    dz_list_init(&spread->members[DZ_SPREAD_LIGHT]);
    dz_list_init(&spread->members[DZ_SPREAD_LOWERED]);
}

void dz_spread_destroy(dz_spread *spread)
{
    pthread_mutex_destroy(&spread->lock);
}

/* How many members each core has, by kind. */
typedef struct dz_tally {
    uint16_t on[2][CPU_SETSIZE];
} dz_tally;

static uint32_t core_of(const dz_spread_member *member)
{
    uint32_t core = atomic_load_explicit(member->core, memory_order_relaxed);
    return core < CPU_SETSIZE ? core : 0;
}

static void count(const dz_list *members, uint16_t *on)
{
    for (dz_list *link = members->next; link != members; link = link->next)
        on[core_of(DZ_CONTAINER(link, dz_spread_member, link))]++;
}

/* What a core has to do already: those of the same kind first, then the others. */
static uint32_t load_of(const dz_tally *tally, dz_spread_kind kind, uint32_t core)
{
    return (uint32_t)tally->on[kind][core] << 16 | tally->on[!kind][core];
}

/* Moves a thread that is not in the tally to the core with the least load, if that is another one;
 * it may leave again. */
static void place(const dz_tally *tally, dz_spread_kind kind, const dz_spread_member *member)
{
    uint32_t here = core_of(member), best = here, least = load_of(tally, kind, here);
    cpu_set_t allowed, target;
    if (least == 0 || sched_getaffinity(member->id, sizeof allowed, &allowed) < 0)
        return; /* or there are more cores than a cpu_set_t holds: room enough */
    for (uint32_t core = 0; core < CPU_SETSIZE && least > 0; core++) {
        if (CPU_ISSET(core, &allowed) && load_of(tally, kind, core) < least) {
            least = load_of(tally, kind, core);
            best = core;
        }
    }
    if (best == here)
        return;
    CPU_ZERO(&target);
    CPU_SET(best, &target);
    if (sched_setaffinity(member->id, sizeof target, &target) == 0)
        sched_setaffinity(member->id, sizeof allowed, &allowed);
}

/* Lowered ones compute for long, and an idle core may have drawn one to another since it began. */
static void part_lowered(const dz_spread *spread, dz_tally *tally)
{
    const dz_list *members = &spread->members[DZ_SPREAD_LOWERED];
    uint16_t *on = tally->on[DZ_SPREAD_LOWERED];
    for (dz_list *link = members->next; link != members; link = link->next) {
        const dz_spread_member *member = DZ_CONTAINER(link, dz_spread_member, link);
        uint32_t core = core_of(member);
        if (on[core] < 2)
            continue;
        on[core]--;
        place(tally, DZ_SPREAD_LOWERED, member);
        return;
    }
}

void dz_spread_enter(dz_spread *spread, dz_spread_kind kind, dz_spread_member *member)
{
    member->core = own_core();
    if (!member->core)
        return;
    member->id = gettid();
    dz_list_init(&member->link);
    dz_tally tally = {0};
    pthread_mutex_lock(&spread->lock);
    count(&spread->members[DZ_SPREAD_LIGHT], tally.on[DZ_SPREAD_LIGHT]);
    count(&spread->members[DZ_SPREAD_LOWERED], tally.on[DZ_SPREAD_LOWERED]);
    place(&tally, kind, member);
    if (kind == DZ_SPREAD_LIGHT)
        part_lowered(spread, &tally);
    dz_list_push(&spread->members[kind], &member->link);
    pthread_mutex_unlock(&spread->lock);
}

void dz_spread_leave(dz_spread *spread, dz_spread_member *member)
{
    if (!member->core)
        return;
    pthread_mutex_lock(&spread->lock);
    dz_list_remove(&member->link);
    pthread_mutex_unlock(&spread->lock);
}
