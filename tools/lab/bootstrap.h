/* bootstrap.h: how sure a median of few repeats is. */
#ifndef DZ_LAB_BOOTSTRAP_H
#define DZ_LAB_BOOTSTRAP_H

#include <stdbool.h>
#include <stddef.h>

/* Fewer repeats than this say nothing about spread. */
enum { DZ_LAB_CI_MIN = 3 };

/* The median of values[0..count), which it sorts. NaN when count is 0. */
double dz_lab_median(double *values, size_t count);

/* The 95% percentile-bootstrap interval of the median: 4,000 resamples from a fixed seed, so the
 * same values always give the same interval. false when count < DZ_LAB_CI_MIN or out of memory. */
bool dz_lab_median_interval(const double *values, size_t count, double *low, double *high);

/* The same for median(a) / median(b): whether two runs differ. false also when a median of b could
 * be 0. */
bool dz_lab_ratio_interval(const double *a, size_t a_count, const double *b, size_t b_count,
                           double *low, double *high);

#endif
