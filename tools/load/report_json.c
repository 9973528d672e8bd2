/* autocannon's result object, with what it lacks beside. */
#include "load/report.h"

#include "common/format.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* Latencies are exact to the nanosecond: six decimals of a millisecond say all of it. */
static json_t *millis(double ns)
{
    return json_real(round(ns) / 1e6);
}

static json_t *rounded(double value)
{
    return json_real(round(value * 1000) / 1000);
}

static json_t *whole(uint64_t value)
{
    return json_integer((json_int_t)value);
}

/* "p97_5" */
static void percentile_key(double p, char *out, size_t size)
{
    snprintf(out, size, "p%g", p);
    for (; *out; out++)
        if (*out == '.')
            *out = '_';
}

static json_t *latency_json(const load_sample *s)
{
    json_t *o = json_object();
    json_object_set_new(o, "average", millis(s->summary.mean));
    json_object_set_new(o, "mean", millis(s->summary.mean));
    json_object_set_new(o, "stddev", millis(s->summary.stddev));
    json_object_set_new(o, "min", millis((double)s->summary.min));
    json_object_set_new(o, "max", millis((double)s->summary.max));
    for (size_t i = 0; i < LOAD_PERCENTILES; i++) {
        char key[16];
        percentile_key(load_percentiles[i], key, sizeof key);
        json_object_set_new(
            o, key, millis((double)dz_percentile(s->values, s->count, load_percentiles[i])));
    }
    json_object_set_new(o, "totalCount", whole(s->count));
    return o;
}

static json_t *volume_json(const load_result *r, bool bytes)
{
    load_sample s = load_per_second(r, bytes);
    uint64_t total = bytes ? r->totals.bytes : r->totals.completed;
    double average = r->duration > 0 ? (double)total / load_result_seconds(r) : 0;
    json_t *o = json_object();
    json_object_set_new(o, "average", rounded(average));
    json_object_set_new(o, "mean", rounded(average));
    json_object_set_new(o, "stddev", rounded(s.summary.stddev));
    json_object_set_new(o, "min", whole(s.summary.min));
    json_object_set_new(o, "max", whole(s.summary.max));
    json_object_set_new(o, "total", whole(total));
    for (size_t i = 0; i < LOAD_PERCENTILES; i++) {
        char key[16];
        percentile_key(load_percentiles[i], key, sizeof key);
        json_object_set_new(o, key, whole(dz_percentile(s.values, s.count, load_percentiles[i])));
    }
    if (!bytes)
        json_object_set_new(o, "sent", whole(r->totals.sent));
    free(s.values);
    return o;
}

static void set_counts(json_t *o, const load_totals *t)
{
    json_object_set_new(o, "errors", whole(t->errors));
    json_object_set_new(o, "timeouts", whole(t->timeouts));
    json_object_set_new(o, "mismatches", whole(t->mismatches));
    json_object_set_new(o, "non2xx", whole(load_totals_non2xx(t)));
    json_object_set_new(o, "resets", whole(0)); /* autocannon's own: its API can reset a pipeline */
    for (unsigned i = 1; i <= 5; i++) {
        char key[8];
        snprintf(key, sizeof key, "%uxx", i);
        json_object_set_new(o, key, whole(load_totals_statuses(t, i * 100, i * 100 + 99)));
    }
    json_t *codes = json_object();
    for (unsigned i = 0; i < LOAD_STATUSES; i++) {
        char key[8];
        if (t->statuses[i] == 0)
            continue;
        snprintf(key, sizeof key, "%u", i);
        json_object_set_new(codes, key, json_pack("{s:o}", "count", whole(t->statuses[i])));
    }
    json_object_set_new(o, "statusCodeStats", codes);
}

/* Several errors can share a key (all statuses, all kinds of bad response): they add up. */
static json_t *classes_json(const load_totals *t)
{
    json_t *o = json_object();
    for (size_t i = 0; i < t->class_count; i++) {
        const load_error *e = &t->classes[i];
        const char *key = load_failure_key(e->failure, e->error);
        json_int_t before = json_integer_value(json_object_get(o, key));
        json_object_set_new(o, key, json_integer(before + (json_int_t)e->count));
    }
    return o;
}

static void set_percentiles(json_t *o, const load_sample *s)
{
    static const struct {
        const char *key;
        double p;
    } shown[] = {{"p50_ms", 50}, {"p90_ms", 90}, {"p99_ms", 99}, {"p99_9_ms", 99.9}};
    json_object_set_new(o, "mean_ms", millis(s->summary.mean));
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++)
        json_object_set_new(o, shown[i].key,
                            millis((double)dz_percentile(s->values, s->count, shown[i].p)));
    json_object_set_new(o, "max_ms", millis((double)s->summary.max));
}

static json_t *endpoint_json(const load_result *r, const load_endpoint_result *e)
{
    json_t *o = json_object();
    double seconds = load_result_seconds(r);
    json_object_set_new(o, "url", json_string(e->endpoint->url));
    json_object_set_new(o, "path", json_string(e->endpoint->path));
    json_object_set_new(o, "method", json_string(e->endpoint->method));
    json_object_set_new(o, "connections", whole(e->endpoint->connections));
    json_object_set_new(o, "requests", whole(e->totals.completed));
    json_object_set_new(o, "rps", rounded(seconds > 0 ? (double)e->totals.completed / seconds : 0));
    set_percentiles(o, load_endpoint_latency(r, e));
    if (r->plan->scheduled) {
        json_t *other = json_object();
        set_percentiles(other, r->corrected ? &e->service : &e->scheduled);
        json_object_set_new(o, r->corrected ? "uncorrected" : "corrected", other);
    }
    json_object_set_new(o, "errors", whole(e->totals.errors));
    json_object_set_new(o, "timeouts", whole(e->totals.timeouts));
    json_object_set_new(o, "non2xx", whole(load_totals_non2xx(&e->totals)));
    json_object_set_new(o, "mismatches", whole(e->totals.mismatches));
    json_object_set_new(o, "unexpectedStatus", whole(e->totals.unexpected));
    json_object_set_new(o, "bytes", whole(e->totals.bytes));
    json_object_set_new(o, "sent", whole(e->totals.sent));
    json_object_set_new(o, "errorClasses", classes_json(&e->totals));
    return o;
}

static json_t *endpoints_json(const load_result *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->plan->endpoint_count; i++)
        json_array_append_new(list, endpoint_json(r, &r->endpoints[i]));
    return list;
}

static json_t *target_json(const load_target_usage *u)
{
    json_t *samples = json_array();
    for (size_t i = 0; u->samples && i < u->count; i++)
        json_array_append_new(samples, json_pack("{s:o,s:o,s:o}", "t_ms",
                                                 rounded((double)u->samples[i].at / 1e6),
                                                 "cpu_percent", rounded(u->samples[i].cpu_percent),
                                                 "rss_kb", whole(u->samples[i].rss_kb)));
    return json_pack("{s:i,s:o,s:o,s:o,s:o,s:o,s:o}", "pid", u->pid, "cpu_percent",
                     rounded(u->cpu_percent), "cpu_seconds", rounded(u->cpu_seconds),
                     "rss_kb_start", whole(u->rss_kb_start), "rss_kb_max", whole(u->rss_kb_max),
                     "rss_kb_mean", rounded(u->rss_kb_mean), "samples", samples);
}

static json_t *unfinished_json(const load_unfinished *u)
{
    return json_pack("{s:o,s:o,s:o}", "inFlight", whole(u->in_flight), "oldest_ms",
                     millis((double)u->oldest), "neverSent", whole(u->never_sent));
}

/* What a later --compare resamples: each interval's requests and its latencies in buckets. */
static json_t *intervals_json(const load_result *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->interval_count; i++) {
        const load_interval *interval = &r->intervals[i];
        json_t *buckets = json_array();
        for (size_t b = 0; interval->histogram && b < LOAD_BUCKETS; b++)
            if (interval->histogram[b] > 0)
                json_array_append_new(buckets,
                                      json_pack("[o,o]", whole(b), whole(interval->histogram[b])));
        json_array_append_new(list,
                              json_pack("{s:o,s:o,s:o}", "requests", whole(interval->requests),
                                        "bytes", whole(interval->bytes), "latency", buckets));
    }
    return list;
}

static void set_result(json_t *o, const load_result *r)
{
    json_object_set_new(o, "duration", json_real(round(load_result_seconds(r) * 100) / 100));
    json_object_set_new(o, "duration_ns", whole(r->duration));
    json_object_set_new(o, "samples", whole(r->interval_count));
    json_object_set_new(o, "start", json_string(dz_format_time(r->started).text));
    json_object_set_new(o, "finish", json_string(dz_format_time(r->finished).text));
    set_counts(o, &r->totals);
    json_object_set_new(o, "unexpectedStatus", whole(r->totals.unexpected));
    json_object_set_new(o, "errorClasses", classes_json(&r->totals));
    json_object_set_new(o, "latency", latency_json(load_result_latency(r)));
    if (r->plan->scheduled)
        json_object_set_new(o, r->corrected ? "latencyUncorrected" : "latencyCorrected",
                            latency_json(r->corrected ? &r->service : &r->scheduled));
    if (r->plan->scheduled)
        json_object_set_new(o, "sendLag", latency_json(&r->lag));
    json_object_set_new(o, "requests", volume_json(r, false));
    json_object_set_new(o, "throughput", volume_json(r, true));
    json_object_set_new(o, "endpoints", endpoints_json(r));
    json_object_set_new(o, "unfinished", unfinished_json(&r->unfinished));
    if (r->target.pid > 0)
        json_object_set_new(o, "target", target_json(&r->target));
}

static json_t *phases_json(const load_session *session)
{
    json_t *list = json_array();
    for (size_t i = 0; i < session->phase_count; i++) {
        const load_result *r = &session->phases[i];
        json_t *o = json_object();
        json_object_set_new(o, "name", json_string(r->plan->name));
        json_object_set_new(o, "connections", whole(r->plan->connections));
        set_result(o, r);
        json_array_append_new(list, o);
    }
    return list;
}

json_t *load_result_json(const load_session *session)
{
    const load_result *r = session->total;
    const load_plan *plan = r->plan;
    json_t *o = json_object();
    if (session->cli->title)
        json_object_set_new(o, "title", json_string(session->cli->title));
    json_object_set_new(o, "url", json_string(plan->endpoints[0].url));
    if (session->cli->socket_path)
        json_object_set_new(o, "socketPath", json_string(session->cli->socket_path));
    json_object_set_new(o, "connections", whole(plan->connections));
    json_object_set_new(o, "sampleInt", whole(plan->interval / 1000000));
    json_object_set_new(o, "pipelining", whole(plan->pipelining));
    json_object_set_new(o, "workers", whole(plan->threads));
    set_result(o, r);
    json_object_set_new(o, "warmup_s", json_real((double)plan->warmup / 1e9));
    json_object_set_new(o, "openLoop", json_boolean(plan->shared_schedule));
    json_object_set_new(o, "interrupted", json_boolean(r->interrupted));
    json_object_set_new(
        o, "client",
        json_pack("{s:o,s:s}", "cpu_seconds", rounded(r->client_cpu), "version", DZ_VERSION));
    json_object_set_new(o, "intervals", intervals_json(r));
    if (session->phase_count > 1)
        json_object_set_new(o, "phases", phases_json(session));
    return o;
}
