#include "http/conn.h"

#include "base/io.h"

#include <errno.h>
#include <stdlib.h>

/* The input buffer of a connection: taken when bytes come, given back when all are used, so that an
 * idle connection holds none. While a handler reads the request's head, which lies in the buffer,
 * nothing in it moves: more input goes behind it, or into a buffer of its own. */

enum { IN_FIRST = 8 << 10 }; /* bytes; grows to what a head may need */

static char *take_buffer(dz_server_loop *home)
{
    return home->free_buffer_count ? home->free_buffers[--home->free_buffer_count]
                                   : malloc(IN_FIRST);
}

static void give_buffer(dz_server_loop *home, char *buffer, uint32_t cap)
{
    size_t room = sizeof home->free_buffers / sizeof home->free_buffers[0];
    if (buffer && cap == IN_FIRST && home->free_buffer_count < room)
        home->free_buffers[home->free_buffer_count++] = buffer;
    else
        free(buffer);
}

void dz_conn_drop_input(dz_conn *conn)
{
    give_buffer(conn->home, conn->in, conn->in_cap);
    conn->in = NULL;
    conn->in_start = conn->in_end = conn->in_cap = 0;
}

/* The request keeps the memory its head lies in; the connection goes on with what follows it. */
static bool detach_head(dz_conn *conn, dz_request *req)
{
    uint32_t left = conn->in_end - conn->in_start;
    uint32_t cap = left > IN_FIRST ? conn->in_cap : IN_FIRST;
    char *buffer = cap == IN_FIRST ? take_buffer(conn->home) : malloc(cap);
    if (!buffer)
        return false;
    memcpy(buffer, conn->in + conn->in_start, left);
    req->head_bytes = conn->in;
    conn->in = buffer;
    conn->in_start = 0;
    conn->in_end = left;
    conn->in_cap = cap;
    return true;
}

/* Makes room for at least one more byte. */
static bool make_room(dz_conn *conn)
{
    if (!conn->in) {
        conn->in = take_buffer(conn->home);
        conn->in_start = conn->in_end = 0;
        conn->in_cap = conn->in ? IN_FIRST : 0;
        return conn->in != NULL;
    }
    bool head_inside = conn->req && !conn->req->head_bytes;
    if (!head_inside && conn->in_start == conn->in_end)
        conn->in_start = conn->in_end = 0;
    if (conn->in_end < conn->in_cap)
        return true;
    if (head_inside)
        return detach_head(conn, conn->req);
    if (conn->in_start > 0) {
        memmove(conn->in, conn->in + conn->in_start, conn->in_end - conn->in_start);
        conn->in_end -= conn->in_start;
        conn->in_start = 0;
        return true;
    }
    if (conn->in_cap > conn->home->server->options.head.head_max + 64U)
        return false; /* the parser has refused such a head already */
    uint32_t cap = conn->in_cap < IN_FIRST ? IN_FIRST : conn->in_cap * 2;
    char *grown = realloc(conn->in, cap);
    if (!grown)
        return false;
    conn->in = grown;
    conn->in_cap = cap;
    return true;
}

/* A read that keeps conn->readable and input_ended true to what it saw. >0 bytes; 0 nothing now. */
size_t dz_conn_receive(dz_conn *conn, char *out, size_t room)
{
    for (;;) {
        ssize_t n = dz_recv(conn->watch.fd, out, room);
        if (n > 0) {
            /* A short read emptied the socket: what comes later is a new edge. An end that came
             * with the data makes no edge of its own. */
            if ((size_t)n < room && !conn->peer_ended)
                conn->readable = false;
            return (size_t)n;
        }
        if (n < 0 && errno == EINTR)
            continue;
        conn->readable = false;
        if (n == 0)
            conn->input_ended = true;
        else if (errno != EAGAIN)
            dz_conn_close(conn);
        return 0;
    }
}

bool dz_conn_fill(dz_conn *conn)
{
    if (!conn->readable)
        return false;
    if (!make_room(conn)) {
        dz_conn_close(conn); /* no memory for its input: the others must go on */
        return false;
    }
    size_t n = dz_conn_receive(conn, conn->in + conn->in_end, conn->in_cap - conn->in_end);
    if (n == 0)
        return false;
    conn->in_end += (uint32_t)n;
    return true;
}
