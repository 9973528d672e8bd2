/* Opening below a folder: nothing outside is ever opened, with openat2 and without. */
#include "folder.h"

#include "content/beneath.h"

#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>

/* --- a kernel that answers openat2 as it is told --- */

static int openat2_error; /* 0: the real one */
static int openat2_times; /* how often; -1: always */
static int openat2_calls;
static int stat_error;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    assert_int_equal(number, SYS_openat2); /* nothing else here is called that way */
    long a[4];
    va_list list;
    va_start(list, number);
    for (size_t i = 0; i < 4; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    openat2_calls++;
    if (openat2_error != 0 && openat2_times != 0) {
        openat2_times -= openat2_times > 0;
        errno = openat2_error;
        return -1;
    }
    return __real_syscall(number, a[0], a[1], a[2], a[3]);
}

int __real_fstat64(int fd, struct stat64 *st);
int __wrap_fstat64(int fd, struct stat64 *st);
int __wrap_fstat64(int fd, struct stat64 *st)
{
    if (stat_error == 0)
        return __real_fstat64(fd, st);
    errno = stat_error;
    return -1;
}
int __wrap_fstat(int fd, struct stat *st);
int __real_fstat(int fd, struct stat *st);
int __wrap_fstat(int fd, struct stat *st)
{
    if (stat_error == 0)
        return __real_fstat(fd, st);
    errno = stat_error;
    return -1;
}

/* --- the folder: root/ is served, secret lies beside it --- */

static int root;
static bool has_openat2;

static int set_up(void **state)
{
    (void)state;
    folder_make();
    folder_sub("root");
    folder_sub("root/dir");
    folder_text("secret", "secret");
    folder_text("root/plain", "plain");
    folder_text("root/dir/deep", "deep");
    folder_link("plain", "root/link");
    folder_link("dir", "root/dirlink");
    folder_link("../plain", "root/dir/up");
    folder_link("../secret", "root/out");
    folder_link("/etc", "root/absolute");
    folder_link("loop", "root/loop");
    assert_int_equal(mkfifo(in_folder("root/fifo").text, 0600), 0);
    root = open(in_folder("root").text, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(root >= 0);
    has_openat2 = !dz_beneath_must_walk(root);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close(root);
    folder_remove();
    return 0;
}

static int reset(void **state)
{
    (void)state;
    openat2_error = openat2_calls = stat_error = 0;
    openat2_times = -1;
    return 0;
}

/* 0 when it was opened, else the error. */
static int outcome(const char *path, dz_lookup lookup, bool walk)
{
    struct stat st;
    int fd = dz_open_beneath(root, path, lookup, walk, &st);
    if (fd < 0)
        return fd;
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
    return 0;
}

static void what_lies_in_the_folder_is_opened(void **state)
{
    (void)state;
    for (int walk = has_openat2 ? 0 : 1; walk < 2; walk++) {
        struct stat st;
        char text[8] = "";
        int fd = dz_open_beneath(root, "dir/deep", DZ_LOOKUP_ANY, walk, &st);
        assert_true(fd >= 0);
        assert_int_equal(st.st_size, 4);
        assert_int_equal(read(fd, text, sizeof text), 4);
        assert_string_equal(text, "deep");
        close(fd);
        assert_int_equal(outcome("plain", DZ_LOOKUP_ANY, walk), 0);
        assert_int_equal(outcome("dir", DZ_LOOKUP_ANY, walk), 0);
        assert_int_equal(outcome("fifo", DZ_LOOKUP_ANY, walk), 0); /* waits for no writer */
    }
}

static void links_inside_are_followed_and_those_that_lead_out_are_not(void **state)
{
    (void)state;
    if (!has_openat2)
        skip();
    assert_int_equal(outcome("link", DZ_LOOKUP_ANY, false), 0);
    assert_int_equal(outcome("dirlink/deep", DZ_LOOKUP_ANY, false), 0);
    assert_int_equal(outcome("dir/up", DZ_LOOKUP_ANY, false), 0);
    assert_int_equal(outcome("out", DZ_LOOKUP_ANY, false), -EXDEV);
    assert_int_equal(outcome("absolute/passwd", DZ_LOOKUP_ANY, false), -EXDEV);
    assert_int_equal(outcome("loop", DZ_LOOKUP_ANY, false), -ELOOP);
    int proc = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    assert_int_equal(dz_open_beneath(proc, "exe", DZ_LOOKUP_ANY, false, &st), -ELOOP);
    close(proc);
}

static void a_walk_follows_no_link_at_all(void **state)
{
    (void)state;
    static const char *const links[] = {"link", "out", "loop", "dir/up"};
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++)
        assert_int_equal(outcome(links[i], DZ_LOOKUP_ANY, true), -ELOOP);
    assert_true(outcome("dirlink/deep", DZ_LOOKUP_ANY, true) < 0);
    assert_true(outcome("absolute/passwd", DZ_LOOKUP_ANY, true) < 0);
    assert_int_equal(openat2_calls, 0);
}

static void what_is_not_there_says_why(void **state)
{
    (void)state;
    char longest[400];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    for (int walk = has_openat2 ? 0 : 1; walk < 2; walk++) {
        assert_int_equal(outcome("missing", DZ_LOOKUP_ANY, walk), -ENOENT);
        assert_int_equal(outcome("dir/missing", DZ_LOOKUP_ANY, walk), -ENOENT);
        assert_int_equal(outcome("plain/below", DZ_LOOKUP_ANY, walk), -ENOTDIR);
        assert_int_equal(outcome(longest, DZ_LOOKUP_ANY, walk), -ENAMETOOLONG);
    }
}

static void a_walk_leaves_no_folder_open(void **state)
{
    (void)state;
    int next = dup(root); /* the lowest that is free */
    close(next);
    for (int i = 0; i < 50; i++) {
        outcome("dir/deep", DZ_LOOKUP_ANY, true);
        outcome("dir/missing", DZ_LOOKUP_ANY, true);
        outcome("dir/up", DZ_LOOKUP_ANY, true);
        outcome("dirlink/deep", DZ_LOOKUP_ANY, true);
    }
    int after = dup(root);
    close(after);
    assert_int_equal(after, next);
}

static void a_rename_meanwhile_is_tried_again_but_not_for_ever(void **state)
{
    (void)state;
    if (!has_openat2)
        skip();
    openat2_error = EAGAIN;
    openat2_times = 3;
    assert_int_equal(outcome("dir/up", DZ_LOOKUP_ANY, false), 0);
    assert_int_equal(openat2_calls, 4);
    openat2_times = -1;
    openat2_calls = 0;
    assert_int_equal(outcome("dir/up", DZ_LOOKUP_ANY, false), -EAGAIN);
    assert_true(openat2_calls > 1 && openat2_calls < 100);
}

static void a_cached_lookup_asks_once_and_says_again_when_it_can_t_tell(void **state)
{
    (void)state;
    openat2_error = EAGAIN;
    assert_int_equal(outcome("plain", DZ_LOOKUP_CACHED, false), -EAGAIN);
    assert_int_equal(openat2_calls, 1);
    openat2_error = EINVAL; /* the kernel has no such flag */
    assert_int_equal(outcome("plain", DZ_LOOKUP_CACHED, false), -EAGAIN);
    assert_int_equal(outcome("plain", DZ_LOOKUP_ANY, false), -EINVAL);
    assert_int_equal(outcome("plain", DZ_LOOKUP_CACHED, true), -EAGAIN);
}

static void a_kernel_or_a_filter_without_openat2_makes_it_walk(void **state)
{
    (void)state;
    static const int errors[] = {ENOSYS, EPERM};
    for (size_t i = 0; i < 2; i++) {
        openat2_error = errors[i];
        assert_true(dz_beneath_must_walk(root));
        assert_int_equal(outcome("dir/deep", DZ_LOOKUP_ANY, true), 0);
    }
    openat2_error = EMFILE; /* says nothing of openat2 */
    assert_false(dz_beneath_must_walk(root));
}

static void what_can_t_be_looked_at_is_closed_again(void **state)
{
    (void)state;
    int next = dup(root);
    close(next);
    stat_error = EIO;
    assert_int_equal(outcome("plain", DZ_LOOKUP_ANY, true), -EIO);
    int after = dup(root);
    close(after);
    assert_int_equal(after, next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_lies_in_the_folder_is_opened, reset),
        cmocka_unit_test_setup(links_inside_are_followed_and_those_that_lead_out_are_not, reset),
        cmocka_unit_test_setup(a_walk_follows_no_link_at_all, reset),
        cmocka_unit_test_setup(what_is_not_there_says_why, reset),
        cmocka_unit_test_setup(a_walk_leaves_no_folder_open, reset),
        cmocka_unit_test_setup(a_rename_meanwhile_is_tried_again_but_not_for_ever, reset),
        cmocka_unit_test_setup(a_cached_lookup_asks_once_and_says_again_when_it_can_t_tell, reset),
        cmocka_unit_test_setup(a_kernel_or_a_filter_without_openat2_makes_it_walk, reset),
        cmocka_unit_test_setup(what_can_t_be_looked_at_is_closed_again, reset),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
