#include "lab/machine.h"

#include "../check.h"

/* The warnings about a machine of this governor, load and number of cores, each on a line. */
static void warnings_of(const char *governor, double load, int cores, char *text, size_t size)
{
    json_t *machine = json_pack("{s:s*, s:f, s:i}", "governor", governor, "host_load", load,
                                "usable_cores", cores);
    json_t *list = dz_lab_machine_warnings(machine), *line;
    size_t i, len = 0;
    text[0] = '\0';
    json_array_foreach(list, i, line)
    {
        int n = snprintf(text + len, size - len, "%s\n", json_string_value(line));
        len += n > 0 ? (size_t)n : 0;
    }
    json_decref(list);
    json_decref(machine);
}

static void a_quiet_machine_at_full_speed_needs_no_warning(void **state)
{
    (void)state;
    char text[1000];
    warnings_of("performance", 0.1, 2, text, sizeof text);
    assert_string_equal(text, "");
    warnings_of(NULL, 0, 2, text, sizeof text); /* most virtual machines have no governor */
    assert_string_equal(text, "");
}

static void a_governor_that_changes_the_clock_is_named(void **state)
{
    (void)state;
    char text[1000];
    warnings_of("schedutil", 0, 2, text, sizeof text);
    assert_non_null(strstr(text, "CPU frequency governor is 'schedutil'"));
}

static void a_busy_machine_and_a_single_core_are_warned_of(void **state)
{
    (void)state;
    char text[1000];
    warnings_of(NULL, 3.25, 2, text, sizeof text);
    assert_non_null(strstr(text, "load average 3.2 on 2 cores"));
    warnings_of(NULL, 0, 1, text, sizeof text);
    assert_non_null(strstr(text, "one core only"));
}

static void steal_is_a_share_of_all_time(void **state)
{
    (void)state;
    dz_lab_ticks before = {.total = 1000, .steal = 10, .idle = 500};
    dz_lab_ticks after = {.total = 1200, .steal = 15, .idle = 600};
    assert_true(dz_lab_steal_percent(before, after) == 2.5);
    assert_true(dz_lab_steal_percent(before, before) == 0);
    assert_true(dz_lab_steal_percent(before, (dz_lab_ticks){0}) == 0); /* /proc/stat went away */
}

static void this_machine_is_described(void **state)
{
    (void)state;
    json_t *machine = dz_lab_machine();
    assert_true(json_integer_value(json_object_get(machine, "cores")) >= 1);
    assert_true(json_integer_value(json_object_get(machine, "memory_mb")) > 0);
    assert_true(json_is_string(json_object_get(machine, "kernel")));
    assert_true(dz_lab_ticks_now().total > 0);
    json_decref(machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quiet_machine_at_full_speed_needs_no_warning),
        cmocka_unit_test(a_governor_that_changes_the_clock_is_named),
        cmocka_unit_test(a_busy_machine_and_a_single_core_are_warned_of),
        cmocka_unit_test(steal_is_a_share_of_all_time),
        cmocka_unit_test(this_machine_is_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
