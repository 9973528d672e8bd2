#include "../check.h"

#include "shed/rss.h"

#include "base/clock.h"

#include <stdio.h>
#include <unistd.h>

static char path[] = "/tmp/donmaz-statm-XXXXXX";
static dz_rss rss;

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void it_reads_this_process(void **state)
{
    (void)state;
    dz_rss_init(&rss, NULL);
    uint64_t bytes = dz_rss_now(&rss, 0);
    assert_true(bytes > 100 << 10 && bytes < UINT64_C(1) << 40);
    assert_int_equal(atomic_load(&rss.failures), 0);
}

static void it_reads_at_most_twice_a_second(void **state)
{
    (void)state;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    dz_rss_init(&rss, path);
    write_file("900 100 3 4 0 5 0\n");
    assert_int_equal(dz_rss_now(&rss, DZ_SEC), 100 * page);
    write_file("900 200 3 4 0 5 0\n");
    assert_int_equal(dz_rss_now(&rss, DZ_SEC + 499 * DZ_MS), 100 * page);
    assert_int_equal(dz_rss_now(&rss, DZ_SEC + 500 * DZ_MS), 200 * page);
}

static void what_cannot_be_read_is_unknown_and_counted(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "\n",
                                      "12\n",
                                      "x y z\n",
                                      "1 \n",
                                      "1 abc\n",
                                      "18446744073709551616 3\n",
                                      "1 99999999999999999999999\n",
                                      "1 9999999999999999999\n"};
    dz_rss_init(&rss, path);
    uint64_t now = 0;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_file(bad[i]);
        assert_int_equal(dz_rss_now(&rss, now += DZ_SEC), 0);
        assert_int_equal(atomic_load(&rss.failures), i + 1);
    }
    write_file("900 7 3\n"); /* and it recovers */
    assert_int_equal(dz_rss_now(&rss, now + DZ_SEC), 7 * (uint64_t)sysconf(_SC_PAGESIZE));
    dz_rss_init(&rss, "/nonexistent/statm");
    assert_int_equal(dz_rss_now(&rss, 0), 0);
    assert_int_equal(atomic_load(&rss.failures), 1);
}

static int make_file(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_reads_this_process),
        cmocka_unit_test(it_reads_at_most_twice_a_second),
        cmocka_unit_test(what_cannot_be_read_is_unknown_and_counted),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
