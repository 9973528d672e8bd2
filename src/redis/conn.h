/* conn.h: one connection to Redis: handshake, pipelining, deadlines, reconnecting on demand.
 *
 *            submit            connected             HELLO answered
 *   CLOSED ─────────> CONNECTING ──────> HANDSHAKE ────────────────> READY
 *     ^                   │                  │                         │
 *     └───────────────────┴──────────────────┴─────────────────────────┘
 *        failed: everything waiting gets         lost: reads are sent again once, unsent
 *        DZ_E_UNAVAILABLE, back-off               commands wait, sent writes fail
 *
 * Nothing happens without a command: a lost connection is made again when the next one comes, not
 * before the back-off is over; until then commands fail at once. All on the loop. */
#ifndef DZ_REDIS_CONN_H
#define DZ_REDIS_CONN_H

#include "loop/loop.h"
#include "redis/resp.h"
#include "redis/url.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

typedef struct dz_redis_cmd dz_redis_cmd;
typedef struct dz_redis_conn dz_redis_conn;

/* A command in flight. Made by dz_redis_cmd_new, owned by the connection from submit to done. */
struct dz_redis_cmd {
    dz_list link;
    /* Its end: rc is 0 with a reply (which becomes the callee's), or an error without. Frees cmd.
     */
    void (*done)(dz_redis_conn *conn, dz_redis_cmd *cmd, int rc, dz_reply *reply);
    /* The deadline has passed, though a reply may still come, and `done` with it. */
    void (*expired)(dz_redis_conn *conn, dz_redis_cmd *cmd);
    void *user;
    uint64_t deadline; /* monotonic ns */
    bool is_read;      /* may be executed twice */
    bool retried, late;
    bool sealed; /* sent, or about to be: nothing may join it */
    size_t written, len;
    dz_slice key; /* of a GET, in bytes */
    char *bytes;  /* encoded, behind the struct */
};

/* Encodes a command. NULL: out of memory. */
dz_redis_cmd *dz_redis_cmd_new(const dz_slice *args, size_t count);

typedef struct dz_redis_address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un un;
    } to;
    socklen_t len;
} dz_redis_address;

enum { DZ_REDIS_ADDRESSES = 8 };

typedef struct dz_redis_config {
    dz_redis_url url;
    dz_redis_address addresses[DZ_REDIS_ADDRESSES];
    size_t address_count;
    uint64_t timeout_ns, connect_timeout_ns;
    unsigned max_waiting;
    dz_resp_limits limits;
    bool tracking; /* CLIENT TRACKING ON */
} dz_redis_config;

typedef enum dz_redis_state {
    DZ_REDIS_CLOSED,
    DZ_REDIS_CONNECTING,
    DZ_REDIS_HANDSHAKE,
    DZ_REDIS_READY,
} dz_redis_state;

/* Written by the loop, read by anyone. */
typedef struct dz_redis_conn_stats {
    _Atomic uint64_t commands, timeouts, retries, connects, connect_failures, losses, waiting;
    _Atomic bool ready;
} dz_redis_conn_stats;

struct dz_redis_conn {
    dz_loop *loop;
    const dz_redis_config *config;
    void *user;
    void (*on_push)(dz_redis_conn *conn, const dz_reply *push);
    void (*on_lost)(dz_redis_conn *conn); /* also tells that cached values can't be trusted */

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

    bool tracks; /* CLIENT TRACKING is on */
    bool resp2;  /* the server does not know HELLO */
    bool wants_output;
    bool give_up;      /* `expired` sets it to have the connection ended */
    uint64_t opened;   /* when connecting began */
    uint64_t heard;    /* when bytes last came */
    uint64_t retry_at; /* not before that */
    unsigned failures; /* in a row */
    size_t address;    /* which of the config's is next */
    int error;         /* why it last failed */
    char error_text[120];
    dz_redis_conn_stats stats;
    dz_resp resp;
};

/* On the loop. DZ_E_NOMEM. */
int dz_redis_conn_init(dz_redis_conn *conn, dz_loop *loop, const dz_redis_config *config);

/* Frees everything without calling anyone; the loop has ended. */
void dz_redis_conn_close(dz_redis_conn *conn);

/* Takes the command. An error: it was not taken and is still the caller's. */
int dz_redis_conn_submit(dz_redis_conn *conn, dz_redis_cmd *cmd);

/* Ends the connection because of what the caller found. */
void dz_redis_conn_fail(dz_redis_conn *conn, int rc);

/* connect.c, between the parts of this folder */
int dz_redis_connect(dz_redis_conn *conn);   /* starts; -errno */
int dz_redis_connected(dz_redis_conn *conn); /* the socket became writable: its outcome */
int dz_redis_greet(dz_redis_conn *conn);     /* queues the handshake; DZ_E_NOMEM */
int dz_redis_resolve(dz_redis_config *config);

#endif
