/* beneath.h: opens files that lie in a folder, whatever their names and links say. */
#ifndef DZ_CONTENT_BENEATH_H
#define DZ_CONTENT_BENEATH_H

#include <stdbool.h>
#include <sys/stat.h>

typedef enum dz_lookup {
    DZ_LOOKUP_ANY,    /* may wait for a disk */
    DZ_LOOKUP_CACHED, /* -EAGAIN when it would have to */
} dz_lookup;

/* Opens `path` (relative, no `..`) for reading, never outside the folder `root`: a symbolic link
 * that leads out is -EXDEV, one of /proc -ELOOP. Does not wait for a FIFO's writer. Returns the
 * descriptor and fills *st, or -errno. `walk`: for kernels without openat2(2), or containers that
 * forbid it; then any symbolic link is -ELOOP, and DZ_LOOKUP_CACHED is -EAGAIN. */
int dz_open_beneath(int root, const char *path, dz_lookup lookup, bool walk, struct stat *st);

/* Whether openat2(2) is missing or forbidden here. */
bool dz_beneath_must_walk(int root);

#endif
