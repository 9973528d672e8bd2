/* How many processors a process takes for its own. What the kernel would say is made up here:
 * sched_getaffinity and open (open64 with large files) are wrapped, and the files of /proc and /sys
 * are ours. */
#include "../check.h"

#include "base/cpu.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct fake {
    const char *path, *text;
} fake;

static const fake *files;
static int allowed; /* processors; -1: the call fails */

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
    if (strncmp(path, "/proc/self/cgroup", 17) != 0 && strncmp(path, "/sys/fs/cgroup", 14) != 0) {
        va_list args;
        va_start(args, flags);
        int mode = flags & O_CREAT ? va_arg(args, int) : 0;
        va_end(args);
        return __real_open64(path, flags, mode);
    }
    for (const fake *it = files; it && it->path; it++) {
        if (strcmp(it->path, path) != 0)
            continue;
        int fd = memfd_create("fake", MFD_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, it->text, strlen(it->text)), strlen(it->text));
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        return fd;
    }
    errno = ENOENT;
    return -1;
}

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
    (void)pid;
    if (allowed < 0) {
        errno = EINVAL;
        return -1;
    }
    CPU_ZERO_S(size, set);
    for (int i = 0; i < allowed; i++)
        CPU_SET_S((size_t)i * 2, size, set); /* any of them, not the first ones */
    return 0;
}

static unsigned count(int processors, const fake *list)
{
    allowed = processors;
    files = list;
    return dz_cpu_count();
}

static void the_processors_it_may_run_on_without_a_quota(void **state)
{
    (void)state;
    assert_int_equal(count(8, NULL), 8);
    assert_int_equal(count(1, NULL), 1);
    const fake unlimited[] = {
        {"/proc/self/cgroup", "0::/a\n"}, {"/sys/fs/cgroup/a/cpu.max", "max 100000\n"}, {0}};
    assert_int_equal(count(6, unlimited), 6);
}

static void more_processors_than_a_set_holds_are_asked_elsewhere(void **state)
{
    (void)state;
    assert_int_equal(count(-1, NULL), sysconf(_SC_NPROCESSORS_ONLN));
}

static void a_quota_of_version_2_is_rounded_up(void **state)
{
    (void)state;
    fake list[] = {{"/proc/self/cgroup", "0::/a\n"}, {"/sys/fs/cgroup/a/cpu.max", NULL}, {0}};
    static const struct {
        const char *text;
        unsigned expected;
    } cases[] = {{"200000 100000\n", 2},
                 {"250000 100000\n", 3},
                 {"50000 100000\n", 1},
                 {"1000 100000\n", 1},
                 {"1600000 100000\n", 8} /* more than there are */};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        list[1].text = cases[i].text;
        assert_int_equal(count(8, list), cases[i].expected);
    }
}

static void the_least_quota_of_all_groups_above_counts(void **state)
{
    (void)state;
    const fake list[] = {{"/proc/self/cgroup", "0::/a/b/c\n"},
                         {"/sys/fs/cgroup/a/b/c/cpu.max", "600000 100000\n"},
                         {"/sys/fs/cgroup/a/b/cpu.max", "max 100000\n"},
                         {"/sys/fs/cgroup/a/cpu.max", "300000 100000\n"},
                         {"/sys/fs/cgroup/cpu.max", "500000 100000\n"},
                         {0}};
    assert_int_equal(count(8, list), 3);
}

static void in_a_container_the_group_is_the_root(void **state)
{
    (void)state;
    const fake list[] = {
        {"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", "150000 100000\n"}, {0}};
    fake slash[] = {
        {"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup//cpu.max", "150000 100000\n"}, {0}};
    unsigned a = count(8, list), b = count(8, slash);
    assert_true(a == 2 || b == 2); /* both are names of the one file */
    assert_int_equal(a < b ? a : b, 2);
}

static void a_quota_of_version_1_counts(void **state)
{
    (void)state;
    fake list[] = {{"/proc/self/cgroup", "5:memory:/m\n4:cpu,cpuacct:/x\n1:name=systemd:/y\n"},
                   {"/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "350000\n"},
                   {"/sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n"},
                   {0}};
    assert_int_equal(count(8, list), 4);
    list[0].text = "4:cpu:/x\n";
    assert_int_equal(count(8, list), 4);
    list[1].text = "-1\n"; /* no limit */
    assert_int_equal(count(8, list), 8);
    list[0].text = "4:cpuset:/x\n"; /* another controller */
    list[1].text = "100000\n";
    assert_int_equal(count(8, list), 8);
}

static void nonsense_is_no_quota(void **state)
{
    (void)state;
    static const char *const texts[] = {"",           "\n",         "x y\n",       "100000\n",
                                        "100000 0\n", "0 100000\n", "-5 100000\n", "100000 -1\n"};
    fake list[] = {{"/proc/self/cgroup", "0::/a\n"}, {"/sys/fs/cgroup/a/cpu.max", NULL}, {0}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        list[1].text = texts[i];
        assert_int_equal(count(5, list), 5);
    }
    static const char *const groups[] = {"", "\n", "nothing\n", "0:\n", "::\n"};
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        list[0].text = groups[i];
        assert_int_equal(count(5, list), 5);
    }
}

static void there_is_always_one(void **state)
{
    (void)state;
    assert_int_equal(count(0, NULL), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_processors_it_may_run_on_without_a_quota),
        cmocka_unit_test(more_processors_than_a_set_holds_are_asked_elsewhere),
        cmocka_unit_test(a_quota_of_version_2_is_rounded_up),
        cmocka_unit_test(the_least_quota_of_all_groups_above_counts),
        cmocka_unit_test(in_a_container_the_group_is_the_root),
        cmocka_unit_test(a_quota_of_version_1_counts),
        cmocka_unit_test(nonsense_is_no_quota),
        cmocka_unit_test(there_is_always_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
