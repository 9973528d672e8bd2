/* conn.h: one HTTP/1.1 connection.
 *
 *              first byte              head complete            response queued, handler done
 *   ┌─> IDLE ─────────────> HEAD ─────────────────────> HELD ──────────────────────────┐
 *   │     │ idle timeout     │ 408, 400, 414, 431 ...    │ (body is read on request)    │
 *   │     v                  v                           v                              │
 *   │   CLOSED <─────── LINGER <──────────────── last response had Connection: close    │
 *   │                (half-closed: input is                                             │
 *   │                 dropped, up to a limit)                                           │
 *   └───────────────────────────────────────────────────────────────────────────────────┘
 *
 * At most one handler runs for a connection, so pipelined requests are answered in order whatever
 * their handlers do. While HELD, input stays in the socket, but for a body the handler asks for. */
#ifndef DZ_HTTP_CONN_H
#define DZ_HTTP_CONN_H

#include "http/request.h"
#include "http/server.h"

enum dz_conn_state {
    DZ_CONN_IDLE,
    DZ_CONN_HEAD,
    DZ_CONN_HELD,
    DZ_CONN_LINGER,
    DZ_CONN_CLOSED,
};

/* A handler waits for body bytes: lies on its fiber's stack. */
typedef struct dz_body_read {
    dz_request *req;
    char *out; /* NULL: the whole body, into req->body.whole */
    size_t cap;
    uint64_t started; /* monotonic ns */
    ssize_t result;
} dz_body_read;

/* A handler waits for room in the output. */
typedef struct dz_body_write {
    dz_request *req;
    dz_out *piece;
    int result;
} dz_body_write;

enum { DZ_CONN_PIPELINE_OUT = 64 << 10 }; /* unsent replies above which no request is begun */

struct dz_conn {
    dz_watch watch;
    dz_timer timer;
    uint64_t deadline;       /* of what the state waits for; UINT64_MAX: none. The timer fires */
    uint64_t write_deadline; /* then or earlier, and looks at all four */
    uint64_t written, taken; /* bytes: into the socket; of them out of it when we last looked */
    uint64_t retry_at;       /* when to write again: the kernel had no memory */
    uint64_t held_until;     /* no request is read before; 0: none is held back */
    uint64_t refused_at;     /* see dz_http_hold_back */
    unsigned refused_streak;
    dz_server_loop *home;
    dz_list link;
    enum dz_conn_state state;
    bool readable, writable; /* as far as the edges told */
    bool peer_ended;         /* an event said that the client sends no more */
    bool input_ended;        /* recv returned 0 */
    bool close_after;        /* no further request is read */
    bool must_linger;        /* the client may still send: closing at once could reset the reply */
    bool fresh;              /* no request was complete yet */
    bool again_posted;
    bool fetching; /* the next bytes of output are on their way from a disk */
    /* Input not yet used is in[in_start..in_end). */
    char *in;
    uint32_t in_start, in_end, in_cap;
    size_t scanned;     /* see dz_head_parse */
    uint64_t skip_left; /* bytes of a body nobody read that are still to be dropped */
    dz_request *req;
    dz_body_read *body_read;
    dz_list line; /* of those that wait for a turn to go on with it: see turn.c */
    dz_body_write *body_write;
    dz_list out;
    size_t out_bytes;
    dz_deferred flush;
    dz_msg again; /* to go on in the next tick, and to be freed */
    uint64_t linger_left;
};

/* Takes the connected socket; closes it when that fails. On the loop. */
void dz_conn_open(dz_server_loop *home, int fd);

/* Goes on wherever the connection can. On the loop. */
void dz_conn_advance(dz_conn *conn);

/* Closes the socket; the struct goes when no handler holds it. On the loop. */
void dz_conn_close(dz_conn *conn);

/* Writes, and goes on with what waited for that: the next pipelined request or the end. */
void dz_conn_flush_and_advance(dz_conn *conn);

/* Frees a closed connection when nothing refers to it any more. */
void dz_conn_free_if_unused(dz_conn *conn);

/* Goes on in the next tick, after the other connections had their turn. */
void dz_conn_later(dz_conn *conn);

/* The server begins to drain: closes the connection when it rests, now or later. */
void dz_conn_drain(dz_conn *conn);

static inline const dz_server_options *dz_conn_options(const dz_conn *conn)
{
    return &conn->home->server->options;
}

/* --- deadline.c --- */

void dz_conn_init_timer(dz_conn *conn);
void dz_conn_set_deadline(dz_conn *conn, uint64_t due);
/* After one of the other times was changed. */
void dz_conn_arm(dz_conn *conn);
/* Output waits: from now on the client must take it. */
void dz_conn_await_room(dz_conn *conn);

/* --- next.c --- */

/* One step towards the next request; true: try another. */
bool dz_conn_step(dz_conn *conn);

/* --- refuse.c --- */

/* Answers `status` without a handler, and closes after. On the loop, with no request running. */
void dz_conn_refuse(dz_conn *conn, int status);

/* --- linger.c --- */

/* All is written and no request will follow: closes, at once or after lingering. */
void dz_conn_finish(dz_conn *conn);
/* Drops input until the client has read the reply and closes. */
void dz_conn_linger(dz_conn *conn);

/* --- input.c --- */

/* Gives the buffer back, and what is in it up. */
void dz_conn_drop_input(dz_conn *conn);

/* Reads into the input buffer; false: nothing more now (or the connection is closed). */
bool dz_conn_fill(dz_conn *conn);

/* Reads elsewhere; 0: nothing more now, or the input ended, or the connection is closed. */
size_t dz_conn_receive(dz_conn *conn, char *out, size_t room);

/* --- output.c --- */

/* Queues a piece; it is written at the end of the tick or by dz_conn_flush. */
void dz_conn_queue(dz_conn *conn, dz_out *out);
/* Writes what can be written. False: the connection was closed. */
bool dz_conn_flush(dz_conn *conn);
/* Drops all output. */
void dz_conn_drop_output(dz_conn *conn);
/* A copy of `bytes` as a piece of its own; NULL out of memory. */
dz_out *dz_out_copy(dz_slice bytes);
void dz_out_release(dz_out *out);

/* --- turn.c --- */

/* How many bytes of one body may be received now; 0: no more in this turn of the loop. */
size_t dz_turn_room(dz_server_loop *home);
/* So many bytes were. */
void dz_turn_count(dz_server_loop *home, size_t received);
/* Whether something may be received at once: nobody waits, and there is room. */
bool dz_turn_is_free(dz_server_loop *home);
/* Goes on with the body after the others that wait. */
void dz_turn_wait(dz_conn *conn);
void dz_turn_init(dz_server_loop *home);

/* --- body.c --- */

/* Reads as much of the body as the waiting handler wants, now or in a later turn. On the loop. */
void dz_conn_read_body(dz_conn *conn);
/* Reads what this turn has room for. */
void dz_conn_read_piece(dz_conn *conn);
/* Fails a waiting read (the connection is closed). */
void dz_conn_fail_body(dz_conn *conn, int error, int status);
/* After the handler: sees to it that what is left of the body is dropped, or that the connection
 * ends. */
void dz_conn_skip_body(dz_conn *conn, dz_request *req);

/* --- request.c --- */

dz_request *dz_request_new(dz_conn *conn);
void dz_request_free(dz_request *req);
/* Frees it when its handler is done and its output written. */
void dz_request_release(dz_request *req);
/* Nobody will read the response: whoever works for it may stop. */
void dz_request_note_gone(dz_request *req);

#endif
