/* The tables on the terminal. */
#include "load/report.h"

#include "common/format.h"
#include "common/printable.h"
#include "common/table.h"

#include <donmaz/error.h>

#include <inttypes.h>
#include <stdlib.h>

const double load_percentiles[LOAD_PERCENTILES] = {0.001, 0.01, 0.1,  1,  2.5,  10,    25,    50,
                                                   75,    90,   97.5, 99, 99.9, 99.99, 99.999};

void load_print_plan(const load_plan *plan, const load_cli *cli, FILE *out)
{
    if (cli->title)
        dz_print_clean(out, "%s\n", cli->title);
    if (plan->name)
        dz_print_clean(out, "Phase %s: ", plan->name);
    if (plan->duration == UINT64_MAX)
        fprintf(out, "%s requests", dz_format_count(cli->amount).text);
    else
        fprintf(out, "%s", dz_format_duration(plan->duration).text);
    if (plan->warmup > 0)
        fprintf(out, " after %s of warm-up", dz_format_duration(plan->warmup).text);
    dz_print_clean(out, " @ %s", plan->endpoints[0].url);
    if (plan->endpoint_count > 1)
        fprintf(out, " and %zu more", plan->endpoint_count - 1);
    fprintf(out, "\n%zu connection%s", plan->connections, plan->connections == 1 ? "" : "s");
    if (plan->pipelining > 1)
        fprintf(out, " with %zu requests in flight on each", plan->pipelining);
    if (cli->overall_rate > 0 || cli->connection_rate > 0)
        fprintf(
            out, ", %s requests a second%s%s",
            dz_format_number(cli->overall_rate > 0 ? cli->overall_rate : cli->connection_rate).text,
            cli->overall_rate > 0 ? "" : " on each", cli->open ? " (open loop)" : "");
    fprintf(out, ", %zu thread%s\n\n", plan->threads, plan->threads == 1 ? "" : "s");
}

static dz_text ms(uint64_t ns)
{
    dz_text out;
    snprintf(out.text, sizeof out.text, "%.28s ms", dz_format_ms(ns).text);
    return out;
}

static dz_text at(const load_sample *sample, double p)
{
    return ms(dz_percentile(sample->values, sample->count, p));
}

static void latency_row(dz_table *t, const char *name, const load_sample *s)
{
    static const double shown[] = {2.5, 50, 90, 97.5, 99, 99.9};
    dz_table_cell(t, "%s", name);
    dz_table_style(t, DZ_STYLE_BOLD);
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++)
        dz_table_cell(t, "%s", s->count > 0 ? at(s, shown[i]).text : "-");
    dz_table_cell(t, "%s", s->count > 0 ? ms((uint64_t)s->summary.mean).text : "-");
    dz_table_cell(t, "%s", s->count > 0 ? ms((uint64_t)s->summary.stddev).text : "-");
    dz_table_cell(t, "%s", s->count > 0 ? ms(s->summary.max).text : "-");
}

static int print_latency(const load_result *r, FILE *out)
{
    static const char *const heads[] = {"Stat", "2.5%",  "50%", "90%",   "97.5%",
                                        "99%",  "99.9%", "Avg", "Stdev", "Max"};
    enum { COLUMNS = sizeof heads / sizeof heads[0] };
    dz_table *t = dz_table_new(COLUMNS);
    for (size_t i = 0; i < COLUMNS; i++)
        dz_table_head(t, heads[i], i == 0 ? DZ_LEFT : DZ_RIGHT);
    latency_row(t, "Latency", load_result_latency(r));
    if (r->plan->scheduled) {
        dz_table_rule(t);
        latency_row(t, r->corrected ? "from actual send" : "from when due",
                    r->corrected ? &r->service : &r->scheduled);
    }
    int rc = dz_table_print(t, out);
    dz_table_free(t);
    return rc;
}

load_sample load_per_second(const load_result *r, bool bytes)
{
    load_sample s = {.values = calloc(r->interval_count + 1, sizeof(uint64_t))};
    if (!s.values)
        return s;
    double scale = 1e9 / (double)r->interval;
    for (size_t i = 0; i < r->interval_count; i++) {
        const load_interval *interval = &r->intervals[i];
        s.values[s.count++] =
            (uint64_t)((double)(bytes ? interval->bytes : interval->requests) * scale + 0.5);
    }
    /* Too short for a sample: the whole run is one. */
    if (s.count == 0 && r->duration > 0)
        s.values[s.count++] = (uint64_t)((double)(bytes ? r->totals.bytes : r->totals.completed) /
                                         load_result_seconds(r));
    dz_sort_u64(s.values, s.count);
    s.summary = dz_summarise(s.values, s.count);
    return s;
}

static void volume_row(dz_table *t, const load_result *r, bool bytes)
{
    static const double shown[] = {1, 2.5, 50, 97.5};
    load_sample s = load_per_second(r, bytes);
    double total = (double)(bytes ? r->totals.bytes : r->totals.completed);
    double average = r->duration > 0 ? total / load_result_seconds(r) : 0;
    double values[7];
    for (size_t i = 0; i < 4; i++)
        values[i] = (double)dz_percentile(s.values, s.count, shown[i]);
    values[4] = average;
    values[5] = s.summary.stddev;
    values[6] = (double)s.summary.min;
    dz_table_cell(t, bytes ? "Bytes/Sec" : "Req/Sec");
    dz_table_style(t, DZ_STYLE_BOLD);
    for (size_t i = 0; i < 7; i++)
        dz_table_cell(t, "%s",
                      bytes ? dz_format_bytes(values[i]).text : dz_format_number(values[i]).text);
    free(s.values);
}

static int print_volume(const load_result *r, FILE *out)
{
    static const char *const heads[] = {"Stat",  "1%",  "2.5%",  "50%",
                                        "97.5%", "Avg", "Stdev", "Min"};
    enum { COLUMNS = sizeof heads / sizeof heads[0] };
    dz_table *t = dz_table_new(COLUMNS);
    for (size_t i = 0; i < COLUMNS; i++)
        dz_table_head(t, heads[i], i == 0 ? DZ_LEFT : DZ_RIGHT);
    volume_row(t, r, false);
    dz_table_rule(t);
    volume_row(t, r, true);
    int rc = dz_table_print(t, out);
    dz_table_free(t);
    return rc;
}

static int print_endpoints(const load_result *r, FILE *out)
{
    static const char *const heads[] = {"Endpoint", "Conns", "Requests", "Req/Sec", "Avg",   "50%",
                                        "90%",      "99%",   "99.9%",    "Max",     "Errors"};
    enum { COLUMNS = sizeof heads / sizeof heads[0] };
    dz_table *t = dz_table_new(COLUMNS);
    for (size_t i = 0; i < COLUMNS; i++)
        dz_table_head(t, heads[i], i == 0 ? DZ_LEFT : DZ_RIGHT);
    for (size_t i = 0; i < r->plan->endpoint_count; i++) {
        const load_endpoint_result *e = &r->endpoints[i];
        const load_sample *s = load_endpoint_latency(r, e);
        double seconds = load_result_seconds(r);
        uint64_t errors = e->totals.errors + e->totals.mismatches + e->totals.unexpected;
        dz_table_cell(t, "%s %s", e->endpoint->method, e->endpoint->path);
        dz_table_cell(t, "%zu", e->endpoint->connections);
        dz_table_cell(t, "%s", dz_format_count(e->totals.completed).text);
        dz_table_cell(
            t, "%s",
            dz_format_number(seconds > 0 ? (double)e->totals.completed / seconds : 0).text);
        dz_table_cell(t, "%s", s->count > 0 ? ms((uint64_t)s->summary.mean).text : "-");
        for (size_t p = 0; p < 4; p++) {
            static const double shown[] = {50, 90, 99, 99.9};
            dz_table_cell(t, "%s", s->count > 0 ? at(s, shown[p]).text : "-");
        }
        dz_table_cell(t, "%s", s->count > 0 ? ms(s->summary.max).text : "-");
        dz_table_cell(t, "%s", dz_format_count(errors).text);
        dz_table_style(t, errors > 0 ? DZ_STYLE_RED : DZ_STYLE_NONE);
    }
    int rc = dz_table_print(t, out);
    dz_table_free(t);
    return rc;
}

static int print_statuses(const load_result *r, FILE *out)
{
    dz_table *t = dz_table_new(2);
    dz_table_head(t, "Code", DZ_LEFT);
    dz_table_head(t, "Count", DZ_RIGHT);
    for (unsigned i = 0; i < LOAD_STATUSES; i++) {
        if (r->totals.statuses[i] == 0)
            continue;
        dz_table_cell(t, "%u", i);
        dz_table_style(t, i >= 400 ? DZ_STYLE_RED : DZ_STYLE_CYAN);
        dz_table_cell(t, "%s", dz_format_count(r->totals.statuses[i]).text);
    }
    int rc = dz_table_print(t, out);
    dz_table_free(t);
    return rc;
}

static int print_percentiles(const load_result *r, FILE *out)
{
    const load_sample *s = load_result_latency(r);
    dz_table *t = dz_table_new(2);
    dz_table_head(t, "Percentile", DZ_LEFT);
    dz_table_head(t, "Latency (ms)", DZ_RIGHT);
    for (size_t i = 0; i < LOAD_PERCENTILES; i++) {
        dz_table_cell(t, "%g", load_percentiles[i]);
        dz_table_style(t, DZ_STYLE_BOLD);
        dz_table_cell(t, "%.6g",
                      (double)dz_percentile(s->values, s->count, load_percentiles[i]) / 1e6);
    }
    int rc = dz_table_print(t, out);
    dz_table_free(t);
    return rc;
}

static int print_errors(const load_result *r, FILE *out)
{
    dz_table *t = dz_table_new(3);
    dz_table_head(t, "Failure", DZ_LEFT);
    dz_table_head(t, "Count", DZ_RIGHT);
    dz_table_head(t, "Meaning", DZ_LEFT);
    for (size_t i = 0; i < r->totals.class_count; i++) {
        const load_error *e = &r->totals.classes[i];
        if (e->failure == LOAD_FAIL_STATUS)
            dz_table_cell(t, "STATUS %d", e->error);
        else
            dz_table_cell(t, "%s", load_failure_key(e->failure, e->error));
        dz_table_style(t, DZ_STYLE_RED);
        dz_table_cell(t, "%s", dz_format_count(e->count).text);
        bool tls = e->failure == LOAD_FAIL_TLS && r->tls_reason[0];
        dz_table_cell(t, "%s", tls ? r->tls_reason : load_failure_text(e->failure, e->error));
    }
    int rc = dz_table_print(t, out);
    dz_table_free(t);
    return rc;
}

static void print_target(const load_result *r, FILE *out)
{
    const load_target_usage *u = &r->target;
    double per_request =
        r->totals.completed > 0 ? u->cpu_seconds * 1e6 / (double)r->totals.completed : 0;
    fprintf(out, "target %d: CPU %.0f%% of one core", u->pid, u->cpu_percent);
    if (r->totals.completed > 0)
        fprintf(out, " (%.3g us a request)", per_request);
    fprintf(out, ", memory %s at most, %s on average%s\n",
            dz_format_bytes((double)u->rss_kb_max * 1024).text,
            dz_format_bytes(u->rss_kb_mean * 1024).text,
            u->ended ? "; it ended before the load did" : "");
}

/* How well the schedule was kept; late sends are in the latency counted from when due. */
static void print_lag(const load_result *r, FILE *out)
{
    const load_sample *s = &r->lag;
    fprintf(out, "sent %s after they were due (median), %s (99%%), %s at most\n",
            dz_format_duration(dz_percentile(s->values, s->count, 50)).text,
            dz_format_duration(dz_percentile(s->values, s->count, 99)).text,
            dz_format_duration(s->summary.max).text);
}

static void print_unfinished(const load_result *r, FILE *out)
{
    const load_unfinished *u = &r->unfinished;
    if (u->in_flight > 0)
        fprintf(out, "%s in flight at the end, the oldest for %s\n",
                dz_format_count(u->in_flight).text, dz_format_duration(u->oldest).text);
    if (u->never_sent > 0)
        fprintf(out, "%s due but never sent: no connection was free in time\n",
                dz_format_count(u->never_sent).text);
}

/* The load generator must not be what is measured. */
static void print_own_load(const load_result *r, FILE *out)
{
    double busy =
        r->duration > 0 ? r->client_cpu / load_result_seconds(r) / (double)r->plan->threads : 0;
    if (busy > 0.9)
        fprintf(
            out,
            "note: donmaz load itself was busy %.0f%% of the time; -w %zu would leave it room\n",
            busy * 100, r->plan->threads + 1);
}

static void print_summary(const load_result *r, FILE *out)
{
    const load_totals *t = &r->totals;
    uint64_t non2xx = load_totals_non2xx(t);
    if (non2xx > 0)
        fprintf(out, "%s 2xx responses, %s non 2xx responses\n",
                dz_format_count(t->completed - non2xx).text, dz_format_count(non2xx).text);
    fprintf(out, "%s requests in %.2fs, %s read\n", dz_format_short((double)t->completed).text,
            load_result_seconds(r), dz_format_bytes((double)t->bytes).text);
    if (t->errors > 0)
        fprintf(out, "%s errors (%s timeouts)\n", dz_format_count(t->errors).text,
                dz_format_count(t->timeouts).text);
    if (t->mismatches > 0)
        fprintf(out, "%s requests with mismatched body\n", dz_format_count(t->mismatches).text);
    if (t->unexpected > 0)
        fprintf(out, "%s responses with an unexpected status\n",
                dz_format_count(t->unexpected).text);
    print_unfinished(r, out);
    if (r->lag.count > 0)
        print_lag(r, out);
    if (r->target.pid > 0)
        print_target(r, out);
    if (r->interrupted)
        fputs("interrupted: these are the results so far\n", out);
    if (r->bailed_out)
        fputs("ended early: as many failures as --bailout allows\n", out);
    if (r->out_of_memory)
        fputs("ended early: no memory left for more latencies\n", out);
    print_own_load(r, out);
}

int load_print_result(const load_session *session, const load_result *r, FILE *out)
{
    const load_cli *cli = session->cli;
    int rc = print_latency(r, out);
    if (rc == 0)
        rc = print_volume(r, out);
    if (rc == 0 && r->plan->endpoint_count > 1)
        rc = print_endpoints(r, out);
    if (rc == 0 && cli->status_codes)
        rc = print_statuses(r, out);
    if (rc == 0 && cli->latency_table)
        rc = print_percentiles(r, out);
    if (rc == 0 && r->totals.class_count > 0)
        rc = print_errors(r, out);
    fprintf(out, "\nReq/Bytes counts sampled every %s, %zu samples.\n\n",
            dz_format_duration(r->interval).text, r->interval_count);
    print_summary(r, out);
    return rc;
}
