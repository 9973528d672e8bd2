/* A file as output: what is not in memory is fetched by a thread, whatever happens meanwhile. The
 * loop, its connection and the threads are the test's. */
#include "folder.h"

#include "content/files.h"
#include "http/conn.h"

#include <donmaz/error.h>

#include <errno.h>
#include <sys/uio.h>

/* --- memory that holds what we say --- */

enum { SIZE = 1 << 20 };
static int cold_at = -1; /* the look of that number finds nothing in memory; -1: none */
static int look_error;   /* what such a look says */
static int looks;
static off_t last_look;

ssize_t __real_preadv64v2(int fd, const struct iovec *pieces, int count, off_t offset, int flags);
ssize_t __wrap_preadv64v2(int fd, const struct iovec *pieces, int count, off_t offset, int flags);
ssize_t __wrap_preadv64v2(int fd, const struct iovec *pieces, int count, off_t offset, int flags)
{
    (void)flags; /* what really is in memory is none of this test's business */
    last_look = offset;
    if (looks++ == cold_at) {
        errno = look_error;
        return -1;
    }
    return __real_preadv64v2(fd, pieces, count, offset, 0);
}

static int fetched_bytes;

ssize_t __real_pread64(int fd, void *out, size_t len, off_t offset);
ssize_t __wrap_pread64(int fd, void *out, size_t len, off_t offset);
ssize_t __wrap_pread64(int fd, void *out, size_t len, off_t offset)
{
    ssize_t n = __real_pread64(fd, out, len, offset);
    fetched_bytes += n > 0 ? (int)n : 0;
    return n;
}

/* --- threads, loop and connection --- */

static dz_job *submitted;
static bool threads_busy;

int __wrap_dz_pool_submit(dz_pool *pool, dz_job *job);
int __wrap_dz_pool_submit(dz_pool *pool, dz_job *job)
{
    (void)pool;
    if (threads_busy)
        return DZ_E_QUEUE_FULL;
    assert_null(submitted);
    submitted = job;
    return 0;
}

static dz_msg *posted;

void __wrap_dz_loop_post(dz_loop *loop, dz_msg *msg);
void __wrap_dz_loop_post(dz_loop *loop, dz_msg *msg)
{
    (void)loop;
    posted = msg;
}

static dz_conn *gone_on;

void __wrap_dz_conn_go_on_writing(dz_conn *conn);
void __wrap_dz_conn_go_on_writing(dz_conn *conn)
{
    gone_on = conn;
}

static void run_thread(void)
{
    dz_job *job = submitted;
    submitted = NULL;
    job->run(job);
}

static void run_loop(void)
{
    dz_msg *msg = posted;
    posted = NULL;
    msg->fn(NULL, msg);
}

/* --- a file --- */

static dz_files files;
static dz_conn conn;
static int fd;
static dz_out_file *file;

static int set_up(void **state)
{
    (void)state;
    folder_make();
    char *bytes = calloc(1, SIZE);
    assert_non_null(bytes);
    folder_write("file", bytes, SIZE);
    free(bytes);
    fd = open(in_folder("file").text, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    cold_at = -1;
    look_error = EAGAIN;
    looks = fetched_bytes = 0;
    submitted = NULL;
    posted = NULL;
    gone_on = NULL;
    threads_busy = false;
    file = dz_file_out_new(&files, NULL, fd, 1);
    assert_non_null(file);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    folder_remove();
    return 0;
}

static bool is_open(void)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void what_is_in_memory_is_sent_at_once(void **state)
{
    (void)state;
    assert_true(file->ready(file, &conn, 0, SIZE));
    assert_null(submitted);
    assert_true(looks > 1 && looks < 100); /* a few tell for all */
    assert_int_equal(last_look, SIZE - 1);
    file->release(file);
    assert_false(is_open());
}

static void what_is_missing_is_fetched_and_the_connection_goes_on(void **state)
{
    (void)state;
    cold_at = 2;
    assert_false(file->ready(file, &conn, 4096, SIZE - 4096));
    assert_non_null(submitted);
    assert_null(gone_on);
    run_thread();
    assert_true(fetched_bytes >= SIZE - 4096);
    assert_null(gone_on); /* only on the loop */
    run_loop();
    assert_ptr_equal(gone_on, &conn);
    file->release(file);
    assert_false(is_open());
}

static void bytes_that_were_fetched_are_sent_once_without_another_look(void **state)
{
    (void)state;
    cold_at = 0;
    assert_false(file->ready(file, &conn, 0, 10));
    run_thread();
    run_loop();
    looks = 0;
    cold_at = 0; /* the page is gone again: it must not be fetched for ever */
    assert_true(file->ready(file, &conn, 0, 10));
    assert_int_equal(looks, 0);
    assert_false(file->ready(file, &conn, 0, 10)); /* the next piece is looked for */
    run_thread();
    run_loop();
    file->release(file);
}

static void a_file_released_while_it_is_fetched_lives_until_the_thread_is_done(void **state)
{
    (void)state;
    cold_at = 0;
    assert_false(file->ready(file, &conn, 0, SIZE));
    file->release(file); /* the client went away */
    assert_true(is_open());
    run_thread();
    run_loop();
    assert_false(is_open());
    assert_null(gone_on);
}

static void without_a_thread_the_loop_waits_itself(void **state)
{
    (void)state;
    threads_busy = true;
    cold_at = 0;
    assert_true(file->ready(file, &conn, 0, SIZE));
    file->release(file);
    assert_false(is_open());
}

static void a_file_that_shrinks_while_it_is_fetched_ends_the_fetch(void **state)
{
    (void)state;
    cold_at = 0;
    assert_false(file->ready(file, &conn, 0, SIZE));
    assert_int_equal(truncate(in_folder("file").text, 5000), 0);
    run_thread();
    assert_int_equal(fetched_bytes, 5000);
    run_loop();
    assert_ptr_equal(gone_on, &conn); /* sending finds out */
    file->release(file);
}

static void a_look_that_fails_otherwise_is_left_to_sending(void **state)
{
    (void)state;
    cold_at = 0;
    look_error = EOPNOTSUPP; /* a file system without RWF_NOWAIT */
    assert_true(dz_file_in_memory(fd, 0, 100));
    looks = 0;
    look_error = EIO;
    assert_true(dz_file_in_memory(fd, 0, 100));
    looks = 0;
    look_error = EAGAIN;
    assert_false(dz_file_in_memory(fd, 0, 100));
    file->release(file);
}

#include "../alloc.h"

static void without_memory_the_descriptor_stays_the_caller_s(void **state)
{
    (void)state;
    allocs_left = 0;
    const dz_out_file *none = dz_file_out_new(&files, NULL, fd, 1);
    allocs_left = -1;
    assert_null(none);
    assert_true(is_open());
    file->release(file);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_in_memory_is_sent_at_once),
        TEST(what_is_missing_is_fetched_and_the_connection_goes_on),
        TEST(bytes_that_were_fetched_are_sent_once_without_another_look),
        TEST(a_file_released_while_it_is_fetched_lives_until_the_thread_is_done),
        TEST(without_a_thread_the_loop_waits_itself),
        TEST(a_file_that_shrinks_while_it_is_fetched_ends_the_fetch),
        TEST(a_look_that_fails_otherwise_is_left_to_sending),
        TEST(without_memory_the_descriptor_stays_the_caller_s),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
