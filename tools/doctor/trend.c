#include "trend.h"

#include <stddef.h>

void dz_trend_begin(dz_trend *t, uint64_t from, uint64_t to)
{
    *t = (dz_trend){.from = from, .to = to > from ? to : from + 1};
}

void dz_trend_add(dz_trend *t, uint64_t at, double value)
{
    if (at < t->from || at > t->to)
        return;
    size_t part = (size_t)((double)(at - t->from) / (double)(t->to - t->from) * DZ_TREND_PARTS);
    part = part < DZ_TREND_PARTS ? part : DZ_TREND_PARTS - 1;
    if (!t->seen[part] || value < t->floor[part])
        t->floor[part] = value;
    t->seen[part] = true;
}

void dz_trend_end(dz_trend *t)
{
    double last = 0, middle = 0;
    int steps = 0, up = 0;
    bool any = false, half = false;
    for (size_t i = 0; i < DZ_TREND_PARTS; i++) {
        if (!t->seen[i])
            continue;
        if (!any) {
            t->first = t->floor[i];
        } else {
            steps++;
            up += t->floor[i] > last;
        }
        if (i >= DZ_TREND_PARTS / 2 && !half) {
            middle = t->floor[i];
            half = true;
        }
        any = true;
        last = t->floor[i];
    }
    t->rise = any ? last - t->first : 0;
    t->late = half ? last - middle : 0;
    t->steady = steps >= 4 && up * 4 >= steps * 3;
}
