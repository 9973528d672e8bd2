/* Opening connections, and what follows when one closes or fails. */
#include "load/conn.h"

#include "base/clock.h"

#include <donmaz/error.h>

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/un.h>
#include <unistd.h>

static load_origin *origin_of(const load_conn *conn)
{
    /* The origin's atomics are the only part of a plan that changes while it runs. */
    const load_plan *plan = conn->engine->plan;
    return &plan->origins[plan->endpoints[conn->group->plan->first_endpoint].origin];
}

static load_record *first_record(const load_conn *conn)
{
    return &conn->engine->records[conn->group->plan->first_endpoint];
}

/* Every change of state goes through here, to keep count of the connections under way. */
static void set_state(load_conn *conn, load_conn_state state)
{
    bool was = conn->state == LOAD_CONNECTING || conn->state == LOAD_HANDSHAKE;
    bool is = state == LOAD_CONNECTING || state == LOAD_HANDSHAKE;
    conn->group->opening += is;
    conn->group->opening -= was;
    conn->state = state;
}

static void close_socket(load_conn *conn)
{
    if (conn->ssl)
        load_tls_end(conn);
    if (conn->fd >= 0)
        close(conn->fd); /* epoll forgets it by itself */
    conn->fd = -1;
    conn->generation++;
    conn->out_len = 0;
    dz_list_remove(&conn->free_link);
}

void load_conn_end(load_conn *conn)
{
    if (conn->state == LOAD_ENDED)
        return;
    close_socket(conn);
    dz_heap_remove(&conn->engine->retries, &conn->retry);
    set_state(conn, LOAD_ENDED);
    conn->engine->ended++;
}

/* Nothing can be measured: ends the run, with the reason for the user. */
static void give_up(load_conn *conn, int error)
{
    load_shared *shared = conn->engine->shared;
    int none = 0;
    if (atomic_compare_exchange_strong(&shared->fatal, &none, error)) {
        const load_plan *plan = conn->engine->plan;
        atomic_store(&shared->fatal_origin,
                     plan->endpoints[conn->group->plan->first_endpoint].origin);
    }
    atomic_store(&shared->stop, true);
}

static int start_connect(load_conn *conn, const load_address *address)
{
    int family = address->name.ss_family;
    conn->fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (conn->fd < 0)
        return -errno;
    if (family != AF_UNIX) {
        int on = 1; /* a pipelined request must not wait for an acknowledgement */
        setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        conn->stamped = setsockopt(conn->fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) == 0;
    }
    if (connect(conn->fd, (const struct sockaddr *)&address->name, address->len) < 0 &&
        errno != EINPROGRESS)
        return -errno;
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.u64 = (uint64_t)conn->generation << 32 | conn->index};
    return epoll_ctl(conn->engine->epoll, EPOLL_CTL_ADD, conn->fd, &event) < 0 ? -errno : 0;
}

void load_conn_open(load_conn *conn, uint64_t now)
{
    load_origin *origin = origin_of(conn);
    conn->opened = now;
    conn->answered = conn->sent_here = 0;
    set_state(conn, LOAD_CONNECTING);
    load_response_reset(&conn->response);
    if (conn->tries == 0)
        conn->address = atomic_load_explicit(&origin->preferred, memory_order_relaxed);
    int rc = start_connect(conn, &origin->addresses[conn->address]);
    if (rc < 0)
        load_conn_connect_failed(conn, LOAD_FAIL_ERRNO, -rc, now);
}

/* The next socket comes after a pause that grows with every useless one before. */
static void retry_later(load_conn *conn, uint64_t now)
{
    enum { LONGEST_SHIFT = 7 };
    unsigned shift = conn->fails < LONGEST_SHIFT ? conn->fails : LONGEST_SHIFT;
    conn->fails++;
    set_state(conn, LOAD_WAITING);
    /* The heap has room for every connection, so this can't fail. */
    dz_heap_insert(&conn->engine->retries, &conn->retry, now + (DZ_MS << shift));
}

/* Whether another socket would have something to send: those being opened come first. */
static bool may_send_more(const load_conn *conn)
{
    const load_engine *engine = conn->engine;
    return !engine->over && conn->sent_ever < engine->plan->most_per_connection &&
           (!engine->counting || conn->group->budget > conn->group->opening);
}

static void count_failures(load_conn *conn, uint64_t count)
{
    load_engine *engine = conn->engine;
    atomic_fetch_add_explicit(&engine->live.errors, count, memory_order_relaxed);
    uint64_t bailout = engine->plan->bailout;
    if (bailout > 0 && atomic_fetch_add(&engine->shared->failures, count) + count >= bailout)
        atomic_store(&engine->shared->stop, true);
}

static bool of_our_making(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

void load_conn_connect_failed(load_conn *conn, load_failure failure, int error, uint64_t now)
{
    load_engine *engine = conn->engine;
    load_origin *origin = origin_of(conn);
    close_socket(conn);
    set_state(conn, LOAD_IDLE);
    if (failure == LOAD_FAIL_ERRNO && !of_our_making(error) &&
        ++conn->tries < origin->address_count) {
        conn->address = (conn->address + 1) % origin->address_count;
        load_conn_open(conn, now);
        return;
    }
    conn->tries = 0;
    if (!atomic_load_explicit(&origin->reached, memory_order_relaxed) || of_our_making(error)) {
        give_up(conn, failure == LOAD_FAIL_TLS       ? DZ_E_PROTOCOL
                      : failure == LOAD_FAIL_TIMEOUT ? ETIMEDOUT
                                                     : error);
        load_conn_end(conn);
        return;
    }
    if (engine->counting) {
        load_totals_error(&first_record(conn)->totals, failure, error, 1);
        count_failures(conn, 1);
        /* An attempt is one of --amount's, or a dead target would never let the run end. */
        if (conn->group->budget > 0 && conn->group->budget != UINT64_MAX)
            conn->group->budget--;
    }
    if (may_send_more(conn))
        retry_later(conn, now);
    else
        load_conn_end(conn);
}

void load_conn_established(load_conn *conn, uint64_t now)
{
    load_origin *origin = origin_of(conn);
    atomic_store_explicit(&origin->preferred, conn->address, memory_order_relaxed);
    conn->tries = 0;
    if (origin->tls && conn->state == LOAD_CONNECTING) {
        set_state(conn, LOAD_HANDSHAKE);
        if (!load_tls_start(conn)) {
            load_conn_connect_failed(conn, LOAD_FAIL_TLS, 0, now);
            return;
        }
    }
    if (conn->state == LOAD_HANDSHAKE) {
        int rc = load_tls_handshake(conn);
        if (rc < 0)
            load_conn_connect_failed(conn, LOAD_FAIL_TLS, 0, now);
        if (rc <= 0)
            return;
    }
    atomic_store_explicit(&origin->reached, true, memory_order_relaxed);
    set_state(conn, LOAD_OPEN);
    load_conn_pump(conn);
}

void load_conn_connect_result(load_conn *conn, uint64_t now)
{
    int error = 0;
    socklen_t len = sizeof error;
    if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        error = errno;
    if (error != 0)
        load_conn_connect_failed(conn, LOAD_FAIL_ERRNO, error, now);
    else
        load_conn_established(conn, now);
}

/* What is to become of a connection whose socket is closed. */
static void open_next(load_conn *conn, uint64_t now)
{
    if (!may_send_more(conn))
        load_conn_end(conn);
    else if (conn->answered > 0) {
        conn->fails = 0;
        load_conn_open(conn, now);
    } else
        retry_later(conn, now);
}

void load_conn_renew(load_conn *conn, uint64_t now)
{
    close_socket(conn);
    open_next(conn, now);
}

/* Those behind the one that failed share its fate only when the peer did it. */
static load_failure fate_of_others(load_failure failure)
{
    switch (failure) {
    case LOAD_FAIL_TIMEOUT:
    case LOAD_FAIL_BAD_RESPONSE:
    case LOAD_FAIL_UNSOLICITED:
        return LOAD_FAIL_ABORTED;
    case LOAD_FAIL_TRUNCATED:
        return LOAD_FAIL_CLOSED;
    default:
        return failure;
    }
}

void load_conn_fail(load_conn *conn, load_failure failure, int error, uint64_t now)
{
    load_engine *engine = conn->engine;
    close_socket(conn);
    uint64_t failed = 0;
    if (conn->count == 0 && engine->counting && failure == LOAD_FAIL_UNSOLICITED) {
        load_totals_error(&first_record(conn)->totals, failure, error, 1);
        failed++;
    }
    load_failure others = fate_of_others(failure);
    for (uint32_t i = 0; i < conn->count; i++) {
        const load_sent *sent = &conn->ring[(conn->first + i) & conn->mask];
        if (!engine->counting || (engine->plan->duration == UINT64_MAX && !sent->counts))
            continue;
        load_record *record = &engine->records[sent->endpoint];
        if (i == 0)
            load_totals_error(&record->totals, failure, error, 1);
        else
            load_totals_error(&record->totals, others, others == failure ? error : 0, 1);
        failed++;
    }
    engine->in_flight -= conn->count;
    conn->first += conn->count;
    conn->count = 0;
    if (failed > 0)
        count_failures(conn, failed);
    open_next(conn, now);
}
