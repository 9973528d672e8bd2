/* redis.h: a Redis client whose calls park the handler, never the loop.
 *
 * Each loop keeps its own connections; commands of one tick go out together, and GETs of one key in
 * one tick share a command. A long value is read straight into a buffer that dz_send_buf sends
 * without a copy. The calls below may be used in handlers, on any thread the handler runs on; from
 * elsewhere they return DZ_E_STATE.
 *
 * Errors of every call:
 *   DZ_E_UNAVAILABLE  no connection (or Redis is loading, or busy with a script, or no node of the
 *                     cluster has the key's slot): try again later; dz_redis_why tells more
 *   DZ_E_TIMEOUT      no answer in time; a write may still be executed
 *   DZ_E_CLOSED       the connection broke after a write was sent: it may have been executed
 *   DZ_E_REPLY        Redis answered with an error (wrong type, out of memory, no permission, ...)
 *   DZ_E_QUEUE_FULL   too many commands, or too many bytes of them, wait already
 *   DZ_E_PROTOCOL, DZ_E_TOO_LARGE, DZ_E_NOMEM, DZ_E_INVALID, DZ_E_STATE
 * Reads that were cut off are sent once more on the next connection; writes never are. */
#ifndef DONMAZ_REDIS_H
#define DONMAZ_REDIS_H

#include <donmaz/buf.h>
#include <donmaz/error.h>
#include <donmaz/export.h>
#include <donmaz/metrics.h>
#include <donmaz/slice.h>

#include <stdbool.h>
#include <stdint.h>

typedef struct dz_redis dz_redis;
typedef struct dz_reply dz_reply;

/* Zeroes mean the defaults. */
typedef struct dz_redis_options {
    uint64_t timeout_ms;         /* of a command, waiting included; 1000 */
    uint64_t connect_timeout_ms; /* with handshake; 1000 */
    unsigned connections;        /* a loop; 1, at most 16 */
    size_t cache_bytes;          /* of each loop's tracking cache; 0: none */
    unsigned max_waiting;        /* commands a connection may owe; 4096 */
    size_t max_waiting_bytes;    /* of those commands and of the reply that is coming in, for each
                                    connection; one command alone may be larger; 64 MB */
    size_t max_reply;            /* bytes; 1 GB */
    bool no_sharing;             /* each GET is a command of its own, also of one key in one tick */

    /* TLS, with rediss:// and rediss+cluster://. Files are PEM, and read by dz_redis_open. */
    const char *tls_ca_file;     /* whom to trust; NULL: whom the system trusts */
    const char *tls_cert_file;   /* the client's certificate, with its chain; NULL: none */
    const char *tls_key_file;    /* its key; NULL: in tls_cert_file too */
    const char *tls_server_name; /* that the certificate must have (also sent, SNI); NULL: the host
                                    in the URL, or as the cluster names the node */
    bool tls_insecure;           /* takes any certificate: anyone on the way can read and change */

    /* Called on a loop when a connection is lost or can't be made for a new reason, and when it is
     * there again. `text` is one line, "10.0.0.1:6379: connecting: Connection refused", and lives
     * during the call, which must not block: dz_log is right. May be NULL. */
    void (*on_event)(void *context, const char *text);
    void *event_context;
} dz_redis_options;

/* Makes a client for
 *     redis://[user[:password]@]host[:port][/db]             rediss:// with TLS
 *     unix://[user[:password]@]/path[?db=n]
 *     redis+cluster://[user[:password]@]host[:port][,...]    rediss+cluster:// with TLS
 * Connects when first used, and looks host names up then and at each reconnect, on a thread of its
 * own. *out is the caller's; nothing in options need outlive the call, except event_context.
 * DZ_E_INVALID: bad URL or option; -errno: a TLS file can't be read; DZ_E_FORMAT: it is not what it
 * should be; DZ_E_NOMEM. */
DZ_API int dz_redis_open(dz_redis **out, const char *url, const dz_redis_options *options);

/* Closes everything. Only when no loop runs any more that used it (dz_on_stop is right). */
DZ_API void dz_redis_close(dz_redis *redis);

/* The value of key. *value is the caller's to send or release; it may be shared with other
 * requests, so copy it before changing it. DZ_E_NOT_FOUND: no such key, *value is empty. */
DZ_API int dz_redis_get(dz_redis *redis, dz_slice key, dz_buf *value);

/* As dz_redis_get, with the value's XXH3 hash, for an ETag. It is computed once for each reply of
 * Redis, however many requests share it; so with the tracking cache once (on each loop) for each
 * version of the value. */
DZ_API int dz_redis_get_hash(dz_redis *redis, dz_slice key, dz_buf *value, uint64_t *hash);

/* Sets key; expire_ms 0: for good. */
DZ_API int dz_redis_set(dz_redis *redis, dz_slice key, dz_slice value, uint64_t expire_ms);

/* Several values at once: values[i] is that of keys[i], with .block NULL where there is none. All
 * are the caller's to release (empty ones harmlessly). In a cluster it is one command for each
 * slot, sent together: then the values need not be of one moment. */
DZ_API int dz_redis_mget(dz_redis *redis, const dz_slice *keys, size_t count, dz_buf *values);

/* *deleted (may be NULL): how many of the keys there were. In a cluster as dz_redis_mget: on an
 * error some may be deleted. */
DZ_API int dz_redis_del(dz_redis *redis, const dz_slice *keys, size_t count, int64_t *deleted);

/* Adds `by`; *value (may be NULL) is the result. */
DZ_API int dz_redis_incr(dz_redis *redis, dz_slice key, int64_t by, int64_t *value);

enum {
    DZ_REDIS_READ = 1, /* changes nothing: may be sent again after a broken connection */
};

/* Any command: args[0] is its name. *reply is the caller's, to be freed; it is set also with
 * DZ_E_REPLY (its text says what is wrong), else NULL on errors. DZ_E_INVALID: a command that
 * would change the shared connection or block it (SUBSCRIBE, MULTI, SELECT, BLPOP, ...).
 * In a cluster it goes to the node of its first key, commands without a key (FLUSHALL, KEYS) to
 * some node; keys of several slots are an error, "CROSSSLOT ..." (DZ_E_REPLY). */
DZ_API int dz_redis_command(dz_redis *redis, unsigned flags, const dz_slice *args, size_t count,
                            dz_reply **reply);

/* --- replies --- */

typedef enum dz_reply_kind {
    DZ_REPLY_NULL,
    DZ_REPLY_STRING,  /* text: bulk, simple or verbatim */
    DZ_REPLY_STATUS,  /* text: OK */
    DZ_REPLY_ERROR,   /* text: ERR ... */
    DZ_REPLY_INTEGER, /* integer */
    DZ_REPLY_DOUBLE,  /* double */
    DZ_REPLY_BOOL,    /* integer: 0 or 1 */
    DZ_REPLY_BIG,     /* text: a number's digits */
    DZ_REPLY_ARRAY,   /* children */
    DZ_REPLY_MAP,     /* children: key, value, key, value */
    DZ_REPLY_SET,
    DZ_REPLY_PUSH, /* only seen by the client itself */
} dz_reply_kind;

DZ_API dz_reply_kind dz_reply_kind_of(const dz_reply *reply);
DZ_API dz_slice dz_reply_text(const dz_reply *reply);         /* lives as long as the whole reply */
DZ_API int64_t dz_reply_integer(const dz_reply *reply);       /* 0 for other kinds */
DZ_API double dz_reply_double(const dz_reply *reply);         /* integers too; 0 for other kinds */
DZ_API size_t dz_reply_count(const dz_reply *reply);          /* children */
DZ_API const dz_reply *dz_reply_first(const dz_reply *reply); /* NULL: none */
DZ_API const dz_reply *dz_reply_next(const dz_reply *child);  /* NULL: no more */
DZ_API void dz_reply_free(dz_reply *reply);                   /* the whole; NULL is harmless */

/* --- what it does --- */

/* The first group only grows; the rest is what there is now. */
typedef struct dz_redis_stats {
    uint64_t commands; /* sent, those sent again included */
    uint64_t shared;   /* GETs that shared another's command */
    uint64_t hashes;   /* computed for dz_redis_get_hash */
    uint64_t timeouts; /* commands that were not answered in time */
    uint64_t errors;   /* answers that were errors (DZ_E_REPLY, and DZ_E_UNAVAILABLE by LOADING
                          and the like) */
    uint64_t retries;  /* reads sent again after a broken connection */
    uint64_t connects, connect_failures;
    uint64_t losses;        /* connections that broke, or were given up because of silence */
    uint64_t redirects;     /* MOVED, ASK and TRYAGAIN that were followed */
    uint64_t map_refreshes; /* how often the cluster's map was asked for */
    uint64_t cache_hits, cache_misses;
    uint64_t cache_invalidations; /* values and reads in flight dropped because Redis said so */
    uint64_t cache_evictions;     /* values dropped for want of room */
    uint64_t cache_flushes;       /* times that all was dropped */
    uint64_t cache_late;          /* replies not kept because an invalidation overtook them */

    uint64_t cache_bytes, cache_values; /* held */
    uint64_t waiting;                   /* commands that wait for their answer */
    uint64_t waiting_bytes;             /* of them, those given up included */
    uint64_t nodes;                     /* of the cluster, known to the loops (of each its own) */
    unsigned connected;                 /* connections ready for commands */
} dz_redis_stats;

/* The sums over all loops; any thread, any time. For metrics: docs/redis.md has the names. */
DZ_API void dz_redis_get_stats(const dz_redis *redis, dz_redis_stats *stats);

/* Registers them as donmaz_redis_* with the label redis=`name` (copied), for instance with
 * dz_app_metrics(app). DZ_E_EXISTS, DZ_E_NOMEM. Call dz_metrics_forget(metrics, redis) before
 * dz_redis_close if the registry is read after it. */
DZ_API int dz_redis_register_metrics(dz_redis *redis, dz_metrics *metrics, const char *name);

/* Why a connection failed last, as one line; empty (returns 0) when it is there again. Cut to size;
 * returns the whole length. Any thread. */
DZ_API size_t dz_redis_why(const dz_redis *redis, char *text, size_t size);

/* --- a private server --- */

typedef struct dz_redis_server dz_redis_server;

/* Starts the installed redis-server as a child with a unix socket in a private folder, without
 * persistence, and waits until it answers; it ends with dz_redis_server_stop or with this process.
 * `url` (at least 128 bytes) is filled in for dz_redis_open. -ENOENT: redis-server is not
 * installed; DZ_E_TIMEOUT; -errno. Call it on a thread that stays: the
 * server ends with it. */
DZ_API int dz_redis_server_start(dz_redis_server **out, char *url, size_t url_size);
DZ_API void dz_redis_server_stop(dz_redis_server *server); /* NULL is harmless */

#endif
