/* What is said when a service can't start. */
#include "../check.h"

#include "cluster/start.h"

#include <donmaz/error.h>

#include <errno.h>

static dz_core core;

static const char *explained(int error)
{
    static char text[300];
    core.settings.host = "10.1.2.3";
    core.settings.port = 80;
    dz_explain_listen(&core, error, text, sizeof text);
    return text;
}

static void an_address_that_can_t_be_had_comes_with_what_to_do(void **state)
{
    (void)state;
    static const struct {
        int error;
        const char *advice;
    } rows[] = {{-EADDRINUSE, "choose another --port"},
                {-EACCES, "choose a higher --port"},
                {-EADDRNOTAVAIL, "check --host"},
                {-ENETDOWN, "see --host and --port"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *text = explained(rows[i].error);
        assert_non_null(strstr(text, "can't listen on 10.1.2.3 port 80: "));
        assert_non_null(strstr(text, rows[i].advice));
    }
}

static void a_limit_of_threads_is_not_the_address_s_fault(void **state)
{
    (void)state;
    const char *text = explained(DZ_E_NO_THREAD);
    assert_non_null(strstr(text, "no thread could be started"));
    assert_non_null(strstr(text, "ulimit -u"));
    assert_null(strstr(text, "--port"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_that_can_t_be_had_comes_with_what_to_do),
        cmocka_unit_test(a_limit_of_threads_is_not_the_address_s_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
