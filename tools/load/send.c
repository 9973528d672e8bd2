/* Sending what is due. */
#include "load/conn.h"

#include "base/clock.h"

#include <errno.h>
#include <sys/socket.h>

/* The endpoint of the group's next request: smooth weighted round robin, which spreads the heavy
 * ones evenly instead of sending them in a row. */
static size_t next_endpoint(load_engine *engine, load_engine_group *group)
{
    const load_group *plan = group->plan;
    if (!group->turns)
        return plan->first_endpoint;
    int64_t total = 0;
    size_t best = 0;
    for (size_t i = 0; i < plan->endpoint_count; i++) {
        int64_t weight = (int64_t)engine->plan->endpoints[plan->first_endpoint + i].weight;
        group->turns[i] += weight;
        total += weight;
        if (group->turns[i] > group->turns[best])
            best = i;
    }
    group->turns[best] -= total;
    return plan->first_endpoint + best;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* How many requests this connection has room for, whatever the schedule says. */
static uint64_t room(const load_conn *conn)
{
    const load_engine *engine = conn->engine;
    const load_plan *plan = engine->plan;
    if (conn->state != LOAD_OPEN || conn->out_len > 0 || engine->over || conn->response.close)
        return 0;
    uint64_t n = plan->pipelining - conn->count;
    if (plan->reconnect_after > 0)
        n = least(n, plan->reconnect_after - conn->sent_here);
    n = least(n, plan->most_per_connection - conn->sent_ever);
    return engine->counting ? least(n, conn->group->budget) : n;
}

static void note_sent(load_conn *conn, size_t endpoint, uint64_t now)
{
    load_engine *engine = conn->engine;
    load_sent *sent = &conn->ring[(conn->first + conn->count++) & conn->mask];
    *sent = (load_sent){
        .at = now, .due = now, .endpoint = (uint32_t)endpoint, .counts = engine->counting};
    load_pacer *pacer = conn->pacer;
    if (pacer)
        sent->due = pacer->base + (uint64_t)((double)pacer->sent++ * pacer->interval);
    conn->sent_here++;
    conn->sent_ever++;
    engine->in_flight++;
    if (!engine->counting)
        return;
    load_record *record = &engine->records[endpoint];
    record->totals.sent++;
    if (pacer && load_series_add(&record->lag, now - sent->due) < 0)
        engine->out_of_memory = engine->over = true;
    if (conn->group->budget != UINT64_MAX)
        conn->group->budget--;
}

enum { BUILT_AT_ONCE = 64 };

/* Puts up to n requests into conn->out; returns how many, 0 when memory ran out. */
static uint64_t prepare(load_conn *conn, uint64_t n)
{
    load_engine *engine = conn->engine;
    const load_endpoint *only = &engine->plan->endpoints[conn->group->plan->first_endpoint];
    if (!conn->group->turns && !only->message.changes) {
        n = least(n, only->message.copies);
        conn->out = only->message.wire.data;
        conn->out_len = n * only->message.wire_len;
        uint64_t now = dz_now();
        for (uint64_t i = 0; i < n; i++)
            note_sent(conn, conn->group->plan->first_endpoint, now);
        return n;
    }
    conn->built.len = 0;
    n = least(n, BUILT_AT_ONCE);
    size_t endpoints[BUILT_AT_ONCE];
    for (uint64_t i = 0; i < n; i++) {
        endpoints[i] = next_endpoint(engine, conn->group);
        const load_endpoint *endpoint = &engine->plan->endpoints[endpoints[i]];
        if (load_message_append(&endpoint->message, &engine->mixer, &conn->built) < 0) {
            engine->out_of_memory = engine->over = true;
            return 0;
        }
    }
    conn->out = conn->built.data;
    conn->out_len = conn->built.len;
    uint64_t now = dz_now();
    for (uint64_t i = 0; i < n; i++)
        note_sent(conn, endpoints[i], now);
    return n;
}

void load_conn_flush(load_conn *conn)
{
    while (conn->out_len > 0) {
        ssize_t n = conn->ssl ? load_tls_write(conn, conn->out, conn->out_len)
                              : send(conn->fd, conn->out, conn->out_len, MSG_NOSIGNAL);
        if (n > 0) {
            conn->out += n;
            conn->out_len -= (size_t)n;
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != EINTR) {
            load_conn_fail(conn, conn->ssl && errno == EPROTO ? LOAD_FAIL_TLS : LOAD_FAIL_ERRNO,
                           errno, dz_now());
            return;
        }
    }
}

/* Keeps the list of connections that the schedule may use. */
static void update_free(load_conn *conn)
{
    bool is_free = !dz_list_empty(&conn->free_link);
    bool should = room(conn) > 0;
    if (should && !is_free)
        dz_list_push(&conn->pacer->free, &conn->free_link);
    else if (!should && is_free)
        dz_list_remove(&conn->free_link);
}

void load_conn_pump(load_conn *conn)
{
    for (;;) {
        uint64_t n = room(conn);
        if (conn->pacer)
            n = least(n, conn->pacer->released - conn->pacer->sent);
        if (n == 0 || prepare(conn, n) == 0)
            break;
        uint32_t generation = conn->generation;
        load_conn_flush(conn);
        if (conn->generation != generation)
            return; /* it failed: another socket has taken over */
    }
    if (conn->pacer)
        update_free(conn);
}
