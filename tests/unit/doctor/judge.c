#include "../check.h"

#include <doctor/judge.h>
#include <doctor/trend.h>

/* A loop with nothing wrong, in a window of five seconds. */
static void healthy(dz_facts *f)
{
    *f = (dz_facts){.seconds = 5, .cores = 4, .loop_count = 1};
    f->demand = (dz_demand){.running = 0.5, .wanted = 0.6, .machine = 1};
    f->loops[0] = (dz_loop_facts){.role = "main",
                                  .seconds = 5,
                                  .samples = 450,
                                  .utilisation = 0.4,
                                  .delay_p90_ms = 1,
                                  .stall_cpu = -1,
                                  .heap_start_mb = 10,
                                  .heap_end_mb = 11,
                                  .requests = 1000,
                                  .request_ms = 2,
                                  .sync_ms = 1};
}

static dz_diagnosis judged(const dz_facts *f)
{
    dz_diagnosis d;
    dz_judge(&d, f);
    assert_true(d.evidence_count > 0);
    assert_true(d.advice_count > 0);
    return d;
}

#define assert_verdict(facts, name)                                                                \
    assert_string_equal(dz_verdict_name(judged(facts).verdict), name)

static void verdicts_follow_their_thresholds(void **state)
{
    (void)state;
    dz_facts f;
    healthy(&f);
    assert_verdict(&f, "healthy");

    healthy(&f);
    f.seconds = 0.4;
    assert_verdict(&f, "not-enough-data");

    healthy(&f);
    f.loops[0].requests = 0;
    f.demand.running = 0.01;
    assert_verdict(&f, "not-enough-data");

    healthy(&f);
    f.loops[0].stalls = 5;
    f.loops[0].stalled = 0.2;
    f.loops[0].single = 1;
    assert_verdict(&f, "blocked-loop");
    f.loops[0].stall_gc = 0.8;
    f.loops[0].gc = 0.1;
    assert_verdict(&f, "garbage-collection");

    healthy(&f);
    f.demand.wanted = 5;
    f.demand.waiting = 0.4;
    assert_verdict(&f, "too-few-cores");

    healthy(&f);
    f.loops[0].heap_end_mb = 40;
    f.loops[0].floor_late_mb = 15;
    assert_verdict(&f, "memory-growth");

    healthy(&f);
    f.loops[0].request_ms = 120;
    assert_verdict(&f, "waiting-for-io");

    healthy(&f);
    f.loops[0].utilisation = 0.99;
    f.loops[0].delay_p90_ms = 60;
    f.loops[0].requests = 8000;
    f.loops[0].sync_ms = 0.6;
    assert_verdict(&f, "overloaded");
}

static void near_misses_stay_healthy(void **state)
{
    (void)state;
    dz_facts f;
    healthy(&f);
    f.loops[0].stalls = 1; /* once is a hiccup */
    f.loops[0].stalled = 0.2;
    f.loops[0].single = 1;
    assert_verdict(&f, "healthy");

    healthy(&f);
    f.loops[0].heap_end_mb = 40; /* a cache that has filled up */
    f.loops[0].floor_late_mb = 0.5;
    assert_verdict(&f, "healthy");

    healthy(&f);
    f.loops[0].utilisation = 1; /* full, but nobody waits long */
    f.loops[0].delay_p90_ms = 5;
    f.loops[0].requests = 50000;
    f.loops[0].sync_ms = 0.1;
    assert_verdict(&f, "healthy");
}

static void what_hardly_ran_is_not_called_healthy(void **state)
{
    (void)state;
    dz_facts f;
    healthy(&f);
    f.demand.busiest = 0.9;
    f.demand.running = 0.02;
    dz_diagnosis d = judged(&f);
    assert_int_equal(d.verdict, DZ_VERDICT_NO_DATA);
    assert_non_null(strstr(d.evidence[0], "wanted a core 90% of the time"));
    f.demand.running = 0.2; /* enough to see */
    assert_verdict(&f, "healthy");
    f.demand.running = 0.02;
    f.loops[0].hung = true; /* what was seen all the same holds */
    assert_verdict(&f, "blocked-loop");
}

static void a_hung_loop_is_blocked_and_named(void **state)
{
    (void)state;
    dz_facts f;
    healthy(&f);
    f.loops[0].hung = true;
    f.loops[0].culprit = (dz_culprit){.known = true, .share = 1, .name = "spin", .line = 7};
    memcpy(f.loops[0].culprit.file, "/srv/a.js", 10);
    dz_diagnosis d = judged(&f);
    assert_int_equal(d.verdict, DZ_VERDICT_BLOCKED);
    bool named = false;
    for (size_t i = 0; i < d.evidence_count; i++)
        named |= strstr(d.evidence[i], "spin (/srv/a.js:7)") != NULL;
    assert_true(named);
}

static void a_saw_that_does_not_rise_is_no_trend(void **state)
{
    (void)state;
    dz_trend t;
    dz_trend_begin(&t, 0, 12000);
    for (uint64_t i = 0; i <= 12000; i += 10)
        dz_trend_add(&t, i, 50 + (double)(i % 400) / 10);
    dz_trend_end(&t);
    assert_true(t.rise < 5);
    assert_false(t.steady);
    dz_trend_begin(&t, 0, 12000);
    for (uint64_t i = 0; i <= 12000; i += 10)
        dz_trend_add(&t, i, 50 + (double)(i % 400) / 10 + (double)i / 100);
    dz_trend_end(&t);
    assert_true(t.rise > 100);
    assert_true(t.late > 40);
    assert_true(t.steady);
}

/* A program that is not Node, loaded, with nothing wrong. */
static void healthy_outside(dz_facts *f)
{
    *f = (dz_facts){.seconds = 5, .cores = 4};
    f->demand = (dz_demand){.running = 0.4, .wanted = 0.4, .ready = 0.4, .machine = 1};
    f->demand.busiest = 0.4;
    f->load = (dz_load_facts){.known = true, .requests = 5000, .rps = 1000, .p50_ms = 2};
    f->probe = (dz_probe_facts){.count = 90, .answered = 90, .p50_ms = 0.2, .p90_ms = 0.4};
}

static void late_probe(dz_facts *f)
{
    f->probe.late = 30;
    f->probe.stalled = 0.4;
    f->probe.max_ms = 200;
}

static void full_thread(dz_facts *f)
{
    f->demand.running = f->demand.wanted = f->demand.ready = f->demand.busiest = 1;
}

static void programs_are_judged_from_outside(void **state)
{
    (void)state;
    dz_facts f;
    healthy_outside(&f);
    assert_verdict(&f, "healthy");

    healthy_outside(&f); /* heavy requests, one at a time */
    full_thread(&f);
    late_probe(&f);
    f.load.rps = 30;
    f.load.p50_ms = 300;
    assert_verdict(&f, "blocked-loop");

    healthy_outside(&f); /* the same without a probe */
    full_thread(&f);
    f.probe = (dz_probe_facts){0};
    f.load.rps = 30;
    f.load.p50_ms = 300;
    assert_verdict(&f, "blocked-loop");

    healthy_outside(&f); /* half of the requests are quick: something else stops the loop */
    late_probe(&f);
    assert_verdict(&f, "blocked-loop");

    healthy_outside(&f); /* nothing computes, and yet it does not answer: a synchronous call */
    late_probe(&f);
    f.demand.busiest = 0.02;
    f.load.rps = 16;
    f.load.p50_ms = 300;
    assert_verdict(&f, "blocked-loop");

    healthy_outside(&f); /* many cheap requests: late only because of the queue */
    full_thread(&f);
    late_probe(&f);
    f.load.rps = 1300;
    f.load.p50_ms = 70;
    assert_verdict(&f, "overloaded");

    healthy_outside(&f); /* workers, all cores full, the loop free */
    full_thread(&f);
    f.demand.ready = f.demand.wanted = f.demand.running = 4;
    f.load.rps = 100;
    f.load.p50_ms = 400;
    assert_verdict(&f, "overloaded");

    healthy_outside(&f); /* the same with more threads than cores */
    full_thread(&f);
    late_probe(&f);
    f.demand.ready = f.demand.wanted = 9;
    f.demand.waiting = 0.5;
    f.load.rps = 100;
    f.load.p50_ms = 400;
    assert_verdict(&f, "too-few-cores");

    healthy_outside(&f);
    f.load.p50_ms = 120;
    assert_verdict(&f, "waiting-for-io");
}

static void from_outside_near_misses_stay_healthy(void **state)
{
    (void)state;
    dz_facts f;
    healthy_outside(&f); /* full, but nobody waits long */
    full_thread(&f);
    f.load.rps = 20000;
    assert_verdict(&f, "healthy");

    healthy_outside(&f); /* one hiccup */
    f.probe.late = 1;
    f.probe.stalled = 0.08;
    assert_verdict(&f, "healthy");

    healthy_outside(&f); /* heavy requests on another thread: the loop answers */
    full_thread(&f);
    f.load.rps = 100;
    f.load.p50_ms = 10;
    assert_verdict(&f, "healthy");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts_follow_their_thresholds),
        cmocka_unit_test(near_misses_stay_healthy),
        cmocka_unit_test(what_hardly_ran_is_not_called_healthy),
        cmocka_unit_test(a_hung_loop_is_blocked_and_named),
        cmocka_unit_test(programs_are_judged_from_outside),
        cmocka_unit_test(from_outside_near_misses_stay_healthy),
        cmocka_unit_test(a_saw_that_does_not_rise_is_no_trend),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
