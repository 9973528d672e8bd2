#include "advice.h"

#include "judging.h"

#include <donmaz/export.h>

#include <stdarg.h>
#include <stdio.h>

static void DZ_PRINTF(2, 3) add(dz_diagnosis *d, const char *format, ...)
{
    if (d->advice_count == DZ_MAX_LINES)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(d->advice[d->advice_count++], DZ_LINE, format, args);
    va_end(args);
}

static void look_at(dz_diagnosis *d, const dz_culprit *c)
{
    if (c->line)
        add(d,
            "Look at %s in %s, line %u: is the work needed for every request, and as often as it "
            "is done? Compute it once and keep it, or do less of it.",
            c->name, c->file, c->line);
    else
        add(d, "Look at %s: is the work needed for every request, and as often as it is done?",
            c->name);
}

/* A donmaz server: what its own settings can do. */
static void free_the_loop(dz_diagnosis *d, const dz_facts *f)
{
    const dz_route_facts *r = dz_inside_route(f);
    if (f->inside.rescues < 1)
        add(d, "Let rescue do it: without --rescue-after 0 the loop leaves a handler that computes "
               "longer than 2 ms and goes on elsewhere.");
    if (r)
        add(d, "Or say beforehand that %s computes: dz_blocking(route) has it run in a worker.",
            r->name);
}

static void blocked(dz_diagnosis *d, const dz_facts *f)
{
    const dz_loop_facts *l = d->loop;
    const dz_culprit *c = l ? &l->culprit : &f->native;
    bool node = l != NULL, donmaz = f->inside.known;
    if (l && l->stall_cpu >= 0 && l->stall_cpu < 0.3)
        add(d, "Replace the synchronous call by its asynchronous form (execSync by exec, "
               "readFileSync by readFile, Atomics.wait by waitAsync).");
    else if (donmaz && dz_inside_blocked(f) == DZ_INSIDE_WAITS)
        add(d,
            "Replace the call that waits by one that parks the request (dz_sleep, dz_redis_get), "
            "or give it to a worker with dz_pool_run.");
    else if (c->known)
        look_at(d, c);
    else
        add(d, "Find the function with donmaz flame, and do its work elsewhere or less often.");
    if (donmaz)
        free_the_loop(d, f);
    else if (node)
        add(d, "What must be computed: give it to a pool of worker threads (piscina, "
               "worker_threads) or another process, so that the loop stays free.");
    else
        add(d, "What must be computed: give it to other threads or another process, so that the "
               "loop stays free.");
    add(d,
        "Until then: answer 503 when the loop's delay is above a limit%s, so that a balancer "
        "can send requests elsewhere.",
        donmaz ? " (--shed adaptive)" : "");
}

static void memory(dz_diagnosis *d)
{
    add(d, "Something that every request leaves behind is never released: look for maps, arrays "
           "and caches without a limit, listeners added per request, and timers never cleared.");
    add(d, "Compare two heap snapshots, one before and one after the load (node --inspect, "
           "Memory tab): what grew is listed by the object that holds it.");
}

static void garbage(dz_diagnosis *d, const dz_loop_facts *l)
{
    if (l && l->culprit.known)
        add(d,
            "Allocate less in %s (%s:%u): reuse buffers and objects, stream instead of building "
            "whole texts, avoid copies of large arrays per request.",
            l->culprit.name, l->culprit.file, l->culprit.line);
    else
        add(d, "Allocate less per request: reuse buffers, stream instead of building whole texts.");
    if (l && l->gcs > 2 * l->gcs_major)
        add(d, "If most of it is short-lived, a larger young generation makes collections rarer: "
               "node --max-semi-space-size=64 (MB).");
    else
        add(d, "Keep less alive: large live heaps make every full collection longer.");
}

static void cores(dz_diagnosis *d, const dz_facts *f)
{
    if (f->demand.throttled >= 0.05)
        add(d, "Raise the container's CPU quota, or start fewer threads.");
    add(d,
        "Run at most as many busy processes and worker threads as there are cores (%u here): "
        "more only take turns, which lengthens every request.",
        f->cores);
    add(d, "For more throughput: more cores, further machines behind a balancer, or less work per "
           "request (donmaz flame shows where it goes).");
}

static void overloaded(dz_diagnosis *d, const dz_facts *f)
{
    double spare = (double)f->cores - f->demand.machine;
    if (f->cores > 1 && spare >= 0.5)
        add(d,
            "One loop is full and %.1f cores are idle: run one process per core (cluster, or "
            "several instances behind a balancer).",
            spare);
    else
        add(d, "The machine is full: more instances on other machines, or less work per request.");
    add(d, "Shed load: answer 503 when the loop's delay is above a limit; requests that wait "
           "longer than their caller are work for nothing.");
    add(d, "Make the common path cheaper: donmaz flame shows where its time goes.");
}

static void waiting(dz_diagnosis *d)
{
    add(d, "The time is spent outside this program: look at the database, cache or service that "
           "these routes ask, and at the network to it.");
    add(d, "Ask in parallel what does not depend on each other, once instead of many times, and "
           "keep answers that may be kept.");
    add(d, "Check the limits in between: sizes of connection pools, keep-alive, and the four "
           "threads that files and DNS share (UV_THREADPOOL_SIZE).");
}

static void no_data(dz_diagnosis *d, const dz_facts *f)
{
    if (f->seconds < 1)
        add(d, "Load it longer: --load '-d5 /path', or --duration 5s for a program without load.");
    else
        add(d, "Give it something to do: --load '-c100 /path', or --on-port 'CMD' with $PORT.");
}

void dz_advise(dz_diagnosis *d, const dz_facts *f)
{
    switch (d->verdict) {
    case DZ_VERDICT_BLOCKED:
        blocked(d, f);
        break;
    case DZ_VERDICT_MEMORY:
        memory(d);
        break;
    case DZ_VERDICT_GARBAGE:
        garbage(d, d->loop);
        break;
    case DZ_VERDICT_CORES:
        cores(d, f);
        break;
    case DZ_VERDICT_OVERLOADED:
        overloaded(d, f);
        break;
    case DZ_VERDICT_WAITING:
        waiting(d);
        break;
    case DZ_VERDICT_NO_DATA:
        no_data(d, f);
        break;
    default:
        add(d, "Nothing to do. To find its limit, raise the load until the verdict changes.");
    }
}
