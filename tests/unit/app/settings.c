/* The table of settings, and the options that a program adds. */
#include "../check.h"
#include "../alloc.h"
#include "app/setting.h"
#include "new_app.h"

#include <donmaz/error.h>

/* --- the table --- */

static void every_name_can_be_an_option_and_a_variable_and_is_there_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < dz_setting_count; i++) {
        const dz_setting *it = &dz_setting_table[i];
        size_t len = strlen(it->name);
        assert_in_range(len, 1, 32);
        assert_int_equal(strspn(it->name, "abcdefghijklmnopqrstuvwxyz-"), len);
        assert_ptr_equal(dz_setting_find(it->name, len), it); /* the first of that name */
        assert_true(strlen(it->help) > 0);
        assert_int_equal(it->value_name == NULL, it->kind == DZ_SETTING_FLAG);
    }
}

static void only_the_whole_name_finds_a_setting(void **state)
{
    (void)state;
    assert_non_null(dz_setting_find("port=80", 4));
    assert_null(dz_setting_find("por", 3));
    assert_null(dz_setting_find("ports", 5));
    assert_null(dz_setting_find("Port", 4));
    assert_null(dz_setting_find("", 0));
}

static void the_defaults_are_values_that_could_be_set(void **state)
{
    (void)state;
    for (size_t i = 0; i < dz_setting_count; i++) {
        const dz_setting *it = &dz_setting_table[i];
        if (it->kind == DZ_SETTING_TEXT || it->kind == DZ_SETTING_FLAG || it->max == 0)
            continue;
        uint64_t value;
        memcpy(&value, (char *)&app->core->settings + it->offset, sizeof value);
        if (value > it->max || (value < it->min && value != 0)) /* 0: not said */
            fail_msg("--%s is %llu", it->name, (unsigned long long)value);
    }
}

static void each_setting_has_its_range(void **state)
{
    (void)state;
    static const char *const good[][2] = {
        {"port", "0"},         {"port", "65535"},       {"loops", "1"},
        {"loops", "1024"},     {"rescue-after", "0"},   {"rescue-after", "1h"},
        {"rescue-max", "0"},   {"demote-nice", "19"},   {"head-max", "256"},
        {"stack-size", "32k"}, {"idle-timeout", "1ms"}, {"drain-timeout", "0"},
        {"hooks-max", "0"},    {"shed-wait", "0.1ms"},  {"shed-close-every", "0"},
    };
    static const char *const bad[][2] = {
        {"port", "65536"},
        {"loops", "0"},
        {"loops", "1025"},
        {"processes", "0"},
        {"workers", "0"},
        {"rescue-after", "2h"},
        {"head-max", "255"},
        {"stack-size", "31k"},
        {"demote-nice", "20"},
        {"idle-timeout", "0"},
        {"header-timeout", "0"},
        {"connections-max", "0"},
        {"shed-retry-after", "0.5s"},
        {"body-max", "9999999999G"},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        if (dz_app_set(app, good[i][0], good[i][1]) != 0)
            fail_msg("--%s can't be '%s'", good[i][0], good[i][1]);
    const dz_settings before = app->core->settings;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (dz_app_set(app, bad[i][0], bad[i][1]) != DZ_E_INVALID)
            fail_msg("--%s '%s' was accepted", bad[i][0], bad[i][1]);
    assert_memory_equal(&app->core->settings, &before, sizeof before);
}

static void what_is_no_setting_can_t_be_set(void **state)
{
    (void)state;
    const char *own = NULL;
    dz_app_option(app, "own", "TEXT", "the program's own", &own);
    assert_int_equal(dz_app_set(app, "no-such", "1"), DZ_E_NOT_FOUND);
    assert_int_equal(dz_app_set(app, "own", "1"), DZ_E_NOT_FOUND);
    assert_int_equal(dz_app_set(app, NULL, "1"), DZ_E_INVALID);
    assert_int_equal(dz_app_set(app, "port", NULL), DZ_E_INVALID);
    assert_null(own);
}

/* --- the program's own --- */

static void a_program_s_options_are_found_by_their_whole_names(void **state)
{
    (void)state;
    const char *one = "1", *two = "2";
    dz_app_option(app, "one", "TEXT", "first", &one);
    dz_app_option(app, "two", NULL, NULL, &two);
    const dz_user_option *it = dz_user_option_find(app->core, "two=x", 3);
    assert_non_null(it);
    assert_ptr_equal(it->value, &two);
    assert_string_equal(it->help, ""); /* so that it can be printed */
    assert_ptr_equal(dz_user_option_find(app->core, "one", 3)->value, &one);
    assert_null(dz_user_option_find(app->core, "on", 2));
    assert_null(dz_user_option_find(app->core, "ones", 4));
    assert_string_equal(one, "1"); /* holds the default until it is parsed */
}

static void without_memory_for_an_option_the_app_does_not_start(void **state)
{
    (void)state;
    const char *value = NULL;
    allocs_left = 0;
    dz_app_option(app, "own", "TEXT", "", &value);
    allocs_left = -1;
    assert_null(dz_user_option_find(app->core, "own", 3));
    assert_string_equal(app->core->build_error, "own");
    assert_int_equal(dz_app_start(app, NULL), DZ_E_NOMEM);
}

static void an_option_without_a_name_or_a_place_is_a_mistake_that_is_told(void **state)
{
    (void)state;
    const char *value = NULL;
    dz_app_option(NULL, "own", NULL, "", &value); /* no app: passed over */
    dz_app_option(app, "own", NULL, "", NULL);
    assert_string_equal(app->core->build_error, "own");
    dz_app_option(app, NULL, NULL, "", &value);
    assert_null(app->core->user_options);
    assert_int_equal(dz_app_start(app, NULL), DZ_E_INVALID);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_name_can_be_an_option_and_a_variable_and_is_there_once),
        TEST(only_the_whole_name_finds_a_setting),
        TEST(the_defaults_are_values_that_could_be_set),
        TEST(each_setting_has_its_range),
        TEST(what_is_no_setting_can_t_be_set),
        TEST(a_program_s_options_are_found_by_their_whole_names),
        TEST(without_memory_for_an_option_the_app_does_not_start),
        TEST(an_option_without_a_name_or_a_place_is_a_mistake_that_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
