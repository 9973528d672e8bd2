#include "app/meter.h"

#include "base/clock.h"

#include <stdlib.h>

enum { RELAXED = memory_order_relaxed };

dz_meter *dz_meter_new(unsigned loops, size_t routes)
{
    dz_meter *meter = calloc(1, sizeof *meter);
    if (!meter)
        return NULL;
    meter->loops = loops;
    meter->routes = routes;
    meter->by_loop = aligned_alloc(_Alignof(dz_loop_meter), loops * sizeof *meter->by_loop);
    meter->by_route = calloc(loops * routes, sizeof *meter->by_route);
    if (!meter->by_loop || !meter->by_route) {
        dz_meter_free(meter);
        return NULL;
    }
    for (unsigned i = 0; i < loops; i++) {
        atomic_init(&meter->by_loop[i].ended, 0);
        atomic_init(&meter->by_loop[i].aborted, 0);
        meter->by_loop[i].epoch = meter->by_loop[i].epoch_until = 0;
    }
    return meter;
}

void dz_meter_free(dz_meter *meter)
{
    if (!meter)
        return;
    free(meter->by_loop);
    free(meter->by_route);
    free(meter);
}

static size_t status_index(int status)
{
    int index = status - DZ_STATUS_FIRST;
    return index >= 0 && index < DZ_STATUS_COUNT ? (size_t)index : DZ_STATUS_GONE - DZ_STATUS_FIRST;
}

void dz_meter_note(dz_meter *meter, unsigned loop, size_t route, int status, uint64_t ns)
{
    dz_route_meter *at = &meter->by_route[loop * meter->routes + route];
    dz_histogram_bump(&at->statuses[status_index(status)], 1);
    dz_histogram_put(&at->latency, ns);
}

void dz_meter_note_work(dz_meter *meter, unsigned loop, size_t route, uint64_t ran_ns,
                        uint64_t used_ns)
{
    dz_route_meter *at = &meter->by_route[loop * meter->routes + route];
    uint64_t us = used_ns / 1000;
    dz_histogram_bump(&at->ran_ns, ran_ns);
    dz_histogram_bump(&at->used_ns, used_ns);
    dz_histogram_bump(&at->used_us_squared, us * us);
}

dz_meter_work dz_meter_work_of(const dz_meter *meter, size_t route)
{
    dz_meter_work sum = {0};
    for (unsigned loop = 0; loop < meter->loops; loop++) {
        const dz_route_meter *at = &meter->by_route[loop * meter->routes + route];
        sum.ran_ns += atomic_load_explicit(&at->ran_ns, RELAXED);
        sum.used_ns += atomic_load_explicit(&at->used_ns, RELAXED);
        sum.used_us_squared += atomic_load_explicit(&at->used_us_squared, RELAXED);
    }
    return sum;
}

uint64_t dz_meter_wall_clock(dz_loop_meter *loop, uint64_t now)
{
    if (now >= loop->epoch_until) {
        loop->epoch = dz_clock(CLOCK_REALTIME) - dz_now();
        loop->epoch_until = now + DZ_SEC;
    }
    return loop->epoch + now;
}

uint64_t dz_meter_count(const dz_meter *meter, size_t route, int status)
{
    uint64_t sum = 0;
    for (unsigned loop = 0; loop < meter->loops; loop++)
        sum += atomic_load_explicit(
            &meter->by_route[loop * meter->routes + route].statuses[status_index(status)], RELAXED);
    return sum;
}

const dz_histogram *dz_meter_latency(const dz_meter *meter, unsigned loop, size_t route)
{
    return &meter->by_route[loop * meter->routes + route].latency;
}
