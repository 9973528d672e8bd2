/* trend.h: whether a noisy series that is emptied now and then (a heap, by its collector) rises: by
 * the lowest value in each of twelve equal parts of the window. */
#ifndef DZ_DOCTOR_TREND_H
#define DZ_DOCTOR_TREND_H

#include <stdbool.h>
#include <stdint.h>

enum { DZ_TREND_PARTS = 12 };

typedef struct dz_trend {
    uint64_t from, to;
    double floor[DZ_TREND_PARTS];
    bool seen[DZ_TREND_PARTS];
    double first; /* floor of the first part */
    double rise;  /* from the first part to the last */
    double late;  /* from the middle to the last */
    bool steady;  /* higher than the part before in at least three of four steps */
} dz_trend;

void dz_trend_begin(dz_trend *trend, uint64_t from, uint64_t to);
void dz_trend_add(dz_trend *trend, uint64_t at, double value);
void dz_trend_end(dz_trend *trend);

#endif
