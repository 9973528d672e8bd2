/* resp.h: the Redis protocol, versions 2 and 3, without I/O: commands out, replies in.
 *
 * The reader says where the next bytes from the socket should go. A long string is read straight
 * into a buffer of exactly its size, which a response can send as it is; only what came in the same
 * read as the line that announced it is copied.
 *
 *     dz_resp_room ──> readv ──> dz_resp_filled ──> dz_resp_next until it returns 0 ──┐
 *          ^──────────────────────────────────────────────────────────────────────────┘ */
#ifndef DZ_REDIS_RESP_H
#define DZ_REDIS_RESP_H

#include "base/arena.h"

#include <donmaz/buf.h>
#include <donmaz/redis.h>

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

struct dz_reply {
    dz_reply_kind kind;
    char verbatim[4]; /* "txt", "mkd" for verbatim strings; empty otherwise */
    dz_buf text;      /* owning when long or the whole reply, else in the reply's arena */
    int64_t integer;
    double real;
    dz_reply *first, *next; /* children; the sibling */
    size_t count;           /* children */
    dz_reply *attributes;   /* a map, or NULL */
    dz_reply *next_owner;   /* private: the values whose text owns its memory */
};

typedef struct dz_resp_limits {
    size_t depth;    /* of nesting */
    size_t elements; /* in one reply, all levels */
    size_t bytes;    /* of one reply, strings and tree */
} dz_resp_limits;

enum { DZ_RESP_INPUT = 16 << 10, DZ_RESP_DEPTH = 32 };

typedef struct dz_resp_frame {
    dz_reply *node, *last; /* the aggregate and its last child so far */
    uint64_t left;         /* children to come */
    bool streamed;         /* until a '.', instead */
    bool is_attribute;
} dz_resp_frame;

enum dz_resp_state { DZ_RESP_LINE, DZ_RESP_BODY, DZ_RESP_BODY_END, DZ_RESP_BROKEN };

typedef struct dz_resp {
    dz_resp_limits limits;
    enum dz_resp_state state;
    int error;

    struct dz_resp_root *root; /* the reply being read; NULL between replies */
    dz_resp_frame frames[DZ_RESP_DEPTH];
    size_t depth;
    dz_reply *attributes; /* read, for the next value */
    size_t elements, bytes;

    dz_reply *body; /* the string being read */
    size_t body_left;
    bool chunked; /* it comes in ;n chunks */

    size_t scan;  /* where to look on for the line's end */
    size_t start; /* input[start..end) is unread */
    size_t end;
    char input[DZ_RESP_INPUT];
} dz_resp;

/* Zeroes in limits mean: 32 deep, 1048576 elements, 1 GB. */
void dz_resp_init(dz_resp *resp, const dz_resp_limits *limits);
void dz_resp_close(dz_resp *resp); /* frees a half-read reply */

/* Fills iov with where the next bytes belong; returns how many entries (1 or 2). Call only after
 * dz_resp_next returned 0. */
int dz_resp_room(dz_resp *resp, struct iovec iov[2]);

/* `len` bytes were read into that room, in order. */
void dz_resp_filled(dz_resp *resp, size_t len);

/* 1: *reply is the next reply, the caller's to free; 0: more bytes are needed; DZ_E_PROTOCOL,
 * DZ_E_TOO_LARGE or DZ_E_NOMEM: the connection can't be used any more. */
int dz_resp_next(dz_resp *resp, dz_reply **reply);

/* Whether the reader is between replies, with nothing unread. */
bool dz_resp_idle(const dz_resp *resp);

/* Writes a command and returns its length: at most 32 bytes more than each argument, and 32. */
size_t dz_resp_encode(char *to, const dz_slice *args, size_t count);

/* Appends a command. DZ_E_NOMEM: *out is unchanged. */
int dz_resp_command(dz_buf *out, const dz_slice *args, size_t count);

/* An integer as Redis writes it: sign, digits, nothing else, within int64. */
bool dz_resp_integer(dz_slice text, int64_t *number);

#endif
