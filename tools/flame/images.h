/* images.h: what each process has mapped, at each moment.
 *
 * An image is what a process runs between one exec and the next. A forked process begins as its
 * parent was at that moment, so it needs no copy of the parent's mappings. Times are those of the
 * samples (ns, CLOCK_MONOTONIC); 0 is "since ever". Images are never removed, so that samples can
 * be named at the end, and a process id that is used again is another image. One thread at a time.
 */
#ifndef DZ_FLAME_IMAGES_H
#define DZ_FLAME_IMAGES_H

#include "map.h"

#include <sys/types.h>

/* What is told of a mapping when it is made. */
typedef struct dz_mapped {
    pid_t pid;
    uint64_t at, start, length, offset;
    uint64_t inode; /* of the file; 0 unknown */
    const char *name;
} dz_mapped;

typedef struct dz_mapping {
    uint64_t start, end, offset; /* addresses; place in the file */
    uint64_t at;                 /* when it was mapped */
    int module;                  /* index, or one of the two below */
} dz_mapping;

enum {
    DZ_MODULE_JIT = -1,  /* code made at run time */
    DZ_MODULE_NONE = -2, /* of no use: [vsyscall] and the like */
};

typedef struct dz_image {
    pid_t pid;
    uint32_t parent; /* image that it began as; DZ_NO_IMAGE */
    uint64_t from, forked;
    uint64_t root; /* names what it sees as /; 0: not looked at yet, 1: as we do */
    dz_mapping *maps;
    size_t count, cap;
} dz_image;

#define DZ_NO_IMAGE UINT32_MAX

typedef struct dz_images {
    dz_image *all;
    size_t count, cap;
    dz_map by_pid;
} dz_images;

void dz_images_close(dz_images *images);

/* The image of a process at a time; DZ_NO_IMAGE when nothing is known of it. */
uint32_t dz_images_at(const dz_images *images, pid_t pid, uint64_t at);

/* False out of memory: then less is known. */
bool dz_images_fork(dz_images *images, pid_t pid, pid_t parent, uint64_t at);
bool dz_images_exec(dz_images *images, pid_t pid, uint64_t at);
bool dz_images_map(dz_images *images, pid_t pid, const dz_mapping *mapping);

/* What is mapped at an address; NULL when nothing known is. */
const dz_mapping *dz_images_find(const dz_images *images, uint32_t image, uint64_t address,
                                 uint64_t at);

#endif
