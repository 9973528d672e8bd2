/* files.h: a folder that is served. */
#ifndef DZ_CONTENT_FILES_H
#define DZ_CONTENT_FILES_H

#include "app/app.h"

#include <donmaz/static.h>

#include <sys/stat.h>

struct dz_files {
    dz_part part; /* in the app's list; not for dz_files_open's */
    int root;
    bool walk; /* see beneath.h */
    dz_files_options options;
    char cache_control[64]; /* "": none */
    dz_pool *disk;          /* threads that wait for the disk; none runs until one has to */
};

/* A file or folder found in it. */
typedef struct dz_found {
    int fd;
    struct stat st;
} dz_found;

/* From a handler: opens a path without waiting for a disk on the loop; may park. `path` is relative
 * and clean, and must live until then. 0, or -errno or a DZ_E_*. */
int dz_files_find(dz_files *files, const char *path, dz_found *found);

/* From a handler: the first `len` bytes at `offset`, the same way. 0; DZ_E_CLOSED: there were
 * fewer; or an error. */
int dz_files_read(dz_files *files, int fd, char *out, size_t len, uint64_t offset);

/* What dz_send_file does with a path that was cleaned: begins with '/', ends with one when it names
 * a folder. `above` is the part of the request's path before it, for redirects; ptr NULL: no
 * redirects. (send_file.c) */
void dz_files_send(dz_request *req, dz_response *res, dz_files *files, dz_slice path,
                   dz_slice above);

/* file_out.c: the file as output of a connection; takes fd over. `pieces` of it will be queued.
 * NULL: out of memory, and fd is still the caller's. */
dz_out_file *dz_file_out_new(dz_files *files, dz_loop *loop, int fd, unsigned pieces);

/* Whether the bytes can be read without waiting for a disk, as far as a few of them tell.
 * (file_out.c) */
bool dz_file_in_memory(int fd, uint64_t offset, size_t len);

#endif
