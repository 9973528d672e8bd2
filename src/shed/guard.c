#include "shed/guard.h"

#include "base/clock.h"

enum { RELAXED = memory_order_relaxed };

static const uint64_t HELD_NS = DZ_SEC; /* how long a refusal counts as "now" */

/* Of a limit and of a threshold: what a class may use. */
static const double limit_share[] = {
    [DZ_SHED_NORMAL] = 1, [DZ_SHED_LOW] = 0.5, [DZ_SHED_HIGH] = 1.5};
static const double threshold_share[] = {
    [DZ_SHED_NORMAL] = 1, [DZ_SHED_LOW] = 0.8, [DZ_SHED_HIGH] = 1.25};
static const double PRESSURE_SHARE = 0.8;

void dz_guard_init(dz_guard *guard, const dz_guard_options *options, uint64_t now)
{
    *guard = (dz_guard){.options = *options};
    dz_limit_options limit = options->limit;
    if (!options->adaptive) {
        double fixed = options->in_flight_max ? (double)options->in_flight_max : limit.max;
        limit.start = limit.min = limit.max = fixed;
    }
    dz_limit_init(&guard->limit, &limit, now);
    uint64_t deadline = options->adaptive ? guard->limit.deadline_ns : UINT64_MAX;
    atomic_init(&guard->deadline_ns, options->wait_max_ns ? options->wait_max_ns : deadline);
    atomic_init(&guard->limit_milli, (uint64_t)(guard->limit.limit * 1000));
}

/* Only the loop writes: no locked instruction. */
static void add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, RELAXED) + n, RELAXED);
}

static void publish(dz_guard *guard)
{
    const dz_limit *limit = &guard->limit;
    atomic_store_explicit(&guard->in_flight, limit->in_flight, RELAXED);
    if (!guard->options.adaptive)
        return;
    atomic_store_explicit(&guard->limit_milli, (uint64_t)(limit->limit * 1000), RELAXED);
    atomic_store_explicit(&guard->probes, limit->probes, RELAXED);
    if (guard->options.wait_max_ns == 0)
        atomic_store_explicit(&guard->deadline_ns, limit->deadline_ns, RELAXED);
}

static bool beyond(uint64_t value, uint64_t threshold, double share)
{
    return threshold > 0 && (double)value > (double)threshold * share;
}

static dz_shed_reason find_reason(const dz_guard *guard, dz_shed_class class,
                                  const dz_guard_load *load)
{
    const dz_guard_options *options = &guard->options;
    double share = threshold_share[class];
    if (beyond(load->rss, options->rss_max, share))
        return DZ_SHED_BY_RSS;
    if (beyond(load->lag_ns, options->lag_max_ns, share))
        return DZ_SHED_BY_LAG;
    if (!dz_limit_has_room(&guard->limit, limit_share[class]))
        return DZ_SHED_BY_IN_FLIGHT;
    return DZ_SHED_ADMITTED;
}

static bool refused_lately(const dz_guard *guard, uint64_t now)
{
    uint64_t at = atomic_load_explicit(&guard->refused_at, RELAXED);
    return at > 0 && (now < at || now - at <= HELD_NS);
}

static bool under_pressure(const dz_guard *guard, const dz_guard_load *load)
{
    const dz_guard_options *options = &guard->options;
    const dz_limit *limit = &guard->limit;
    if (beyond(load->lag_ns, options->lag_max_ns, PRESSURE_SHARE) ||
        beyond(load->rss, options->rss_max, PRESSURE_SHARE))
        return true;
    if (options->adaptive)
        return limit->queue > limit->allowed / 2;
    return options->in_flight_max > 0 && limit->in_flight > limit->limit * PRESSURE_SHARE;
}

static void set_level(dz_guard *guard, const dz_guard_load *load)
{
    dz_shed_level level = refused_lately(guard, load->now) ? DZ_SHED_REFUSING
                          : under_pressure(guard, load)    ? DZ_SHED_PRESSURE
                                                           : DZ_SHED_CALM;
    atomic_store_explicit(&guard->level, (int)level, RELAXED);
}

static void count_refusal(dz_guard *guard, dz_shed_class class, dz_shed_reason reason, uint64_t now)
{
    add(&guard->refused[reason], 1);
    if (class == DZ_SHED_LOW)
        add(&guard->refused_low, 1);
    else
        atomic_store_explicit(&guard->refused_at, now, RELAXED);
    if (class == DZ_SHED_HIGH)
        add(&guard->refused_high, 1);
    dz_limit_refuse(&guard->limit, now);
}

dz_shed_reason dz_guard_admit(dz_guard *guard, dz_shed_class class, const dz_guard_load *load)
{
    if (class == DZ_SHED_NEVER)
        return DZ_SHED_ADMITTED;
    dz_shed_reason reason = find_reason(guard, class, load);
    if (reason != DZ_SHED_ADMITTED) {
        count_refusal(guard, class, reason, load->now);
    } else {
        dz_limit_enter(&guard->limit, load->now);
        add(&guard->admitted, 1);
    }
    set_level(guard, load);
    atomic_store_explicit(&guard->lag_ns, load->lag_ns, RELAXED);
    publish(guard);
    return reason;
}

void dz_guard_leave(dz_guard *guard, uint64_t now, const dz_limit_sample *sample)
{
    dz_limit_leave(&guard->limit, now, sample);
    if (sample)
        add(&guard->wait_ns, sample->waited);
    publish(guard);
}

void dz_guard_late(dz_guard *guard, dz_shed_class class, uint64_t now)
{
    dz_limit_leave(&guard->limit, now, NULL);
    add(&guard->late, 1);
    count_refusal(guard, class, DZ_SHED_BY_WAIT, now);
    publish(guard);
}

bool dz_guard_wants_close(dz_guard *guard)
{
    uint64_t every = guard->options.close_every;
    if (every == 0 || atomic_load_explicit(&guard->level, RELAXED) == DZ_SHED_CALM)
        return false;
    if (++guard->close_count < every)
        return false;
    guard->close_count = 0;
    return true;
}

bool dz_guard_overloaded(const dz_guard *guard, uint64_t now)
{
    return refused_lately(guard, now);
}
