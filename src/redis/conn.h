/* conn.h: one connection to Redis: handshake, pipelining, deadlines, reconnecting on demand.
 *
 *          submit            found              connected         (TLS only)         HELLO answered
 *   CLOSED ──────> RESOLVING ─────> CONNECTING ──────────> SECURING ───────> HANDSHAKE ──────>
 * READY ^                │                │                     │                  │              │
 *     └────────────────┴────────────────┴─────────────────────┴──────────────────┘              │
 *     │  failed: everything waiting gets DZ_E_UNAVAILABLE, back-off                             │
 *     └─────────────────────────────────────────────────────────────────────────────────────────┘
 *        lost: reads are sent again once, unsent commands wait, sent writes fail
 *
 * Nothing happens without a command: a lost connection is made again when the next one comes, not
 * before the back-off is over; until then commands fail at once. All on the loop.
 *
 *   conn.c     states, commands                lost.c      losing the connection
 *   wire.c     writing and reading             tls.c       between wire.c and the socket
 *   connect.c  names, addresses, sockets       greet.c     HELLO and what follows
 *   deadline.c time
 */
#ifndef DZ_REDIS_CONN_H
#define DZ_REDIS_CONN_H

#include "loop/loop.h"
#include "redis/resolve.h"
#include "redis/resp.h"
#include "redis/url.h"

typedef struct dz_redis_cmd dz_redis_cmd;
typedef struct dz_redis_conn dz_redis_conn;
typedef struct dz_redis_tls dz_redis_tls;
typedef struct ssl_ctx_st dz_redis_tls_context; /* OpenSSL's SSL_CTX */

/* A command in flight. Made by dz_redis_cmd_new, owned by the connection from submit to done. */
struct dz_redis_cmd {
    dz_list link;
    /* Its end: rc is 0 with a reply (which becomes the callee's), or an error without. Frees cmd.
     * conn is NULL when it was on none. */
    void (*done)(dz_redis_conn *conn, dz_redis_cmd *cmd, int rc, dz_reply *reply);
    /* The deadline has passed, though a reply may still come, and `done` with it. */
    void (*expired)(dz_redis_conn *conn, dz_redis_cmd *cmd);
    void (*drop)(dz_redis_cmd *cmd); /* frees cmd when all is closed; NULL: free */
    void *user;
    uint64_t deadline; /* monotonic ns; 0: the connection sets it */
    bool is_read;      /* may be executed twice */
    bool retried, late;
    bool sealed; /* sent, or about to be: nothing may join it */
    bool asking; /* goes out behind ASKING; dz_redis_cmd_asking */
    bool led;    /* asking, and the answer to ASKING is still to come */
    size_t written, len;
    dz_slice key; /* of a GET, in bytes */
    char *bytes;  /* encoded, behind the struct */

    /* The cluster's (cluster.c). */
    uint16_t slot;
    uint8_t redirects;
    uint32_t failed_node; /* its serial; 0: none */
    int failed_rc;
    uint64_t retry_at; /* while parked; 0: when there is a new map */
};

/* Encodes a command. NULL: out of memory. */
dz_redis_cmd *dz_redis_cmd_new(const dz_slice *args, size_t count);

/* Whether ASKING goes before it. Only while it is on no connection. */
void dz_redis_cmd_asking(dz_redis_cmd *cmd, bool asking);

void dz_redis_cmd_drop(dz_redis_cmd *cmd);

typedef struct dz_redis_config {
    dz_redis_url url;
    dz_redis_tls_context *tls; /* NULL: none */
    char tls_name[256];        /* that the certificate must have; empty: the endpoint's host */
    uint64_t timeout_ns, connect_timeout_ns;
    unsigned max_waiting;
    size_t max_waiting_bytes;
    dz_resp_limits limits;
} dz_redis_config;

typedef enum dz_redis_state {
    DZ_REDIS_CLOSED,
    DZ_REDIS_RESOLVING,
    DZ_REDIS_CONNECTING,
    DZ_REDIS_SECURING,
    DZ_REDIS_HANDSHAKE,
    DZ_REDIS_READY,
} dz_redis_state;

/* Of all connections of one loop: written by it, read by anyone. */
typedef struct dz_redis_conn_stats {
    _Atomic uint64_t commands, timeouts, retries, connects, connect_failures, losses;
    _Atomic uint64_t waiting, waiting_bytes, ready;
} dz_redis_conn_stats;

/* Adds to a counter that only this thread writes. */
static inline void dz_redis_count(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

struct dz_redis_conn {
    dz_loop *loop;
    const dz_redis_config *config;
    const dz_redis_endpoint *endpoint;
    dz_redis_conn_stats *stats;
    bool tracking; /* CLIENT TRACKING is wanted */
    void *user, *node;
    void (*on_push)(dz_redis_conn *conn, const dz_reply *push);
    /* The connection was lost or could not be made: conn->why tells; values that were cached from
     * it can't be trusted. It is closed, and its commands are still there. */
    void (*on_down)(dz_redis_conn *conn, bool was_ready);
    void (*on_up)(dz_redis_conn *conn);

    dz_redis_state state;
    int fd;
    dz_watch watch;
    dz_timer timer;
    bool timer_on;
    dz_deferred flush;
    dz_list greeting; /* handshake commands, before anything else */
    dz_list queue;    /* not, or only in part, written */
    dz_list pending;  /* written, in the order of the answers to come */
    unsigned waiting; /* commands in the three, those given up excepted */
    unsigned owed;    /* all commands in the three */
    size_t owed_bytes;

    bool tracks; /* CLIENT TRACKING is on */
    bool resp2;  /* the server does not know HELLO */
    bool wants_output;
    bool give_up;      /* `expired` sets it to have the connection ended */
    uint64_t opened;   /* when connecting began */
    uint64_t heard;    /* when bytes last came */
    uint64_t retry_at; /* not before that */
    unsigned failures; /* in a row */
    dz_redis_lookup *lookup;
    dz_redis_addresses addresses;
    size_t next_address; /* to be tried */
    size_t turn;         /* where the list begins: behind addresses that did not answer */
    dz_redis_tls *tls;   /* NULL without, and while closed */
    int error;           /* why it last failed */
    char why[256];       /* the same in words, when there is more to say than the code does */
    dz_resp resp;
};

/* On the loop. DZ_E_NOMEM. */
int dz_redis_conn_init(dz_redis_conn *conn, dz_loop *loop, const dz_redis_config *config,
                       const dz_redis_endpoint *endpoint, dz_redis_conn_stats *stats);

/* Frees everything without calling anyone. The loop has ended, or nothing is owed. */
void dz_redis_conn_close(dz_redis_conn *conn, bool loop_ended);

/* Takes the command. An error: it was not taken and is still the caller's. */
int dz_redis_conn_submit(dz_redis_conn *conn, dz_redis_cmd *cmd);

/* Ends the connection because of what the caller found. */
void dz_redis_conn_fail(dz_redis_conn *conn, int rc);

/* --- between the parts */

/* conn.c */
void dz_redis_conn_finish(dz_redis_conn *conn, dz_redis_cmd *cmd, int rc, dz_reply *reply);
void dz_redis_conn_given_up(dz_redis_conn *conn, dz_redis_cmd *cmd); /* nobody waits for it */
bool dz_redis_conn_ready(dz_redis_conn *conn);  /* the handshake is done; false: it ended */
bool dz_redis_conn_opened(dz_redis_conn *conn); /* bytes can be sent; false: it ended */
void dz_redis_hang_up(dz_redis_conn *conn, bool loop_ended); /* closes the socket */

/* lost.c */
uint64_t dz_redis_backoff(unsigned failures, uint32_t random); /* ns, after so many before it */
void dz_redis_conn_start(dz_redis_conn *conn); /* begins to connect; may fail and finish commands */
void dz_redis_conn_why(dz_redis_conn *conn, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* wire.c: false when the connection ended. */
bool dz_redis_write(dz_redis_conn *conn);
void dz_redis_read(dz_redis_conn *conn, bool to_the_end);

/* deadline.c */
void dz_redis_deadline_arm(dz_redis_conn *conn, uint64_t due);
void dz_redis_deadline_passed(dz_loop *loop, dz_timer *timer);

/* connect.c */
int dz_redis_connect(dz_redis_conn *conn);      /* starts, or starts resolving */
int dz_redis_connect_next(dz_redis_conn *conn); /* the next address */
int dz_redis_connected(dz_redis_conn *conn);    /* the socket became writable: its outcome */
void dz_redis_watch(dz_loop *loop, dz_watch *watch, uint32_t events);

/* greet.c: queues the handshake; DZ_E_NOMEM. */
int dz_redis_greet(dz_redis_conn *conn);

#endif
