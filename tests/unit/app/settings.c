#include "../check.h"
#include "app/app.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static dz_app *app;

static int set_up(void **state)
{
    (void)state;
    app = dz_app_new();
    return app ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    dz_app_free(app);
    return 0;
}

static const dz_settings *settings(void)
{
    return &app->core->settings;
}

/* Parses the arguments with standard output and error in a file; returns the exit code or -1. */
static char printed[16384];

static int parse(int argc, const char **argv)
{
    char path[] = "settings-XXXXXX";
    int file = mkstemp(path), out = dup(1), err = dup(2);
    assert_true(file >= 0 && out >= 0 && err >= 0);
    unlink(path);
    fflush(stdout);
    dup2(file, 1);
    dup2(file, 2);
    char *copy[16];
    assert_true(argc < 16);
    memcpy(copy, argv, (size_t)argc * sizeof *copy);
    int rc = dz_settings_parse(app, argc, copy);
    fflush(stdout);
    dup2(out, 1);
    dup2(err, 2);
    ssize_t len = pread(file, printed, sizeof printed - 1, 0);
    printed[len > 0 ? len : 0] = '\0';
    close(file);
    close(out);
    close(err);
    return rc;
}

#define PARSE(...)                                                                                 \
    parse((int)(sizeof((const char *[]){"demo", __VA_ARGS__}) / sizeof(char *)),                   \
          (const char *[]){"demo", __VA_ARGS__})

static void every_kind_of_value_is_read(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--host", "0.0.0.0", "--port=8080", "--rescue-after", "1.5ms",
                           "--body-max=2M", "--quiet", "--drain-timeout", "3"),
                     -1);
    assert_string_equal(settings()->host, "0.0.0.0");
    assert_int_equal(settings()->port, 8080);
    assert_int_equal(settings()->rescue_after_ns, 1500000);
    assert_int_equal(settings()->body_max, 2 << 20);
    assert_true(settings()->quiet);
    assert_int_equal(settings()->drain_timeout_ns, UINT64_C(3000000000));
    assert_string_equal(printed, "");
}

static void units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t ns;
    } times[] = {{"5ns", 5},         {"7us", 7000},
                 {"2ms", 2000000},   {"1s", UINT64_C(1000000000)},
                 {"0.5", 500000000}, {"1m", UINT64_C(60000000000)},
                 {"0", 0},           {"1h", UINT64_C(3600000000000)}};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        assert_int_equal(dz_app_set(app, "drain-timeout", times[i].text), 0);
        assert_int_equal(settings()->drain_timeout_ns, times[i].ns);
    }
    static const struct {
        const char *text;
        uint64_t bytes;
    } sizes[] = {{"0", 0},     {"100", 100},      {"4k", 4096},
                 {"4K", 4096}, {"0.5M", 1 << 19}, {"3G", UINT64_C(3) << 30}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_int_equal(dz_app_set(app, "body-max", sizes[i].text), 0);
        assert_int_equal(settings()->body_max, sizes[i].bytes);
    }
}

static void unusable_values_are_refused_and_change_nothing(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"port", "-1"},
        {"port", "65536"},
        {"port", "80x"},
        {"port", ""},
        {"port", " 80"},
        {"port", "8.0"},
        {"port", "0x10"},
        {"port", "0X10"},
        {"port", "1e3"},
        {"port", "+80"},
        {"port", "99999999999999999999999"},
        {"loops", "0"},
        {"loops", "1025"},
        {"processes", "0"},
        {"rescue-after", "2 ms"},
        {"rescue-after", "ms"},
        {"rescue-after", "2MS"},
        {"rescue-after", "1e3"},
        {"rescue-after", "1..5"},
        {"rescue-after", "nan"},
        {"rescue-after", "inf"},
        {"rescue-after", "2h"},
        {"rescue-after", "1,5ms"},
        {"body-max", "1T"},
        {"body-max", "-1k"},
        {"body-max", "9999999999G"},
        {"head-max", "255"},
        {"stack-size", "31k"},
        {"demote-nice", "20"},
        {"quiet", "maybe"},
        {"idle-timeout", "0"},
        {"quiet", "2"},
    };
    const dz_settings before = *settings();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (dz_app_set(app, bad[i][0], bad[i][1]) != DZ_E_INVALID)
            fail_msg("--%s '%s' was accepted", bad[i][0], bad[i][1]);
        assert_memory_equal(settings(), &before, sizeof before);
    }
    assert_int_equal(dz_app_set(app, "no-such", "1"), DZ_E_NOT_FOUND);
}

static void flags_say_yes_or_no(void **state)
{
    (void)state;
    static const char *const yes[] = {"1", "true", "yes", "on"};
    static const char *const no[] = {"0", "false", "no", "off"};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(dz_app_set(app, "quiet", yes[i]), 0);
        assert_true(settings()->quiet);
        assert_int_equal(dz_app_set(app, "quiet", no[i]), 0);
        assert_false(settings()->quiet);
    }
}

static void a_bad_argument_is_told_with_what_to_do(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--port", "many"), 2);
    assert_string_equal(printed, "demo: --port can't be 'many'; --help tells what it takes\n");
    assert_int_equal(PARSE("--port"), 2);
    assert_string_equal(printed, "demo: --port needs a value; --help tells which\n");
    assert_int_equal(PARSE("--prot", "1"), 2);
    assert_string_equal(printed, "demo: unknown option --prot; did you mean --port?\n");
    assert_int_equal(PARSE("--rescueafter=1ms"), 2);
    assert_string_equal(printed,
                        "demo: unknown option --rescueafter; did you mean --rescue-after?\n");
    assert_int_equal(PARSE("--completely-different"), 2);
    assert_string_equal(printed,
                        "demo: unknown option --completely-different; --help lists the options\n");
    assert_int_equal(PARSE("serve"), 2);
    assert_string_equal(printed, "demo: unexpected argument 'serve'; --help lists the options\n");
    assert_int_equal(PARSE("-p", "80"), 2);
    assert_int_equal(PARSE("--"), 2);
}

static void the_environment_comes_before_the_command_line_which_wins(void **state)
{
    (void)state;
    setenv("DONMAZ_PORT", "7000", 1);
    setenv("DONMAZ_RESCUE_AFTER", "9ms", 1);
    setenv("DONMAZ_IDLE_TIMEOUT", "", 1); /* as if it were not set */
    assert_int_equal(PARSE("--port", "7001"), -1);
    assert_int_equal(settings()->port, 7001);
    assert_int_equal(settings()->rescue_after_ns, 9000000);
    assert_int_equal(settings()->idle_timeout_ns, UINT64_C(60000000000));
    setenv("DONMAZ_PORT", "none", 1);
    assert_int_equal(PARSE("--quiet"), 2);
    assert_non_null(strstr(printed, "'none'"));
    assert_non_null(strstr(printed, "port"));
    unsetenv("DONMAZ_PORT");
    unsetenv("DONMAZ_RESCUE_AFTER");
    unsetenv("DONMAZ_IDLE_TIMEOUT");
}

static void a_programs_own_options_are_read_suggested_and_listed(void **state)
{
    (void)state;
    const char *database = "none", *fast = NULL;
    dz_app_option(app, "database", "NAME", "where the data is", &database);
    dz_app_option(app, "fast", NULL, "be fast", &fast);
    assert_int_equal(PARSE("--database", "shop", "--fast"), -1);
    assert_string_equal(database, "shop");
    assert_string_equal(fast, "1");
    setenv("DONMAZ_DATABASE", "other", 1);
    assert_int_equal(PARSE("--quiet"), -1);
    unsetenv("DONMAZ_DATABASE");
    assert_string_equal(database, "other");
    assert_int_equal(PARSE("--databse=x"), 2);
    assert_string_equal(printed, "demo: unknown option --databse; did you mean --database?\n");
    assert_int_equal(PARSE("--port", "1", "--help"), 0);
    assert_non_null(strstr(printed, "usage: demo [options]"));
    assert_non_null(strstr(printed, "--database NAME"));
    assert_non_null(strstr(printed, "--rescue-after TIME"));
    assert_non_null(strstr(printed, "DONMAZ_RESCUE_AFTER"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_kind_of_value_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(units, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unusable_values_are_refused_and_change_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(flags_say_yes_or_no, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_bad_argument_is_told_with_what_to_do, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_environment_comes_before_the_command_line_which_wins,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_programs_own_options_are_read_suggested_and_listed,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
