#include "log/logger.h"

#include "base/clock.h"

#include <donmaz/error.h>

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    RETRY_MS = 100,
    WAIT_MS = 100,
    TELL_EVERY_MS = 1000,
    STRAIGHT = 32 << 10, /* from so many bytes on a copy costs more than a system call of its own */
};

/* Waits while *word is `value`, at most `ms` (negative: for ever). */
static void futex_wait(atomic_uint *word, unsigned value, long ms)
{
    struct timespec limit = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, ms < 0 ? NULL : &limit, NULL, 0);
}

static void futex_wake(atomic_uint *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* A line of the log about the log itself. */
static void tell(dz_logger *logger, int level, const char *msg, const dz_field *fields,
                 size_t count)
{
    char memory[2048];
    dz_line line;
    dz_line_init(&line, memory, sizeof memory, msg, &logger->redact);
    dz_line_begin(&line, logger, NULL, level, 0);
    for (size_t i = 0; i < count; i++)
        dz_line_field(&line, &fields[i]);
    dz_slice text = dz_line_finish(&line, msg);
    uint64_t lost = logger->sink.lost;
    dz_sink_write(&logger->sink, text.ptr, text.len);
    logger->sink.lost = lost; /* not one of the user's lines */
}

static uint64_t dropped_so_far(dz_logger *logger)
{
    uint64_t dropped = atomic_load_explicit(&logger->without_ring, memory_order_relaxed);
    for (dz_ring *ring = atomic_load(&logger->rings); ring; ring = ring->next)
        dropped += atomic_load_explicit(&ring->dropped, memory_order_relaxed);
    return dropped;
}

/* Says in the log how many lines it lacks: at most once a second, and when it is closed. */
static void tell_losses(dz_logger *logger)
{
    uint64_t dropped = dropped_so_far(logger), lost = logger->sink.lost, now = dz_now();
    if (dropped == logger->told_dropped && lost == logger->told_lost)
        return;
    bool last = atomic_load(&logger->stop);
    if (logger->sink.error != 0 || (!last && now - logger->told_ns < TELL_EVERY_MS * DZ_MS))
        return;
    const dz_field fields[] = {dz_field_uint("dropped", dropped - logger->told_dropped),
                               dz_field_uint("lost", lost - logger->told_lost)};
    tell(logger, DZ_LOG_WARN, "log lines are missing here", fields, 2);
    if (logger->sink.error != 0)
        return;
    logger->told_dropped = dropped;
    logger->told_lost = lost;
    logger->told_ns = now;
}

static void reopen_if_asked(dz_logger *logger)
{
    if (!atomic_exchange(&logger->reopen, false))
        return;
    int rc = dz_sink_reopen(&logger->sink);
    if (rc < 0) {
        const dz_field field = dz_field_error(rc);
        tell(logger, DZ_LOG_ERROR, "log file could not be reopened", &field, 1);
    }
}

static void write_bytes(dz_logger *logger, const char *bytes, size_t len)
{
    if (len > 0)
        dz_sink_write(&logger->sink, bytes, len);
    atomic_store_explicit(&logger->lost, logger->sink.lost, memory_order_relaxed);
}

static void wake_waiting(dz_logger *logger)
{
    atomic_fetch_add(&logger->drains, 1);
    if (atomic_load(&logger->waiting) > 0)
        futex_wake(&logger->drains);
}

/* A lot that lies in one piece is written from where it is; true when there was such a lot. What is
 * in the batch may be older, so it goes first. */
static bool write_straight(dz_logger *logger, dz_ring *ring, size_t *batched, size_t *taken)
{
    dz_slice lines = dz_ring_peek(ring, DZ_LOG_BATCH);
    if (lines.len < STRAIGHT)
        return false;
    write_bytes(logger, logger->batch, *batched);
    *batched = 0;
    write_bytes(logger, lines.ptr, lines.len);
    dz_ring_skip(ring, lines.len);
    *taken += lines.len;
    wake_waiting(logger);
    return true;
}

/* Bounded by what a ring can hold, so that one busy thread can't keep the others out. Lines that
 * are not written yet are in the batch: *batched bytes. */
static bool drain_ring(dz_logger *logger, dz_ring *ring, size_t *batched)
{
    bool found = false;
    for (size_t taken = 0; taken < ring->size && !dz_ring_empty(ring);) {
        found = true;
        if (write_straight(logger, ring, batched, &taken))
            continue;
        size_t got = dz_ring_take(ring, logger->batch + *batched, logger->batch_bytes - *batched);
        taken += got;
        *batched += got;
        if (logger->batch_bytes - *batched < logger->line_bytes) {
            wake_waiting(logger);
            write_bytes(logger, logger->batch, *batched);
            *batched = 0;
        }
    }
    return found;
}

bool dz_writer_drain(dz_logger *logger)
{
    bool found = false;
    pthread_mutex_lock(&logger->draining);
    reopen_if_asked(logger);
    size_t batched = 0;
    for (dz_ring *ring = atomic_load(&logger->rings); ring; ring = ring->next)
        found |= drain_ring(logger, ring, &batched);
    wake_waiting(logger);
    write_bytes(logger, logger->batch, batched);
    tell_losses(logger);
    pthread_mutex_unlock(&logger->draining);
    return found;
}

static bool has_work(dz_logger *logger)
{
    if (atomic_load(&logger->stop) || atomic_load(&logger->reopen) ||
        atomic_load(&logger->flush_done) != atomic_load(&logger->flush_wanted))
        return true;
    for (dz_ring *ring = atomic_load(&logger->rings); ring; ring = ring->next)
        if (!dz_ring_empty(ring))
            return true;
    return false;
}

static bool is_urgent(dz_logger *logger)
{
    return atomic_load(&logger->stop) || atomic_load(&logger->waiting) > 0 ||
           atomic_load(&logger->flush_done) != atomic_load(&logger->flush_wanted);
}

static bool drain_and_answer_flushes(dz_logger *logger)
{
    unsigned wanted = atomic_load(&logger->flush_wanted);
    bool found = dz_writer_drain(logger);
    if (atomic_exchange(&logger->flush_done, wanted) != wanted)
        futex_wake(&logger->flush_done);
    return found;
}

static void sleep_until_work(dz_logger *logger)
{
    atomic_store(&logger->doze, DZ_WRITER_ASLEEP);
    while (!has_work(logger)) {
        futex_wait(&logger->doze, DZ_WRITER_ASLEEP, -1);
        atomic_store(&logger->doze, DZ_WRITER_ASLEEP);
    }
}

static void *run(void *arg)
{
    dz_logger *logger = arg;
    pthread_setname_np(pthread_self(), "dz-log");
    for (bool found = false;;) {
        if (!found)
            sleep_until_work(logger);
        if (!is_urgent(logger)) {
            atomic_store(&logger->doze, DZ_WRITER_NAPPING);
            if (!is_urgent(logger))
                futex_wait(&logger->doze, DZ_WRITER_NAPPING, DZ_LOG_NAP_MS);
        }
        atomic_store(&logger->doze, DZ_WRITER_AWAKE);
        bool stop = atomic_load(&logger->stop);
        found = drain_and_answer_flushes(logger);
        if (stop)
            break;
    }
    atomic_store(&logger->ended, 1);
    futex_wake(&logger->ended);
    return NULL;
}

/* All signals blocked: they are the application's, and EPIPE is wanted as an error. */
static int start_thread(dz_logger *logger)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&logger->thread, NULL, run, logger);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

/* False when there is no thread and none can be had now. */
static bool have_thread(dz_logger *logger)
{
    if (atomic_load(&logger->running))
        return true;
    if (dz_now() < atomic_load_explicit(&logger->next_start_ns, memory_order_relaxed))
        return false;
    dz_loggers_lock();
    bool running = atomic_load(&logger->running);
    if (!running) {
        running = start_thread(logger) == 0;
        atomic_store(&logger->running, running);
        if (!running) {
            atomic_fetch_add(&logger->thread_failures, 1);
            atomic_store(&logger->next_start_ns, dz_now() + RETRY_MS * DZ_MS);
        }
    }
    dz_loggers_unlock();
    return running;
}

void dz_writer_wake(dz_logger *logger)
{
    if (!have_thread(logger))
        return;
    if (atomic_exchange(&logger->doze, DZ_WRITER_AWAKE) != DZ_WRITER_AWAKE)
        futex_wake(&logger->doze);
}

void dz_writer_wait_for_room(dz_logger *logger, dz_ring *ring, size_t len)
{
    if (!have_thread(logger)) {
        dz_writer_drain(logger);
        return;
    }
    atomic_fetch_add(&logger->waiting, 1);
    unsigned drains = atomic_load(&logger->drains);
    /* A drain may have ended since the ring was found full. There need be no other one: the writer
     * sleeps when every ring is empty. */
    if (!dz_ring_has_room(ring, len)) {
        dz_writer_wake(logger);
        futex_wait(&logger->drains, drains, WAIT_MS);
    }
    atomic_fetch_sub(&logger->waiting, 1);
}

int dz_writer_flush(dz_logger *logger, unsigned timeout_ms)
{
    if (!atomic_load(&logger->running)) {
        atomic_store(&logger->sink.deadline, dz_now() + timeout_ms * DZ_MS);
        dz_writer_drain(logger);
        atomic_store(&logger->sink.deadline, 0);
        return 0;
    }
    uint64_t deadline = dz_now() + timeout_ms * DZ_MS;
    unsigned wanted = atomic_fetch_add(&logger->flush_wanted, 1) + 1;
    dz_writer_wake(logger);
    for (;;) {
        unsigned done = atomic_load(&logger->flush_done);
        if ((int)(done - wanted) >= 0)
            return 0;
        uint64_t now = dz_now();
        if (now >= deadline)
            return DZ_E_TIMEOUT;
        futex_wait(&logger->flush_done, done, (long)((deadline - now) / DZ_MS) + 1);
    }
}

/* False: it hangs in a write. Not pthread_timedjoin_np: it waits by the wall clock, for an hour
 * when that is set back an hour. */
static bool wait_for_end(dz_logger *logger, uint64_t deadline)
{
    while (atomic_load(&logger->ended) == 0) {
        uint64_t now = dz_now();
        if (now >= deadline)
            return false;
        futex_wait(&logger->ended, 0, (long)((deadline - now) / DZ_MS) + 1);
    }
    return true;
}

bool dz_writer_stop(dz_logger *logger)
{
    atomic_store(&logger->sink.deadline, dz_now() + (uint64_t)logger->close_ms * DZ_MS);
    atomic_store(&logger->stop, true);
    if (!atomic_load(&logger->running)) {
        dz_writer_drain(logger);
        return true;
    }
    dz_writer_wake(logger);
    /* The sink keeps its deadline to 100 ms or so. */
    if (wait_for_end(logger, dz_now() + (logger->close_ms + 2000ULL) * DZ_MS)) {
        pthread_join(logger->thread, NULL);
        return true;
    }
    pthread_detach(logger->thread);
    return false;
}
