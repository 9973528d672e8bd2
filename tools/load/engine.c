/* The loop: readiness, schedules, deadlines. */
#include "load/conn.h"

#include "base/clock.h"

#include <donmaz/error.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { EVENTS = 64, EVENTS_BETWEEN_SCHEDULES = 16 };

/* Requests whose time has come are released to their connections. */
static void release_due(load_engine *engine, load_pacer *pacer, uint64_t now)
{
    uint64_t last = now < engine->shared->end ? now : engine->shared->end - 1;
    double due = pacer->base > last ? 0 : (double)(last - pacer->base) / pacer->interval + 1;
    if ((uint64_t)due > pacer->released)
        pacer->released = (uint64_t)due;
    dz_heap_move(&engine->pacers, &pacer->timer,
                 pacer->base + (uint64_t)((double)pacer->released * pacer->interval));
    while (pacer->released > pacer->sent) {
        dz_list *link = dz_list_shift(&pacer->free);
        if (!link)
            return;
        load_conn_pump(DZ_CONTAINER(link, load_conn, free_link));
    }
}

static void run_schedules(load_engine *engine, uint64_t now)
{
    if (now >= engine->shared->end)
        return;
    for (dz_heap_node *node; (node = dz_heap_min(&engine->pacers)) && node->key <= now;) {
        uint64_t key = node->key;
        release_due(engine, DZ_CONTAINER(node, load_pacer, timer), now);
        /* Rounding can leave the key at now: the request is out, so look at it next time. */
        if (node->key <= key)
            dz_heap_move(&engine->pacers, node, now + 1);
    }
}

static void run_retries(load_engine *engine, uint64_t now)
{
    for (dz_heap_node *node; (node = dz_heap_min(&engine->retries)) && node->key <= now;) {
        dz_heap_remove(&engine->retries, node);
        load_conn_open(DZ_CONTAINER(node, load_conn, retry), now);
    }
}

/* Deadlines are looked at in sweeps, a few percent of the timeout apart: cheaper than a timer a
 * request, and exact enough for what is a failure anyway. */
/* `since` can lie after `now`, which was read earlier in the turn. */
static bool is_over(uint64_t since, uint64_t now, uint64_t timeout)
{
    return now > since && now - since >= timeout;
}

static void sweep_deadlines(load_engine *engine, uint64_t now)
{
    uint64_t timeout = engine->plan->timeout;
    for (size_t i = 0; i < engine->conn_count; i++) {
        load_conn *conn = &engine->conns[i];
        bool opening = conn->state == LOAD_CONNECTING || conn->state == LOAD_HANDSHAKE;
        if (opening && is_over(conn->opened, now, timeout))
            load_conn_connect_failed(conn, LOAD_FAIL_TIMEOUT, 0, now);
        else if (conn->state == LOAD_OPEN && conn->count > 0 &&
                 is_over(load_conn_oldest(conn)->at, now, timeout))
            load_conn_fail(conn, LOAD_FAIL_TIMEOUT, 0, now);
    }
    uint64_t step = timeout / 32;
    engine->next_scan = now + (step < DZ_MS ? DZ_MS : step > 100 * DZ_MS ? 100 * DZ_MS : step);
}

static void mark_intervals(load_engine *engine, uint64_t now)
{
    while (now >= engine->next_mark && engine->next_mark <= engine->shared->end) {
        for (size_t i = 0; i < engine->plan->endpoint_count; i++)
            if (load_record_mark(&engine->records[i]) < 0)
                engine->out_of_memory = engine->over = true;
        engine->next_mark += engine->plan->interval;
    }
}

static bool budgets_used_up(const load_engine *engine)
{
    for (size_t i = 0; i < engine->plan->group_count; i++)
        if (engine->groups[i].budget > 0)
            return false;
    return true;
}

/* Whether the run is over for this thread. */
static bool finished(load_engine *engine, uint64_t now)
{
    if (engine->over || now >= engine->shared->end ||
        atomic_load_explicit(&engine->shared->stop, memory_order_relaxed))
        return true;
    if (engine->in_flight > 0)
        return false;
    return engine->ended == engine->conn_count || (engine->counting && budgets_used_up(engine));
}

static void run_timers(load_engine *engine, uint64_t now)
{
    if (!engine->counting && now >= engine->shared->counting)
        engine->counting = true;
    if (engine->counting)
        mark_intervals(engine, now);
    run_retries(engine, now);
    run_schedules(engine, now);
    if (now >= engine->next_scan)
        sweep_deadlines(engine, now);
}

static uint64_t sooner(uint64_t when, const dz_heap *heap)
{
    const dz_heap_node *node = dz_heap_min(heap);
    return node && node->key < when ? node->key : when;
}

static uint64_t next_wake(const load_engine *engine)
{
    const load_shared *shared = engine->shared;
    uint64_t when = engine->next_scan < shared->end ? engine->next_scan : shared->end;
    if (!engine->counting && shared->counting < when)
        when = shared->counting;
    if (engine->counting && engine->next_mark < when)
        when = engine->next_mark;
    return sooner(sooner(when, &engine->retries), &engine->pacers);
}

static int wait_events(load_engine *engine, struct epoll_event *events)
{
    uint64_t now = dz_now(), when = engine->again_count > 0 ? now : next_wake(engine);
    uint64_t pause = when > now ? when - now : 0;
    struct timespec timeout = {.tv_sec = (time_t)(pause / DZ_SEC),
                               .tv_nsec = (long)(pause % DZ_SEC)};
    int n = epoll_pwait2(engine->epoll, events, EVENTS, &timeout, NULL);
    /* Before Linux 5.11, or behind a filter, milliseconds must do. */
    if (n < 0 && (errno == ENOSYS || errno == EPERM))
        n = epoll_wait(engine->epoll, events, EVENTS, (int)((pause + DZ_MS - 1) / DZ_MS));
    return n < 0 ? 0 : n;
}

static void handle_event(load_engine *engine, const struct epoll_event *event)
{
    uint32_t index = (uint32_t)event->data.u64, generation = (uint32_t)(event->data.u64 >> 32);
    load_conn *conn = &engine->conns[index];
    if (conn->generation != generation)
        return;
    bool ended = (event->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    switch (conn->state) {
    case LOAD_CONNECTING:
        load_conn_connect_result(conn, dz_now());
        /* The peer may have closed already; then no new edge would tell. */
        if (ended && conn->generation == generation && conn->state == LOAD_OPEN)
            load_conn_receive(conn, true);
        break;
    case LOAD_HANDSHAKE:
        load_conn_established(conn, dz_now());
        break;
    case LOAD_OPEN:
        if (conn->out_len > 0 && (event->events & EPOLLOUT)) {
            load_conn_flush(conn);
            if (conn->generation != generation)
                return;
        }
        if (ended || (event->events & EPOLLIN))
            load_conn_receive(conn, ended);
        else
            load_conn_pump(conn);
        break;
    default:
        break;
    }
}

static void run_again(load_engine *engine)
{
    size_t count = engine->again_count;
    for (size_t i = 0; i < count; i++) {
        load_conn *conn = engine->again[i];
        conn->queued = false;
        if (conn->state == LOAD_OPEN)
            load_conn_receive(conn, true);
    }
    /* Those that were queued anew stand behind the ones just done. */
    memmove(engine->again, engine->again + count,
            (engine->again_count - count) * sizeof(load_conn *));
    engine->again_count -= count;
}

static void take_stock(load_engine *engine, uint64_t now)
{
    load_unfinished *u = &engine->unfinished;
    for (size_t i = 0; i < engine->conn_count; i++) {
        load_conn *conn = &engine->conns[i];
        u->in_flight += conn->count;
        if (conn->count > 0 && is_over(load_conn_oldest(conn)->at, now, u->oldest))
            u->oldest = now - load_conn_oldest(conn)->at;
    }
    for (size_t i = 0; i < engine->plan->group_count; i++) {
        const load_engine_group *group = &engine->groups[i];
        size_t pacers = !group->pacers ? 0 : engine->plan->shared_schedule ? 1 : engine->conn_count;
        for (size_t p = 0; p < pacers; p++)
            u->never_sent += group->pacers[p].released - group->pacers[p].sent;
    }
}

void *load_engine_run(void *argument)
{
    load_engine *engine = argument;
    struct epoll_event events[EVENTS];
    prctl(PR_SET_TIMERSLACK, 1UL); /* else the kernel may wake us 50 us late, on purpose */
    uint64_t now = dz_now();
    engine->next_scan = now + DZ_MS;
    engine->next_mark = engine->shared->counting + engine->plan->interval;
    if (engine->conn_count > 0 && now >= engine->shared->counting)
        engine->counting = true;
    for (size_t i = 0; i < engine->conn_count; i++)
        load_conn_open(&engine->conns[i], dz_now());
    for (now = dz_now(); engine->conn_count > 0 && !finished(engine, now); now = dz_now()) {
        run_timers(engine, now);
        int n = wait_events(engine, events);
        for (int i = 0; i < n; i++) {
            handle_event(engine, &events[i]);
            if (i % EVENTS_BETWEEN_SCHEDULES == EVENTS_BETWEEN_SCHEDULES - 1)
                run_schedules(engine, dz_now());
        }
        run_again(engine);
    }
    engine->over = true;
    if (engine->counting)
        mark_intervals(engine, now);
    take_stock(engine, now);
    for (size_t i = 0; i < engine->conn_count; i++)
        load_conn_end(&engine->conns[i]);
    uint64_t one = 1;
    ssize_t written = write(engine->shared->done_fd, &one, sizeof one);
    (void)written; /* the main thread also looks every 200 ms */
    return NULL;
}

load_record *load_engine_records(load_engine *engine)
{
    return engine->records;
}

load_unfinished load_engine_unfinished(const load_engine *engine)
{
    return engine->unfinished;
}

const load_live *load_engine_live(const load_engine *engine)
{
    return &engine->live;
}

uint64_t load_engine_finished_at(const load_engine *engine)
{
    return engine->finished_at;
}

bool load_engine_out_of_memory(const load_engine *engine)
{
    return engine->out_of_memory;
}
