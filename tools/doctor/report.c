/* The report as JSON, which the page holds too. */
#include "doctor.h"

#include "flame/formats.h"
#include "flame/json_stream.h"
#include "report/page.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>

static void put_text(FILE *out, const char *key, const char *text)
{
    fprintf(out, "\"%s\":", key);
    dz_json_write_string(out, dz_slice_of(text));
}

static void put_lines(FILE *out, const char *key, const char (*lines)[DZ_LINE], size_t count)
{
    fprintf(out, ",\"%s\":[", key);
    for (size_t i = 0; i < count; i++) {
        if (i)
            putc(',', out);
        dz_json_write_string(out, dz_slice_of(lines[i]));
    }
    putc(']', out);
}

static void put_culprit(FILE *out, const dz_culprit *c)
{
    fputs(",\"culprit\":", out);
    if (!c->known) {
        fputs("null", out);
        return;
    }
    putc('{', out);
    put_text(out, "function", c->name);
    putc(',', out);
    put_text(out, "file", c->file);
    fprintf(out, ",\"line\":%u,\"share\":%.4f,", c->line, c->share);
    put_text(out, "inner", c->inner);
    fprintf(out, ",\"inner_share\":%.4f}", c->inner_share);
}

static void put_routes(FILE *out, const dz_loop_facts *l)
{
    fputs(",\"routes\":[", out);
    for (size_t i = 0; i < l->route_count; i++) {
        const dz_route_facts *r = &l->routes[i];
        fputs(i ? ",{" : "{", out);
        put_text(out, "route", r->name);
        fprintf(out,
                ",\"requests\":%" PRIu64 ",\"ms\":%.3f,\"loop_ms\":%.3f,\"loop_max_ms\":%.3f,"
                "\"share\":%.4f}",
                r->count, r->total_ms, r->sync_ms, r->sync_max_ms, r->share);
    }
    putc(']', out);
}

static void put_loop(FILE *out, const dz_loop_facts *l)
{
    fprintf(out, "{\"pid\":%d,\"tid\":%d,", (int)l->pid, (int)l->tid);
    put_text(out, "role", l->role);
    fprintf(out,
            ",\"utilisation\":%.4f,\"delay_ms\":{\"p50\":%.3f,\"p90\":%.3f,\"p99\":%.3f,"
            "\"max\":%.3f},\"stalls\":%zu,\"stalled\":%.4f,\"hung\":%s,\"starved\":%.4f",
            l->utilisation, l->delay_p50_ms, l->delay_p90_ms, l->delay_p99_ms, l->delay_max_ms,
            l->stalls, l->stalled, l->hung ? "true" : "false", l->starved);
    fprintf(out,
            ",\"gc\":{\"share\":%.4f,\"count\":%zu,\"major\":%zu,\"max_ms\":%.3f},"
            "\"heap_mb\":{\"before\":%.2f,\"after\":%.2f,\"floor_rise\":%.2f}",
            l->gc, l->gcs, l->gcs_major, l->gc_max_ms, l->heap_start_mb, l->heap_end_mb,
            l->floor_rise_mb);
    fprintf(out, ",\"requests\":%" PRIu64 ",\"request_ms\":%.3f,\"loop_ms\":%.3f,\"inflight\":%.2f",
            l->requests, l->request_ms, l->sync_ms, l->inflight);
    put_routes(out, l);
    put_culprit(out, &l->culprit);
    putc('}', out);
}

/* Milliseconds since the run began, signed: the reporter's clock is the same as ours. */
static double since(const dz_doctor *d, uint64_t at)
{
    return ((double)at - (double)d->run.started) / 1e6;
}

static void put_js_series(FILE *out, const dz_doctor *d, const dz_js_series *s)
{
    fprintf(out, "{\"pid\":%d,\"tid\":%d,", (int)s->pid, (int)s->tid);
    put_text(out, "role", s->role);
    putc(',', out);
    put_text(out, "version", s->version);
    fputs(",\"columns\":[\"t_ms\",\"delay_ms\",\"utilisation\",\"heap_used\",\"heap_total\","
          "\"external\",\"handles\",\"inflight\"],\"rows\":[",
          out);
    for (size_t i = 0; i < s->samples.count; i++) {
        const dz_js_sample *p = &s->samples.at[i];
        double span = (double)(p->to - p->from) / 1e6;
        double busy = span > 0 ? fmin(1, (double)p->active / 1e6 / span) : 0;
        fprintf(out, "%s[%.1f,%.1f,%.3f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%u,%u]", i ? "," : "",
                since(d, p->to), fmax(0, span - DZ_INTERVAL_MS), busy, p->heap_used, p->heap_total,
                p->external, p->handles, p->inflight);
    }
    fputs("],\"gc\":[", out);
    for (size_t i = 0; i < s->gcs.count; i++)
        fprintf(out, "%s[%.2f,%.3f,%u]", i ? "," : "", since(d, s->gcs.at[i].at),
                (double)s->gcs.at[i].duration / 1e6, s->gcs.at[i].kind);
    fputs("]}", out);
}

static void put_out_series(FILE *out, const dz_doctor *d, const dz_out_series *s)
{
    fprintf(out, "{\"pid\":%d,", (int)s->pid);
    put_text(out, "name", s->name);
    fputs(",\"columns\":[\"t_ms\",\"cpu\",\"main_cpu\",\"wait\",\"rss\",\"fds\",\"switches\"],"
          "\"rows\":[",
          out);
    for (size_t i = 0; i < s->samples.count; i++) {
        const dz_out_sample *p = &s->samples.at[i];
        fprintf(out, "%s[%.1f,%.3f,%.3f,%.3f,%" PRIu64 ",%u,%u]", i ? "," : "", since(d, p->to),
                (double)p->cpu, (double)p->main_cpu, (double)p->wait, p->rss, p->fds, p->switches);
    }
    fputs("]}", out);
}

/* Those that ran for a hundredth of the time they were seen. */
static bool worked(const dz_doctor *d, const dz_out_thread *t)
{
    return t->samples.count > 1 && (t->cpu - t->first_cpu) * 100 >= t->at - d->run.started;
}

static void put_threads(FILE *out, const dz_doctor *d)
{
    bool first = true;
    fputs(",\"threads\":[", out);
    for (size_t i = 0; i < d->outside.threads.count; i++) {
        const dz_out_thread *t = &d->outside.threads.at[i];
        if (!worked(d, t))
            continue;
        fprintf(out, "%s{\"pid\":%d,\"tid\":%d,", first ? "" : ",", (int)t->pid, (int)t->tid);
        first = false;
        put_text(out, "name", t->name);
        fputs(",\"columns\":[\"t_ms\",\"cpu\",\"wait\"],\"rows\":[", out);
        for (size_t k = 0; k < t->samples.count; k++)
            fprintf(out, "%s[%.1f,%.3f,%.3f]", k ? "," : "", since(d, t->samples.at[k].to),
                    (double)t->samples.at[k].cpu, (double)t->samples.at[k].wait);
        fputs("]}", out);
    }
    putc(']', out);
}

static void put_probe(FILE *out, const dz_doctor *d)
{
    const dz_probe_samples *samples = dz_probe_seen(d->probe);
    const dz_probe_facts *f = &d->facts.probe;
    fprintf(out,
            ",\"probe\":{\"asked\":%zu,\"answered\":%zu,\"p50_ms\":%.3f,\"p90_ms\":%.3f,"
            "\"max_ms\":%.3f,\"late\":%zu,\"stalled\":%.4f,\"pending_ms\":%.1f,"
            "\"columns\":[\"t_ms\",\"took_ms\"],\"rows\":[",
            f->count, f->answered, f->p50_ms, f->p90_ms, f->max_ms, f->late, f->stalled,
            f->pending_ms);
    for (size_t i = 0; i < samples->count; i++) {
        const dz_probe_sample *s = &samples->at[i];
        fprintf(out, "%s[%.1f,%.3f]", i ? "," : "", since(d, s->sent),
                (double)(s->until - s->sent) / 1e6);
    }
    fputs("]}", out);
}

static void put_series(FILE *out, const dz_doctor *d)
{
    const dz_feed *feed = &d->run.node.feed;
    fputs(",\"series\":{\"loops\":[", out);
    for (size_t i = 0; i < feed->threads.count; i++) {
        if (i)
            putc(',', out);
        put_js_series(out, d, &feed->threads.at[i]);
    }
    fputs("],\"processes\":[", out);
    for (size_t i = 0; i < d->outside.processes.count; i++) {
        if (i)
            putc(',', out);
        put_out_series(out, d, &d->outside.processes.at[i]);
    }
    putc(']', out);
    put_threads(out, d);
    put_probe(out, d);
    dz_report_inside_series(out, d);
    putc('}', out);
}

static void put_load(FILE *out, const dz_load_facts *l)
{
    fputs(",\"load\":", out);
    if (!l->known) {
        fputs("null", out);
        return;
    }
    fprintf(out,
            "{\"requests\":%.0f,\"rps\":%.2f,\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"max_ms\":%.3f,"
            "\"errors\":%.0f,\"non2xx\":%.0f}",
            l->requests, l->rps, l->p50_ms, l->p99_ms, l->max_ms, l->errors, l->non2xx);
}

static void put_latency(FILE *out, const dz_queue_latency *l)
{
    fprintf(out, ",\"rps\":%.2f,\"p50_ms\":%.3f,\"p99_ms\":%.3f", l->rps, l->p50_ms, l->p99_ms);
}

static void put_work(FILE *out, const dz_doctor *d)
{
    fputs(",\"work\":[", out);
    for (size_t i = 0; i < d->work_count; i++) {
        const dz_queue_route *q = &d->work[i].queue;
        fputs(i ? ",{" : "{", out);
        put_text(out, "route", d->work[i].name);
        fprintf(out, ",\"service_ms\":%.3f,\"deviation_ms\":%.3f,\"connections\":%.0f}",
                q->service_ms, q->deviation_ms, q->connections);
    }
    putc(']', out);
}

static void put_prescription(FILE *out, const dz_doctor *d)
{
    fputs(",\"prescription\":", out);
    if (!d->basis[0]) {
        fputs("null", out);
        return;
    }
    putc('{', out);
    put_text(out, "basis", d->basis);
    put_work(out, d);
    fputs(",\"estimates\":[", out);
    for (size_t m = 0; m < d->estimate_count; m++) {
        bool even = d->estimates[m].deal == DZ_QUEUE_EVEN;
        fputs(m ? ",{" : "{", out);
        put_text(out, "name", dz_queue_mode_name(d->estimates[m].mode));
        fprintf(out, ",\"deal\":\"%s\"", even ? "even" : "uneven");
        put_latency(out, &d->estimates[m].result.all);
        fputs(",\"routes\":[", out);
        for (size_t i = 0; i < d->work_count; i++) {
            fputs(i ? ",{" : "{", out);
            put_text(out, "route", d->work[i].name);
            put_latency(out, &d->estimates[m].result.routes[i]);
            putc('}', out);
        }
        fputs("]}", out);
    }
    fputs("]}", out);
}

static void put_report(FILE *out, const dz_doctor *d)
{
    const dz_diagnosis *g = &d->diagnosis;
    const dz_facts *f = &d->facts;
    putc('{', out);
    put_text(out, "title", d->title);
    putc(',', out);
    put_text(out, "verdict", dz_verdict_name(g->verdict));
    putc(',', out);
    put_text(out, "words", dz_verdict_words(g->verdict));
    fputs(",\"also\":[", out);
    for (size_t i = 0; i < g->also_count; i++) {
        if (i)
            putc(',', out);
        dz_json_write_string(out, dz_slice_of(dz_verdict_name(g->also[i])));
    }
    putc(']', out);
    put_lines(out, "evidence", g->evidence, g->evidence_count);
    put_lines(out, "recommendations", g->advice, g->advice_count);
    putc(',', out);
    put_text(out, "chart", g->series);
    fprintf(out, ",\"pid\":%d", g->loop ? (int)g->loop->pid : 0);
    fprintf(out, ",\"tid\":%d", g->loop ? (int)g->loop->tid : 0);
    fputs(",\"notes\":[", out);
    for (size_t i = 0; i < d->note_count; i++) {
        if (i)
            putc(',', out);
        dz_json_write_string(out, dz_slice_of(d->notes[i]));
    }
    fprintf(out,
            "],\"window\":{\"from_ms\":%.1f,\"to_ms\":%.1f,\"seconds\":%.3f},\"cores\":%u,"
            "\"demand\":{\"running\":%.3f,\"wanted\":%.3f,\"waiting\":%.4f,\"machine\":%.3f,"
            "\"others\":%.3f,\"throttled\":%.4f}",
            since(d, f->from), since(d, f->to), f->seconds, f->cores, f->demand.running,
            f->demand.wanted, f->demand.waiting, f->demand.machine, f->demand.others,
            f->demand.throttled);
    put_load(out, &f->load);
    put_prescription(out, d);
    put_culprit(out, g->loop ? &g->loop->culprit : &f->native);
    dz_report_inside(out, d);
    fputs(",\"loops\":[", out);
    for (size_t i = 0; i < f->loop_count; i++) {
        if (i)
            putc(',', out);
        put_loop(out, &f->loops[i]);
    }
    putc(']', out);
    put_series(out, d);
    putc('}', out);
}

static int finish(FILE *out)
{
    return fflush(out) == 0 && !ferror(out) ? 0 : errno ? -errno : -EIO;
}

int dz_doctor_write_json(const dz_doctor *d, FILE *out)
{
    put_report(out, d);
    putc('\n', out);
    return finish(out);
}

int dz_doctor_write_html(const dz_doctor *d, FILE *out)
{
    dz_page_begin(out, DZ_PAGE_DOCTOR, d->title);
    put_report(out, d);
    dz_page_end(out);
    return finish(out);
}
