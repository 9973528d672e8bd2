#include "../../check.h"

#include "load/build.h"
#include "load/conn.h"

/* Builds the plan of a command line. */
static int plan_of(load_plan *plan, load_cli *cli, const char *const *args)
{
    static char *argv[24];
    int argc = 0;
    for (; args[argc]; argc++)
        memcpy(&argv[argc], &args[argc], sizeof argv[0]);
    argv[argc] = NULL;
    int rc = load_cli_parse(cli, argc, argv);
    return rc == DZ_OPTIONS_OK ? load_plan_from_cli(plan, cli, NULL) : rc;
}

#define PLAN(plan, cli, ...) plan_of(plan, cli, (const char *const[]){"load", __VA_ARGS__, NULL})

static void totals_are_split_exactly_over_urls_and_threads(void **state)
{
    (void)state;
    load_plan plan;
    load_cli cli;
    assert_int_equal(PLAN(&plan, &cli, "-c", "13", "-w", "4", "-a", "1001", "-R", "700",
                          "http://h/a@2", "http://h/b", "http://h/c@3"),
                     DZ_OPTIONS_OK);
    assert_int_equal(plan.connections, 18);
    assert_int_equal(plan.origin_count, 1);
    uint64_t amount = 0;
    double rate = 0;
    for (size_t i = 0; i < plan.group_count; i++) {
        amount += plan.groups[i].amount;
        rate += plan.groups[i].rate;
    }
    assert_int_equal(amount, 1001);
    assert_true(rate > 699.999 && rate < 700.001);

    load_shared shared = {.plan = &plan, .start = 1000, .counting = 1000, .end = UINT64_MAX};
    size_t connections = 0;
    uint64_t budgets = 0;
    for (size_t t = 0; t < plan.threads; t++) {
        load_engine *engine = load_engine_new(&shared, t);
        assert_non_null(engine);
        assert_true(engine->conn_count >= 3);
        connections += engine->conn_count;
        for (size_t g = 0; g < plan.group_count; g++)
            budgets += engine->groups[g].budget;
        load_engine_free(engine);
    }
    assert_int_equal(connections, 18);
    assert_int_equal(budgets, 1001);
    load_plan_free(&plan);
    load_cli_free(&cli);
}

static int compare_times(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* All due times of all threads together must be one even schedule. */
static void check_schedule(const char *option)
{
    load_plan plan;
    load_cli cli;
    assert_int_equal(PLAN(&plan, &cli, "-c", "6", "-w", "3", "-R", "1000", option, "http://h/"),
                     DZ_OPTIONS_OK);
    load_shared shared = {.plan = &plan, .start = 5000, .counting = 5000, .end = UINT64_MAX};
    enum { EACH = 60, MOST = 6 * EACH };
    uint64_t times[MOST];
    size_t count = 0;
    for (size_t t = 0; t < plan.threads; t++) {
        load_engine *engine = load_engine_new(&shared, t);
        assert_non_null(engine);
        size_t pacers = plan.shared_schedule ? 1 : engine->conn_count;
        for (size_t p = 0; p < pacers; p++) {
            const load_pacer *pacer = &engine->groups[0].pacers[p];
            for (size_t k = 0; k < EACH; k++)
                times[count++] = pacer->base + (uint64_t)((double)k * pacer->interval);
        }
        load_engine_free(engine);
    }
    qsort(times, count, sizeof *times, compare_times);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(times[i], 5000 + i * 1000000);
    load_plan_free(&plan);
    load_cli_free(&cli);
}

static void threads_and_connections_interleave_into_one_even_schedule(void **state)
{
    (void)state;
    check_schedule("--open");
    check_schedule("-n"); /* a flag that changes nothing here: a schedule a connection */
}

static void fields_split_at_the_colon_first(void **state)
{
    (void)state;
    load_field f;
    assert_true(load_field_parse("A: b=c", &f));
    assert_slice(f.name, "A");
    assert_slice(f.value, "b=c");
    assert_true(load_field_parse("A=b:c", &f));
    assert_slice(f.name, "A");
    assert_slice(f.value, "b:c");
    assert_false(load_field_parse("A", &f));
    assert_false(load_field_parse("A: b\nC: d", &f));
    assert_false(load_field_parse("", &f));
}

static void urls_are_taken_apart(void **state)
{
    (void)state;
    load_url u;
    const char *why;
    assert_int_equal(load_url_parse("https://[::1]:8443/a?b#c@3", &u, &why), 0);
    assert_true(u.tls);
    assert_slice(u.host, "::1");
    assert_slice(u.port, "8443");
    assert_slice(u.path, "/a?b");
    assert_int_equal(u.connections, 3);
    char *text = load_url_print(&u);
    assert_string_equal(text, "https://[::1]:8443/a?b");
    free(text);
    assert_int_equal(load_url_parse("example.com:81", &u, &why), 0);
    assert_slice(u.host, "example.com");
    assert_slice(u.port, "81");
    assert_int_equal(u.path.len, 0);
    assert_int_equal(load_url_parse("http://h?q=http://x/@y", &u, &why), 0);
    assert_slice(u.host, "h");
    assert_slice(u.path, "?q=http://x/@y");
    assert_int_equal(load_url_parse("/only/path", &u, &why), 0);
    assert_int_equal(u.host.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(totals_are_split_exactly_over_urls_and_threads),
        cmocka_unit_test(threads_and_connections_interleave_into_one_even_schedule),
        cmocka_unit_test(fields_split_at_the_colon_first), cmocka_unit_test(urls_are_taken_apart)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
