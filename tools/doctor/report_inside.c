/* The part of the report that a donmaz server's own figures fill. */
#include "doctor.h"

#include "flame/json_stream.h"

#include <inttypes.h>

static void put_name(FILE *out, const char *name)
{
    fputs("{\"route\":", out);
    dz_json_write_string(out, dz_slice_of(name));
}

void dz_report_inside(FILE *out, const dz_doctor *d)
{
    const dz_inside_facts *i = &d->facts.inside;
    if (!i->known) {
        fputs(",\"inside\":null", out);
        return;
    }
    fprintf(out,
            ",\"inside\":{\"loops\":%zu,\"worker\":%u,\"loop\":%u,\"delay_ms\":{\"p50\":%.3f,"
            "\"p90\":%.3f,\"max\":%.3f},\"stalls\":%.0f,\"stalled\":%.4f,\"hung_ms\":%.1f,"
            "\"rescues\":%.0f,\"refused\":%.0f,\"requests\":%.0f,\"routes\":[",
            i->loops, i->worker, i->loop, i->delay_p50_ms, i->delay_p90_ms, i->delay_max_ms,
            i->stalls, i->stalled, i->hung_ms, i->rescues, i->refused, i->requests);
    for (size_t k = 0; k < i->route_count; k++) {
        const dz_route_facts *r = &i->routes[k];
        if (k)
            putc(',', out);
        put_name(out, r->name);
        fprintf(out,
                ",\"requests\":%" PRIu64 ",\"ms\":%.3f,\"cpu_ms\":%.3f,\"cpu_deviation_ms\":%.3f,"
                "\"held_ms\":%.3f,\"late_ms\":%.3f,\"piece_ms\":%.3f,\"share\":%.4f,"
                "\"rescued\":%.4f,\"class\":%d}",
                r->count, r->total_ms, r->sync_ms, r->sync_deviation_ms, r->held_ms, r->late_ms,
                r->piece_ms, r->share, r->rescued, r->klass);
    }
    fputs("]}", out);
}

static double since(const dz_doctor *d, uint64_t at)
{
    return ((double)at - (double)d->run.started) / 1e6;
}

static void put_loop(FILE *out, const dz_doctor *d, const dz_inside_seen *seen,
                     const dz_inside_loop *which)
{
    bool first = true;
    fprintf(out,
            "{\"worker\":%u,\"loop\":%u,\"columns\":[\"t_ms\",\"delay_ms\",\"lag_ms\","
            "\"stall_ms\",\"rescues\"],\"rows\":[",
            which->worker, which->loop);
    for (size_t i = 0; i < seen->loops.count; i++) {
        const dz_inside_loop *l = &seen->loops.at[i];
        if (l->worker != which->worker || l->loop != which->loop)
            continue;
        fprintf(out, "%s[%.1f,%.3f,%.3f,%.1f,%.0f]", first ? "" : ",", since(d, l->at), l->delay_ms,
                l->lag_ms, l->stall_ms, l->rescues);
        first = false;
    }
    fputs("]}", out);
}

void dz_report_inside_series(FILE *out, const dz_doctor *d)
{
    const dz_inside_seen *seen = dz_inside_look(d->inside);
    fputs(",\"inside\":{\"loops\":[", out);
    for (size_t i = 0; i < seen->loops.count; i++) {
        bool before = false;
        for (size_t k = 0; k < i && !before; k++)
            before = seen->loops.at[k].worker == seen->loops.at[i].worker &&
                     seen->loops.at[k].loop == seen->loops.at[i].loop;
        if (before)
            break; /* each reading has all loops */
        if (i)
            putc(',', out);
        put_loop(out, d, seen, &seen->loops.at[i]);
    }
    fputs("],\"columns\":[\"t_ms\",\"inflight\",\"queued\",\"refused\"],\"rows\":[", out);
    for (size_t i = 0; i < seen->readings.count; i++) {
        const dz_inside_reading *r = &seen->readings.at[i];
        fprintf(out, "%s[%.1f,%.0f,%.0f,%.0f]", i ? "," : "", since(d, r->at), r->in_flight,
                r->queued, r->refused);
    }
    fputs("]}", out);
}
