#include "facts.h"

#include "common/percentile.h"

#include <base/clock.h>

#include <math.h>
#include <stdlib.h>

/* Time in [from, to] that the program's threads were ready and had no core, at most all of it. */
static double starved_ns(const dz_outside *outside, uint64_t from, uint64_t to)
{
    double waited = 0;
    for (size_t i = 0; i < outside->processes.count; i++) {
        const dz_out_series *s = &outside->processes.at[i];
        for (size_t k = 0; k < s->samples.count; k++) {
            const dz_out_sample *p = &s->samples.at[k];
            uint64_t start = p->from > from ? p->from : from, end = p->to < to ? p->to : to;
            if (end > start)
                waited += (double)(end - start) * fmin(1, (double)p->wait);
        }
    }
    return fmin(waited, (double)(to - from));
}

void dz_facts_probe(dz_probe_facts *out, const dz_probe_samples *samples, const dz_outside *outside,
                    double others, uint64_t from, uint64_t to)
{
    memset(out, 0, sizeof *out);
    uint64_t *took = calloc(samples->count + 1, sizeof *took);
    double late = 0;
    for (size_t i = 0; i < samples->count; i++) {
        const dz_probe_sample *s = &samples->at[i];
        uint64_t end = s->answered ? s->answered : s->until;
        if (end < from || s->sent > to)
            continue;
        double span = (double)(end - s->sent);
        double own = fmax(0, span - (double)s->waited - others * starved_ns(outside, s->sent, end));
        if (!s->answered) {
            out->pending_ms = own / 1e6;
            late += own;
            continue;
        }
        if (took)
            took[out->answered] = (uint64_t)own;
        out->answered++;
        if (own >= DZ_STALL_MS * 1e6) {
            out->late++;
            late += own;
        }
    }
    out->count = samples->count;
    out->stalled = to > from ? fmin(1, late / (double)(to - from)) : 0;
    if (took && out->answered) {
        dz_sort_u64(took, out->answered);
        out->p50_ms = (double)dz_percentile(took, out->answered, 50) / 1e6;
        out->p90_ms = (double)dz_percentile(took, out->answered, 90) / 1e6;
        out->max_ms = (double)took[out->answered - 1] / 1e6;
    }
    free(took);
}
