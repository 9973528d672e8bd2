#include "pool/worker.h"

#include "base/clock.h"
#include "base/slice.h"
#include "pool/process.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WORKER_STACK = 1 << 20 };

typedef struct worker {
    dz_thread thread; /* so that fibers can run here */
    dz_pool *pool;
    dz_list link;     /* in pool->sleepers or pool->dead */
    dz_list everyone; /* in pool->everyone */
    _Atomic uint32_t asleep;
    pthread_t handle;
    unsigned jobs;
    uint64_t since;  /* when its job began, monotonic ns; 0: it has none. Under the lock */
    dz_child *child; /* with processes, from its first task on */
} worker;

static _Thread_local worker *current;

/* A function of its own, so that no caller keeps the address over a change of threads. */
__attribute__((noinline)) dz_child **dz_worker_child(void)
{
    return &current->child;
}

/* With the lock held: the job to run next, NULL when none waits. */
static dz_job *take_job(dz_pool *pool)
{
    static const dz_priority order[] = {DZ_PRIORITY_HIGH, DZ_PRIORITY_NORMAL, DZ_PRIORITY_LOW};
    for (size_t i = 0; i < DZ_PRIORITIES; i++) {
        dz_list *link = dz_list_shift(&pool->queues[order[i]]);
        if (!link)
            continue;
        dz_pool_left_queue(pool);
        return DZ_CONTAINER(link, dz_job, link);
    }
    return NULL;
}

/* --- sleeping: each worker on a word of its own, so that the one that slept last is woken first,
 * whose stack is still in a cache, and so that it is woken after the lock was dropped. --- */

_Atomic uint32_t *dz_pool_call_sleeper(dz_pool *pool)
{
    dz_list *link = pool->sleepers.prev;
    if (dz_list_empty(&pool->sleepers))
        return NULL;
    dz_list_remove(link);
    worker *self = DZ_CONTAINER(link, worker, link);
    atomic_store_explicit(&self->asleep, 0, memory_order_relaxed);
    return &self->asleep;
}

/* The worker may be gone by now, with its word: the kernel only looks who waits at the address. */
void dz_worker_wake(_Atomic uint32_t *word)
{
    if (word)
        syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void dz_pool_call_all(dz_pool *pool)
{
    for (_Atomic uint32_t *word; (word = dz_pool_call_sleeper(pool));)
        dz_worker_wake(word);
}

/* With the lock held, which is dropped meanwhile. False: nobody called until `until` (monotonic ns;
 * 0: no limit). */
static bool sleep_until_called(worker *self, uint64_t until)
{
    dz_pool *pool = self->pool;
    const struct timespec limit = dz_timespec(until);
    pool->idle++;
    atomic_store_explicit(&self->asleep, 1, memory_order_relaxed);
    dz_list_push(&pool->sleepers, &self->link);
    pthread_mutex_unlock(&pool->lock);
    while (atomic_load_explicit(&self->asleep, memory_order_relaxed) &&
           (until == 0 || dz_now() < until))
        syscall(SYS_futex, &self->asleep, FUTEX_WAIT_BITSET_PRIVATE, 1, until ? &limit : NULL, NULL,
                FUTEX_BITSET_MATCH_ANY);
    pthread_mutex_lock(&pool->lock);
    pool->idle--;
    bool called = dz_list_empty(&self->link);
    dz_list_remove(&self->link);
    return called;
}

/* With the lock held: waits for a job; NULL when this worker should end. *now is the time, before
 * and after. */
static dz_job *next_job(worker *self, uint64_t *now)
{
    dz_pool *pool = self->pool;
    const dz_pool_options *options = &pool->options;
    uint64_t until = UINT64_MAX;
    if (options->idle_timeout_ns < UINT64_MAX - *now)
        until = *now + options->idle_timeout_ns;
    for (;;) {
        dz_job *job = take_job(pool);
        if (job || pool->closing)
            return job;
        bool stays = pool->workers <= options->min_workers;
        bool called = sleep_until_called(self, stays ? 0 : until);
        *now = dz_now();
        if (!called && pool->queued == 0 && pool->workers > options->min_workers)
            return NULL;
    }
}

/* Returns when it ended, monotonic ns. */
static uint64_t run_job(dz_pool *pool, dz_job *job, uint64_t start)
{
    /* It may have been submitted since `start` was read. */
    uint64_t waited = start > job->submitted ? start - job->submitted : 0;
    dz_histogram_record_shared(pool->wait_ns, waited);
    dz_spread_member member;
    if (pool->spread)
        dz_spread_enter(pool->spread, pool->spread_kind, &member);
    job->run(job); /* and may be gone after this */
    if (pool->spread)
        dz_spread_leave(pool->spread, &member);
    uint64_t end = dz_now();
    dz_histogram_record_shared(pool->run_ns, end - start);
    return end;
}

/* With the lock held. Returns when it counts as ended, which is `now` or a little later. */
static uint64_t note_end(worker *self, uint64_t now)
{
    dz_pool *pool = self->pool;
    uint64_t end = now > pool->read_at ? now : pool->read_at;
    pool->busy_ns += end - self->since;
    self->since = 0;
    self->jobs++;
    return end;
}

uint64_t dz_pool_busy(dz_pool *pool, uint64_t now)
{
    uint64_t busy = pool->busy_ns;
    pool->read_at = now;
    for (dz_list *link = pool->everyone.next; link != &pool->everyone; link = link->next) {
        uint64_t since = DZ_CONTAINER(link, worker, everyone)->since;
        if (since > 0 && since < now)
            busy += now - since;
    }
    return busy;
}

/* With the lock held: whether a thread that has run so many jobs should make room for a new one; it
 * stays when that one is needed and can't be started. (Of a process it is the process that goes.)
 */
static bool is_spent(const worker *self)
{
    dz_pool *pool = self->pool;
    unsigned most = pool->options.recycle_tasks;
    if (most == 0 || self->jobs < most || pool->zygote)
        return false;
    if (pool->closing)
        return pool->queued == 0;
    bool needed = dz_pool_waiting(pool) > 0 || pool->workers <= pool->options.min_workers;
    return !needed || dz_pool_start_worker(pool) == 0;
}

static void *worker_main(void *arg)
{
    worker *self = arg;
    dz_pool *pool = self->pool;
    dz_thread_enter(&self->thread);
    current = self;
    (void)dz_thread_slice(pool->spread ? DZ_HANDLER_SLICE : 0); /* only handlers take turns */
    if (pool->options.nice > 0) {
        id_t id = (id_t)atomic_load(&self->thread.id);
        setpriority(PRIO_PROCESS, id, getpriority(PRIO_PROCESS, id) + pool->options.nice);
    }
    uint64_t now = dz_now();
    pthread_mutex_lock(&pool->lock);
    pool->starting--;
    for (dz_job *job; !is_spent(self) && (job = next_job(self, &now));) {
        self->since = now;
        dz_pool_unlock(pool);
        now = run_job(pool, job, now);
        pthread_mutex_lock(&pool->lock);
        now = note_end(self, now);
    }
    pool->workers--; /* at once, so that a job submitted now gets another one */
    pthread_mutex_unlock(&pool->lock);
    dz_child_end(self->child);
    pthread_mutex_lock(&pool->lock);
    pool->threads--;
    dz_list_remove(&self->everyone);
    dz_list_push(&pool->dead, &self->link);
    pthread_cond_broadcast(&pool->ended);
    pthread_mutex_unlock(&pool->lock);
    dz_thread_leave(&self->thread);
    return NULL;
}

void dz_pool_bury(dz_pool *pool)
{
    for (dz_list *link; (link = dz_list_shift(&pool->dead));) {
        worker *dead = DZ_CONTAINER(link, worker, link);
        pthread_mutex_unlock(&pool->lock);
        pthread_join(dead->handle, NULL);
        free(dead);
        pthread_mutex_lock(&pool->lock);
    }
}

int dz_pool_start_worker(dz_pool *pool)
{
    worker *self = calloc(1, sizeof *self);
    if (!self)
        return DZ_E_NOMEM;
    self->pool = pool;
    dz_list_init(&self->link);
    int rc = dz_thread_create(&self->handle, WORKER_STACK, worker_main, self);
    if (rc < 0) {
        free(self);
        return rc;
    }
    dz_list_push(&pool->everyone, &self->everyone);
    pool->workers++;
    pool->threads++;
    pool->starting++;
    return 0;
}
