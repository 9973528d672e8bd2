#include "app/app.h"

#include <donmaz/error.h>

/* From a request to its handler and back:
 *
 *   next.c: head complete ─> start ─> (loop or worker) run ─> done ─> finish.c: finish
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
    const dz_call *call = dz_call_of(req);
    bool protected = call->counted || call->refused;
    if (!protected || !dz_shed_at_turn(req))
        dz_next(req, &req->res);
    complete(req);
    dz_core_run_after(dz_call_of(req)->core, req);
}

/* --- on the loop --- */

static void done(dz_loop *loop, dz_fiber *fiber)
{
    dz_request *req = fiber->owner;
    dz_call *call = dz_call_of(req);
    dz_route *route = req->route;
    dz_core *core = call->core;
    call->rescued = fiber->rescued;
    if (fiber->rescued)
        dz_core_warn_rescue(core, route, fiber);
    dz_route_learn(route, fiber, core->settings.rescue_after_ns > 0 && !call->refused);
    dz_meter_note_work(core->meter, loop->index, call->matched->index, fiber->ran_ns,
                       fiber->used_ns);
    if (call->counted)
        dz_shed_leave(req, fiber);
    dz_core_keep_head(core, req);
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
    static const dz_priority priorities[] = {[DZ_SHED_LOW] = DZ_PRIORITY_LOW,
                                             [DZ_SHED_HIGH] = DZ_PRIORITY_HIGH,
                                             [DZ_SHED_NEVER] = DZ_PRIORITY_HIGH};
    dz_priority priority = priorities[call->route->shed_class];
    return dz_pool_submit_with(pool_for(call->core, klass), &call->job, priority) == 0;
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
    if (!call) {
        dz_http_reject(req, 503);
        return;
    }
    *call = (dz_call){.core = core, .req = req};
    req->app = call;
    dz_route *route = find_route(core, req, &call->match);
    req->route = route;
    call->route = call->matched = route;
    if (route->body_max)
        req->body.limit = route->body_max;
    dz_admission admission = core->shed ? dz_shed_admit(req) : DZ_ADMITTED;
    if (admission == DZ_REFUSED)
        return;
    dz_fiber *fiber = dz_fiber_new(req->loop);
    if (!fiber) {
        if (call->counted)
            dz_shed_leave(req, NULL);
        dz_http_reject(req, 503);
        return;
    }
    req->fiber = fiber;
    fiber->entry = run;
    fiber->done = done;
    fiber->owner = req;
    fiber->gone = &req->gone;
    fiber->label = route->label;

    dz_route_class klass = admission == DZ_ADMITTED ? dz_route_now(route) : DZ_ROUTE_LIGHT;
    if (klass != DZ_ROUTE_LIGHT) {
        fiber->dispatch = dispatch_again;
        if (offload(req, klass))
            return;
        fiber->dispatch = NULL;
        req->route = &core->overloaded;
        call->route = &core->overloaded;
    } else {
        fiber->measure_cpu = dz_route_wants_probe(route) || dz_route_is_watched(route);
    }
    dz_fiber_ready(fiber);
}
