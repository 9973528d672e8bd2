/* Writes one registry with everything in it to stdout, in the user's locale, for the Python test
 * to parse. */
#include <donmaz/metrics.h>

#include <locale.h>
#include <math.h>
#include <stdio.h>

static double constant(void *data)
{
    return *(const double *)data;
}

int main(void)
{
    static double values[] = {0.25, -1.5e300, INFINITY, NAN};
    static const char *const names[] = {"quarter", "vast", "endless", "undefined"};
    setlocale(LC_ALL, "");
    dz_metrics *m = dz_metrics_new();
    dz_counter *c;
    dz_gauge *g;
    const dz_label odd[] = {{"route", "/a \"b\"\\c\nd"}, {"m\x65thod", "G\xc3\x8bT"}};
    if (!m || dz_metrics_counter(m, &(dz_metric){"requests_total", "Answered.", odd, 2}, &c) < 0 ||
        dz_metrics_counter(m, &(dz_metric){.name = "requests_total"}, &c) < 0 ||
        dz_metrics_gauge(m, &(dz_metric){.name = "open_connections", .help = "A \\ B\nC"}, &g) < 0)
        return 1;
    dz_counter_add(c, 3);
    dz_gauge_set(g, -4);
    for (size_t i = 0; i < 4; i++)
        if (dz_metrics_gauge_fn(m, &(dz_metric){.name = names[i], .help = "Number."}, constant,
                                &values[i]) < 0)
            return 1;
    dz_histogram *h = dz_histogram_new();
    for (uint64_t v = 1; v <= 20000000000; v = v * 3 / 2 + 1)
        dz_histogram_record(h, v);
    if (dz_metrics_histogram(m, &(dz_metric){"wait_seconds", "Wait.", odd, 1}, h, 1e-9, NULL, 0) <
        0)
        return 1;
    dz_buf text = {0};
    if (dz_metrics_write(m, &text) < 0 || fwrite(text.data, 1, text.len, stdout) != text.len)
        return 1;
    dz_buf_release(&text);
    dz_metrics_free(m);
    dz_histogram_free(h);
    return 0;
}
