#include "../check.h"

#include <flame/perf.h>

#include <errno.h>

static void says(int error, bool kernel, int paranoid, const char *want)
{
    char text[256];
    dz_perf_explain_at(error, kernel, paranoid, text, sizeof text);
    if (want)
        assert_non_null(strstr(text, want));
    else
        assert_string_equal(text, "");
}

static void what_is_not_allowed_is_said_with_the_command_that_allows_it(void **state)
{
    (void)state;
    for (int paranoid = 3; paranoid <= 4; paranoid++) /* Debian's and Ubuntu's additions */
        for (int i = 0; i < 2; i++)
            says(i ? -EACCES : -EPERM, false, paranoid, "sudo sysctl kernel.perf_event_paranoid=2");
    says(-EACCES, false, 3, "kernel.perf_event_paranoid is 3");
    says(0, false, 2, "sudo sysctl kernel.perf_event_paranoid=1");
    says(-EACCES, false, 2, "belongs to another user");
    says(-EMFILE, false, 2, "ulimit -n");
    says(-ENOSYS, false, 0, "has no perf events");
    says(-EIO, false, 0, "no native stacks");
}

static void nothing_is_said_when_all_is_well(void **state)
{
    (void)state;
    says(0, true, 1, NULL);
    says(0, true, 4, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_allowed_is_said_with_the_command_that_allows_it),
        cmocka_unit_test(nothing_is_said_when_all_is_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
