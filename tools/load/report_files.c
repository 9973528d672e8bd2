/* The results as CSV, and every latency as numbers. */
#include "load/report.h"

#include "common/csv.h"

#include <donmaz/error.h>

#include <errno.h>
#include <inttypes.h>

static void csv_row(const load_result *r, const load_endpoint_result *e, FILE *out)
{
    static const double shown[] = {50, 75, 90, 99, 99.9, 99.99};
    const load_sample *s = load_endpoint_latency(r, e);
    double seconds = load_result_seconds(r);
    dz_csv_text(out, r->plan->name ? r->plan->name : "");
    fputc(',', out);
    dz_csv_text(out, e->endpoint->method);
    fputc(',', out);
    dz_csv_text(out, e->endpoint->url);
    fprintf(out, ",%zu,%.3f,%" PRIu64 ",%.3f,%.6f,%.6f", e->endpoint->connections, seconds,
            e->totals.completed, seconds > 0 ? (double)e->totals.completed / seconds : 0,
            s->summary.mean / 1e6, (double)s->summary.min / 1e6);
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++)
        fprintf(out, ",%.6f", (double)dz_percentile(s->values, s->count, shown[i]) / 1e6);
    fprintf(out, ",%.6f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n",
            (double)s->summary.max / 1e6, e->totals.errors, e->totals.timeouts,
            load_totals_non2xx(&e->totals), e->totals.mismatches, e->totals.unexpected,
            e->totals.bytes);
}

static int file_error(FILE *out)
{
    errno = 0;
    if (fflush(out) != 0 || ferror(out))
        return errno ? -errno : -EIO;
    return 0;
}

int load_write_csv(const load_session *session, FILE *out)
{
    fputs("phase,method,url,connections,seconds,requests,rps,mean_ms,min_ms,p50_ms,p75_ms,p90_ms,"
          "p99_ms,p99_9_ms,p99_99_ms,max_ms,errors,timeouts,non2xx,mismatches,unexpected_status,"
          "bytes\n",
          out);
    for (size_t p = 0; p < session->phase_count; p++)
        for (size_t e = 0; e < session->phases[p].plan->endpoint_count; e++)
            csv_row(&session->phases[p], &session->phases[p].endpoints[e], out);
    return file_error(out);
}

/* Little endian, whatever the machine. */
static void put(FILE *out, uint64_t value, size_t bytes)
{
    unsigned char text[8];
    for (size_t i = 0; i < bytes; i++)
        text[i] = (unsigned char)(value >> (8 * i));
    fwrite(text, 1, bytes, out);
}

enum { KIND_SERVICE = 0, KIND_SCHEDULED = 1 };

static void put_block(FILE *out, size_t phase, size_t endpoint, unsigned kind,
                      const load_sample *sample)
{
    put(out, phase, 2);
    put(out, kind, 2);
    put(out, endpoint, 4);
    put(out, sample->count, 8);
    for (size_t i = 0; i < sample->count; i++)
        put(out, sample->values[i], 8);
}

int load_write_latencies(const load_session *session, FILE *out)
{
    fwrite("DZLAT1\0\0", 1, 8, out);
    for (size_t p = 0; p < session->phase_count; p++) {
        const load_result *r = &session->phases[p];
        for (size_t e = 0; e < r->plan->endpoint_count; e++) {
            put_block(out, p, e, KIND_SERVICE, &r->endpoints[e].service);
            if (r->plan->scheduled)
                put_block(out, p, e, KIND_SCHEDULED, &r->endpoints[e].scheduled);
        }
    }
    return file_error(out);
}
