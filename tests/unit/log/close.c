/* Closing a logger whose writer hangs in a write that never returns. */
#include "../check.h"
#include "../wait.h"
#include "../wall_clock.h"

#include <donmaz/log.h>

#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>

static _Atomic bool hangs, is_in_write, has_returned;
static sem_t may_return;
static dz_logger *left; /* not freed, on purpose */

ssize_t __real_write(int fd, const void *bytes, size_t len);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);
ssize_t __wrap_write(int fd, const void *bytes, size_t len)
{
    if (!atomic_load(&hangs))
        return __real_write(fd, bytes, len);
    atomic_store(&is_in_write, true);
    while (sem_wait(&may_return) < 0)
        continue;
    ssize_t n = __real_write(fd, bytes, len);
    atomic_store(&has_returned, true);
    return n;
}

static dz_logger *open_on(int fd)
{
    dz_logger *logger = NULL;
    const dz_log_options options = {.fd = fd, .close_ms = 1};
    assert_int_equal(dz_logger_open(&logger, &options), 0);
    return logger;
}

static void a_writer_that_hangs_is_left_alone_whatever_the_wall_clock_does(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    dz_logger *logger = open_on(fileno(file));
    atomic_store(&hangs, true);
    dz_log(logger, DZ_LOG_INFO, "stuck");
    wait_until(atomic_load(&is_in_write));
    atomic_store(&wall_is_ahead, true);
    left = logger;
    dz_logger_close(logger); /* returns; by the wall clock: in an hour */
    atomic_store(&wall_is_ahead, false);
    assert_false(atomic_load(&has_returned));
    atomic_store(&hangs, false);
    sem_post(&may_return);
    wait_until(atomic_load(&has_returned)); /* its memory was left to it */
    fclose(file);
}

static void a_writer_that_ends_in_time_has_written_everything(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    dz_logger *logger = open_on(fileno(file));
    dz_log(logger, DZ_LOG_INFO, "last words");
    dz_logger_close(logger);
    char text[1000] = "";
    rewind(file);
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    assert_non_null(strstr(text, "last words"));
    fclose(file);
}

int main(void)
{
    sem_init(&may_return, 0, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_writer_that_ends_in_time_has_written_everything),
        cmocka_unit_test(a_writer_that_hangs_is_left_alone_whatever_the_wall_clock_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
