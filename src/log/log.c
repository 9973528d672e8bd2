/* The calling thread's side: makes a line and puts it into the thread's ring. */
#include "log/logger.h"

#include "base/clock.h"

#include <errno.h>

bool dz_log_enabled(const dz_logger *logger, int level)
{
    return logger && level >= atomic_load_explicit(&logger->level, memory_order_relaxed);
}

/* {"level":30,"time":1767225600000,"pid":71,"hostname":"a" */
void dz_line_begin(dz_line *line, const dz_logger *logger, dz_ring *ring, int level, uint64_t ms)
{
    char digits[24], *at = digits;
    if (ms == 0)
        ms = dz_clock(CLOCK_REALTIME) / DZ_MS;
    at = dz_digits(at, (uint64_t)(level > 0 ? level : 0));
    dz_line_raw(line, DZ_LIT("{\"level\":"));
    dz_line_raw(line, dz_slice_make(digits, (size_t)(at - digits)));
    dz_line_raw(line, DZ_LIT(",\"time\":"));
    if (!ring) {
        at = dz_digits(digits, ms);
        dz_line_raw(line, dz_slice_make(digits, (size_t)(at - digits)));
    } else {
        if (ring->ms != ms) {
            ring->ms = ms;
            ring->ms_len = (size_t)(dz_digits(ring->ms_digits, ms) - ring->ms_digits);
        }
        dz_line_raw(line, dz_slice_make(ring->ms_digits, ring->ms_len));
    }
    dz_line_raw(line, dz_slice_make(logger->head, logger->head_len));
}

static void count_one(_Atomic uint64_t *counter) /* of the calling thread's ring */
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

void dz_logger_added(dz_logger *logger, dz_ring *ring, size_t used)
{
    count_one(&ring->lines);
    if (atomic_load_explicit(&logger->direct, memory_order_relaxed)) {
        dz_writer_flush(logger, DZ_LOG_DIRECT_MS);
        return;
    }
    unsigned doze = atomic_load(&logger->doze);
    if (doze == DZ_WRITER_ASLEEP || (doze == DZ_WRITER_NAPPING && used > ring->size / 2))
        dz_writer_wake(logger);
}

void dz_logger_put(dz_logger *logger, dz_ring *ring, dz_slice line)
{
    size_t used;
    for (bool waited = false; !dz_ring_put(ring, line, &used); waited = true) {
        if (!logger->block || atomic_load_explicit(&logger->direct, memory_order_relaxed)) {
            count_one(&ring->dropped);
            if (atomic_load(&logger->doze) != DZ_WRITER_AWAKE)
                dz_writer_wake(logger);
            return;
        }
        if (!waited)
            count_one(&ring->waited);
        dz_writer_wait_for_room(logger, ring, line.len);
    }
    dz_logger_added(logger, ring, used);
}

/* The ring and a line begun in it; false when there is no memory for a ring. */
static bool begin(dz_logger *logger, dz_ring **ring, dz_line *line, int level, const char *msg)
{
    *ring = dz_logger_ring(logger);
    if (!*ring) {
        atomic_fetch_add_explicit(&logger->without_ring, 1, memory_order_relaxed);
        return false;
    }
    dz_line_init(line, (*ring)->line, logger->line_bytes, msg, &logger->redact);
    dz_line_begin(line, logger, *ring, level, 0);
    return true;
}

void dz_log_write(dz_logger *logger, int level, const char *msg, const dz_field *fields,
                  size_t count)
{
    dz_log_write_bound(logger, level, msg, (dz_slice){0}, fields, count);
}

void dz_log_write_bound(dz_logger *logger, int level, const char *msg, dz_slice members,
                        const dz_field *fields, size_t count)
{
    if (!dz_log_enabled(logger, level))
        return;
    int before = errno;
    dz_ring *ring;
    dz_line line;
    if (begin(logger, &ring, &line, level, msg)) {
        dz_line_members(&line, members);
        for (size_t i = 0; i < count; i++)
            dz_line_field(&line, &fields[i]);
        dz_logger_put(logger, ring, dz_line_finish(&line, msg));
    }
    errno = before;
}

size_t dz_log_render_members(const dz_logger *logger, const dz_field *fields, size_t count,
                             char *to, size_t room)
{
    static const dz_redact nothing;
    if (room < DZ_LINE_MIN)
        return 0;
    dz_line line;
    dz_line_init(&line, to, room, NULL, logger ? &logger->redact : &nothing);
    for (size_t i = 0; i < count; i++)
        dz_line_field(&line, &fields[i]);
    for (const dz_field end = dz_field_end(); line.depth > 0;)
        dz_line_field(&line, &end);
    return (size_t)(line.at - line.start);
}
