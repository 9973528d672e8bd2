#include "app/shedding.h"

#include <donmaz/error.h>

/* Between the requests (dispatch.c) and the guards (src/shed). */

enum { RELAXED = memory_order_relaxed };
static const uint64_t WORD_NS = 10 * DZ_SEC;

const char *dz_shed_reason_text(dz_shed_reason reason)
{
    static const char *const texts[] = {[DZ_SHED_ADMITTED] = "admitted",
                                        [DZ_SHED_BY_IN_FLIGHT] = "in flight",
                                        [DZ_SHED_BY_WAIT] = "queue wait",
                                        [DZ_SHED_BY_LAG] = "loop lag",
                                        [DZ_SHED_BY_RSS] = "memory"};
    return (unsigned)reason < DZ_SHED_REASONS ? texts[reason] : "unknown";
}

/* --- answers --- */

static const char *type_of(dz_slice body)
{
    bool json = body.len > 0 && (body.ptr[0] == '{' || body.ptr[0] == '[');
    return json ? "application/json" : "text/plain; charset=utf-8";
}

/* What to send instead of a rendered error; .ptr NULL: nothing was set. */
static dz_slice body_of(const dz_core *core, const char **type)
{
    const char *text = core->settings.shed_body;
    dz_slice body = text ? dz_slice_of(text) : core->shed_text;
    *type = core->shed_type && !text ? core->shed_type : type_of(body);
    return body;
}

static void answer(dz_request *req, dz_response *res)
{
    dz_core *core = dz_call_of(req)->core;
    const char *type;
    dz_slice body = body_of(core, &type);
    dz_res_header(res, "Retry-After", core->shed->retry_after);
    if (body.ptr)
        dz_send_borrowed(res, 503, type, body);
    else
        dz_core_render_error(req, res, 503, DZ_E_UNAVAILABLE);
}

/* Without a fiber: the cheapest way, and at once. */
static void answer_here(dz_request *req)
{
    static const char message[] =
        "{\"error\":\"Service Unavailable\",\"message\":\"overloaded: retry later\"}\n";
    dz_core *core = dz_call_of(req)->core;
    dz_response *res = &req->res;
    const char *type;
    dz_slice text = body_of(core, &type);
    if (!text.ptr) {
        text = dz_slice_make(message, sizeof message - 1);
        type = type_of(text);
    }
    dz_buf body = dz_buf_borrow(text);
    dz_core_set_header(res, DZ_LIT("Retry-After"), dz_slice_of(core->shed->retry_after));
    res->status = 503;
    res->content_type = dz_slice_of(type);
    dz_core_keep_head(core, req);
    dz_http_answer(req, &body);
}

void dz_shed(dz_request *req, dz_response *res)
{
    if (dz_call_of(req)->refused)
        answer(req, res);
    else
        dz_next(req, res);
}

/* --- on the loop --- */

static dz_guard *guard_of(const dz_request *req)
{
    return &dz_call_of(req)->core->shed->guards[req->loop->index];
}

static void log_refusing(dz_core *core, const dz_guard *guard, dz_shed_reason reason, uint64_t now)
{
    uint64_t next = atomic_load_explicit(&core->shed->next_word, RELAXED);
    if (now < next || !atomic_compare_exchange_strong(&core->shed->next_word, &next, now + WORD_NS))
        return;
    dz_core_log(core, 40, "overloaded: refusing requests (%s), %llu in flight on this loop",
                dz_shed_reason_text(reason),
                (unsigned long long)atomic_load_explicit(&guard->in_flight, RELAXED));
}

static void maybe_close(dz_request *req, dz_guard *guard)
{
    if (!dz_guard_wants_close(guard) || !dz_http_close_after(req))
        return;
    uint64_t closed = atomic_load_explicit(&guard->closed, RELAXED);
    atomic_store_explicit(&guard->closed, closed + 1, RELAXED);
}

dz_admission dz_shed_admit(dz_request *req)
{
    dz_call *call = dz_call_of(req);
    const dz_route *route = call->route;
    dz_shedding *shed = call->core->shed;
    if (!route->guarded)
        return DZ_ADMITTED;
    const dz_loop *loop = req->loop;
    dz_guard *guard = guard_of(req);
    const dz_guard_load load = {.now = loop->now,
                                .lag_ns = shed->watches_lag ? dz_loop_lag(loop) : 0,
                                .rss = shed->watches_rss ? dz_rss_now(&shed->rss, loop->now) : 0};
    call->refused = dz_guard_admit(guard, (dz_shed_class)route->shed_class, &load);
    maybe_close(req, guard);
    if (call->refused == DZ_SHED_ADMITTED) {
        call->counted = true;
        /* It came at any time while the loop was away: in the mean, half of it. */
        call->lagged_ns = loop->away_ns >= DZ_MS ? loop->away_ns / 2 : 0;
        return DZ_ADMITTED;
    }
    dz_http_hold_back(req);
    log_refusing(call->core, guard, call->refused, loop->now);
    if (route->answers_shed || (call->core->on_error && !call->core->shed_text.ptr))
        return DZ_REFUSED_WITH_FIBER;
    answer_here(req);
    return DZ_REFUSED;
}

void dz_shed_leave(dz_request *req, const dz_fiber *fiber)
{
    dz_call *call = dz_call_of(req);
    dz_shedding *shed = call->core->shed;
    const dz_loop *loop = req->loop;
    dz_guard *guard = guard_of(req);
    if (call->refused) {
        dz_guard_late(guard, (dz_shed_class)call->route->shed_class, loop->now);
        log_refusing(call->core, guard, call->refused, loop->now);
        return;
    }
    if (!fiber || fiber->began == 0 || call->route == &call->core->overloaded) {
        dz_guard_leave(guard, loop->now, NULL);
        return;
    }
    uint64_t began = fiber->began > req->started ? fiber->began : req->started;
    const dz_limit_sample sample = {
        .route = &shed->routes[loop->index * shed->route_count + call->route->guard_index],
        .admitted = req->started,
        .waited = began - req->started,
        .served = loop->now > began ? loop->now - began : 0,
        .lagged = call->lagged_ns,
    };
    dz_guard_leave(guard, loop->now, &sample);
}

/* --- on the handler's stack --- */

bool dz_shed_at_turn(dz_request *req)
{
    dz_call *call = dz_call_of(req);
    uint64_t began = req->fiber->began;
    uint64_t waited = began > req->started ? began - req->started : 0;
    if (call->refused == DZ_SHED_ADMITTED) {
        if (!dz_guard_is_late(guard_of(req), waited))
            return false;
        call->refused = DZ_SHED_BY_WAIT;
    }
    if (call->route->answers_shed)
        return false;
    answer(req, &req->res);
    return true;
}

/* --- figures --- */

static uint64_t get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit((_Atomic uint64_t *)(uintptr_t)counter, RELAXED);
}

static void add_guard(dz_shed_stats *stats, const dz_guard *guard)
{
    dz_shed_level level =
        (dz_shed_level)atomic_load_explicit(&((dz_guard *)(uintptr_t)guard)->level, RELAXED);
    stats->level = level > stats->level ? level : stats->level;
    stats->limit += (double)get(&guard->limit_milli) / 1000;
    stats->in_flight += get(&guard->in_flight);
    stats->admitted += get(&guard->admitted) - get(&guard->late);
    stats->refused_low += get(&guard->refused_low);
    stats->refused_high += get(&guard->refused_high);
    stats->closed += get(&guard->closed);
    stats->wait_ns += get(&guard->wait_ns);
    stats->probes += get(&guard->probes);
    uint64_t lag = get(&guard->lag_ns);
    stats->lag_ns = lag > stats->lag_ns ? lag : stats->lag_ns;
    for (int i = DZ_SHED_ADMITTED + 1; i < DZ_SHED_REASONS; i++) {
        stats->refused_by[i] += get(&guard->refused[i]);
        stats->refused += get(&guard->refused[i]);
    }
}

void dz_shed_get_stats(const dz_app *app, dz_shed_stats *stats)
{
    const dz_shedding *shed = app->core->shed;
    *stats = (dz_shed_stats){.on = shed != NULL};
    if (!shed)
        return;
    for (unsigned i = 0; i < shed->loop_count; i++)
        add_guard(stats, &shed->guards[i]);
    stats->rss = get(&shed->rss.bytes);
    stats->rss_failures = get(&shed->rss.failures);
}

bool dz_shed_overloaded(const dz_app *app)
{
    const dz_shedding *shed = app->core->shed;
    uint64_t now = dz_now();
    for (unsigned i = 0; shed && i < shed->loop_count; i++)
        if (dz_guard_overloaded(&shed->guards[i], now))
            return true;
    return false;
}
