#include "log/logger.h"

#include "base/clock.h"

#include <donmaz/error.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

enum { DEFAULT_RING = 4 << 20, DEFAULT_LINE = 16 << 10, DEFAULT_CLOSE_MS = 1000 };

void dz_logger_make_head(dz_logger *logger)
{
    char hostname[HOST_NAME_MAX + 1] = "";
    bool cut = false;
    gethostname(hostname, sizeof hostname - 1);
    char *at = logger->head;
    at = mempcpy(at, ",\"pid\":", 7);
    at = dz_digits(at, (uint64_t)getpid());
    at = mempcpy(at, ",\"hostname\":", 12);
    at = dz_escape(at, 256, dz_slice_of(hostname), &cut);
    if (logger->name[0]) {
        at = mempcpy(at, ",\"name\":", 8);
        at = dz_escape(at, 256, dz_slice_of(logger->name), &cut);
    }
    logger->head_len = (size_t)(at - logger->head);
}

static size_t power_of_two(size_t at_least)
{
    size_t size = 1;
    while (size < at_least)
        size *= 2;
    return size;
}

static int set_options(dz_logger *logger, const dz_log_options *options)
{
    size_t ring = options->thread_bytes ? options->thread_bytes : DEFAULT_RING;
    size_t line = options->line_bytes ? options->line_bytes : DEFAULT_LINE;
    if (line < DZ_LINE_MIN || line > SIZE_MAX / 16 || ring > SIZE_MAX / 4)
        return DZ_E_INVALID;
    if (ring < 4 * line)
        ring = 4 * line;
    logger->ring_bytes = power_of_two(ring);
    logger->line_bytes = line;
    logger->batch_bytes = 2 * line > DZ_LOG_BATCH ? 2 * line : DZ_LOG_BATCH;
    logger->batch = malloc(logger->batch_bytes);
    if (!logger->batch)
        return DZ_E_NOMEM;
    atomic_init(&logger->level, options->level ? options->level : DZ_LOG_INFO);
    atomic_init(&logger->doze, DZ_WRITER_ASLEEP);
    logger->block = options->block;
    logger->close_ms = options->close_ms ? options->close_ms : DEFAULT_CLOSE_MS;
    if (options->name)
        strncpy(logger->name, options->name, sizeof logger->name - 1);
    return 0;
}

static void free_logger(dz_logger *logger)
{
    for (dz_ring *ring = atomic_load(&logger->rings), *next; ring; ring = next) {
        next = ring->next;
        dz_ring_free(ring);
    }
    dz_redact_close(&logger->redact);
    pthread_mutex_destroy(&logger->draining);
    free(logger->batch);
    free(logger);
}

int dz_logger_open(dz_logger **out, const dz_log_options *options)
{
    static const dz_log_options defaults;
    if (!options)
        options = &defaults;
    dz_logger *logger = aligned_alloc(_Alignof(dz_logger), sizeof *logger);
    if (!logger)
        return DZ_E_NOMEM;
    memset(logger, 0, sizeof *logger);
    pthread_mutex_init(&logger->draining, NULL);
    int rc = set_options(logger, options);
    if (rc == 0)
        rc = dz_redact_init(&logger->redact, options->redact, options->redact_count);
    logger->spares_requests = rc == 0 && dz_redact_spares_requests(&logger->redact);
    if (rc == 0)
        rc = dz_sink_open(&logger->sink, options->path,
                          options->fd != 0 ? options->fd : STDOUT_FILENO);
    if (rc < 0) {
        free_logger(logger);
        return rc;
    }
    dz_logger_make_head(logger);
    rc = dz_loggers_add(logger);
    if (rc < 0) {
        dz_sink_close(&logger->sink);
        free_logger(logger);
        return rc;
    }
    *out = logger;
    return 0;
}

void dz_logger_close(dz_logger *logger)
{
    if (!logger)
        return;
    bool stopped = dz_writer_stop(logger);
    dz_loggers_remove(logger);
    if (!stopped)
        return; /* a write that never returns still uses it */
    dz_sink_close(&logger->sink);
    free_logger(logger);
}

int dz_logger_flush(dz_logger *logger, unsigned timeout_ms)
{
    return logger ? dz_writer_flush(logger, timeout_ms) : 0;
}

void dz_logger_reopen(dz_logger *logger)
{
    if (!logger)
        return;
    int before = errno;
    atomic_store(&logger->reopen, true);
    /* Without a writer yet, its first drain will see it; starting one is not for signal handlers.
     */
    if (atomic_load(&logger->running))
        dz_writer_wake(logger);
    errno = before;
}

void dz_logger_set_direct(dz_logger *logger, bool direct)
{
    if (logger)
        atomic_store_explicit(&logger->direct, direct, memory_order_relaxed);
}

void dz_logger_set_level(dz_logger *logger, int level)
{
    if (logger)
        atomic_store_explicit(&logger->level, level, memory_order_relaxed);
}

void dz_logger_stats(dz_logger *logger, dz_log_stats *stats)
{
    *stats = (dz_log_stats){0};
    if (!logger)
        return;
    stats->dropped = atomic_load(&logger->without_ring);
    stats->lost = atomic_load(&logger->lost);
    stats->thread_failures = atomic_load(&logger->thread_failures);
    for (dz_ring *ring = atomic_load(&logger->rings); ring; ring = ring->next) {
        stats->lines += atomic_load_explicit(&ring->lines, memory_order_relaxed);
        stats->dropped += atomic_load_explicit(&ring->dropped, memory_order_relaxed);
        stats->waited += atomic_load_explicit(&ring->waited, memory_order_relaxed);
    }
}
