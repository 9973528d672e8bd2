/* request.h: what one request needs, from its head to the last byte of its response.
 *
 * A dz_request belongs to its handler (a fiber) from service->start until the fiber is done; the
 * loop meanwhile only sets the atomic `gone`, and reads bodies and writes output when the handler
 * asks for it by parking or posting. After that the loop owns it until its response is written. */
#ifndef DZ_HTTP_REQUEST_H
#define DZ_HTTP_REQUEST_H

#include "base/arena.h"
#include "http/chunked.h"
#include "http/head.h"
#include "http/response_head.h"
#include "loop/fiber.h"
#include "loop/loop.h"

#include <donmaz/buf.h>
#include <donmaz/request.h>
#include <donmaz/response.h>

#include <stdatomic.h>

typedef struct dz_conn dz_conn;

/* A file that the kernel sends pieces of (sendfile). Its pieces are counted by whoever makes them,
 * before they are queued. */
typedef struct dz_out_file dz_out_file;
struct dz_out_file {
    int fd;
    unsigned pieces; /* not yet written or dropped */
    /* On the loop, before bytes [offset, offset + len) are sent. False: they would have to come
     * from a disk; the file has begun to fetch them, and calls dz_conn_go_on_writing on the loop
     * when they are in memory, unless it was released meanwhile. */
    bool (*ready)(dz_out_file *file, dz_conn *conn, uint64_t offset, size_t len);
    /* The last piece was written or dropped. On the loop. */
    void (*release)(dz_out_file *file);
};

/* A piece of output. The bytes belong to the request that queued it, or to `owner`, or lie in
 * `file`. */
typedef struct dz_out {
    dz_list link;
    const char *ptr;
    size_t len;
    dz_out_file *file; /* NULL: in memory at ptr */
    uint64_t offset;   /* in the file */
    dz_buf owner;      /* released when written */
    dz_request *req;   /* whose it is; NULL for none */
    bool on_heap;      /* free() it when written */
} dz_out;

enum dz_body_state {
    DZ_BODY_STATE_NONE,    /* the request has none */
    DZ_BODY_STATE_UNREAD,  /* nobody asked for it yet */
    DZ_BODY_STATE_READING, /* some of it was read */
    DZ_BODY_STATE_DONE,    /* read to its end */
    DZ_BODY_STATE_FAILED,  /* too large, malformed, or the client went away */
};

typedef struct dz_body {
    enum dz_body_state state;
    int error;         /* when FAILED: what every later read returns */
    int status;        /* when FAILED because of the client: 400, 408, 413 */
    uint64_t left;     /* with Content-Length: bytes not yet taken from the connection */
    dz_chunked chunks; /* with chunked */
    uint64_t taken;    /* payload bytes so far */
    uint64_t limit;    /* 413 above */
    dz_buf whole;      /* filled by dz_body; owned by the request */
    bool lent;         /* a reply shows memory of somebody else's, perhaps that of `whole` */
    int (*reserve)(dz_buf *buf, size_t cap); /* memory of another kind for `whole`, or NULL */
    uint64_t waited_ns;                      /* for the client, in all reads so far */
} dz_body;

enum dz_response_state {
    DZ_RESPONSE_OPEN,      /* headers may be set */
    DZ_RESPONSE_STREAMING, /* head sent, body goes on */
    DZ_RESPONSE_COMPLETE,  /* handed to the connection whole */
};

/* Called in the handler when its response is about to be sent: may change the status, the header
 * fields and the body (NULL: none, or a stream), and may park. Returns 0; 1 when it has answered
 * instead; or an error, and nothing is sent. */
typedef int dz_http_prepare(dz_request *req, dz_buf *body, bool stream);

/* What the pieces of a stream go through, in the handler. Released before the stream's end. */
typedef struct dz_encoder dz_encoder;
struct dz_encoder {
    /* Passes on what becomes of `bytes` with dz_http_write_encoded; `last`: all that is left. */
    int (*write)(dz_encoder *encoder, dz_request *req, dz_slice bytes, bool last);
    void (*release)(dz_encoder *encoder);
};

struct dz_response {
    dz_request *req;
    enum dz_response_state state;
    int status;
    dz_slice content_type;
    dz_header *headers; /* in the request's arena */
    uint16_t header_count, header_cap;
    bool chunked;     /* streaming with chunked coding */
    bool close_after; /* the connection ends with this response */
    bool bodiless;    /* HEAD, 204, 304: body bytes are dropped */
    bool broken;      /* a piece of the stream was lost: it must not look complete */
    bool no_length;   /* to HEAD: how long the body would be is not known */
    uint64_t sent;    /* body bytes */
    /* The layer above's last word, when a response is about to be sent: see dz_http_prepare. */
    dz_http_prepare *prepare;
    unsigned prepare_flags;
    dz_encoder *encoder; /* what a stream's pieces go through; NULL: nothing */
};

struct dz_request {
    dz_conn *conn;
    dz_loop *loop;
    dz_head head;
    dz_body body;
    dz_response res;
    dz_arena arena;
    dz_fiber *fiber;
    void *route;      /* the app's */
    void *app;        /* the app's */
    void *locals;     /* the app's: list of values middleware left for later ones */
    void *params;     /* the app's: the route match */
    uint32_t step;    /* the app's: next middleware */
    char *head_bytes; /* the head's memory when it was taken from the connection's buffer */
    size_t head_cap;
    uint64_t started; /* monotonic ns at which the head was complete */
    uint64_t id;
    _Atomic bool gone; /* the client closed or reset the connection */
    bool handler_done;
    bool cut;             /* some of the response could not be sent: the client was gone */
    unsigned out_pending; /* pieces of output not yet written */
    dz_msg msg;           /* carries a finished response to the loop */
    dz_out out_head, out_body;
    dz_list out_more; /* dz_out */
    dz_list link;     /* in the loop's free requests */
    char first[];     /* the arena's first block */
};

/* --- used by handlers, on any thread --- */

/* Whether the caller is the request's handler: on its stack, whichever thread that runs on. Another
 * thread or another handler would park the wrong fiber, or write into a request that has ended. */
static inline bool dz_http_is_handler(const dz_request *req)
{
    return req->fiber && req->fiber == dz_fiber_current();
}

/* Sends the response whole: head from req->res, then body. `body` (may be NULL or empty) is moved
 * from; a borrowed one must live as long as the request. DZ_E_STATE: already answered, or not
 * called by the request's handler (so for all calls of this section). DZ_E_NOMEM,
 * DZ_E_INVALID (a header that may not be sent): nothing was sent. */
int dz_http_reply(dz_request *req, dz_buf *body);
/* The same on the loop, outside of a handler. */
int dz_http_reply_here(dz_request *req, dz_buf *body);

/* As dz_http_reply with the body in pieces (a list of dz_out, which is empty afterwards) of
 * `length` bytes in all. They must live as long as the request. After an error they are still the
 * caller's. Does not call res->prepare. */
int dz_http_reply_pieces(dz_request *req, uint64_t length, dz_list *pieces);

/* Sends the head now, and the body by dz_http_write. `length` UINT64_MAX: not known. */
int dz_http_stream(dz_request *req, uint64_t length);

/* Sends a piece of the body; parks while the client reads too slowly. `bytes` may be reused after.
 * DZ_E_CLOSED: the client is gone. */
int dz_http_write(dz_request *req, dz_slice bytes);
int dz_http_write_encoded(dz_request *req, dz_slice bytes); /* for a dz_encoder */
int dz_http_end(dz_request *req);

/* Reads the whole body into req->body.whole; parks until it is there. */
int dz_http_body(dz_request *req);

/* Whether the connection can go on although the handler leaves (the rest of) the body unread. */
bool dz_http_body_skippable(const dz_request *req);

/* Reads up to `cap` bytes of the body; parks until there is at least one. 0: the end. */
ssize_t dz_http_read(dz_request *req, void *out, size_t cap);

/* --- used by the app, on the loop --- */

/* The socket, -1 when it is closed; only on the loop or while it is pinned. */
int dz_conn_fd(const dz_conn *conn);

/* On the loop: a file's bytes are in memory (see dz_out_file). */
void dz_conn_go_on_writing(dz_conn *conn);

/* What a piece refers to that was never queued. */
void dz_out_dispose(dz_out *out);

/* finish.c: the handler has returned; its fiber is off the request. */
void dz_http_finish(dz_request *req);

/* From service->start, instead of running a handler: answers `status` and closes. */
void dz_http_reject(dz_request *req, int status);

/* From service->start, instead of running a handler: answers with req->res and `body`, as
 * dz_http_reply, and gives the request up; the connection goes on unless that says otherwise. */
void dz_http_answer(dz_request *req, dz_buf *body);

/* On the loop: the request is going to be refused. A client that asks again at once, and again, is
 * read ever more slowly (up to 64 ms a request), so that its refusals don't cost what serving the
 * others would. */
void dz_http_hold_back(dz_request *req);

/* On the loop, before a request's handler runs: ends the connection with its response, unless the
 * client has sent more already. Whether it will. */
bool dz_http_close_after(dz_request *req);

#endif
