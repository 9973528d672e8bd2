#include "window.h"

#include <base/clock.h>

#define BUSY 0.05f

static void widen(uint64_t from, uint64_t to, uint64_t *first, uint64_t *last)
{
    *first = from < *first ? from : *first;
    *last = to > *last ? to : *last;
}

void dz_window_trim(const dz_feed *feed, const dz_outside *outside, uint64_t *from, uint64_t *to)
{
    uint64_t first = UINT64_MAX, last = 0;
    for (size_t i = 0; feed && i < feed->threads.count; i++) {
        const dz_js_series *s = &feed->threads.at[i];
        uint64_t seen = s->started;
        for (size_t k = 0; k < s->samples.count; k++) {
            const dz_js_sample *sample = &s->samples.at[k];
            seen = sample->to;
            if (sample->to < *from || sample->from > *to)
                continue;
            if (sample->begun || sample->inflight || sample->longest)
                widen(sample->from, sample->to, &first, &last);
        }
        if (seen && seen + DZ_SEC < *to && !s->exiting)
            widen(seen, *to, &first, &last);
    }
    /* A process's first seconds of compiling are work too, but no one's request: only where no
     * request is seen does CPU tell. */
    for (size_t i = 0; last == 0 && outside && i < outside->processes.count; i++) {
        const dz_out_series *s = &outside->processes.at[i];
        for (size_t k = 0; k < s->samples.count; k++) {
            const dz_out_sample *sample = &s->samples.at[k];
            if (sample->from >= *from && sample->to <= *to && sample->cpu >= BUSY)
                widen(sample->from, sample->to, &first, &last);
        }
    }
    if (last <= first)
        return;
    *from = first > *from ? first : *from;
    *to = last < *to ? last : *to;
}
