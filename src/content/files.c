#include "content/files.h"

#include "content/beneath.h"
#include "content/offload.h"

#include "http/url.h"

#include <donmaz/error.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

/* Threads that wait for disks use no processor: more of them than cores keep a disk busy. */
enum { DISK_THREADS = 8, DISK_QUEUE = 4096 };

void dz_files_options_init(dz_files_options *options)
{
    *options = (dz_files_options){.index = "index.html", .precompressed = true};
}

/* --- opening and closing --- */

static int set_options(dz_files *files, const dz_files_options *options)
{
    dz_files_options_init(&files->options);
    if (options)
        files->options = *options;
    const dz_files_options *o = &files->options;
    if (o->cache_control &&
        !dz_header_valid(DZ_LIT("Cache-Control"), dz_slice_of(o->cache_control)))
        return DZ_E_INVALID;
    if (o->max_age_s > 0 || o->immutable)
        snprintf(files->cache_control, sizeof files->cache_control, "public, max-age=%llu%s",
                 (unsigned long long)o->max_age_s, o->immutable ? ", immutable" : "");
    return 0;
}

int dz_files_open(dz_files **files, const char *root, const dz_files_options *options)
{
    *files = NULL;
    dz_files *it = calloc(1, sizeof *it);
    if (!it)
        return DZ_E_NOMEM;
    it->root = -1;
    int rc = set_options(it, options);
    if (rc < 0)
        goto fail;
    rc = DZ_E_NOMEM;
    it->disk = dz_offload_pool(DISK_THREADS, DISK_QUEUE);
    if (!it->disk)
        goto fail;
    it->root = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    rc = -errno;
    if (it->root < 0)
        goto fail;
    it->walk = dz_beneath_must_walk(it->root);
    *files = it;
    return 0;
fail:
    dz_files_close(it);
    return rc;
}

void dz_files_close(dz_files *files)
{
    if (!files)
        return;
    dz_pool_free(files->disk);
    if (files->root >= 0)
        close(files->root);
    free(files);
}

/* --- on a thread that may wait for the disk --- */

typedef struct lookup {
    const dz_files *files;
    const char *path;
    dz_found *found;
    int fd;
} lookup;

static void run_lookup(void *arg)
{
    lookup *it = arg;
    it->fd =
        dz_open_beneath(it->files->root, it->path, DZ_LOOKUP_ANY, it->files->walk, &it->found->st);
}

typedef struct reading {
    int fd;
    char *out;
    size_t len;
    uint64_t offset;
    int result;
} reading;

static void run_reading(void *arg)
{
    reading *it = arg;
    for (size_t done = 0; done < it->len;) {
        ssize_t n = pread(it->fd, it->out + done, it->len - done, (off_t)(it->offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            it->result = n < 0 ? -errno : DZ_E_CLOSED;
            return;
        }
        done += (size_t)n;
    }
}

/* Here, if no thread takes it: then the loop is rescued, should it take long. */
static int on_disk_thread(const dz_files *files, dz_offload_fn *fn, void *arg)
{
    int rc = dz_offload(files->disk, fn, arg);
    if (rc < 0 && rc != DZ_E_CANCELLED) {
        fn(arg);
        rc = 0;
    }
    return rc;
}

/* --- in the handler --- */

int dz_files_find(dz_files *files, const char *path, dz_found *found)
{
    found->fd = dz_open_beneath(files->root, path, DZ_LOOKUP_CACHED, files->walk, &found->st);
    if (found->fd == -EAGAIN) {
        lookup it = {.files = files, .path = path, .found = found};
        int rc = on_disk_thread(files, run_lookup, &it);
        found->fd = rc < 0 ? rc : it.fd;
    }
    return found->fd < 0 ? found->fd : 0;
}

int dz_files_read(dz_files *files, int fd, char *out, size_t len, uint64_t offset)
{
    struct iovec piece = {out, len};
    if (len == 0 || preadv2(fd, &piece, 1, (off_t)offset, RWF_NOWAIT) == (ssize_t)len)
        return 0;
    reading it = {.fd = fd, .out = out, .len = len, .offset = offset};
    int rc = on_disk_thread(files, run_reading, &it);
    return rc < 0 ? rc : it.result;
}

/* --- routes --- */

static const char wildcard[] = "*file";

static void serve(dz_request *req, dz_response *res)
{
    const dz_call *call = dz_call_of(req);
    dz_slice path = req->head.path, above = path, below = DZ_LIT("");
    if (strchr(call->route->pattern, '*')) {
        const dz_param *rest = &call->match.params[call->match.param_count - 1];
        above.len = (size_t)(rest->value.ptr - 1 - path.ptr);
        below = dz_slice_make(path.ptr + above.len, path.len - above.len);
    } else if (path.ptr[path.len - 1] == '/') { /* the folder itself */
        above.len--;
        below = DZ_LIT("/");
    }
    char *clean = dz_arena_alloc(&req->arena, below.len + 1);
    int len = 0;
    if (clean && below.len > 0)
        len = dz_path_clean(clean, below);
    if (!clean || len < 0)
        dz_core_render_error(req, res, clean ? 400 : 503, clean ? 0 : DZ_E_NOMEM);
    else
        dz_files_send(req, res, call->route->data, dz_slice_make(clean, (size_t)len), above);
}

static void free_part(dz_part *part)
{
    dz_files_close(DZ_CONTAINER(part, dz_files, part));
}

static bool has_root_route(const dz_app *app)
{
    dz_route_match match;
    return !app->prefix && dz_router_find(app->core->router, DZ_GET, DZ_LIT("/"), &match) == 0;
}

dz_route *dz_static(dz_app *app, const char *prefix, const char *root,
                    const dz_files_options *options)
{
    if (!app)
        return NULL;
    dz_files *files;
    int rc = dz_files_open(&files, root, options);
    if (!files) {
        dz_core_fail_build(app->core, root, rc);
        return NULL;
    }
    files->part.free = free_part;
    dz_list_push(&app->core->parts, &files->part.link);

    size_t len = strlen(prefix);
    if (len > 0 && prefix[len - 1] == '/')
        len--;
    char pattern[512];
    if (len + sizeof wildcard + 1 > sizeof pattern) {
        dz_core_fail_build(app->core, root, DZ_E_INVALID);
        return NULL;
    }
    snprintf(pattern, sizeof pattern, "%.*s/%s", (int)len, prefix, wildcard);
    dz_route *route = dz_get(app, pattern, serve);
    if (!route)
        return NULL;
    route->data = files;
    if (len > 0 || !has_root_route(app)) {
        snprintf(pattern, sizeof pattern, "%.*s", len > 0 ? (int)len : 1, len > 0 ? prefix : "/");
        dz_route *folder = dz_get(app, pattern, serve);
        if (!folder)
            return NULL;
        folder->data = files;
    }
    return route;
}
