#include "http/conn.h"

#include "base/io.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* Pieces that one sendmsg takes together. */
enum {
    GATHER = 64,
    FILE_STEP = 256 << 10, /* bytes of a file that one sendfile takes */
    FILE_TICK =
        1 << 20, /* and one connection in a tick, so that a fast reader can't hold the loop */
};
static const uint64_t RETRY_NS = 20 * DZ_MS;

dz_out *dz_out_copy(dz_slice bytes)
{
    dz_out *out = malloc(sizeof *out + bytes.len);
    if (!out)
        return NULL;
    char *copy = (char *)(out + 1);
    if (bytes.len > 0)
        memcpy(copy, bytes.ptr, bytes.len);
    *out = (dz_out){.ptr = copy, .len = bytes.len, .on_heap = true};
    return out;
}

void dz_out_dispose(dz_out *out)
{
    dz_buf_release(&out->owner);
    if (out->file && --out->file->pieces == 0)
        out->file->release(out->file);
    if (out->on_heap)
        free(out);
}

void dz_out_release(dz_out *out)
{
    dz_request *req = out->req;
    dz_out_dispose(out);
    if (req) {
        req->out_pending--;
        dz_request_release(req);
    }
}

void dz_conn_queue(dz_conn *conn, dz_out *out)
{
    if (out->req)
        out->req->out_pending++;
    dz_list_push(&conn->out, &out->link);
    conn->out_bytes += out->len;
    dz_defer(conn->home->loop, &conn->flush);
}

void dz_conn_drop_output(dz_conn *conn)
{
    for (dz_list *link; (link = dz_list_shift(&conn->out));) {
        dz_out *out = DZ_CONTAINER(link, dz_out, link);
        if (out->req)
            out->req->cut = true;
        dz_out_release(out);
    }
    conn->out_bytes = 0;
}

/* Takes `written` bytes off the queue. */
static void consume(dz_conn *conn, size_t written)
{
    conn->out_bytes -= written;
    while (!dz_list_empty(&conn->out)) {
        dz_out *out = DZ_CONTAINER(conn->out.next, dz_out, link);
        if (written < out->len) {
            if (out->file)
                out->offset += written;
            else
                out->ptr += written;
            out->len -= written;
            return;
        }
        written -= out->len;
        dz_list_remove(&out->link);
        dz_out_release(out);
    }
}

/* The pieces in memory, up to the first in a file. That does not wait for it (MSG_MORE): a head and
 * a file's pages in one segment cost twice the CPU time (bench/static.py, tcp_nopush). */
static int gather(const dz_conn *conn, struct iovec *pieces)
{
    int count = 0;
    for (dz_list *link = conn->out.next; link != &conn->out && count < GATHER; link = link->next) {
        const dz_out *out = DZ_CONTAINER(link, dz_out, link);
        if (out->file)
            break;
        pieces[count++] =
            (struct iovec){.iov_base = (void *)(uintptr_t)out->ptr, .iov_len = out->len};
    }
    return count;
}

static ssize_t write_file(dz_conn *conn, const dz_out *out)
{
    size_t len = out->len < FILE_STEP ? out->len : FILE_STEP;
    if (!out->file->ready(out->file, conn, out->offset, len)) {
        conn->fetching = true;
        return 0;
    }
    off_t at = (off_t)out->offset;
    ssize_t written = sendfile(conn->watch.fd, out->file->fd, &at, len);
    if (written != 0)
        return written;
    errno = ENODATA; /* the file was cut off: the length promised can't be kept */
    return -1;
}

/* As much as one system call takes. */
static ssize_t write_once(dz_conn *conn)
{
    const dz_out *first = DZ_CONTAINER(conn->out.next, dz_out, link);
    if (first->file)
        return write_file(conn, first);
    if (first->link.next == &conn->out)
        return dz_send(conn->watch.fd, first->ptr, first->len);
    struct iovec pieces[GATHER];
    int count = gather(conn, pieces);
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = (size_t)count};
    return dz_sendmsg(conn->watch.fd, &message);
}

/* Whether a connection that sends a file has had its turn. */
static bool had_its_turn(dz_conn *conn, size_t written)
{
    if (written < FILE_TICK)
        return false;
    dz_conn_later(conn);
    return true;
}

static void wake_writer(dz_conn *conn)
{
    dz_body_write *writer = conn->body_write;
    if (!writer || conn->out_bytes > conn->home->server->options.write_buffer / 2)
        return;
    conn->body_write = NULL;
    writer->result = 0;
    dz_fiber_ready(writer->req->fiber);
}

bool dz_conn_flush(dz_conn *conn)
{
    dz_defer_cancel(conn->home->loop, &conn->flush);
    if (conn->state == DZ_CONN_CLOSED)
        return false;
    size_t from_files = 0;
    while (conn->writable && !conn->fetching && !dz_list_empty(&conn->out) &&
           !had_its_turn(conn, from_files)) {
        bool file = DZ_CONTAINER(conn->out.next, dz_out, link)->file != NULL;
        ssize_t written = write_once(conn);
        if (written >= 0) {
            dz_server_loop *home = conn->home;
            atomic_store_explicit(&home->bytes_out,
                                  atomic_load_explicit(&home->bytes_out, memory_order_relaxed) +
                                      (uint64_t)written,
                                  memory_order_relaxed);
            conn->written += (uint64_t)written;
            from_files += file ? (size_t)written : 0;
            consume(conn, (size_t)written);
        } else if (errno == EAGAIN) {
            conn->writable = false;
        } else if (errno == ENOBUFS || errno == ENOMEM) {
            /* There may be room in the socket all the time, and so no event to wait for. */
            conn->writable = false;
            conn->retry_at = conn->home->loop->now + RETRY_NS;
            dz_conn_arm(conn);
        } else if (errno != EINTR) {
            dz_conn_close(conn);
            return false;
        }
    }
    if (dz_list_empty(&conn->out))
        conn->write_deadline = UINT64_MAX;
    else if (conn->write_deadline == UINT64_MAX)
        dz_conn_await_room(conn);
    wake_writer(conn);
    return true;
}
