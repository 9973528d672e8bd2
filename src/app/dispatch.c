#include "app/app.h"

#include <donmaz/error.h>

/* From a request to its handler and back:
 *
 *   conn.c: head complete ─> start ─> (loop or worker) run ─> done ─> conn.c: finish
 */

/* --- on the handler's stack --- */

void dz_next(dz_request *req, dz_response *res)
{
    const dz_route *route = dz_call_of(req)->route;
    if (req->step < route->chain_len)
        route->chain[req->step++](req, res);
}

/* What the handler left open. */
static void complete(dz_request *req)
{
    dz_response *res = &req->res;
    switch (res->state) {
    case DZ_RESPONSE_COMPLETE:
        return;
    case DZ_RESPONSE_STREAMING:
        dz_http_end(req); /* a client that is gone needs no end */
        return;
    case DZ_RESPONSE_OPEN:
        break;
    }
    const dz_body *body = &req->body;
    if (body->state == DZ_BODY_STATE_FAILED && body->status)
        dz_core_render_error(req, res, body->status, body->error);
    else if (body->state != DZ_BODY_STATE_FAILED)
        dz_core_render_error(req, res, 500, 0);
}

static void run(dz_fiber *fiber)
{
    dz_request *req = fiber->owner;
    dz_next(req, &req->res);
    complete(req);
    dz_core_run_after(dz_call_of(req)->core, req);
}

/* --- on the loop --- */

static void done(dz_loop *loop, dz_fiber *fiber)
{
    (void)loop;
    dz_request *req = fiber->owner;
    dz_call *call = dz_call_of(req);
    dz_route *route = req->route;
    dz_core *core = call->core;
    if (fiber->rescued)
        dz_core_warn_rescue(core, route, fiber);
    dz_route_learn(route, fiber, core->settings.rescue_after_ns > 0);
    req->fiber = NULL;
    dz_fiber_free(fiber);
    dz_http_finish(req);
}

static void run_on_worker(dz_job *job)
{
    dz_fiber_run_here(DZ_CONTAINER(job, dz_call, job)->req->fiber);
}

static dz_pool *pool_for(const dz_core *core, dz_route_class klass)
{
    return klass == DZ_ROUTE_HEAVY ? core->heavy : core->medium;
}

static bool offload(dz_request *req, dz_route_class klass)
{
    dz_call *call = dz_call_of(req);
    call->job.run = run_on_worker;
    return dz_pool_submit(pool_for(call->core, klass), &call->job) == 0;
}

/* A parked handler of an offloaded route goes on: on a worker again if one takes it, else here; it
 * must not be lost. */
static void dispatch_again(dz_fiber *fiber)
{
    dz_request *req = fiber->owner;
    dz_route_class klass = dz_route_now(req->route);
    if (klass != DZ_ROUTE_LIGHT && offload(req, klass))
        return;
    fiber->dispatch = NULL;
    dz_fiber_ready(fiber);
}

/* The route for a request, or the one that says why there is none. */
static dz_route *find_route(dz_core *core, const dz_request *req, dz_route_match *match)
{
    unsigned method = req->head.method;
    if (dz_router_find(core->router, method, req->head.path, match) == 0)
        return match->route;
    if (method == DZ_HEAD && dz_router_find(core->router, DZ_GET, req->head.path, match) == 0)
        return match->route;
    if (method == DZ_OPTIONS && (match->allowed || dz_slice_equal(req->head.target, DZ_LIT("*"))))
        return &core->options;
    return match->allowed ? &core->not_allowed : &core->not_found;
}

void dz_dispatch_start(void *context, dz_request *req)
{
    dz_core *core = context;
    dz_call *call = dz_arena_alloc(&req->arena, sizeof *call);
    dz_fiber *fiber = call ? dz_fiber_new(req->loop) : NULL;
    if (!fiber) {
        dz_http_reject(req, 503);
        return;
    }
    call->core = core;
    call->req = req;
    req->app = call;
    req->fiber = fiber;
    dz_route *route = find_route(core, req, &call->match);
    req->route = route;
    call->route = route;
    if (route->body_max)
        req->body.limit = route->body_max;
    fiber->entry = run;
    fiber->done = done;
    fiber->owner = req;
    fiber->gone = &req->gone;
    fiber->label = route->label;

    dz_route_class klass = dz_route_now(route);
    if (klass != DZ_ROUTE_LIGHT) {
        fiber->dispatch = dispatch_again;
        if (offload(req, klass))
            return;
        fiber->dispatch = NULL;
        req->route = &core->overloaded;
        call->route = &core->overloaded;
    } else {
        fiber->measure_cpu = dz_route_wants_probe(route);
    }
    dz_fiber_ready(fiber);
}
