#include "simulate.h"

#include "base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum sim_event_kind { ARRIVE, SERVED, ANSWERED, STALL, WAKE } sim_event_kind;

typedef struct sim_request {
    uint64_t admitted, began;
    unsigned loop, route;
    struct sim_request *next;
} sim_request;

typedef struct sim_event {
    uint64_t at, order;
    sim_event_kind kind;
    sim_request *request;
} sim_event;

typedef struct sim_queue {
    sim_request *first, *last;
    unsigned length;
} sim_queue;

typedef struct sim {
    const sim_world *world;
    sim_limiter *limiters;
    dz_limit_route *routes;
    sim_result *result;
    sim_event *heap;
    size_t count, cap;
    uint64_t now, order, random, end, stalled_until;
    unsigned busy, busy_behind, next_loop;
    sim_queue waiting, waiting_behind;
    double *latencies; /* of this second, ms */
    size_t latency_count;
    double latency_sum;
} sim;

enum { LATENCIES = 1 << 20 };

/* --- chance --- */

static double uniform(sim *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return ((double)(s->random >> 11) + 0.5) / 9007199254740992.0;
}

static uint64_t exponential(sim *s, double mean_ns)
{
    return (uint64_t)(-log(uniform(s)) * mean_ns);
}

static uint64_t scattered(sim *s, double mean_ns, double scatter)
{
    double rest = mean_ns * (1 - scatter);
    return (uint64_t)rest + (scatter > 0 ? exponential(s, mean_ns * scatter) : 0);
}

static bool stepped(const sim *s)
{
    return s->world->step_at > 0 && (double)s->now >= s->world->step_at * 1e9;
}

static double changed(const sim *s, double factor)
{
    return stepped(s) && factor > 0 ? factor : 1;
}

/* --- the events, soonest first --- */

static bool before(const sim_event *a, const sim_event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void push(sim *s, uint64_t at, sim_event_kind kind, sim_request *request)
{
    if (s->count == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 1024;
        s->heap = realloc(s->heap, s->cap * sizeof *s->heap);
        if (!s->heap)
            abort();
    }
    size_t i = s->count++;
    sim_event event = {.at = at, .order = s->order++, .kind = kind, .request = request};
    for (; i > 0 && before(&event, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = event;
}

static sim_event pop(sim *s)
{
    sim_event first = s->heap[0], last = s->heap[--s->count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < s->count; i = child) {
        if (child + 1 < s->count && before(&s->heap[child + 1], &s->heap[child]))
            child++;
        if (!before(&s->heap[child], &last))
            break;
        s->heap[i] = s->heap[child];
    }
    s->heap[i] = last;
    return first;
}

static void enqueue(sim_queue *queue, sim_request *request)
{
    request->next = NULL;
    if (queue->last)
        queue->last->next = request;
    else
        queue->first = request;
    queue->last = request;
    queue->length++;
}

static sim_request *dequeue(sim_queue *queue)
{
    sim_request *request = queue->first;
    if (!request)
        return NULL;
    queue->first = request->next;
    if (!queue->first)
        queue->last = NULL;
    queue->length--;
    return request;
}

/* --- the figures of a second --- */

static sim_second *second_of(sim *s)
{
    size_t i = (size_t)(s->now / DZ_SEC);
    return &s->result->seconds[i < SIM_SECONDS ? i : SIM_SECONDS - 1];
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void close_second(sim *s, unsigned index)
{
    sim_second *second = &s->result->seconds[index];
    for (unsigned i = 0; i < s->world->loops; i++)
        second->limit += s->limiters[i].limit(s->limiters[i].self);
    if (s->latency_count > 0) {
        qsort(s->latencies, s->latency_count, sizeof(double), by_size);
        second->mean_ms = s->latency_sum / (double)s->latency_count;
        second->p99_ms = s->latencies[(s->latency_count * 99) / 100];
    }
    s->latency_count = 0;
    s->latency_sum = 0;
}

/* --- the service --- */

static void start_behind(sim *s, sim_request *request)
{
    double ms = s->world->routes[request->route].behind_ms * changed(s, s->world->behind_2);
    s->busy_behind++;
    push(s, s->now + exponential(s, ms * 1e6), ANSWERED, request);
}

static void drop(sim *s, sim_request *request)
{
    sim_limiter *limiter = &s->limiters[request->loop];
    second_of(s)->dropped++;
    limiter->leave(limiter->self, s->now, NULL);
    limiter->refuse(limiter->self, s->now);
    free(request);
}

static void serve_waiting(sim *s)
{
    while (s->busy < s->world->threads && s->now >= s->stalled_until) {
        sim_request *request = dequeue(&s->waiting);
        if (!request)
            return;
        sim_limiter *limiter = &s->limiters[request->loop];
        if (limiter->deadline && s->now - request->admitted > limiter->deadline(limiter->self)) {
            drop(s, request);
            continue;
        }
        const sim_route *route = &s->world->routes[request->route];
        request->began = s->now;
        s->busy++;
        push(s,
             s->now + scattered(s, route->service_ms * changed(s, s->world->slower_2) * 1e6,
                                route->scatter),
             SERVED, request);
    }
}

static void arrive_one(sim *s)
{
    const sim_world *w = s->world;
    double pick = uniform(s);
    unsigned route = 0;
    while (route + 1 < w->route_count && pick >= w->routes[route].share)
        pick -= w->routes[route++].share;
    unsigned loop = s->next_loop++ % w->loops;
    sim_limiter *limiter = &s->limiters[loop];
    sim_second *second = second_of(s);
    second->offered++;
    second->route_offered[route]++;
    if (!limiter->room(limiter->self)) {
        second->refused++;
        limiter->refuse(limiter->self, s->now);
        return;
    }
    sim_request *request = calloc(1, sizeof *request);
    if (!request)
        abort();
    *request = (sim_request){.admitted = s->now, .loop = loop, .route = route};
    limiter->enter(limiter->self, s->now);
    enqueue(&s->waiting, request);
    serve_waiting(s);
}

static void arrive(sim *s)
{
    const sim_world *w = s->world;
    double burst = w->burst > 1 ? w->burst : 1;
    double rate = stepped(s) && w->rate_2 > 0 ? w->rate_2 : w->rate;
    for (double i = 0; i < burst; i++)
        arrive_one(s);
    push(s, s->now + exponential(s, 1e9 * burst / rate), ARRIVE, NULL);
}

static void answered(sim *s, sim_request *request)
{
    sim_limiter *limiter = &s->limiters[request->loop];
    sim_second *second = second_of(s);
    double ms = (double)(s->now - request->admitted) / 1e6;
    second->served++;
    second->loop_served[request->loop]++;
    second->route_served[request->route]++;
    if (s->latency_count < LATENCIES)
        s->latencies[s->latency_count++] = ms;
    s->latency_sum += ms;
    const dz_limit_sample sample = {.route =
                                        &s->routes[request->loop * SIM_ROUTES + request->route],
                                    .admitted = request->admitted,
                                    .waited = request->began - request->admitted,
                                    .served = s->now - request->began};
    limiter->leave(limiter->self, s->now, &sample);
    free(request);
}

static void served(sim *s, sim_request *request)
{
    s->busy--;
    if (s->world->routes[request->route].behind_ms <= 0)
        answered(s, request);
    else if (s->world->behind == 0 || s->busy_behind < s->world->behind)
        start_behind(s, request);
    else
        enqueue(&s->waiting_behind, request);
    serve_waiting(s);
}

static void happen(sim *s, const sim_event *event)
{
    switch (event->kind) {
    case ARRIVE:
        arrive(s);
        break;
    case SERVED:
        served(s, event->request);
        break;
    case ANSWERED:
        s->busy_behind--;
        answered(s, event->request);
        sim_request *next = dequeue(&s->waiting_behind);
        if (next)
            start_behind(s, next);
        break;
    case STALL:
        s->stalled_until = s->now + (uint64_t)(s->world->hiccup * 1e6);
        push(s, s->stalled_until, WAKE, NULL);
        push(s, s->now + DZ_SEC, STALL, NULL);
        break;
    case WAKE:
        serve_waiting(s);
        break;
    }
}

void sim_run(const sim_world *world, sim_limiter *limiters, dz_limit_route *routes,
             sim_result *result)
{
    sim s = {.world = world,
             .limiters = limiters,
             .routes = routes,
             .result = result,
             .random = world->seed * 0x9e3779b97f4a7c15U + 1,
             .end = (uint64_t)(world->seconds * 1e9)};
    s.latencies = malloc(LATENCIES * sizeof *s.latencies);
    if (!s.latencies)
        abort();
    memset(result, 0, sizeof *result);
    push(&s, 0, ARRIVE, NULL);
    if (world->hiccup > 0)
        push(&s, DZ_SEC / 2, STALL, NULL);
    unsigned second = 0;
    while (s.count > 0) {
        sim_event event = pop(&s);
        if (event.at < s.end)
            for (; second < event.at / DZ_SEC; second++)
                close_second(&s, second);
        if (event.at >= s.end) { /* only to give back what is under way */
            free(event.request);
            continue;
        }
        s.now = event.at;
        happen(&s, &event);
    }
    close_second(&s, second);
    result->count = second + 1;
    for (sim_request *r; (r = dequeue(&s.waiting)) || (r = dequeue(&s.waiting_behind));)
        free(r);
    free(s.heap);
    free(s.latencies);
}

/* --- reading the result --- */

double sim_goodput(const sim_result *result, unsigned from, unsigned to)
{
    double sum = 0;
    for (unsigned i = from; i < to; i++)
        sum += result->seconds[i].served;
    return sum / (to - from);
}

double sim_worst_p99(const sim_result *result, unsigned from, unsigned to)
{
    double worst = 0;
    for (unsigned i = from; i < to; i++)
        worst = result->seconds[i].p99_ms > worst ? result->seconds[i].p99_ms : worst;
    return worst;
}

double sim_p99(const sim_result *result, unsigned from, unsigned to)
{
    double sum = 0;
    for (unsigned i = from; i < to; i++)
        sum += result->seconds[i].p99_ms;
    return sum / (to - from);
}

unsigned sim_refused(const sim_result *result, unsigned from, unsigned to)
{
    unsigned sum = 0;
    for (unsigned i = from; i < to; i++)
        sum += result->seconds[i].refused + result->seconds[i].dropped;
    return sum;
}

/* --- the limit of src/shed --- */

static bool limit_room(void *self)
{
    return dz_limit_has_room(self, 1);
}

static void limit_enter(void *self, uint64_t now)
{
    dz_limit_enter(self, now);
}

static void limit_leave(void *self, uint64_t now, const dz_limit_sample *sample)
{
    dz_limit_leave(self, now, sample);
}

static void limit_refuse(void *self, uint64_t now)
{
    dz_limit_refuse(self, now);
}

static uint64_t limit_deadline(void *self)
{
    return ((dz_limit *)self)->deadline_ns;
}

static double limit_now(void *self)
{
    return ((dz_limit *)self)->limit;
}

sim_limiter sim_limiter_of(dz_limit *limit)
{
    return (sim_limiter){.self = limit,
                         .room = limit_room,
                         .enter = limit_enter,
                         .leave = limit_leave,
                         .refuse = limit_refuse,
                         .deadline = limit_deadline,
                         .limit = limit_now};
}
