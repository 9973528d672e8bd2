#include "content/files.h"

#include "content/offload.h"
#include "http/conn.h"

#include <donmaz/error.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

/* sendfile(2) waits for the disk when a page is not in memory, and it runs on the loop. So the loop
 * looks first, with reads of one byte that do not wait (RWF_NOWAIT), one for each PROBE bytes and
 * at the end: pages come in groups of about that size, because the kernel reads ahead, so a few
 * tell for all. What is missing is read by a disk thread; meanwhile the connection writes nothing,
 * and the loop goes on with others.
 *
 *              probe: missing              job done, on the loop
 *   sending ────────────────────> fetching ──────────────────────> sending
 *      └───────── release ──────────┴──> freed by whichever of the two is over last
 */

enum { PROBE = 128 << 10, FETCH = 1 << 20, READ_STEP = 16 << 10 };

typedef struct file_out {
    dz_out_file file;
    dz_loop *loop;
    dz_pool *disk;
    dz_conn *conn; /* waits for bytes */
    dz_job job;
    dz_msg done;
    bool fetching, released;
    bool fetched; /* send once without another look: a page that memory has no room for must not be
                     fetched for ever */
    uint64_t offset, len; /* what is fetched */
} file_out;

bool dz_file_in_memory(int fd, uint64_t offset, size_t len)
{
    char byte;
    struct iovec piece = {&byte, 1};
    for (size_t at = 0; at + PROBE < len; at += PROBE)
        if (preadv2(fd, &piece, 1, (off_t)(offset + at), RWF_NOWAIT) < 0 && errno == EAGAIN)
            return false;
    return preadv2(fd, &piece, 1, (off_t)(offset + len - 1), RWF_NOWAIT) >= 0 || errno != EAGAIN;
}

/* On a disk thread. Errors show again when the loop sends. */
static void fetch(const file_out *it)
{
    char scratch[READ_STEP];
    (void)posix_fadvise(it->file.fd, (off_t)it->offset, (off_t)it->len, POSIX_FADV_WILLNEED);
    for (uint64_t at = it->offset; at < it->offset + it->len;) {
        ssize_t n = pread(it->file.fd, scratch, sizeof scratch, (off_t)at);
        if (n <= 0)
            return;
        at += (uint64_t)n;
    }
}

static void run_fetch(dz_job *job)
{
    file_out *it = DZ_CONTAINER(job, file_out, job);
    fetch(it);
    dz_loop_post(it->loop, &it->done);
}

static void on_fetched(dz_loop *loop, dz_msg *msg)
{
    (void)loop;
    file_out *it = DZ_CONTAINER(msg, file_out, done);
    it->fetching = false;
    it->fetched = true;
    if (it->released) {
        close(it->file.fd);
        free(it);
        return;
    }
    dz_conn_go_on_writing(it->conn);
}

static bool ready(dz_out_file *file, dz_conn *conn, uint64_t offset, size_t len)
{
    file_out *it = DZ_CONTAINER(file, file_out, file);
    if (it->fetched || dz_file_in_memory(file->fd, offset, len)) {
        it->fetched = false;
        return true;
    }
    it->conn = conn;
    it->offset = offset;
    it->len = len > FETCH ? len : FETCH;
    if (dz_pool_submit(it->disk, &it->job) < 0)
        return true; /* the loop waits for the disk itself: better than not at all */
    it->fetching = true;
    return false;
}

static void release(dz_out_file *file)
{
    file_out *it = DZ_CONTAINER(file, file_out, file);
    it->released = true;
    if (it->fetching)
        return;
    close(file->fd);
    free(it);
}

dz_out_file *dz_file_out_new(dz_files *files, dz_loop *loop, int fd, unsigned pieces)
{
    file_out *it = malloc(sizeof *it);
    if (!it)
        return NULL;
    *it = (file_out){
        .file = {.fd = fd, .pieces = pieces, .ready = ready, .release = release},
        .loop = loop,
        .disk = files->disk,
        .job.run = run_fetch,
        .done.fn = on_fetched,
    };
    dz_list_init(&it->job.link);
    return &it->file;
}
