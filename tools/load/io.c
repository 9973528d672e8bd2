/* Sending what is due and reading what came. */
#include "load/conn.h"

#include "base/clock.h"

#include <donmaz/error.h>

#include <errno.h>
#include <stdalign.h>
#include <sys/socket.h>

/* When the last byte of a recvmsg arrived at this machine: the kernel's stamp, which does not
 * contain the time for which we waited for a core. It is wall-clock time, so only its age is used,
 * and only when that makes sense: a clock that was set must not become a latency. */
static uint64_t arrival(struct msghdr *message, uint64_t now)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS)
            continue;
        struct timespec stamp;
        memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
        uint64_t at = (uint64_t)stamp.tv_sec * DZ_SEC + (uint64_t)stamp.tv_nsec;
        uint64_t wall = dz_clock(CLOCK_REALTIME);
        if (wall > at && wall - at < now)
            return now - (wall - at);
    }
    return now;
}

/* As recv; *now is the time after it, *arrived when the bytes came. */
static ssize_t read_some(load_conn *conn, uint64_t *now, uint64_t *arrived)
{
    char *buffer = conn->engine->buffer;
    if (conn->ssl || !conn->stamped) {
        ssize_t n = conn->ssl ? load_tls_read(conn, buffer, LOAD_BUFFER)
                              : recv(conn->fd, buffer, LOAD_BUFFER, 0);
        *arrived = *now = dz_now();
        return n;
    }
    alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct timespec))];
    struct iovec bytes = {.iov_base = buffer, .iov_len = LOAD_BUFFER};
    struct msghdr message = {.msg_iov = &bytes,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    ssize_t n = recvmsg(conn->fd, &message, 0);
    *arrived = *now = dz_now();
    if (n > 0)
        *arrived = arrival(&message, *now);
    return n;
}

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

static bool is_success(unsigned status)
{
    return status >= 200 && status < 300;
}

static void write_down(load_engine *engine, const load_sent *sent, const load_response *response,
                       uint64_t arrived)
{
    const load_plan *plan = engine->plan;
    const load_endpoint *endpoint = &plan->endpoints[sent->endpoint];
    load_record *record = &engine->records[sent->endpoint];
    record->totals.completed++;
    record->totals.statuses[response->status]++;
    atomic_fetch_add_explicit(&engine->live.completed, 1, memory_order_relaxed);
    bool skipped = plan->skip_errors && !is_success(response->status);
    if (!skipped)
        record->totals.bytes += response->bytes;
    if (endpoint->expect_status > 0 && response->status != endpoint->expect_status) {
        load_totals_error(&record->totals, LOAD_FAIL_STATUS, (int)response->status, 1);
        skipped = true;
    }
    if (response->mismatch) {
        load_totals_error(&record->totals, LOAD_FAIL_BODY, 0, 1);
        skipped = true;
    }
    if (skipped)
        return;
    int rc = load_series_add(&record->service, arrived - sent->at);
    if (plan->scheduled && rc == 0)
        rc = load_series_add(&record->scheduled, arrived - sent->due);
    if (rc < 0)
        engine->out_of_memory = engine->over = true;
}

static void judge_failures(load_engine *engine, const load_response *response,
                           const load_endpoint *endpoint)
{
    uint64_t bailout = engine->plan->bailout;
    bool failed = response->mismatch ||
                  (endpoint->expect_status > 0 && response->status != endpoint->expect_status);
    if (bailout > 0 && failed && atomic_fetch_add(&engine->shared->failures, 1) + 1 >= bailout)
        atomic_store(&engine->shared->stop, true);
}

/* The oldest request in flight has its response. */
static void complete(load_conn *conn, uint64_t now, uint64_t arrived)
{
    load_engine *engine = conn->engine;
    load_sent sent = *load_conn_oldest(conn);
    conn->first++;
    conn->count--;
    conn->answered++;
    engine->in_flight--;
    engine->finished_at = now;
    bool by_amount = engine->plan->duration == UINT64_MAX;
    /* With a fixed time, what ends within it counts, so that neither throughput nor latency loses
     * the requests that were under way when counting began; with a fixed amount, what was sent. */
    if (engine->counting && (!by_amount || sent.counts)) {
        write_down(engine, &sent, &conn->response, arrived >= sent.at ? arrived : now);
        judge_failures(engine, &conn->response, &engine->plan->endpoints[sent.endpoint]);
    }
}

static void expect_next(load_conn *conn)
{
    const load_endpoint *endpoint =
        &conn->engine->plan->endpoints[load_conn_oldest(conn)->endpoint];
    conn->response.head_only = endpoint->head_only;
    conn->response.expected = endpoint->expect_body;
}

/* Bytes that came in. False: the connection failed, was renewed, or ended. */
static bool take_bytes(load_conn *conn, const char *data, size_t len, uint64_t now,
                       uint64_t arrived)
{
    while (len > 0) {
        if (conn->count == 0) {
            load_conn_fail(conn, LOAD_FAIL_UNSOLICITED, 0, now);
            return false;
        }
        if (!conn->response.started)
            expect_next(conn);
        size_t used;
        load_progress progress = load_response_feed(&conn->response, data, len, &used);
        if (progress == LOAD_BAD) {
            load_conn_fail(conn, LOAD_FAIL_BAD_RESPONSE, (int)conn->response.fault, now);
            return false;
        }
        data += used;
        len -= used;
        if (progress == LOAD_MORE)
            return true;
        complete(conn, now, arrived);
        bool close = conn->response.close;
        load_response_reset(&conn->response);
        if (close) {
            /* What was sent behind it will not be answered (RFC 9112 9.6). */
            if (conn->count > 0)
                load_conn_fail(conn, LOAD_FAIL_CLOSED, 0, now);
            else
                load_conn_renew(conn, now);
            return false;
        }
    }
    const load_plan *plan = conn->engine->plan;
    if (conn->count == 0 && plan->reconnect_after > 0 && conn->sent_here >= plan->reconnect_after) {
        load_conn_renew(conn, now);
        return false;
    }
    if (conn->count == 0 && conn->sent_ever >= plan->most_per_connection) {
        load_conn_end(conn);
        return false;
    }
    return true;
}

static void stream_ended(load_conn *conn, uint64_t now)
{
    if (conn->count > 0 && conn->response.started) {
        if (load_response_end(&conn->response) != LOAD_DONE) {
            load_conn_fail(conn, LOAD_FAIL_TRUNCATED, 0, now);
            return;
        }
        complete(conn, now, now);
    }
    if (conn->count > 0)
        load_conn_fail(conn, LOAD_FAIL_CLOSED, 0, now);
    else
        load_conn_renew(conn, now);
}

/* Reads by which one connection may hold up the others; the rest comes in the next turn. */
enum { READS_A_TURN = 16 };

static void read_again_later(load_conn *conn)
{
    load_engine *engine = conn->engine;
    if (conn->queued)
        return;
    conn->queued = true;
    engine->again[engine->again_count++] = conn;
}

void load_conn_receive(load_conn *conn, bool to_the_end)
{
    for (unsigned reads = 0;; reads++) {
        if (reads == READS_A_TURN) {
            read_again_later(conn);
            break;
        }
        uint64_t now, arrived;
        ssize_t n = read_some(conn, &now, &arrived);
        if (n > 0) {
            if (!take_bytes(conn, conn->engine->buffer, (size_t)n, now, arrived))
                return;
            /* A short read has emptied the socket: the next byte will be a new event. TLS keeps
             * bytes of its own, and a half-closed socket has nothing new to tell. */
            if (n < LOAD_BUFFER && !to_the_end && !conn->ssl)
                break;
        } else if (n == 0) {
            stream_ended(conn, now);
            return;
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            bool tls = conn->ssl && errno == EPROTO;
            if (conn->count > 0 || tls)
                load_conn_fail(conn, tls ? LOAD_FAIL_TLS : LOAD_FAIL_ERRNO, tls ? 0 : errno, now);
            else
                load_conn_renew(conn, now);
            return;
        }
    }
    load_conn_pump(conn);
}
