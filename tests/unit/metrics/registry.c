#include "../check.h"

#include <donmaz/metrics.h>

#include <locale.h>
#include <math.h>
#include <pthread.h>

static char *text_of(dz_metrics *metrics)
{
    dz_buf text = {0};
    assert_int_equal(dz_metrics_write(metrics, &text), 0);
    assert_int_equal(dz_buf_append(&text, dz_slice_make("", 1)), 0);
    char *copy = strdup(text.data);
    dz_buf_release(&text);
    return copy;
}

static void assert_text(dz_metrics *metrics, const char *expected)
{
    char *text = text_of(metrics);
    assert_string_equal(text, expected);
    free(text);
}

static void counters_and_gauges_show_their_values(void **state)
{
    (void)state;
    dz_metrics *m = dz_metrics_new();
    dz_counter *hits;
    dz_gauge *open;
    assert_int_equal(
        dz_metrics_counter(m, &(dz_metric){.name = "hits_total", .help = "Hits."}, &hits), 0);
    assert_int_equal(dz_metrics_gauge(m, &(dz_metric){.name = "open", .help = "Open."}, &open), 0);
    dz_counter_add(hits, 41);
    dz_counter_add(hits, 1);
    dz_gauge_set(open, 3);
    dz_gauge_add(open, -10);
    assert_text(m, "# HELP hits_total Hits.\n# TYPE hits_total counter\nhits_total 42\n"
                   "# HELP open Open.\n# TYPE open gauge\nopen -7\n");
    dz_metrics_free(m);
}

static void labels_are_escaped_and_their_order_does_not_matter(void **state)
{
    (void)state;
    dz_metrics *m = dz_metrics_new();
    const dz_label ab[] = {{"a", "1"}, {"b", "say \"hi\"\\\n"}};
    const dz_label ba[] = {{"b", "say \"hi\"\\\n"}, {"a", "1"}};
    dz_counter *first, *second;
    assert_int_equal(
        dz_metrics_counter(m, &(dz_metric){"n_total", "Two\nlines \\.", ab, 2}, &first), 0);
    assert_int_equal(dz_metrics_counter(m, &(dz_metric){"n_total", "Other", ba, 2}, &second), 0);
    assert_ptr_equal(first, second);
    dz_counter_add(first, 1);
    assert_text(m, "# HELP n_total Two\\nlines \\\\.\n# TYPE n_total counter\n"
                   "n_total{a=\"1\",b=\"say \\\"hi\\\"\\\\\\n\"} 1\n");
    dz_metrics_free(m);
}

static double half(void *data)
{
    return *(double *)data;
}

static void functions_are_asked_when_the_text_is_written(void **state)
{
    (void)state;
    dz_metrics *m = dz_metrics_new();
    double value = 0.1;
    const dz_metric metric = {.name = "load", .help = "Load."};
    assert_int_equal(dz_metrics_gauge_fn(m, &metric, half, &value), 0);
    assert_int_equal(dz_metrics_gauge_fn(m, &metric, half, &value), DZ_E_EXISTS);
    assert_text(m, "# HELP load Load.\n# TYPE load gauge\nload 0.1\n");
    value = INFINITY;
    assert_text(m, "# HELP load Load.\n# TYPE load gauge\nload +Inf\n");
    value = NAN;
    assert_text(m, "# HELP load Load.\n# TYPE load gauge\nload NaN\n");
    value = 1.0 / 3;
    assert_text(m, "# HELP load Load.\n# TYPE load gauge\nload 0.33333333333333331\n");
    dz_metrics_forget(m, &value);
    assert_text(m, "# HELP load Load.\n# TYPE load gauge\n");
    assert_int_equal(dz_metrics_gauge_fn(m, &metric, half, &value), 0); /* free again */
    dz_metrics_free(m);
}

static void histograms_are_cumulative_and_sum_their_parts(void **state)
{
    (void)state;
    dz_metrics *m = dz_metrics_new();
    dz_histogram *one = dz_histogram_new(), *two = dz_histogram_new();
    const double bounds[] = {0.001, 0.01};
    const dz_label route[] = {{"route", "/x"}};
    const dz_metric metric = {"wait_seconds", "Wait.", route, 1};
    assert_int_equal(dz_metrics_histogram(m, &metric, one, 1e-9, bounds, 2), 0);
    assert_int_equal(dz_metrics_histogram(m, &metric, two, 1e-9, bounds, 2), 0);
    assert_int_equal(dz_metrics_histogram(m, &metric, two, 1e-9, bounds, 2), DZ_E_EXISTS);
    dz_histogram_record(one, 500000);
    dz_histogram_record(one, 1000000); /* exactly at a bound: belongs to it */
    dz_histogram_record(two, 5000000);
    dz_histogram_record(two, 2000000000);
    assert_text(m, "# HELP wait_seconds Wait.\n# TYPE wait_seconds histogram\n"
                   "wait_seconds_bucket{route=\"/x\",le=\"0.001\"} 2\n"
                   "wait_seconds_bucket{route=\"/x\",le=\"0.01\"} 3\n"
                   "wait_seconds_bucket{route=\"/x\",le=\"+Inf\"} 4\n"
                   "wait_seconds_sum{route=\"/x\"} 2.0065\n"
                   "wait_seconds_count{route=\"/x\"} 4\n");
    dz_metrics_forget(m, one);
    dz_metrics_forget(m, two);
    dz_histogram_free(one);
    dz_histogram_free(two);
    assert_text(m, "# HELP wait_seconds Wait.\n# TYPE wait_seconds histogram\n");
    dz_metrics_free(m);
}

static void bad_names_labels_and_bounds_are_refused(void **state)
{
    (void)state;
    dz_metrics *m = dz_metrics_new();
    dz_counter *c;
    dz_gauge *g;
    const char *const names[] = {NULL, "", "1a", "a-b", "a b", "\xc3\xa9"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(dz_metrics_counter(m, &(dz_metric){.name = names[i]}, &c), DZ_E_INVALID);
    const dz_label bad[] = {{"__a", "x"}, {"a:b", "x"}, {"", "x"}, {"a", "\xff"}, {"a", NULL}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(dz_metrics_counter(m, &(dz_metric){"ok", "", &bad[i], 1}, &c),
                         DZ_E_INVALID);
    const dz_label twice[] = {{"a", "1"}, {"a", "2"}};
    assert_int_equal(dz_metrics_counter(m, &(dz_metric){"ok", "", twice, 2}, &c), DZ_E_INVALID);
    dz_histogram *h = dz_histogram_new();
    const dz_label le[] = {{"le", "1"}};
    assert_int_equal(dz_metrics_histogram(m, &(dz_metric){"h", "", le, 1}, h, 1, NULL, 0),
                     DZ_E_INVALID);
    const double down[] = {2, 1};
    assert_int_equal(dz_metrics_histogram(m, &(dz_metric){.name = "h"}, h, 1, down, 2),
                     DZ_E_INVALID);
    assert_int_equal(dz_metrics_histogram(m, &(dz_metric){.name = "h"}, h, 0, NULL, 0),
                     DZ_E_INVALID);
    assert_int_equal(dz_metrics_gauge(m, &(dz_metric){.name = "ok"}, &g), 0);
    assert_int_equal(dz_metrics_counter(m, &(dz_metric){.name = "ok"}, &c), DZ_E_EXISTS);
    assert_text(m, "# HELP ok \n# TYPE ok gauge\nok 0\n"); /* the refused left nothing behind */
    dz_histogram_free(h);
    dz_metrics_free(m);
}

static void a_histograms_own_sample_names_are_taken(void **state)
{
    (void)state;
    dz_metrics *m = dz_metrics_new();
    dz_histogram *h = dz_histogram_new();
    dz_counter *c;
    assert_int_equal(dz_metrics_histogram(m, &(dz_metric){.name = "h"}, h, 1, NULL, 0), 0);
    assert_int_equal(dz_metrics_counter(m, &(dz_metric){.name = "h_count"}, &c), DZ_E_EXISTS);
    assert_int_equal(dz_metrics_counter(m, &(dz_metric){.name = "x_sum"}, &c), 0);
    assert_int_equal(dz_metrics_histogram(m, &(dz_metric){.name = "x"}, h, 1, NULL, 0),
                     DZ_E_EXISTS);
    dz_metrics_free(m);
    dz_histogram_free(h);
}

enum { THREADS = 8, EACH = 20000 };

static void *add_many(void *counter)
{
    for (int i = 0; i < EACH; i++)
        dz_counter_add(counter, 1);
    return NULL;
}

static void counters_lose_nothing_between_threads(void **state)
{
    (void)state;
    dz_metrics *m = dz_metrics_new();
    dz_counter *c;
    assert_int_equal(dz_metrics_counter(m, &(dz_metric){.name = "n_total"}, &c), 0);
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, c), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(dz_counter_value(c), THREADS * EACH);
    dz_metrics_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_and_gauges_show_their_values),
        cmocka_unit_test(labels_are_escaped_and_their_order_does_not_matter),
        cmocka_unit_test(functions_are_asked_when_the_text_is_written),
        cmocka_unit_test(histograms_are_cumulative_and_sum_their_parts),
        cmocka_unit_test(bad_names_labels_and_bounds_are_refused),
        cmocka_unit_test(a_histograms_own_sample_names_are_taken),
        cmocka_unit_test(counters_lose_nothing_between_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
