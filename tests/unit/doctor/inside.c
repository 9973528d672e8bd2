/* What a donmaz server tells of itself, from readings to a verdict. */
#include "../check.h"

#include <doctor/judge.h>

#include <base/clock.h>

/* A server of one loop with one route, whose counts a test moves on. */
typedef struct server {
    dz_inside_seen seen;
    dz_exposition now, before;
    uint64_t at;
} server;

static server *serve(void)
{
    server *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->at = 100 * DZ_SEC;
    s->now.loop_count = s->now.route_count = 1;
    memcpy(s->now.routes[0].name, "GET /a", 7);
    dz_inside_add(&s->seen, &s->before, &s->now, s->at);
    return s;
}

/* In 50 ms: so many requests of `cpu` ms that hold their thread for `held` and take `took`. */
static void pass(server *s, int requests, double cpu, double held, double took)
{
    dz_expo_route *r = &s->now.routes[0];
    r->requests += requests;
    r->cpu_ms += requests * cpu;
    r->cpu_ms_squared += requests * cpu * cpu;
    r->handler_ms += requests * held;
    r->duration_ms += requests * took;
    dz_expo_loop *l = &s->now.loops[0];
    if (held >= 1) {
        l->stalls += requests;
        l->stall_ms += requests * held;
        l->short_stalls += held <= DZ_EXPO_STALL_MS ? requests : 0;
    }
    l->delay_ms = held / 2;
    s->at += 50 * DZ_MS;
    dz_inside_add(&s->seen, &s->before, &s->now, s->at);
}

static void judge(server *s, dz_facts *f, dz_diagnosis *d)
{
    *f = (dz_facts){.from = 100 * DZ_SEC, .to = s->at, .cores = 2};
    f->seconds = (double)(f->to - f->from) / 1e9;
    f->demand = (dz_demand){.running = 1, .wanted = 1, .ready = 1, .busiest = 1, .machine = 2};
    f->load = (dz_load_facts){.known = true, .requests = 100, .rps = 50, .p50_ms = 100};
    dz_facts_inside(&f->inside, &s->seen, f->from, f->to);
    dz_judge(d, f);
}

static void end(server *s)
{
    dz_inside_forget(&s->seen);
    free(s);
}

static bool says(const dz_diagnosis *d, const char *text)
{
    for (size_t i = 0; i < d->evidence_count; i++)
        if (strstr(d->evidence[i], text))
            return true;
    return false;
}

static void a_handler_that_computes_is_named_by_its_route(void **state)
{
    (void)state;
    static dz_facts f;
    dz_diagnosis d;
    server *s = serve();
    for (int i = 0; i < 40; i++)
        pass(s, 1, 30, 45, 300); /* a third of the time without a core */
    judge(s, &f, &d);
    assert_int_equal(d.verdict, DZ_VERDICT_BLOCKED);
    assert_true(says(&d, "GET /a: each of 40 requests computed 30.0 ms"));
    assert_float_equal(f.inside.routes[0].sync_ms, 30, 1e-6);
    assert_float_equal(f.inside.routes[0].sync_deviation_ms, 0, 1e-3);
    assert_float_equal(f.inside.stalled, 0.9, 0.1);
    end(s);
}

/* Others' programs keep its thread waiting in each handler, but these have next to nothing to do.
 */
static void a_starved_loop_of_cheap_requests_is_not_blocked(void **state)
{
    (void)state;
    static dz_facts f;
    dz_diagnosis d;
    server *s = serve();
    for (int i = 0; i < 40; i++)
        pass(s, 1, 0.7, 40, 300);
    judge(s, &f, &d);
    f.demand.waiting = 0.9;
    f.demand.running = 0.1;
    dz_judge(&d, &f);
    assert_int_not_equal(d.verdict, DZ_VERDICT_BLOCKED);
    end(s);
}

static void few_long_handlers_among_many_quick_ones_are_found(void **state)
{
    (void)state;
    static dz_facts f;
    dz_diagnosis d;
    server *s = serve();
    for (int i = 0; i < 40; i++) {
        pass(s, 100, 0.0001, 0.0001, 5);
        if (i % 8 == 0)
            pass(s, 1, 130, 131, 131);
    }
    judge(s, &f, &d);
    assert_int_equal(d.verdict, DZ_VERDICT_BLOCKED);
    assert_true(f.inside.routes[0].sync_ms < 5);
    assert_true(says(&d, "in pieces of about 130 ms"));
    end(s);
}

static void a_call_that_waits_is_told_from_computing(void **state)
{
    (void)state;
    static dz_facts f;
    dz_diagnosis d;
    server *s = serve();
    for (int i = 0; i < 40; i++)
        pass(s, 1, 0.05, 45, 300);
    judge(s, &f, &d);
    assert_int_equal(d.verdict, DZ_VERDICT_BLOCKED);
    assert_true(says(&d, "synchronous call"));
    end(s);
}

static void a_rescued_handler_leaves_the_loop_free(void **state)
{
    (void)state;
    static dz_facts f;
    dz_diagnosis d;
    server *s = serve();
    s->now.routes[0].klass = 2;
    for (int i = 0; i < 40; i++) {
        pass(s, 1, 30, 0, 60); /* held: not its loop */
        s->now.routes[0].handler_ms += 40;
        s->now.loops[0].rescues++;
    }
    judge(s, &f, &d);
    assert_int_not_equal(d.verdict, DZ_VERDICT_BLOCKED);
    end(s);
}

static void a_loop_that_never_comes_back_is_hung_a_long_tick_is_not(void **state)
{
    (void)state;
    static dz_facts f;
    dz_diagnosis d;
    server *s = serve();
    for (int i = 0; i < 20; i++)
        pass(s, 1, 0.1, 0.1, 1);
    for (int i = 0; i < 30; i++) {
        s->now.loops[0].delay_ms = 50 * i;
        s->at += 50 * DZ_MS;
        dz_inside_add(&s->seen, &s->before, &s->now, s->at);
    }
    judge(s, &f, &d);
    assert_true(f.inside.hung_ms >= 1000);
    assert_int_equal(d.verdict, DZ_VERDICT_BLOCKED);
    assert_true(says(&d, "had not come back"));
    s->now.routes[0].requests += 50; /* it answers all the while */
    s->at += 50 * DZ_MS;
    s->now.loops[0].delay_ms = 1500;
    dz_inside_add(&s->seen, &s->before, &s->now, s->at);
    judge(s, &f, &d);
    assert_float_equal(f.inside.hung_ms, 0, 0);
    end(s);
}

static void waiting_for_an_outside_service_is_told_without_the_load(void **state)
{
    (void)state;
    static dz_facts f;
    dz_diagnosis d;
    server *s = serve();
    for (int i = 0; i < 40; i++)
        pass(s, 4, 0.05, 0.06, 120);
    judge(s, &f, &d);
    f.load.known = false;
    f.demand.busiest = f.demand.running = 0.1;
    dz_judge(&d, &f);
    assert_int_equal(d.verdict, DZ_VERDICT_WAITING);
    assert_true(says(&d, "GET /a: 120 ms"));
    end(s);
}

/* A worker process that was replaced begins at zero. */
static void counters_that_begin_anew_do_no_harm(void **state)
{
    (void)state;
    static dz_facts f;
    server *s = serve();
    for (int i = 0; i < 10; i++)
        pass(s, 5, 1, 1, 2);
    memset(&s->now.routes[0].requests, 0, sizeof *s->now.routes - DZ_EXPO_NAME);
    s->now.loops[0] = (dz_expo_loop){0};
    for (int i = 0; i < 10; i++)
        pass(s, 2, 1, 1, 2);
    dz_facts_inside(&f.inside, &s->seen, 100 * DZ_SEC, s->at);
    assert_true(f.inside.known);
    assert_true(f.inside.requests > 0 && f.inside.cpu_ms >= 0 && f.inside.stalls >= 0);
    dz_facts_inside(&f.inside, &(dz_inside_seen){0}, 0, 1);
    assert_false(f.inside.known);
    end(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handler_that_computes_is_named_by_its_route),
        cmocka_unit_test(a_starved_loop_of_cheap_requests_is_not_blocked),
        cmocka_unit_test(few_long_handlers_among_many_quick_ones_are_found),
        cmocka_unit_test(a_call_that_waits_is_told_from_computing),
        cmocka_unit_test(a_rescued_handler_leaves_the_loop_free),
        cmocka_unit_test(a_loop_that_never_comes_back_is_hung_a_long_tick_is_not),
        cmocka_unit_test(waiting_for_an_outside_service_is_told_without_the_load),
        cmocka_unit_test(counters_that_begin_anew_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
