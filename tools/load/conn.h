/* conn.h: one connection and what it shares with the engine. Private to the engine's files.
 *
 *   IDLE -> CONNECTING -> [HANDSHAKE] -> OPEN -> (closed or failed) -> CONNECTING | WAITING
 *   WAITING -(back-off over)-> CONNECTING
 *   any -> ENDED: it has sent all it may, or the run is over */
#ifndef DZ_LOAD_CONN_H
#define DZ_LOAD_CONN_H

#include "load/engine.h"
#include "load/response.h"

#include "base/heap.h"
#include "base/list.h"

typedef struct ssl_st SSL;

/* A request in flight. */
typedef struct load_sent {
    uint64_t at;  /* when its send was called */
    uint64_t due; /* when the schedule wanted it; = at without a schedule */
    uint32_t endpoint;
    bool counts; /* sent while counting: one of --amount's */
} load_sent;

/* A schedule: request k is due at base + k x interval. It never slips: what could not be sent in
 * time stays due. */
typedef struct load_pacer {
    dz_heap_node timer; /* keyed by the next request due */
    double interval;    /* ns */
    uint64_t base;
    uint64_t released, sent; /* requests due so far; requests sent */
    dz_list free;            /* connections that could send at once */
} load_pacer;

typedef struct load_engine_group {
    const load_group *plan;
    uint64_t budget;    /* requests still to send once counting */
    uint64_t opening;   /* connections that will send as soon as they are open */
    int64_t *turns;     /* smooth weighted round robin over the endpoints; NULL when only one */
    load_pacer *pacers; /* one when shared, one a connection otherwise; NULL without a rate */
} load_engine_group;

typedef enum load_conn_state {
    LOAD_IDLE,
    LOAD_WAITING,
    LOAD_CONNECTING,
    LOAD_HANDSHAKE,
    LOAD_OPEN,
    LOAD_ENDED,
} load_conn_state;

typedef struct load_conn {
    load_engine *engine;
    load_engine_group *group;
    load_pacer *pacer; /* NULL: sends as soon as it may */
    int fd;
    uint32_t index, generation; /* tell events of this socket from those of its predecessors */
    load_conn_state state;
    load_sent *ring; /* in flight, oldest at `first`; the size is a power of two */
    uint32_t first, count, mask;
    const char *out; /* request bytes the kernel has not taken yet */
    size_t out_len;
    dz_buf built; /* owns them when they are not the endpoint's own */
    load_response response;
    uint64_t opened;    /* when connect was called */
    uint64_t answered;  /* responses on this socket */
    uint64_t sent_here; /* requests on this socket */
    uint64_t sent_ever; /* requests of this connection over all its sockets */
    unsigned fails;     /* sockets in a row that brought no response */
    size_t address, tries;
    dz_heap_node retry;
    dz_list free_link; /* in its pacer's list while it could send at once */
    bool queued;       /* in the engine's `again` list: more to read than one turn allows */
    SSL *ssl;
    bool stamped; /* the kernel notes when bytes arrive */
} load_conn;

struct load_engine {
    load_shared *shared;
    const load_plan *plan;
    size_t index;
    int epoll;
    load_conn *conns;
    size_t conn_count;
    load_engine_group *groups;
    load_record *records;
    load_mixer mixer;
    dz_heap retries, pacers;
    char *buffer; /* where recv puts bytes */
    load_conn **again;
    size_t again_count;
    uint64_t in_flight; /* of requests that count towards the budget or not */
    size_t ended;       /* connections in LOAD_ENDED */
    bool counting, over, out_of_memory;
    uint64_t next_mark, next_scan, finished_at;
    load_unfinished unfinished;
    load_live live;
};

enum { LOAD_BUFFER = 64 * 1024 };

/* conn.c: opening, closing, failing. */
void load_conn_open(load_conn *conn, uint64_t now);
void load_conn_established(load_conn *conn, uint64_t now);
void load_conn_connect_result(load_conn *conn, uint64_t now);
/* Ends the socket without blame (nothing was in flight) and opens the next. */
void load_conn_renew(load_conn *conn, uint64_t now);
/* Every request in flight has failed; opens the next socket, after a while if this one was useless.
 */
void load_conn_fail(load_conn *conn, load_failure failure, int error, uint64_t now);
void load_conn_connect_failed(load_conn *conn, load_failure failure, int error, uint64_t now);
void load_conn_end(load_conn *conn);

/* send.c, receive.c */
void load_conn_pump(load_conn *conn);
void load_conn_receive(load_conn *conn, bool to_the_end);
void load_conn_flush(load_conn *conn);

/* secure.c: the same over TLS. Results as of recv and send, with errno; -1 and EPROTO is a TLS
 * failure that load_tls_note has kept. */
int load_tls_setup(load_shared *shared, char *why, size_t why_size);
void load_tls_free(load_shared *shared);
bool load_tls_start(load_conn *conn);
int load_tls_handshake(load_conn *conn); /* 1 done, 0 goes on, -1 failed */
ssize_t load_tls_read(load_conn *conn, char *into, size_t size);
ssize_t load_tls_write(load_conn *conn, const char *from, size_t len);
void load_tls_end(load_conn *conn);

static inline load_sent *load_conn_oldest(load_conn *conn)
{
    return &conn->ring[conn->first & conn->mask];
}

#endif
