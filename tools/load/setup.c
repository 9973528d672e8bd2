/* Building a thread's engine: its share of the connections, schedules and budgets. */
#include "load/conn.h"

#include "base/clock.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

/* How the connections of group g are dealt out: each of the threads that take part has its turn,
 * and the first to take part changes from group to group so that small groups spread. */
typedef struct share {
    size_t threads;     /* that take part */
    size_t rank;        /* of this thread among them */
    size_t connections; /* for this thread; 0: it takes no part */
} share;

static share share_of(const load_plan *plan, size_t g, size_t thread)
{
    const load_group *group = &plan->groups[g];
    share s = {.threads = plan->threads < group->connections ? plan->threads : group->connections};
    s.rank = (thread + plan->threads - g % plan->threads) % plan->threads;
    if (s.rank < s.threads)
        s.connections = group->connections / s.threads + (s.rank < group->connections % s.threads);
    return s;
}

/* The part of `total` for connections, or threads, [from, from + n) of `of`: the parts of all add
 * up to exactly `total`. */
static uint64_t part_of(uint64_t total, size_t rank, size_t of)
{
    if (total == UINT64_MAX)
        return total;
    return total / of + (rank < total % of);
}

static size_t ring_size(size_t pipelining)
{
    size_t size = 1;
    while (size < pipelining)
        size *= 2;
    return size;
}

static bool init_conn(load_engine *engine, load_conn *conn, load_engine_group *group)
{
    size_t size = ring_size(engine->plan->pipelining);
    *conn = (load_conn){.engine = engine,
                        .group = group,
                        .fd = -1,
                        .index = (uint32_t)(conn - engine->conns),
                        .ring = calloc(size, sizeof *conn->ring),
                        .mask = (uint32_t)(size - 1)};
    dz_list_init(&conn->free_link);
    return conn->ring != NULL;
}

static bool init_pacer(load_engine *engine, load_pacer *pacer, double interval, uint64_t base)
{
    *pacer = (load_pacer){.interval = interval, .base = base};
    dz_list_init(&pacer->free);
    return dz_heap_insert(&engine->pacers, &pacer->timer, base) == 0;
}

/* Request k of the group's schedule belongs to thread k mod threads, or to connection
 * k mod connections: together they send exactly the rate, evenly spaced. */
static bool init_pacers(load_engine *engine, load_engine_group *group, const share *s,
                        load_conn *conns)
{
    const load_plan *plan = engine->plan;
    double interval = (double)DZ_SEC / group->plan->rate;
    uint64_t start = engine->shared->start;
    size_t count = plan->shared_schedule ? 1 : engine->conn_count;
    group->pacers = calloc(count, sizeof *group->pacers);
    if (!group->pacers)
        return false;
    for (size_t i = 0; i < s->connections; i++) {
        size_t of = plan->shared_schedule ? s->threads : group->plan->connections;
        size_t turn = plan->shared_schedule ? s->rank : s->rank + i * s->threads;
        size_t p = plan->shared_schedule ? 0 : i;
        if ((p == i || i == 0) && !init_pacer(engine, &group->pacers[p], interval * (double)of,
                                              start + (uint64_t)(interval * (double)turn)))
            return false;
        conns[i].pacer = &group->pacers[p];
    }
    return true;
}

static bool init_group(load_engine *engine, size_t g, load_conn *conns)
{
    const load_plan *plan = engine->plan;
    load_engine_group *group = &engine->groups[g];
    share s = share_of(plan, g, engine->index);
    *group = (load_engine_group){.plan = &plan->groups[g]};
    if (s.connections == 0)
        return true;
    group->budget = part_of(plan->groups[g].amount, s.rank, s.threads);
    if (plan->groups[g].endpoint_count > 1) {
        group->turns = calloc(plan->groups[g].endpoint_count, sizeof *group->turns);
        if (!group->turns)
            return false;
    }
    for (size_t i = 0; i < s.connections; i++)
        if (!init_conn(engine, &conns[i], group))
            return false;
    return plan->groups[g].rate <= 0 || init_pacers(engine, group, &s, conns);
}

static bool init_groups(load_engine *engine)
{
    const load_plan *plan = engine->plan;
    size_t at = 0;
    for (size_t g = 0; g < plan->group_count; g++) {
        if (!init_group(engine, g, engine->conns + at))
            return false;
        at += share_of(plan, g, engine->index).connections;
    }
    return true;
}

load_engine *load_engine_new(load_shared *shared, size_t index)
{
    const load_plan *plan = shared->plan;
    load_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return NULL;
    engine->shared = shared;
    engine->plan = plan;
    engine->index = index;
    for (size_t g = 0; g < plan->group_count; g++)
        engine->conn_count += share_of(plan, g, index).connections;
    engine->epoll = epoll_create1(EPOLL_CLOEXEC);
    engine->conns = calloc(engine->conn_count + 1, sizeof *engine->conns);
    engine->again = calloc(2 * engine->conn_count + 1, sizeof(load_conn *));
    engine->groups = calloc(plan->group_count + 1, sizeof *engine->groups);
    engine->records = calloc(plan->endpoint_count + 1, sizeof *engine->records);
    engine->buffer = malloc(LOAD_BUFFER);
    engine->mixer.seq = &shared->seq;
    engine->mixer.rows = plan->rows;
    if (getrandom(&engine->mixer.random, sizeof engine->mixer.random, 0) < 0)
        engine->mixer.random = dz_now() + index;
    dz_heap_init(&engine->retries);
    dz_heap_init(&engine->pacers);
    if (engine->epoll < 0 || !engine->conns || !engine->again || !engine->groups ||
        !engine->records || !engine->buffer ||
        dz_heap_reserve(&engine->retries, engine->conn_count) < 0 || !init_groups(engine)) {
        load_engine_free(engine);
        return NULL;
    }
    return engine;
}

void load_engine_free(load_engine *engine)
{
    if (!engine)
        return;
    for (size_t i = 0; engine->conns && i < engine->conn_count; i++) {
        load_conn *conn = &engine->conns[i];
        if (conn->ring && conn->fd >= 0)
            load_conn_end(conn);
        free(conn->ring);
        load_response_free(&conn->response);
        dz_buf_release(&conn->built);
    }
    for (size_t i = 0; engine->groups && i < engine->plan->group_count; i++) {
        free(engine->groups[i].turns);
        free(engine->groups[i].pacers);
    }
    for (size_t i = 0; engine->records && i < engine->plan->endpoint_count; i++)
        load_record_free(&engine->records[i]);
    if (engine->epoll >= 0)
        close(engine->epoll);
    dz_heap_close(&engine->retries);
    dz_heap_close(&engine->pacers);
    dz_buf_release(&engine->mixer.body);
    free(engine->conns);
    free(engine->again);
    free(engine->groups);
    free(engine->records);
    free(engine->buffer);
    free(engine);
}
