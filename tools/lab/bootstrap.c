#include "bootstrap.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { RESAMPLES = 4000 };

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double dz_lab_median(double *values, size_t count)
{
    if (count == 0)
        return NAN;
    qsort(values, count, sizeof *values, ascending);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* xorshift64* (Vigna): good enough to draw indices, and the same everywhere. */
static size_t draw(uint64_t *state, size_t count)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (size_t)(((*state * UINT64_C(2685821657736338717)) >> 11) % count);
}

static double resampled_median(const double *values, size_t count, double *room, uint64_t *state)
{
    for (size_t i = 0; i < count; i++)
        room[i] = values[draw(state, count)];
    return dz_lab_median(room, count);
}

static void limits(double *medians, double *low, double *high)
{
    qsort(medians, RESAMPLES, sizeof *medians, ascending);
    *low = medians[RESAMPLES * 25 / 1000];
    *high = medians[RESAMPLES * 975 / 1000 - 1];
}

bool dz_lab_median_interval(const double *values, size_t count, double *low, double *high)
{
    if (count < DZ_LAB_CI_MIN)
        return false;
    double *room = calloc(count + RESAMPLES, sizeof *room);
    if (!room)
        return false;
    double *medians = room + count;
    uint64_t state = UINT64_C(0x9E3779B97F4A7C15);
    for (size_t i = 0; i < RESAMPLES; i++)
        medians[i] = resampled_median(values, count, room, &state);
    limits(medians, low, high);
    free(room);
    return true;
}

bool dz_lab_ratio_interval(const double *a, size_t a_count, const double *b, size_t b_count,
                           double *low, double *high)
{
    if (a_count < DZ_LAB_CI_MIN || b_count < DZ_LAB_CI_MIN)
        return false;
    size_t most = a_count > b_count ? a_count : b_count;
    double *room = calloc(most + RESAMPLES, sizeof *room);
    if (!room)
        return false;
    double *ratios = room + most;
    uint64_t state = UINT64_C(0x9E3779B97F4A7C15);
    bool defined = true;
    for (size_t i = 0; i < RESAMPLES; i++) {
        double above = resampled_median(a, a_count, room, &state);
        double below = resampled_median(b, b_count, room, &state);
        defined = defined && below != 0;
        ratios[i] = defined ? above / below : 0;
    }
    limits(ratios, low, high);
    free(room);
    return defined;
}
