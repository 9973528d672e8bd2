/* --fail-if: "p99>50ms", "rps<1000", "errors>0", "error_rate>1%". */
#include "load/report.h"

#include "common/format.h"
#include "common/values.h"

#include <donmaz/error.h>

#include <math.h>

typedef enum unit { UNIT_TIME, UNIT_COUNT, UNIT_SHARE, UNIT_BYTES } unit;

typedef struct condition {
    dz_slice metric;
    unit unit;
    double percentile; /* of "pNN"; negative otherwise */
    char op[3];
    double limit; /* ns, count, or a share of 1 */
} condition;

static const struct {
    const char *name;
    unit unit;
} metrics[] = {
    {"mean", UNIT_TIME},        {"average", UNIT_TIME},     {"min", UNIT_TIME},
    {"max", UNIT_TIME},         {"stddev", UNIT_TIME},      {"rps", UNIT_COUNT},
    {"requests", UNIT_COUNT},   {"errors", UNIT_COUNT},     {"timeouts", UNIT_COUNT},
    {"non2xx", UNIT_COUNT},     {"mismatches", UNIT_COUNT}, {"unexpected", UNIT_COUNT},
    {"error_rate", UNIT_SHARE}, {"in_flight", UNIT_COUNT},  {"throughput", UNIT_BYTES},
};

enum { METRICS = sizeof metrics / sizeof metrics[0] };

static dz_slice trim(dz_slice s)
{
    while (s.len > 0 && s.ptr[0] == ' ')
        s = dz_slice_make(s.ptr + 1, s.len - 1);
    while (s.len > 0 && s.ptr[s.len - 1] == ' ')
        s.len--;
    return s;
}

static bool read_metric(dz_slice text, condition *c)
{
    c->metric = text;
    c->percentile = -1;
    for (size_t i = 0; i < METRICS; i++) {
        if (dz_slice_equal(text, dz_slice_of(metrics[i].name))) {
            c->unit = metrics[i].unit;
            return true;
        }
    }
    /* p99, p99.9, p99_9 */
    char digits[16];
    if (text.len < 2 || text.len > sizeof digits || text.ptr[0] != 'p')
        return false;
    for (size_t i = 1; i < text.len; i++)
        digits[i - 1] = (char)(text.ptr[i] == '_' ? '.' : text.ptr[i]);
    c->unit = UNIT_TIME;
    return dz_read_number(dz_slice_make(digits, text.len - 1), &c->percentile) == 0 &&
           c->percentile >= 0 && c->percentile <= 100;
}

static bool read_limit(dz_slice text, condition *c)
{
    uint64_t value = 0;
    bool percent = text.len > 1 && text.ptr[text.len - 1] == '%';
    switch (c->unit) {
    case UNIT_TIME: {
        /* A bare number would be seconds everywhere else and milliseconds in autocannon's JSON:
         * better to ask. */
        char last = (char)(text.len > 0 ? text.ptr[text.len - 1] : '\0');
        bool has_unit = last == 's' || last == 'm' || last == 'h';
        if (!has_unit || dz_read_duration(text, &value) < 0)
            return false;
        c->limit = (double)value;
        return true;
    }
    case UNIT_BYTES:
        if (dz_read_bytes(text, &value) < 0)
            return false;
        c->limit = (double)value;
        return true;
    case UNIT_SHARE:
        if (dz_read_number(dz_slice_make(text.ptr, text.len - percent), &c->limit) < 0)
            return false;
        c->limit = percent ? c->limit / 100 : c->limit;
        return true;
    default:
        return dz_read_number(text, &c->limit) == 0;
    }
}

static int read_condition(const char *expression, condition *c)
{
    size_t name = strcspn(expression, "<>=!");
    size_t op = strspn(expression + name, "<>=!");
    if (op < 1 || op > 2)
        return dz_usage(LOAD_TOOL, "--fail-if wants something like 'p99>50ms', not '%s'",
                        expression);
    memcpy(c->op, expression + name, op);
    c->op[op] = '\0';
    dz_slice written = dz_slice_make(c->op, op);
    if (dz_slice_equal(written, DZ_LIT("=")) || dz_slice_equal(written, DZ_LIT("!")) ||
        (op == 2 && c->op[1] != '='))
        return dz_usage(LOAD_TOOL, "--fail-if compares by >, >=, <, <=, == or !=, not '%s'", c->op);
    dz_slice metric = trim(dz_slice_make(expression, name));
    if (!read_metric(metric, c)) {
        const char *names[METRICS];
        for (size_t i = 0; i < METRICS; i++)
            names[i] = metrics[i].name;
        const char *nearest = dz_nearest_name(metric, names, METRICS);
        return dz_usage(LOAD_TOOL,
                        "--fail-if knows no '%.*s'%s%s%s; p50 ... p99.999, mean, max, rps, "
                        "errors, error_rate and others can be judged",
                        (int)metric.len, metric.ptr, nearest ? " (did you mean '" : "",
                        nearest ? nearest : "", nearest ? "'?)" : "");
    }
    dz_slice limit = trim(dz_slice_of(expression + name + op));
    if (!read_limit(limit, c))
        return dz_usage(LOAD_TOOL, "--fail-if '%s': '%.*s' is not %s", expression, (int)limit.len,
                        limit.ptr,
                        c->unit == UNIT_TIME    ? "a time with its unit, such as 50ms"
                        : c->unit == UNIT_SHARE ? "a share such as 0.01 or 1%"
                                                : "a number");
    return DZ_OPTIONS_OK;
}

static double ratio(double part, double all)
{
    return all > 0 ? part / all : 0;
}

static double measured(const load_result *r, const condition *c)
{
    const load_sample *s = load_result_latency(r);
    const load_totals *t = &r->totals;
    double failures = (double)(t->errors + t->mismatches + t->unexpected);
    if (c->percentile >= 0)
        return (double)dz_percentile(s->values, s->count, c->percentile);
    const struct {
        const char *name;
        double value;
    } values[] = {
        {"mean", s->summary.mean},
        {"average", s->summary.mean},
        {"min", (double)s->summary.min},
        {"max", (double)s->summary.max},
        {"stddev", s->summary.stddev},
        {"rps", ratio((double)t->completed, load_result_seconds(r))},
        {"requests", (double)t->completed},
        {"errors", (double)t->errors},
        {"timeouts", (double)t->timeouts},
        {"non2xx", (double)load_totals_non2xx(t)},
        {"mismatches", (double)t->mismatches},
        {"unexpected", (double)t->unexpected},
        {"error_rate", ratio(failures, (double)(t->errors + t->completed))},
        {"in_flight", (double)r->unfinished.in_flight},
        {"throughput", ratio((double)t->bytes, load_result_seconds(r))},
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        if (dz_slice_equal(c->metric, dz_slice_of(values[i].name)))
            return values[i].value;
    return 0;
}

static bool holds(double value, const condition *c)
{
    bool or_equal = c->op[1] == '=';
    switch (c->op[0]) {
    case '>':
        return or_equal ? value >= c->limit : value > c->limit;
    case '<':
        return or_equal ? value <= c->limit : value < c->limit;
    case '=':
        return value == c->limit;
    default:
        return value != c->limit;
    }
}

static dz_text shown(double value, unit what)
{
    dz_text out;
    switch (what) {
    case UNIT_TIME:
        snprintf(out.text, sizeof out.text, "%.28s ms", dz_format_ms((uint64_t)value).text);
        return out;
    case UNIT_SHARE:
        snprintf(out.text, sizeof out.text, "%.3g%%", value * 100);
        return out;
    default:
        return dz_format_number(value);
    }
}

int load_check_conditions(const dz_strings *expressions)
{
    int rc = DZ_OPTIONS_OK;
    for (size_t i = 0; i < expressions->count && rc == DZ_OPTIONS_OK; i++) {
        condition c = {0};
        rc = read_condition(expressions->items[i], &c);
    }
    return rc;
}

int load_judge(const load_session *session, const dz_strings *expressions)
{
    int rc = DZ_OPTIONS_OK;
    for (size_t i = 0; i < expressions->count; i++) {
        condition c = {0};
        if (read_condition(expressions->items[i], &c) != DZ_OPTIONS_OK)
            return DZ_EXIT_USAGE;
        double value = measured(session->total, &c);
        /* Without one latency there is nothing that could be good. */
        bool nothing = c.unit == UNIT_TIME && load_result_latency(session->total)->count == 0;
        if (nothing || holds(value, &c))
            rc = dz_fail(DZ_EXIT_FAILED, LOAD_TOOL, "failed: %s (%.*s is %s)",
                         expressions->items[i], (int)c.metric.len, c.metric.ptr,
                         nothing ? "unknown: no response" : shown(value, c.unit).text);
    }
    return rc;
}
