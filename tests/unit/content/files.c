/* Files when the system refuses, or the disk is slow (--wrap of what opens, looks and reads). */
#include "../serve.h"

#include "content/beneath.h"
#include "content/files.h"

#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

static dz_app *app;
static unsigned port;
static char folder[] = "/tmp/donmaz-files-XXXXXX";
static char *big;

enum { BIG = 700 << 10 };

/* --- a system that does as it is told: in memory is what the test says, not what the kernel had
 * or could reach without waiting for another program's rename or mount --- */

static atomic_int open_error;      /* for the next opens; 0: none */
static atomic_bool nothing_cached; /* lookups would wait for the disk */
static atomic_int lookups;         /* that waited */
static atomic_int cold;            /* so many looks into memory find nothing */
static atomic_bool disk_stuck;
static atomic_int fetches;
static atomic_bool disk_threads_busy;
static atomic_int send_error; /* for the next sendfile; 0: none */
static atomic_size_t send_limit;

int __real_dz_open_beneath(int root, const char *path, dz_lookup how, bool walk, struct stat *st);
int __wrap_dz_open_beneath(int root, const char *path, dz_lookup how, bool walk, struct stat *st);
int __wrap_dz_open_beneath(int root, const char *path, dz_lookup how, bool walk, struct stat *st)
{
    int error = atomic_load(&open_error);
    if (error != 0)
        return -error;
    if (how == DZ_LOOKUP_CACHED && (walk || atomic_load(&nothing_cached)))
        return -EAGAIN;
    if (how == DZ_LOOKUP_ANY)
        atomic_fetch_add(&lookups, 1);
    return __real_dz_open_beneath(root, path, DZ_LOOKUP_ANY, walk, st);
}

ssize_t __real_preadv64v2(int fd, const struct iovec *pieces, int count, off_t offset, int flags);
ssize_t __wrap_preadv64v2(int fd, const struct iovec *pieces, int count, off_t offset, int flags);
ssize_t __wrap_preadv64v2(int fd, const struct iovec *pieces, int count, off_t offset, int flags)
{
    if (atomic_load(&cold) > 0) {
        atomic_fetch_sub(&cold, 1);
        errno = EAGAIN;
        return -1;
    }
    return __real_preadv64v2(fd, pieces, count, offset, flags & ~RWF_NOWAIT);
}

ssize_t __real_pread64(int fd, void *out, size_t len, off_t offset);
ssize_t __wrap_pread64(int fd, void *out, size_t len, off_t offset);
ssize_t __wrap_pread64(int fd, void *out, size_t len, off_t offset)
{
    atomic_fetch_add(&fetches, 1);
    while (atomic_load(&disk_stuck))
        usleep(1000);
    return __real_pread64(fd, out, len, offset);
}

int __real_dz_pool_submit(dz_pool *pool, dz_job *job);
int __wrap_dz_pool_submit(dz_pool *pool, dz_job *job);
int __wrap_dz_pool_submit(dz_pool *pool, dz_job *job)
{
    return atomic_load(&disk_threads_busy) ? DZ_E_QUEUE_FULL : __real_dz_pool_submit(pool, job);
}

ssize_t __real_sendfile64(int out, int in, off_t *at, size_t len);
ssize_t __wrap_sendfile64(int out, int in, off_t *at, size_t len);
ssize_t __wrap_sendfile64(int out, int in, off_t *at, size_t len)
{
    int error = atomic_exchange(&send_error, 0);
    if (error != 0) {
        errno = error;
        return -1;
    }
    size_t limit = atomic_load(&send_limit);
    return __real_sendfile64(out, in, at, limit && limit < len ? limit : len);
}

/* --- the service --- */

static void write_file(const char *name, const char *data, size_t len)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static void in_folder(char path[256], const char *name)
{
    snprintf(path, 256, "%s/%s", folder, name);
}

static int set_up(void **state)
{
    (void)state;
    char path[256], other[256];
    assert_non_null(mkdtemp(folder));
    big = malloc(BIG + 1);
    assert_non_null(big);
    for (size_t i = 0; i < BIG; i++)
        big[i] = (char)('a' + i * 7919 % 26);
    big[BIG] = '\0';
    write_file("small.txt", "small", 5);
    write_file("big.txt", big, BIG);
    in_folder(path, "dir");
    assert_int_equal(mkdir(path, 0700), 0);
    write_file("dir/deep.txt", "deep", 4);
    in_folder(path, "small.txt");
    in_folder(other, "link.txt");
    assert_int_equal(symlink("small.txt", other), 0);
    in_folder(other, "dirlink");
    assert_int_equal(symlink("dir", other), 0);
    app = dz_app_new();
    assert_non_null(dz_static(app, "/", folder, NULL));
    port = serve(app);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    static const char *const names[] = {"small.txt", "big.txt", "dir/deep.txt", "link.txt",
                                        "dirlink"};
    char path[256];
    serve_end(app);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        in_folder(path, names[i]);
        unlink(path);
    }
    in_folder(path, "dir");
    rmdir(path);
    rmdir(folder);
    free(big);
    return 0;
}

static int reset(void **state)
{
    (void)state;
    atomic_store(&open_error, 0);
    atomic_store(&nothing_cached, false);
    atomic_store(&lookups, 0);
    atomic_store(&cold, 0);
    atomic_store(&disk_stuck, false);
    atomic_store(&fetches, 0);
    atomic_store(&disk_threads_busy, false);
    atomic_store(&send_error, 0);
    atomic_store(&send_limit, 0);
    return 0;
}

/* How many descriptors of big.txt this process has. */
static unsigned open_files(void)
{
    char path[256], entry[300], target[256];
    in_folder(path, "big.txt");
    DIR *fds = opendir("/proc/self/fd");
    assert_non_null(fds);
    unsigned found = 0;
    for (const struct dirent *each; (each = readdir(fds));) {
        snprintf(entry, sizeof entry, "/proc/self/fd/%s", each->d_name);
        ssize_t len = readlink(entry, target, sizeof target - 1);
        target[len > 0 ? len : 0] = '\0';
        found += strcmp(target, path) == 0;
    }
    closedir(fds);
    return found;
}

/* --- tests --- */

static void what_the_system_says_becomes_a_status(void **state)
{
    (void)state;
    static const struct {
        int error, status;
    } rows[] = {{ENOENT, 404},       {ENOTDIR, 404}, {ELOOP, 404}, {EXDEV, 404},
                {ENAMETOOLONG, 404}, {EACCES, 403},  {EPERM, 403}, {EMFILE, 503},
                {ENFILE, 503},       {ENOMEM, 503},  {EIO, 500}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        atomic_store(&open_error, rows[i].error);
        reply got = ask(port, GET("/small.txt"));
        assert_int_equal(got.status, rows[i].status);
        assert_int_equal(reply_has(&got, "Retry-After: 1"), rows[i].status == 503);
        assert_null(strstr(got.head, "ETag"));
        reply_free(&got);
    }
}

static void a_name_that_is_not_in_memory_is_looked_up_elsewhere(void **state)
{
    (void)state;
    atomic_store(&nothing_cached, true);
    assert_reply(ask(port, GET("/small.txt")), 200, "small");
    assert_reply(ask(port, GET("/big.txt")), 200, big);
    assert_status(ask(port, GET("/missing")), 404);
    assert_int_equal(atomic_load(&lookups), 3);
}

static void bytes_that_are_not_in_memory_are_fetched_elsewhere(void **state)
{
    (void)state;
    for (int looks = 1; looks < 8; looks++) {
        atomic_store(&fetches, 0);
        atomic_store(&cold, looks);
        assert_reply(ask(port, GET("/big.txt")), 200, big);
        assert_true(atomic_load(&fetches) > 0);
        atomic_store(&cold, 1);
        assert_reply(ask(port, GET("/small.txt")), 200, "small");
    }
}

static void memory_that_keeps_nothing_does_not_fetch_for_ever(void **state)
{
    (void)state;
    atomic_store(&cold, 1 << 30);
    assert_reply(ask(port, GET("/big.txt")), 200, big);
    assert_reply(ask(port, GET("/small.txt")), 200, "small");
}

static void a_slow_disk_stops_neither_the_loop_nor_the_next_client(void **state)
{
    (void)state;
    atomic_store(&disk_stuck, true);
    atomic_store(&cold, 1);
    int waiting = connect_to(port);
    say(waiting, GET("/big.txt"));
    wait_until(atomic_load(&fetches) > 0);
    assert_reply(ask(port, GET("/small.txt")), 200, "small");
    assert_reply(ask(port, GET("/dir/deep.txt")), 200, "deep");
    atomic_store(&disk_stuck, false);
    assert_reply(hear(waiting), 200, big);
    close(waiting);
}

static void a_client_that_leaves_meanwhile_frees_the_file_later(void **state)
{
    (void)state;
    atomic_store(&disk_stuck, true);
    atomic_store(&cold, 1);
    int gone = connect_to(port);
    say(gone, GET("/big.txt"));
    wait_until(atomic_load(&fetches) > 0);
    struct linger reset_it = {.l_onoff = 1};
    setsockopt(gone, SOL_SOCKET, SO_LINGER, &reset_it, sizeof reset_it);
    close(gone);
    wait_until(open_connections(app) == 0);
    wait_until(open_files() ==
               1); /* another one's reply may have come before its file was closed */
    atomic_store(&disk_stuck, false);
    assert_reply(ask(port, GET("/big.txt")), 200, big);
    wait_until(open_files() == 0); /* the fetch nobody waits for is over, too */
}

static void without_a_thread_the_loop_reads_itself(void **state)
{
    (void)state;
    atomic_store(&disk_threads_busy, true);
    atomic_store(&cold, 3);
    assert_reply(ask(port, GET("/big.txt")), 200, big);
    assert_int_equal(atomic_load(&fetches), 0);
}

static void partial_sends_and_refusals_lose_nothing(void **state)
{
    (void)state;
    atomic_store(&send_limit, 10007);
    assert_reply(ask(port, GET("/big.txt")), 200, big);
    atomic_store(&send_limit, 0);
    static const int passing[] = {EINTR, ENOMEM, ENOBUFS};
    for (size_t i = 0; i < sizeof passing / sizeof passing[0]; i++) {
        atomic_store(&send_error, passing[i]);
        assert_reply(ask(port, GET("/big.txt")), 200, big);
    }
}

static void a_disk_that_fails_ends_the_connection(void **state)
{
    (void)state;
    atomic_store(&send_error, EIO);
    int fd = connect_to(port);
    say(fd, GET("/big.txt"));
    size_t received = 0;
    for (char bytes[4096]; received < BIG;) {
        ssize_t n = recv(fd, bytes, sizeof bytes, 0);
        if (n <= 0)
            break;
        received += (size_t)n;
    }
    assert_true(received < BIG);
    close(fd);
    assert_reply(ask(port, GET("/small.txt")), 200, "small");
}

static void without_openat2_links_are_not_followed(void **state)
{
    (void)state;
    assert_reply(ask(port, GET("/link.txt")), 200, "small");
    assert_reply(ask(port, GET("/dirlink/deep.txt")), 200, "deep");
    dz_app *old = dz_app_new();
    assert_non_null(dz_static(old, "/", folder, NULL));
    DZ_CONTAINER(old->core->parts.next, dz_files, part)->walk = true;
    unsigned at = serve(old);
    assert_reply(ask(at, GET("/small.txt")), 200, "small");
    assert_reply(ask(at, GET("/dir/deep.txt")), 200, "deep");
    assert_status(ask(at, GET("/link.txt")), 404);
    assert_status(ask(at, GET("/dirlink/deep.txt")), 404);
    assert_status(ask(at, GET("/dir/missing/deep.txt")), 404);
    assert_status(ask(at, GET("/small.txt/x")), 404);
    assert_status(ask(at, GET("/dir")), 301);
    serve_end(old);
}

static void options_that_can_t_be_are_refused(void **state)
{
    (void)state;
    dz_files *files;
    dz_files_options options;
    dz_files_options_init(&options);
    options.cache_control = "max-age=1\r\nX: y";
    assert_int_equal(dz_files_open(&files, folder, &options), DZ_E_INVALID);
    assert_null(files);
    assert_int_equal(dz_files_open(&files, "/nowhere/at/all", NULL), -ENOENT);
    char path[256];
    in_folder(path, "small.txt");
    assert_int_equal(dz_files_open(&files, path, NULL), -ENOTDIR);
    dz_files_close(NULL);
}

#define TEST(name) cmocka_unit_test_setup(name, reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_the_system_says_becomes_a_status),
        TEST(a_name_that_is_not_in_memory_is_looked_up_elsewhere),
        TEST(bytes_that_are_not_in_memory_are_fetched_elsewhere),
        TEST(memory_that_keeps_nothing_does_not_fetch_for_ever),
        TEST(a_slow_disk_stops_neither_the_loop_nor_the_next_client),
        TEST(a_client_that_leaves_meanwhile_frees_the_file_later),
        TEST(without_a_thread_the_loop_reads_itself),
        TEST(partial_sends_and_refusals_lose_nothing),
        TEST(a_disk_that_fails_ends_the_connection),
        TEST(without_openat2_links_are_not_followed),
        TEST(options_that_can_t_be_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
