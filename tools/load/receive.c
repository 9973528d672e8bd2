/* Reading what came, and writing down what it says. */
#include "load/conn.h"

#include "base/clock.h"

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
