/* What is said of the settings: --help, and what was wrong. */
#include "../check.h"
#include "../printed.h"
#include "app/setting.h"
#include "new_app.h"

static const char *help(void)
{
    with_printed(dz_settings_help(app->core, "demo"));
    assert_string_equal(printed_err, "");
    return printed_out;
}

/* --- help --- */

static void every_setting_is_listed_with_what_it_takes(void **state)
{
    (void)state;
    const char *text = help();
    assert_int_equal(strncmp(text, "usage: demo [options]\n\n", 23), 0);
    for (size_t i = 0; i < dz_setting_count; i++) {
        const dz_setting *it = &dz_setting_table[i];
        char wanted[64];
        snprintf(wanted, sizeof wanted, "\n  --%s%s%s ", it->name, it->value_name ? " " : "",
                 it->value_name ? it->value_name : "");
        if (!strstr(text, wanted))
            fail_msg("--%s is not listed", it->name);
    }
    assert_non_null(strstr(text, "\n  --help "));
    assert_non_null(strstr(text, "DONMAZ_RESCUE_AFTER"));
}

static void a_help_of_two_lines_stays_in_its_column(void **state)
{
    (void)state;
    assert_non_null(strstr(help(),
                           "\n  --processes N            worker processes; their supervisor "
                           "restarts\n"
                           "                           those that crash (1)\n"));
}

static void lines_fit_a_terminal_and_have_no_end_of_blanks(void **state)
{
    (void)state;
    for (const char *at = help(), *end; *at; at = end + 1) {
        end = strchr(at, '\n');
        assert_non_null(end);
        if (end - at > 100 || (end > at && end[-1] == ' '))
            fail_msg("\"%.*s\"", (int)(end - at), at);
    }
}

static void a_program_s_own_come_first_in_the_order_they_were_added(void **state)
{
    (void)state;
    assert_null(strstr(help(), "options of this program"));
    const char *value = NULL;
    dz_app_option(app, "database", "NAME", "where the data is", &value);
    dz_app_option(app, "fast", NULL, "be fast", &value);
    const char *text = help();
    assert_non_null(strstr(text, "options of this program:\n"
                                 "  --database NAME          where the data is\n"
                                 "  --fast                   be fast\n"
                                 "\n"
                                 "options of every donmaz service:\n"));
}

static void a_name_of_any_length_is_printed(void **state)
{
    (void)state;
    static char name[200];
    memset(name, 'n', sizeof name - 1);
    const char *value = NULL;
    dz_app_option(app, name, "NAME", "long", &value);
    assert_non_null(strstr(help(), "\n  --nnnn"));
    assert_non_null(strstr(printed_out, " long\n"));
}

/* --- what was wrong --- */

static const char *complaint(const char *name, size_t len)
{
    with_printed(dz_settings_complain_unknown(app->core, "demo", name, len));
    assert_string_equal(printed_out, "");
    return printed_err;
}

static void assert_meant(const char *name, const char *meant)
{
    char wanted[256];
    if (meant)
        snprintf(wanted, sizeof wanted, "demo: unknown option --%s; did you mean --%s?\n", name,
                 meant);
    else
        snprintf(wanted, sizeof wanted, "demo: unknown option --%s; --help lists the options\n",
                 name);
    assert_string_equal(complaint(name, strlen(name)), wanted);
}

static void the_nearest_name_is_what_was_meant(void **state)
{
    (void)state;
    assert_meant("prot", "port");
    assert_meant("pot", "port");
    assert_meant("portt", "port");
    assert_meant("hosts", "host");
    assert_meant("worker", "workers");
    assert_meant("rescueafter", "rescue-after");
    assert_meant("rescue-mx", "rescue-max");
    const char *value = NULL;
    dz_app_option(app, "ports", NULL, "", &value);
    assert_meant("portss", "ports"); /* also the program's own */
}

static void what_is_like_none_is_no_hint(void **state)
{
    (void)state;
    assert_meant("completely-different", NULL);
    assert_meant("a-name-that-is-longer-than-any-option-is", NULL);
    assert_meant("processes-and-threads-of-it", NULL);
}

static void a_short_name_that_is_hardly_alike_is_no_hint(void **state)
{
    (void)state;
    assert_meant("v", NULL); /* three letters from --log, which has three */
    assert_meant("tls", NULL);
    assert_meant("", NULL);
    assert_meant("logs", "log");
    assert_meant("lg", "log");
}

static void only_the_name_is_looked_at_not_what_follows_it(void **state)
{
    (void)state;
    assert_string_equal(complaint("prot=80", 4),
                        "demo: unknown option --prot; did you mean --port?\n");
}

static void a_bad_value_is_told_and_ends_the_program_with_2(void **state)
{
    (void)state;
    int rc;
    with_printed(rc = dz_settings_complain_value("demo", "--port", "many"));
    assert_int_equal(rc, 2);
    assert_string_equal(printed_err, "demo: --port can't be 'many'; --help tells what it takes\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_setting_is_listed_with_what_it_takes),
        TEST(a_help_of_two_lines_stays_in_its_column),
        TEST(lines_fit_a_terminal_and_have_no_end_of_blanks),
        TEST(a_program_s_own_come_first_in_the_order_they_were_added),
        TEST(a_name_of_any_length_is_printed),
        TEST(the_nearest_name_is_what_was_meant),
        TEST(what_is_like_none_is_no_hint),
        TEST(a_short_name_that_is_hardly_alike_is_no_hint),
        TEST(only_the_name_is_looked_at_not_what_follows_it),
        TEST(a_bad_value_is_told_and_ends_the_program_with_2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
