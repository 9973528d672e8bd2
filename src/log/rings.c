/* Which ring belongs to which thread, and what becomes of rings when threads end, the process
 * forks, or it exits. */
#include "log/logger.h"

#include <donmaz/error.h>

#include <stdlib.h>

/* One thread's ring for the logger in each slot. */
typedef struct thread_rings {
    struct {
        uint64_t id; /* the logger's; another id means the entry is stale */
        dz_ring *ring;
    } slots[DZ_LOGGERS_MAX];
    bool registered; /* for the destructor */
} thread_rings;

static _Thread_local thread_rings mine;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static dz_logger *open_loggers[DZ_LOGGERS_MAX];
static uint64_t last_id;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t at_thread_exit;

/* The rings of a thread that ends are free for the next one; what is in them is written as ever. */
static void give_up_rings(void *rings)
{
    thread_rings *ended = rings;
    pthread_mutex_lock(&lock);
    for (size_t slot = 0; slot < DZ_LOGGERS_MAX; slot++) {
        const dz_logger *logger = open_loggers[slot];
        if (logger && logger->id == ended->slots[slot].id && ended->slots[slot].ring)
            atomic_store_explicit(&ended->slots[slot].ring->owned, false, memory_order_release);
        ended->slots[slot].id = 0;
    }
    ended->registered = false;
    pthread_mutex_unlock(&lock);
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

/* In the child there is one thread and no writer; the lines in the rings are the parent's to
 * write. Mutexes that a vanished thread may hold are made anew. */
static void restart_in_child(dz_logger *logger)
{
    pthread_mutex_init(&logger->draining, NULL);
    atomic_store(&logger->running, false);
    atomic_store(&logger->doze, DZ_WRITER_ASLEEP);
    atomic_store(&logger->waiting, 0);
    atomic_store(&logger->flush_done, atomic_load(&logger->flush_wanted));
    atomic_store(&logger->next_start_ns, 0);
    logger->sink.torn = false;
    for (dz_ring *ring = atomic_load(&logger->rings); ring; ring = ring->next) {
        atomic_store(&ring->head, 0);
        atomic_store(&ring->tail, 0);
        ring->base = 0;
        ring->ms = UINT64_MAX;
        atomic_store(&ring->lines, 0);
        atomic_store(&ring->dropped, 0);
        atomic_store(&ring->waited, 0);
        const bool is_mine =
            mine.slots[logger->slot].id == logger->id && mine.slots[logger->slot].ring == ring;
        atomic_store(&ring->owned, is_mine);
    }
    atomic_store(&logger->without_ring, 0);
    logger->told_dropped = 0;
    dz_logger_make_head(logger); /* another pid */
}

static void in_child(void)
{
    for (size_t slot = 0; slot < DZ_LOGGERS_MAX; slot++)
        if (open_loggers[slot])
            restart_in_child(open_loggers[slot]);
    pthread_mutex_unlock(&lock);
}

static void at_process_exit(void)
{
    for (size_t slot = 0; slot < DZ_LOGGERS_MAX; slot++) {
        pthread_mutex_lock(&lock);
        dz_logger *logger = open_loggers[slot];
        pthread_mutex_unlock(&lock);
        if (logger)
            dz_writer_flush(logger, logger->close_ms);
    }
}

static void set_up(void)
{
    pthread_key_create(&at_thread_exit, give_up_rings);
    pthread_atfork(before_fork, in_parent, in_child);
    atexit(at_process_exit);
}

void dz_loggers_lock(void)
{
    pthread_mutex_lock(&lock);
}

void dz_loggers_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

int dz_loggers_add(dz_logger *logger)
{
    pthread_once(&once, set_up);
    int rc = DZ_E_STATE;
    pthread_mutex_lock(&lock);
    for (unsigned slot = 0; slot < DZ_LOGGERS_MAX; slot++) {
        if (open_loggers[slot])
            continue;
        logger->id = ++last_id;
        logger->slot = slot;
        open_loggers[slot] = logger;
        rc = 0;
        break;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

void dz_loggers_remove(dz_logger *logger)
{
    pthread_mutex_lock(&lock);
    open_loggers[logger->slot] = NULL;
    pthread_mutex_unlock(&lock);
}

/* A ring that an ended thread left, or a new one. */
static dz_ring *adopt_ring(dz_logger *logger)
{
    for (dz_ring *ring = atomic_load(&logger->rings); ring; ring = ring->next) {
        bool owned = false;
        if (atomic_compare_exchange_strong_explicit(&ring->owned, &owned, true,
                                                    memory_order_acquire, memory_order_relaxed))
            return ring;
    }
    dz_ring *ring = dz_ring_new(logger->ring_bytes, logger->line_bytes);
    if (!ring)
        return NULL;
    ring->next = atomic_load(&logger->rings);
    while (!atomic_compare_exchange_weak(&logger->rings, &ring->next, ring)) {
    }
    return ring;
}

dz_ring *dz_logger_ring(dz_logger *logger)
{
    if (mine.slots[logger->slot].id == logger->id)
        return mine.slots[logger->slot].ring;
    dz_ring *ring = adopt_ring(logger);
    if (!ring)
        return NULL;
    if (!mine.registered) /* when this fails, the ring stays with the ended thread: no harm */
        mine.registered = pthread_setspecific(at_thread_exit, &mine) == 0;
    mine.slots[logger->slot].id = logger->id;
    mine.slots[logger->slot].ring = ring;
    return ring;
}
