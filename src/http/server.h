/* server.h: HTTP/1.1 connections of a process: where they come from and what they may use. */
#ifndef DZ_HTTP_SERVER_H
#define DZ_HTTP_SERVER_H

#include "http/request.h"
#include "loop/runtime.h"

#include <sys/socket.h>

typedef struct dz_server dz_server;

/* The layer above: what to do with a request. */
typedef struct dz_service {
    /* On the loop, with the head complete: gets the request to run on a fiber. The service calls
     * dz_http_finish once, later. */
    void (*start)(void *context, dz_request *req);
    /* A connection was refused before any request could be made of it, with this status. */
    void (*refused)(void *context, int status);
    /* On the loop: the handler is done and the response written, or given up (req->cut). The last
     * look at the request, also of one that service->start rejected. NULL: not wanted. */
    void (*ended)(void *context, dz_request *req);
    void *context;
} dz_service;

typedef struct dz_server_options {
    dz_head_limits head;
    uint64_t body_max;          /* bytes, unless the route says otherwise */
    uint64_t header_timeout_ns; /* from the first byte of a head (or the connection) to its end */
    uint64_t idle_timeout_ns;   /* between requests */
    uint64_t body_timeout_ns;   /* for a body, and a second more for each 500 bytes of it */
    uint64_t write_timeout_ns;  /* between two pieces the client takes */
    size_t write_buffer;        /* streamed bytes that may wait for a slow client */
    unsigned connections_max;   /* per process; more are left in the backlog */
    const char *server_name;    /* the Server header; NULL: none */
} dz_server_options;

void dz_server_options_init(dz_server_options *options);

typedef struct dz_server_stats {
    _Atomic uint64_t accepted, bad_requests, accept_errors;
    _Atomic uint32_t open; /* connections */
} dz_server_stats;

/* One loop's share of a server. */
typedef struct dz_server_loop {
    dz_server *server;
    dz_loop *loop;
    dz_list conns;
    size_t conn_count;
    dz_list free_requests;
    size_t free_request_count;
    char *free_buffers[64];
    size_t free_buffer_count;
    dz_list line; /* connections whose bodies wait for a turn of the loop: see turn.c */
    dz_msg line_moves;
    bool line_posted;
    uint64_t turn; /* the tick that turn_left belongs to */
    size_t turn_left;
    _Atomic bool draining; /* set by the loop, read by handlers too */
    dz_msg drain, abort;
    _Atomic uint32_t open;                /* connections, also those on their way here */
    _Atomic uint64_t requests, bytes_out; /* written by the loop, read by anyone */
    uint64_t next_id;
} dz_server_loop;

typedef struct dz_listener {
    dz_watch watch;
    dz_timer retry; /* after EMFILE */
    dz_server *server;
    bool paused;
    dz_list link;
} dz_listener;

struct dz_server {
    dz_server_options options;
    dz_service service;
    dz_runtime *runtime;
    dz_server_loop *loops;
    unsigned loop_count;
    dz_list listeners;            /* on loop 0 */
    _Atomic uint64_t *given_back; /* see dz_server_adopt_from; NULL without a supervisor */
    dz_server_stats stats;
    dz_msg drain;
    _Atomic bool draining, aborting; /* asked for already: a message is posted once */
};

/* The runtime must not have been started. NULL: out of memory. */
dz_server *dz_server_new(dz_runtime *runtime, const dz_server_options *options,
                         const dz_service *service);
void dz_server_free(dz_server *server);

/* Accepts from a listening, non-blocking socket, which the server now owns. Before the runtime is
 * started, or on loop 0. -errno or DZ_E_NOMEM. */
int dz_server_listen(dz_server *server, int fd);

/* Takes a connected socket from elsewhere (the supervisor). On loop 0. Owns fd in any case. */
void dz_server_adopt(dz_server *server, int fd);

/* Takes connected sockets that a supervisor sends over `fd`, a unix socket of type SEQPACKET which
 * the server now owns. *given_back, in memory shared with the supervisor, is raised by one for each
 * of them that was closed or could not be taken: what was sent less this is what is open, also
 * while a socket is on its way. Before the runtime is started. -errno or DZ_E_NOMEM. */
int dz_server_adopt_from(dz_server *server, int fd, _Atomic uint64_t *given_back);

/* Whether accept failed for one connection that was in the backlog (accept(2)), so that the next
 * one may be accepted, and not for want of descriptors or memory. */
bool dz_accept_may_go_on(int error);

/* Any thread: stop accepting, close idle connections, let requests finish with Connection: close,
 * then stop the loops. Calls after the first do nothing. */
void dz_server_drain(dz_server *server);

/* Any thread, after dz_server_drain: cut what still runs. */
void dz_server_abort(dz_server *server);

/* Counts a connection out, and stops a draining loop with the last one. On the loop. */
void dz_server_connection_gone(dz_server_loop *home);

#endif
