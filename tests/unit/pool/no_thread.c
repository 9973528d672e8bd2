/* cases/pool 7: a worker that can't be started is an error to its caller, not a lost task. The
 * linker puts a failing pthread_create in front. */
#include "on_loop.h"

#include "pool/pool.h"

#include <errno.h>

static _Atomic bool refuse;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *),
                          void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *),
                          void *arg)
{
    return atomic_load(&refuse) ? EAGAIN : __real_pthread_create(thread, attributes, fn, arg);
}

static dz_pool *pool;

static int task_seven(dz_task *task, dz_buf *in, dz_buf *out)
{
    (void)task;
    (void)in;
    (void)out;
    return 7;
}

static void call(void *arg)
{
    dz_buf in;
    int *result = arg;
    *result = dz_buf_copy(&in, DZ_LIT("bytes"));
    if (*result == 0)
        *result = dz_pool_run(pool, "seven", &in, NULL);
    dz_buf_release(&in);
}

static void a_worker_that_cannot_start_is_an_error(void **state)
{
    (void)state;
    dz_pool_options options;
    dz_pool_options_init(&options);
    pool = dz_pool_new(&options);
    assert_non_null(pool);
    assert_int_equal(dz_pool_add_task(pool, "seven", task_seven), 0);
    start_loop();
    int result;
    atomic_store(&refuse, true);
    run_handler_to_end(call, &result);
    assert_int_equal(result, DZ_E_NO_THREAD);
    atomic_store(&refuse, false);
    run_handler_to_end(call, &result);
    assert_int_equal(result, 7);
    atomic_store(&refuse, true); /* there is one that will come to it */
    run_handler_to_end(call, &result);
    assert_int_equal(result, 7);
    atomic_store(&refuse, false);
    dz_pool_free(pool);
    stop_loop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_worker_that_cannot_start_is_an_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
