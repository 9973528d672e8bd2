#include "http/server.h"

#include "http/conn.h"

#include <donmaz/error.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ACCEPT_BATCH = 64 };
static const uint64_t ACCEPT_RETRY_NS = 50 * DZ_MS;

void dz_server_options_init(dz_server_options *options)
{
    *options = (dz_server_options){
        .head = DZ_HEAD_LIMITS_DEFAULT,
        .body_max = 1 << 20,
        .header_timeout_ns = 10 * DZ_SEC,
        .idle_timeout_ns = 60 * DZ_SEC,
        .body_timeout_ns = 20 * DZ_SEC,
        .write_timeout_ns = 30 * DZ_SEC,
        .write_buffer = 256 << 10,
        .connections_max = 100000,
    };
}

dz_server *dz_server_new(dz_runtime *runtime, const dz_server_options *options,
                         const dz_service *service)
{
    dz_server *server = calloc(1, sizeof *server);
    unsigned count = runtime->options.loops;
    dz_server_loop *loops = calloc(count, sizeof *loops);
    if (!server || !loops) {
        free(server);
        free(loops);
        return NULL;
    }
    server->options = *options;
    server->service = *service;
    server->runtime = runtime;
    server->loops = loops;
    server->loop_count = count;
    dz_list_init(&server->listeners);
    for (unsigned i = 0; i < count; i++) {
        dz_server_loop *home = &loops[i];
        home->server = server;
        home->loop = &runtime->loops[i];
        home->loop->user = home;
        dz_list_init(&home->conns);
        dz_list_init(&home->free_requests);
        dz_turn_init(home);
    }
    return server;
}

static void close_listener(dz_loop *loop, dz_listener *listener)
{
    dz_watch_stop(loop, &listener->watch);
    dz_timer_stop(loop, &listener->retry);
    dz_timer_unreserve(loop);
    close(listener->watch.fd);
    dz_list_remove(&listener->link);
    free(listener);
}

static void close_listeners(dz_server *server)
{
    while (!dz_list_empty(&server->listeners))
        close_listener(server->loops[0].loop,
                       DZ_CONTAINER(server->listeners.next, dz_listener, link));
}

void dz_server_free(dz_server *server)
{
    if (!server)
        return;
    close_listeners(server);
    for (unsigned i = 0; i < server->loop_count; i++) {
        dz_server_loop *home = &server->loops[i];
        for (dz_list *link; (link = dz_list_shift(&home->free_requests));)
            free(DZ_CONTAINER(link, dz_request, link));
        while (home->free_buffer_count > 0)
            free(home->free_buffers[--home->free_buffer_count]);
    }
    free(server->loops);
    free(server);
}

/* --- connections find their loop --- */

typedef struct adoption {
    dz_msg msg;
    int fd;
} adoption;

static void on_adoption(dz_loop *loop, dz_msg *msg)
{
    adoption *it = DZ_CONTAINER(msg, adoption, msg);
    dz_conn_open(loop->user, it->fd);
    free(it);
}

/* The loop with the fewest connections: with few of them, chance would put all on one. */
static dz_server_loop *pick_loop(dz_server *server)
{
    dz_server_loop *best = &server->loops[0];
    for (unsigned i = 1; i < server->loop_count; i++)
        if (atomic_load_explicit(&server->loops[i].open, memory_order_relaxed) <
            atomic_load_explicit(&best->open, memory_order_relaxed))
            best = &server->loops[i];
    return best;
}

void dz_server_adopt(dz_server *server, int fd)
{
    dz_server_loop *home = pick_loop(server);
    atomic_fetch_add_explicit(&home->open, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&server->stats.open, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&server->stats.accepted, 1, memory_order_relaxed);
    if (home == &server->loops[0]) {
        dz_conn_open(home, fd);
        return;
    }
    adoption *it = malloc(sizeof *it);
    if (!it) {
        dz_server_connection_gone(home);
        close(fd);
        return;
    }
    *it = (adoption){.msg.fn = on_adoption, .fd = fd};
    dz_loop_post(home->loop, &it->msg);
}

static void pause_accepting(dz_loop *loop, dz_listener *listener)
{
    listener->paused = true;
    dz_watch_change(loop, &listener->watch, 0);
    dz_timer_start(loop, &listener->retry, loop->now + ACCEPT_RETRY_NS);
}

static void on_retry(dz_loop *loop, dz_timer *timer)
{
    dz_listener *listener = DZ_CONTAINER(timer, dz_listener, retry);
    if (dz_watch_change(loop, &listener->watch, EPOLLIN) < 0) {
        dz_timer_start(loop, &listener->retry, loop->now + ACCEPT_RETRY_NS);
        return;
    }
    listener->paused = false;
}

bool dz_accept_may_go_on(int error)
{
    switch (error) {
    case ECONNABORTED:
    case EINTR:
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case ENETUNREACH:
        return true;
    default:
        return false;
    }
}

static void on_acceptable(dz_loop *loop, dz_watch *watch, uint32_t events)
{
    (void)events;
    dz_listener *listener = DZ_CONTAINER(watch, dz_listener, watch);
    dz_server *server = listener->server;
    for (int i = 0; i < ACCEPT_BATCH; i++) {
        if (atomic_load_explicit(&server->stats.open, memory_order_relaxed) >=
            server->options.connections_max) {
            pause_accepting(loop, listener);
            return;
        }
        int fd = accept4(watch->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            dz_server_adopt(server, fd);
            continue;
        }
        if (errno == EAGAIN)
            return;
        if (dz_accept_may_go_on(errno))
            continue;
        /* EMFILE, ENFILE, ENOBUFS, ENOMEM: the connection stays in the backlog and the socket
         * readable. Waiting a little serves the others instead of spinning. */
        atomic_fetch_add_explicit(&server->stats.accept_errors, 1, memory_order_relaxed);
        pause_accepting(loop, listener);
        return;
    }
}

/* Takes one socket, which is one message, from the channel. 1; 0: no more, ever; -errno. */
static int take_over(dz_server *server, int channel)
{
    char byte;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec piece = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t n = recvmsg(channel, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n <= 0)
        return n == 0 ? 0 : -errno;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_type != SCM_RIGHTS) {
        /* EMFILE here: the kernel dropped the socket, its client sees it close. */
        atomic_fetch_add_explicit(&server->stats.accept_errors, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(server->given_back, 1, memory_order_relaxed);
        return 1;
    }
    int fd;
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
    dz_server_adopt(server, fd);
    return 1;
}

/* The end of the channel is the supervisor's death or its order to stop: who runs the service
 * watches for that (src/cluster/worker.c). */
static void on_handed_over(dz_loop *loop, dz_watch *watch, uint32_t events)
{
    (void)events;
    dz_server *server = DZ_CONTAINER(watch, dz_listener, watch)->server;
    int rc = 1;
    for (int i = 0; i < ACCEPT_BATCH && (rc > 0 || rc == -EINTR); i++)
        rc = take_over(server, watch->fd);
    if (rc <= 0 && rc != -EAGAIN && rc != -EINTR)
        dz_watch_stop(loop, watch);
}

/* Sockets that were sent before the order to stop are served like the others. */
static void take_over_the_rest(dz_server *server)
{
    for (dz_list *link = server->listeners.next; link != &server->listeners; link = link->next) {
        const dz_listener *listener = DZ_CONTAINER(link, dz_listener, link);
        int rc = listener->watch.fn == on_handed_over;
        while (rc > 0 || rc == -EINTR)
            rc = take_over(server, listener->watch.fd);
    }
}

static int add_listener(dz_server *server, int fd, dz_watch_fn *fn)
{
    dz_loop *loop = server->loops[0].loop;
    dz_listener *listener = calloc(1, sizeof *listener);
    if (!listener)
        return DZ_E_NOMEM;
    listener->server = server;
    dz_list_init(&listener->link);
    dz_timer_init(&listener->retry, on_retry);
    int rc = dz_timer_reserve(loop);
    if (rc < 0)
        goto fail;
    rc = dz_watch_start(loop, &listener->watch, fd, EPOLLIN, fn);
    if (rc < 0) {
        dz_timer_unreserve(loop);
        goto fail;
    }
    dz_list_push(&server->listeners, &listener->link);
    return 0;
fail:
    free(listener);
    return rc;
}

int dz_server_listen(dz_server *server, int fd)
{
    return add_listener(server, fd, on_acceptable);
}

int dz_server_adopt_from(dz_server *server, int fd, _Atomic uint64_t *given_back)
{
    server->given_back = given_back;
    return add_listener(server, fd, on_handed_over);
}

/* --- the end --- */

static void stop_if_empty(dz_server_loop *home)
{
    if (home->draining && home->conn_count == 0)
        dz_loop_stop(home->loop);
}

void dz_server_connection_gone(dz_server_loop *home)
{
    atomic_fetch_sub_explicit(&home->open, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&home->server->stats.open, 1, memory_order_relaxed);
    if (home->server->given_back)
        atomic_fetch_add_explicit(home->server->given_back, 1, memory_order_relaxed);
    stop_if_empty(home);
}

static void drain_loop(dz_server_loop *home)
{
    home->draining = true;
    dz_list *next;
    for (dz_list *link = home->conns.next; link != &home->conns; link = next) {
        next = link->next;
        dz_conn_drain(DZ_CONTAINER(link, dz_conn, link));
    }
    stop_if_empty(home);
}

static void on_drain(dz_loop *loop, dz_msg *msg)
{
    (void)msg;
    drain_loop(loop->user);
}

/* Loop 0 goes first: connections it has sent to the others arrive there before its order does. */
static void on_drain_first(dz_loop *loop, dz_msg *msg)
{
    dz_server *server = DZ_CONTAINER(msg, dz_server, drain);
    (void)loop;
    take_over_the_rest(server);
    close_listeners(server);
    for (unsigned i = 1; i < server->loop_count; i++) {
        server->loops[i].drain.fn = on_drain;
        dz_loop_post(server->loops[i].loop, &server->loops[i].drain);
    }
    drain_loop(&server->loops[0]);
}

void dz_server_drain(dz_server *server)
{
    if (atomic_exchange(&server->draining, true))
        return;
    server->drain.fn = on_drain_first;
    dz_loop_post(server->loops[0].loop, &server->drain);
}

static void on_abort(dz_loop *loop, dz_msg *msg)
{
    (void)msg;
    dz_server_loop *home = loop->user;
    dz_loop_wake_sleepers(loop);
    dz_list *next;
    for (dz_list *link = home->conns.next; link != &home->conns; link = next) {
        next = link->next;
        dz_conn_close(DZ_CONTAINER(link, dz_conn, link));
    }
}

void dz_server_abort(dz_server *server)
{
    if (atomic_exchange(&server->aborting, true))
        return;
    for (unsigned i = 0; i < server->loop_count; i++) {
        server->loops[i].abort.fn = on_abort;
        dz_loop_post(server->loops[i].loop, &server->loops[i].abort);
    }
}
