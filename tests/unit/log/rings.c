/* Which ring belongs to which thread, and what becomes of it when the thread ends or forks. */
#include "../check.h"
#include "../alloc.h"

#include "log/logger.h"

#include <donmaz/error.h>
#include <donmaz/log.h>

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* ThreadSanitizer would refuse the writer of a forked child. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}

static FILE *file;

static dz_logger *open_logger(void)
{
    dz_logger *logger = NULL;
    const dz_log_options options = {.fd = fileno(file), .thread_bytes = 1, .line_bytes = 1024};
    assert_int_equal(dz_logger_open(&logger, &options), 0);
    return logger;
}

static int set_up(void **state)
{
    (void)state;
    file = tmpfile();
    return file ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return fclose(file);
}

static void *find_ring(void *logger)
{
    return dz_logger_ring(logger);
}

static dz_ring *ring_of_another_thread(dz_logger *logger)
{
    pthread_t thread;
    void *ring = NULL;
    assert_int_equal(pthread_create(&thread, NULL, find_ring, logger), 0);
    assert_int_equal(pthread_join(thread, &ring), 0);
    return ring;
}

static unsigned ring_count(dz_logger *logger)
{
    unsigned count = 0;
    for (dz_ring *ring = atomic_load(&logger->rings); ring; ring = ring->next)
        count++;
    return count;
}

static void a_thread_has_one_ring_and_another_thread_another(void **state)
{
    (void)state;
    dz_logger *logger = open_logger();
    dz_ring *mine = dz_logger_ring(logger);
    assert_non_null(mine);
    assert_ptr_equal(dz_logger_ring(logger), mine);
    assert_ptr_not_equal(ring_of_another_thread(logger), mine);
    dz_logger_close(logger);
}

static void the_ring_of_a_thread_that_ended_is_the_next_one_s(void **state)
{
    (void)state;
    dz_logger *logger = open_logger();
    dz_ring *first = ring_of_another_thread(logger);
    for (int i = 0; i < 20; i++)
        assert_ptr_equal(ring_of_another_thread(logger), first);
    assert_int_equal(ring_count(logger), 1);
    dz_logger_close(logger);
}

static void *log_one_line(void *logger)
{
    dz_log((dz_logger *)logger, DZ_LOG_INFO, "the last words of a thread");
    return NULL;
}

static void what_a_thread_logged_before_it_ended_is_written(void **state)
{
    (void)state;
    dz_logger *logger = open_logger();
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, log_one_line, logger), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    dz_logger_close(logger);
    char text[2048] = "";
    rewind(file);
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    assert_non_null(strstr(text, "the last words of a thread"));
}

static void a_logger_in_the_place_of_a_closed_one_has_rings_of_its_own(void **state)
{
    (void)state;
    dz_logger *first = open_logger();
    unsigned slot = first->slot;
    assert_non_null(dz_logger_ring(first)); /* this thread remembers it */
    dz_logger_close(first);
    dz_logger *second = open_logger();
    assert_int_equal(second->slot, slot);
    dz_ring *ring = dz_logger_ring(second);
    assert_ptr_equal(ring, atomic_load(&second->rings)); /* not the freed one */
    assert_int_equal(ring_count(second), 1);
    dz_logger_close(second);
}

static void no_more_loggers_are_open_than_there_are_places(void **state)
{
    (void)state;
    dz_logger *loggers[DZ_LOGGERS_MAX], *more = NULL;
    for (size_t i = 0; i < DZ_LOGGERS_MAX; i++) {
        loggers[i] = open_logger();
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(loggers[i]->slot, loggers[j]->slot);
    }
    const dz_log_options options = {.fd = fileno(file)};
    assert_int_equal(dz_logger_open(&more, &options), DZ_E_STATE);
    dz_logger_close(loggers[3]);
    loggers[3] = open_logger();
    for (size_t i = 0; i < DZ_LOGGERS_MAX; i++)
        dz_logger_close(loggers[i]);
}

static void without_memory_there_is_no_ring_and_the_line_counts_as_dropped(void **state)
{
    (void)state;
    dz_logger *logger = open_logger();
    dz_log_stats stats;
    allocs_left = 0;
    const dz_ring *none = dz_logger_ring(logger);
    dz_log(logger, DZ_LOG_INFO, "for nobody");
    allocs_left = -1;
    assert_null(none);
    dz_logger_stats(logger, &stats);
    assert_int_equal(stats.dropped, 1);
    assert_non_null(dz_logger_ring(logger)); /* memory is back */
    dz_logger_close(logger);
}

static void a_child_has_its_thread_s_ring_empty_and_gives_the_others_up(void **state)
{
    (void)state;
    dz_logger *logger = open_logger();
    dz_ring *mine = dz_logger_ring(logger);
    size_t used;
    assert_true(dz_ring_put(mine, DZ_LIT("a line of the parent\n"), &used));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool good = dz_logger_ring(logger) == mine && dz_ring_empty(mine) &&
                    atomic_load(&mine->owned) && !atomic_load(&logger->running);
        _exit(good ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_false(dz_ring_empty(mine)); /* the parent's line is the parent's to write */
    dz_logger_close(logger);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_thread_has_one_ring_and_another_thread_another),
        TEST(the_ring_of_a_thread_that_ended_is_the_next_one_s),
        TEST(what_a_thread_logged_before_it_ended_is_written),
        TEST(a_logger_in_the_place_of_a_closed_one_has_rings_of_its_own),
        TEST(no_more_loggers_are_open_than_there_are_places),
        TEST(without_memory_there_is_no_ring_and_the_line_counts_as_dropped),
        TEST(a_child_has_its_thread_s_ring_empty_and_gives_the_others_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
