/* Settings from the environment and the command line. */
#include "../check.h"
#include "../printed.h"
#include "app/setting.h"

#include "base/clock.h"

static dz_app *app;
static const char *database, *fast;

static int set_up(void **state)
{
    (void)state;
    database = "none";
    fast = NULL;
    app = dz_app_new();
    if (!app)
        return -1;
    dz_app_option(app, "database", "NAME", "where the data is", &database);
    dz_app_option(app, "fast", NULL, "be fast", &fast);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    static const char *const variables[] = {"DONMAZ_PORT",  "DONMAZ_RESCUE_AFTER",
                                            "DONMAZ_QUIET", "DONMAZ_DATABASE",
                                            "DONMAZ_FAST",  "DONMAZ_HOST"};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        unsetenv(variables[i]);
    dz_app_free(app);
    return 0;
}

static const dz_settings *settings(void)
{
    return &app->core->settings;
}

/* The exit code, or -1 to go on. */
static int parse(int argc, const char *const *argv)
{
    char *copy[16];
    int rc;
    assert_true(argc < 16);
    memcpy(copy, argv, (size_t)argc * sizeof *copy);
    with_printed(rc = dz_settings_parse(app, argc, copy));
    return rc;
}

#define PARSE(...)                                                                                 \
    parse((int)(sizeof((const char *[]){"demo", __VA_ARGS__}) / sizeof(char *)),                   \
          (const char *[]){"demo", __VA_ARGS__})

#define assert_complaint(text)                                                                     \
    do {                                                                                           \
        assert_string_equal(printed_err, text);                                                    \
        assert_string_equal(printed_out, "");                                                      \
    } while (0)

/* --- arguments --- */

static void every_kind_of_value_is_read_in_either_form(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--host", "0.0.0.0", "--port=8080", "--rescue-after", "1.5ms",
                           "--body-max=2M", "--quiet", "--drain-timeout", "3", "--log-level=warn"),
                     -1);
    assert_string_equal(settings()->host, "0.0.0.0");
    assert_int_equal(settings()->port, 8080);
    assert_int_equal(settings()->rescue_after_ns, 1500000);
    assert_int_equal(settings()->body_max, 2 << 20);
    assert_true(settings()->quiet);
    assert_int_equal(settings()->drain_timeout_ns, 3 * DZ_SEC);
    assert_int_equal(settings()->log_level, DZ_LOG_WARN);
    assert_complaint("");
}

static void a_flag_takes_no_argument_but_may_say_no(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--quiet", "--port", "1"), -1);
    assert_true(settings()->quiet);
    assert_int_equal(settings()->port, 1);
    assert_int_equal(PARSE("--quiet=no"), -1);
    assert_false(settings()->quiet);
    assert_int_equal(PARSE("--quiet", "no"), 2);
    assert_complaint("demo: unexpected argument 'no'; --help lists the options\n");
}

static void the_last_of_several_counts(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--port", "1", "--port=2"), -1);
    assert_int_equal(settings()->port, 2);
}

static void a_value_may_be_empty_or_look_like_an_option(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--shed-body=", "--log", "--odd=name"), -1);
    assert_string_equal(settings()->shed_body, "");
    assert_string_equal(settings()->log, "--odd=name");
    assert_int_equal(PARSE("--shed-body=a=b"), -1); /* the first '=' ends the name */
    assert_string_equal(settings()->shed_body, "a=b");
}

static void a_bad_argument_is_told_with_what_to_do(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--port", "many"), 2);
    assert_complaint("demo: --port can't be 'many'; --help tells what it takes\n");
    assert_int_equal(PARSE("--port="), 2);
    assert_complaint("demo: --port can't be ''; --help tells what it takes\n");
    assert_int_equal(PARSE("--port"), 2);
    assert_complaint("demo: --port needs a value; --help tells which\n");
    assert_int_equal(PARSE("--prot", "1"), 2);
    assert_complaint("demo: unknown option --prot; did you mean --port?\n");
    assert_int_equal(PARSE("serve"), 2);
    assert_complaint("demo: unexpected argument 'serve'; --help lists the options\n");
    assert_int_equal(PARSE("-p", "80"), 2);
    assert_complaint("demo: unexpected argument '-p'; --help lists the options\n");
    assert_int_equal(PARSE("--"), 2);
    assert_int_equal(PARSE(""), 2);
}

static void the_first_mistake_is_the_one_that_is_told(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--loops", "none", "--port", "many", "serve"), 2);
    assert_complaint("demo: --loops can't be 'none'; --help tells what it takes\n");
}

static void without_arguments_all_stays_as_it_was(void **state)
{
    (void)state;
    const dz_settings before = *settings();
    assert_int_equal(parse(0, (const char *[]){NULL}), -1); /* an exec that gave not even a name */
    assert_int_equal(parse(1, (const char *[]){"demo"}), -1);
    assert_memory_equal(settings(), &before, sizeof before);
    assert_complaint("");
}

static void help_goes_before_everything_else(void **state)
{
    (void)state;
    setenv("DONMAZ_PORT", "none", 1);
    assert_int_equal(PARSE("--port", "many", "--help"), 0);
    assert_string_equal(printed_err, "");
    assert_non_null(strstr(printed_out, "usage: demo [options]\n"));
}

/* --- the environment --- */

static void the_environment_is_read_and_the_command_line_wins(void **state)
{
    (void)state;
    setenv("DONMAZ_PORT", "7000", 1);
    setenv("DONMAZ_RESCUE_AFTER", "9ms", 1);
    setenv("DONMAZ_QUIET", "off", 1);
    assert_int_equal(PARSE("--port", "7001", "--loops=2"), -1);
    assert_int_equal(settings()->port, 7001);
    assert_int_equal(settings()->rescue_after_ns, 9 * DZ_MS);
    assert_false(settings()->quiet);
    assert_int_equal(settings()->loops, 2);
}

static void an_empty_variable_is_as_if_it_were_not_set(void **state)
{
    (void)state;
    setenv("DONMAZ_PORT", "", 1);
    setenv("DONMAZ_HOST", "", 1);
    setenv("DONMAZ_DATABASE", "", 1);
    assert_int_equal(PARSE("--loops=2"), -1);
    assert_int_equal(settings()->port, 3000);
    assert_string_equal(settings()->host, "127.0.0.1");
    assert_string_equal(database, "none");
}

static void a_bad_variable_is_told_though_an_argument_would_go_before_it(void **state)
{
    (void)state;
    setenv("DONMAZ_RESCUE_AFTER", "soon", 1);
    assert_int_equal(PARSE("--rescue-after=1ms"), 2);
    assert_complaint("demo: the environment's DONMAZ_ setting for --rescue-after can't be 'soon'; "
                     "--help tells what it takes\n");
    assert_int_equal(settings()->rescue_after_ns, 2 * DZ_MS);
}

/* --- a program's own options --- */

static void a_program_s_own_options_are_read_like_the_others(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--database", "shop", "--fast", "--port=1"), -1);
    assert_string_equal(database, "shop");
    assert_string_equal(fast, "1");
    assert_int_equal(settings()->port, 1);
    assert_int_equal(PARSE("--database=other"), -1);
    assert_string_equal(database, "other");
    assert_int_equal(PARSE("--database"), 2);
    assert_complaint("demo: --database needs a value; --help tells which\n");
    assert_int_equal(PARSE("--databse=x"), 2);
    assert_complaint("demo: unknown option --databse; did you mean --database?\n");
}

static void they_are_read_from_the_environment_too(void **state)
{
    (void)state;
    setenv("DONMAZ_DATABASE", "from outside", 1);
    setenv("DONMAZ_FAST", "1", 1);
    assert_int_equal(PARSE("--quiet"), -1);
    assert_string_equal(database, "from outside");
    assert_string_equal(fast, "1");
    assert_int_equal(PARSE("--database", "shop"), -1);
    assert_string_equal(database, "shop");
}

/* As composition files have it: DONMAZ_FAST=0 is not a wish to be fast. */
static void a_flag_of_the_program_says_yes_or_no_in_the_words_of_the_others(void **state)
{
    (void)state;
    setenv("DONMAZ_FAST", "yes", 1);
    assert_int_equal(PARSE("--quiet"), -1);
    assert_string_equal(fast, "1");
    assert_int_equal(PARSE("--fast=off"), -1);
    assert_null(fast);
    setenv("DONMAZ_FAST", "0", 1);
    assert_int_equal(PARSE("--quiet"), -1);
    assert_null(fast);
    assert_int_equal(PARSE("--fast"), -1);
    assert_string_equal(fast, "1");
    assert_int_equal(PARSE("--fast=maybe"), 2);
    assert_complaint("demo: --fast can't be 'maybe'; --help tells what it takes\n");
    assert_null(fast); /* as the environment says */
    setenv("DONMAZ_FAST", "maybe", 1);
    assert_int_equal(PARSE("--fast"), 2);
    assert_complaint("demo: the environment's DONMAZ_ setting for --fast can't be 'maybe'; "
                     "--help tells what it takes\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_kind_of_value_is_read_in_either_form),
        TEST(a_flag_takes_no_argument_but_may_say_no),
        TEST(the_last_of_several_counts),
        TEST(a_value_may_be_empty_or_look_like_an_option),
        TEST(a_bad_argument_is_told_with_what_to_do),
        TEST(the_first_mistake_is_the_one_that_is_told),
        TEST(without_arguments_all_stays_as_it_was),
        TEST(help_goes_before_everything_else),
        TEST(the_environment_is_read_and_the_command_line_wins),
        TEST(an_empty_variable_is_as_if_it_were_not_set),
        TEST(a_bad_variable_is_told_though_an_argument_would_go_before_it),
        TEST(a_program_s_own_options_are_read_like_the_others),
        TEST(they_are_read_from_the_environment_too),
        TEST(a_flag_of_the_program_says_yes_or_no_in_the_words_of_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
