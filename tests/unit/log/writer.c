/* When the writer sleeps, naps and is awake, seen by the system calls it makes. */
#include "../check.h"

#include "log/logger.h"

#include "base/clock.h"

#include <donmaz/error.h>
#include <donmaz/log.h>

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PATIENCE_S = 20 };

static dz_logger *_Atomic logger;
static char file[] = "/tmp/dz-writer-XXXXXX";

/* --- what it waits for --- */

static atomic_uint naps;       /* waits of the writer with a limit */
static atomic_long longest_ms; /* the limit of the longest */
static atomic_uint room_waits; /* waits of those who have lines and no room */

static void note_wait(dz_logger *of, const void *word, const struct timespec *limit)
{
    if (word == &of->drains)
        atomic_fetch_add(&room_waits, 1);
    if (word != &of->doze || !limit)
        return;
    long ms = limit->tv_sec * 1000 + limit->tv_nsec / 1000000, before = atomic_load(&longest_ms);
    while (ms > before && !atomic_compare_exchange_weak(&longest_ms, &before, ms)) {
    }
    atomic_fetch_add(&naps, 1);
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    va_list list;
    long a[6];
    va_start(list, number);
    for (size_t i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    dz_logger *of = atomic_load(&logger);
    if (number == SYS_futex && a[1] == FUTEX_WAIT_PRIVATE && of)
        note_wait(of, (const void *)a[0], (const struct timespec *)a[3]);
    return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* --- a logger for each test --- */

static void open_logger(dz_log_options options)
{
    dz_logger *opened = NULL;
    atomic_store(&naps, 0);
    atomic_store(&longest_ms, 0);
    atomic_store(&room_waits, 0);
    assert_int_equal(dz_logger_open(&opened, &options), 0);
    logger = opened;
}

static void close_logger(void)
{
    dz_logger *opened = logger;
    logger = NULL;
    dz_logger_close(opened);
}

static void wait_for(bool (*condition)(uint64_t), uint64_t value, const char *what)
{
    for (uint64_t end = dz_now() + PATIENCE_S * DZ_SEC; !condition(value); poll(NULL, 0, 1))
        if (dz_now() > end)
            fail_msg("did not happen: %s", what);
}

static bool sleeps(uint64_t unused)
{
    (void)unused;
    for (dz_ring *ring = atomic_load(&logger->rings); ring; ring = ring->next)
        if (!dz_ring_empty(ring))
            return false;
    return atomic_load(&logger->doze) == DZ_WRITER_ASLEEP;
}

static bool has_waited(uint64_t count)
{
    dz_log_stats stats;
    dz_logger_stats(logger, &stats);
    return stats.waited >= count;
}

static size_t lines_in(int fd)
{
    static char text[1 << 16];
    size_t lines = 0;
    for (ssize_t n; (n = read(fd, text, sizeof text)) > 0;)
        for (ssize_t i = 0; i < n; i++)
            lines += text[i] == '\n';
    return lines;
}

/* --- tests --- */

/* So on a crash only what was logged in the last 10 ms is missing, if the machine runs the writer
 * when it is due. */
static void a_line_waits_ten_milliseconds_at_most_for_the_writer(void **state)
{
    (void)state;
    open_logger((dz_log_options){.path = file});
    for (int i = 0; i < 20; i++) {
        dz_log(logger, DZ_LOG_INFO, "into an empty logger, whose writer sleeps");
        wait_for(sleeps, 0, "the writer sleeps");
    }
    assert_true(atomic_load(&naps) >= 20);
    assert_in_range(atomic_load(&longest_ms), 1, 10);
    close_logger();
}

static void a_thread_that_finds_room_again_does_not_wait(void **state)
{
    (void)state;
    open_logger((dz_log_options){.path = file, .block = true});
    dz_log(logger, DZ_LOG_INFO, "a line");
    wait_for(sleeps, 0, "the writer sleeps");
    /* As if the ring had been full a moment ago: nobody will drain it, as it is empty. */
    dz_writer_wait_for_room(logger, dz_logger_ring(logger), 100);
    assert_int_equal(atomic_load(&room_waits), 0);
    close_logger();
}

static void the_writer_does_not_nap_while_somebody_waits_for_room(void **state)
{
    (void)state;
    open_logger((dz_log_options){.path = file, .block = true});
    dz_log(logger, DZ_LOG_INFO, "starts it");
    wait_for(sleeps, 0, "the writer sleeps");
    atomic_fetch_add(&logger->waiting, 1);
    unsigned before = atomic_load(&naps);
    for (int i = 0; i < 20; i++) {
        dz_log(logger, DZ_LOG_INFO, "urgent");
        wait_for(sleeps, 0, "the writer sleeps");
    }
    assert_int_equal(atomic_load(&naps), before);
    atomic_fetch_sub(&logger->waiting, 1);
    close_logger();
}

static atomic_bool all_logged;
enum { MANY = 3000 };

static void *log_many(void *unused)
{
    (void)unused;
    for (int i = 0; i < MANY; i++)
        dz_log(logger, DZ_LOG_INFO, "more than the pipe and the buffer hold");
    atomic_store(&all_logged, true);
    return NULL;
}

static void
with_block_a_reader_that_stands_still_holds_up_its_callers_and_loses_nothing(void **state)
{
    (void)state;
    int fds[2];
    pthread_t thread;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    open_logger((dz_log_options){
        .fd = fds[1], .block = true, .thread_bytes = 8192, .line_bytes = 1024, .close_ms = 20000});
    assert_int_equal(pthread_create(&thread, NULL, log_many, NULL), 0);
    wait_for(has_waited, 1, "a caller waits, and is counted");
    poll(NULL, 0, 250); /* longer than one wait: it goes on waiting */
    assert_false(atomic_load(&all_logged));
    size_t lines = 0;
    for (; !atomic_load(&all_logged); poll(NULL, 0, 1)) {
        assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
        lines += lines_in(fds[0]);
    }
    pthread_join(thread, NULL);
    dz_log_stats stats;
    dz_logger_stats(logger, &stats);
    assert_int_equal(stats.lines, MANY);
    assert_int_equal(stats.dropped + stats.lost, 0);
    while (dz_logger_flush(logger, 100) < 0)
        lines += lines_in(fds[0]);
    close_logger();
    close(fds[1]);
    lines += lines_in(fds[0]);
    close(fds[0]);
    assert_int_equal(lines, MANY);
}

/* A large lot goes from the ring to the file without a copy. */
static void lots_of_any_size_stay_in_order(void **state)
{
    (void)state;
    enum { RING = 256 << 10 };
    open_logger((dz_log_options){.path = file, .block = true, .thread_bytes = RING});
    assert_int_equal(truncate(file, 0), 0);
    uint64_t seed = 1;
    unsigned n = 0;
    for (int lot = 0; lot < 200; lot++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407U;
        unsigned count = lot % 3 ? (unsigned)(seed >> 60) : (unsigned)(seed >> 53);
        pthread_mutex_lock(&logger->draining); /* so that the lot piles up */
        for (unsigned i = 0; i < count % 700; i++)
            dz_log(logger, DZ_LOG_INFO, "x", dz_field_uint("n", n++));
        pthread_mutex_unlock(&logger->draining);
        if (lot % 2)
            assert_int_equal(dz_logger_flush(logger, PATIENCE_S * 1000), 0);
    }
    close_logger();
    FILE *lines = fopen(file, "re");
    assert_non_null(lines);
    char line[400], *at;
    unsigned seen = 0;
    for (; fgets(line, sizeof line, lines); seen++) {
        at = strstr(line, "\"n\":");
        assert_non_null(at);
        assert_int_equal(strtoul(at + 4, NULL, 10), seen);
    }
    fclose(lines);
    assert_int_equal(seen, n);
}

static int make_file(void **state)
{
    (void)state;
    int fd = mkstemp(file);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_waits_ten_milliseconds_at_most_for_the_writer),
        cmocka_unit_test(a_thread_that_finds_room_again_does_not_wait),
        cmocka_unit_test(the_writer_does_not_nap_while_somebody_waits_for_room),
        cmocka_unit_test(
            with_block_a_reader_that_stands_still_holds_up_its_callers_and_loses_nothing),
        cmocka_unit_test(lots_of_any_size_stay_in_order),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
