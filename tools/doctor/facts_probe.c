#include "facts.h"

#include "common/percentile.h"

#include <base/clock.h>

#include <math.h>
#include <stdlib.h>

/* How long one process's threads were ready without a core in [from, to]. The kernel counts a wait
 * when it ends: what is more than fits into an interval belongs to those before it. */
static double waited_ns(const dz_out_series *s, uint64_t from, uint64_t to)
{
    double waited = 0, carried = 0;
    for (size_t k = s->samples.count; k-- > 0;) {
        const dz_out_sample *p = &s->samples.at[k];
        double span = (double)(p->to - p->from), here = (double)p->wait * span + carried;
        carried = fmax(0, here - span);
        here = fmin(here, span);
        uint64_t start = p->from > from ? p->from : from, end = p->to < to ? p->to : to;
        if (end > start && span > 0)
            waited += here * (double)(end - start) / span;
    }
    return waited;
}

/* The same for the whole program, at most all of the time. */
static double starved_ns(const dz_outside *outside, uint64_t from, uint64_t to)
{
    double waited = 0;
    for (size_t i = 0; i < outside->processes.count; i++)
        waited += waited_ns(&outside->processes.at[i], from, to);
    return fmin(waited, (double)(to - from));
}

void dz_facts_probe(dz_probe_facts *out, const dz_probe_samples *samples, const dz_outside *outside,
                    double others, uint64_t from, uint64_t to)
{
    memset(out, 0, sizeof *out);
    uint64_t *took = calloc(samples->count + 1, sizeof *took);
    double late = 0, late_at_all = 0;
    for (size_t i = 0; i < samples->count; i++) {
        const dz_probe_sample *s = &samples->at[i];
        uint64_t end = s->answered ? s->answered : s->until;
        if (end < from || s->sent > to)
            continue;
        double span = (double)(end - s->sent);
        double own = fmax(0, span - (double)s->waited - others * starved_ns(outside, s->sent, end));
        late_at_all += span >= DZ_STALL_MS * 1e6 ? span : 0;
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
    out->stalled_at_all = to > from ? fmin(1, late_at_all / (double)(to - from)) : 0;
    out->stalled = to > from ? fmin(1, late / (double)(to - from)) : 0;
    if (took && out->answered) {
        dz_sort_u64(took, out->answered);
        out->p50_ms = (double)dz_percentile(took, out->answered, 50) / 1e6;
        out->p90_ms = (double)dz_percentile(took, out->answered, 90) / 1e6;
        out->max_ms = (double)took[out->answered - 1] / 1e6;
    }
    free(took);
}
