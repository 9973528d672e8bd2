/* What a setting's text means. */
#include "../check.h"
#include "app/setting.h"

#include "base/clock.h"

#include <donmaz/error.h>
#include <donmaz/log.h>

/* A setting of each kind, in places of their own. */
static dz_settings settings;

#define SETTING(name, what, place, least, most)                                                    \
    static const dz_setting name = {#name, what, offsetof(dz_settings, place), least, most,        \
                                    NULL,  ""}

SETTING(a_count, DZ_SETTING_COUNT, port, 0, DZ_SETTING_FOREVER);
SETTING(a_size, DZ_SETTING_SIZE, body_max, 0, DZ_SETTING_FOREVER);
SETTING(a_duration, DZ_SETTING_DURATION, drain_timeout_ns, 0, DZ_SETTING_FOREVER);
SETTING(a_level, DZ_SETTING_LEVEL, log_level, 0, 0);
SETTING(a_flag, DZ_SETTING_FLAG, quiet, 0, 1);
SETTING(a_text, DZ_SETTING_TEXT, host, 0, 0);

typedef struct row {
    const char *text;
    uint64_t value;
} row;

static uint64_t value_of(const dz_setting *it, const char *text)
{
    uint64_t value;
    if (dz_setting_store(&settings, it, text) != 0)
        fail_msg("%s can't be '%s'", it->name, text);
    memcpy(&value, (char *)&settings + it->offset, sizeof value);
    return value;
}

static void assert_rows(const dz_setting *it, const row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (value_of(it, rows[i].text) != rows[i].value)
            fail_msg("%s '%s' is %llu", it->name, rows[i].text,
                     (unsigned long long)value_of(it, rows[i].text));
}

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* Each is refused, and nothing in all settings changes. */
static void assert_refused(const dz_setting *it, const char *const *bad, size_t count)
{
    memset(&settings, 0x5a, sizeof settings);
    const dz_settings before = settings;
    for (size_t i = 0; i < count; i++) {
        if (dz_setting_store(&settings, it, bad[i]) != DZ_E_INVALID)
            fail_msg("%s '%s' was accepted", it->name, bad[i]);
        assert_memory_equal(&settings, &before, sizeof before);
    }
}

static void counts_are_whole_numbers(void **state)
{
    (void)state;
    static const row rows[] = {
        {"0", 0}, {"80", 80}, {"0080", 80}, {"4611686018427387904", 1ULL << 62}};
    assert_rows(&a_count, rows, COUNT_OF(rows));
    static const char *const bad[] = {"",
                                      "-1",
                                      "+80",
                                      " 80",
                                      "80 ",
                                      "80x",
                                      "8.0",
                                      "0x10",
                                      "0X10",
                                      "1e3",
                                      "1k",
                                      "1s",
                                      "many",
                                      ".5",
                                      "4611686018427387905",  /* 2^62 + 1 */
                                      "18446744073709551616", /* 2^64 */
                                      "18446744073709551696", /* and as much as 80 beyond */
                                      "99999999999999999999999"};
    assert_refused(&a_count, bad, COUNT_OF(bad));
}

static void durations_have_units_and_mean_seconds_without(void **state)
{
    (void)state;
    static const row rows[] = {
        {"5ns", 5},
        {"7us", 7000},
        {"2ms", 2 * DZ_MS},
        {"1s", DZ_SEC},
        {"1", DZ_SEC},
        {"0.5", DZ_SEC / 2},
        {"1.5ms", 1500000},
        {"0.1s", DZ_SEC / 10},
        {"1m", 60 * DZ_SEC},
        {"1h", 3600 * DZ_SEC},
        {"0", 0},
        {"0h", 0},
        {"0.123456789s", 123456789},  /* every digit counts, */
        {"0.1234567891s", 123456789}, /* as far as there are nanoseconds */
        {"1.0000000000000000000000000001s", DZ_SEC},
        {"0.3000000000000000000000s", 3 * DZ_SEC / 10}, /* more than 64 bits of them */
        {"0.4ns", 0},
    };
    assert_rows(&a_duration, rows, COUNT_OF(rows));
    static const char *const bad[] = {
        "",           "ms",  "2 ms", "2MS",   "2S",   "1e3",  "1..5",
        "1.",         "1.s", ".5s",  "1,5ms", "nan",  "inf",  "2ms ",
        "-1s",        "+1s", "1k",   "1d",    "1s1s", "0x1s", "1281023894008h",
        "4611686019s"};
    assert_refused(&a_duration, bad, COUNT_OF(bad));
}

static void sizes_have_units_of_1024_and_mean_bytes_without(void **state)
{
    (void)state;
    static const row rows[] = {{"0", 0},
                               {"100", 100},
                               {"4k", 4096},
                               {"4K", 4096},
                               {"0.5M", 1 << 19},
                               {"3G", 3ULL << 30},
                               {"1.5", 2}, /* to the next whole byte */
                               {"4294967296G", 1ULL << 62}};
    assert_rows(&a_size, rows, COUNT_OF(rows));
    static const char *const bad[] = {
        "",    "k",   "1T",  "1m",          "1g",          "1kB",          "1KB",
        "-1k", "1 k", "1ms", "9999999999G", "4294967297G", "4294967296.5G"};
    assert_refused(&a_size, bad, COUNT_OF(bad));
}

static void levels_have_their_names(void **state)
{
    (void)state;
    static const row rows[] = {{"trace", DZ_LOG_TRACE}, {"debug", DZ_LOG_DEBUG},
                               {"info", DZ_LOG_INFO},   {"warn", DZ_LOG_WARN},
                               {"error", DZ_LOG_ERROR}, {"fatal", DZ_LOG_FATAL},
                               {"off", DZ_LOG_SILENT}};
    assert_rows(&a_level, rows, COUNT_OF(rows));
    static const char *const bad[] = {"",   "Info",   "INFO", "warning",
                                      "30", "silent", "inf",  "info "};
    assert_refused(&a_level, bad, COUNT_OF(bad));
}

static void flags_say_yes_or_no(void **state)
{
    (void)state;
    static const char *const yes[] = {"1", "true", "yes", "on"};
    static const char *const no[] = {"0", "false", "no", "off"};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(dz_setting_store(&settings, &a_flag, yes[i]), 0);
        assert_true(settings.quiet);
        assert_int_equal(dz_setting_store(&settings, &a_flag, no[i]), 0);
        assert_false(settings.quiet);
    }
    static const char *const bad[] = {"", "2", "maybe", "True", "YES", "y", "n", "-1", "01"};
    assert_refused(&a_flag, bad, COUNT_OF(bad));
}

static void a_flag_takes_no_more_than_its_own_place(void **state)
{
    (void)state;
    memset(&settings, 0, sizeof settings);
    assert_int_equal(dz_setting_store(&settings, &a_flag, "yes"), 0);
    dz_settings only = {0};
    only.quiet = true;
    assert_memory_equal(&settings, &only, sizeof only);
}

static void a_text_is_kept_as_it_is_and_not_copied(void **state)
{
    (void)state;
    static const char any[] = "any text, 0x10 or nothing";
    assert_int_equal(dz_setting_store(&settings, &a_text, any), 0);
    assert_ptr_equal(settings.host, any);
    assert_int_equal(dz_setting_store(&settings, &a_text, ""), 0);
    assert_string_equal(settings.host, "");
}

static void bounds_count_in_the_unit_that_is_stored_and_are_allowed_themselves(void **state)
{
    (void)state;
    SETTING(bounded, DZ_SETTING_DURATION, drain_timeout_ns, DZ_MS, 2 * DZ_SEC);
    static const row rows[] = {
        {"1ms", DZ_MS}, {"0.001", DZ_MS}, {"2", 2 * DZ_SEC}, {"2000ms", 2 * DZ_SEC}};
    assert_rows(&bounded, rows, COUNT_OF(rows));
    static const char *const bad[] = {"0", "0.999999ms", "999999ns", "2.000000001", "1h"};
    assert_refused(&bounded, bad, COUNT_OF(bad));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_whole_numbers),
        cmocka_unit_test(durations_have_units_and_mean_seconds_without),
        cmocka_unit_test(sizes_have_units_of_1024_and_mean_bytes_without),
        cmocka_unit_test(levels_have_their_names),
        cmocka_unit_test(flags_say_yes_or_no),
        cmocka_unit_test(a_flag_takes_no_more_than_its_own_place),
        cmocka_unit_test(a_text_is_kept_as_it_is_and_not_copied),
        cmocka_unit_test(bounds_count_in_the_unit_that_is_stored_and_are_allowed_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
