#include "images.h"

#include <stdlib.h>

void dz_images_close(dz_images *images)
{
    for (size_t i = 0; i < images->count; i++)
        free(images->all[i].maps);
    free(images->all);
    dz_map_close(&images->by_pid);
    *images = (dz_images){0};
}

uint32_t dz_images_at(const dz_images *images, pid_t pid, uint64_t at)
{
    uint32_t best = DZ_NO_IMAGE, index;
    for (size_t walk = SIZE_MAX; dz_map_next(&images->by_pid, (uint64_t)pid, &walk, &index);) {
        const dz_image *i = &images->all[index];
        if (i->from <= at && (best == DZ_NO_IMAGE || i->from >= images->all[best].from))
            best = index;
    }
    return best;
}

static bool reserve(void **array, size_t count, size_t *cap, size_t size)
{
    if (count < *cap)
        return true;
    size_t want = *cap ? *cap * 2 : 16;
    void *more = reallocarray(*array, want, size);
    if (!more)
        return false;
    *array = more;
    *cap = want;
    return true;
}

static bool add(dz_images *images, dz_image image)
{
    if (!reserve((void **)&images->all, images->count, &images->cap, sizeof *images->all) ||
        !dz_map_put(&images->by_pid, (uint64_t)image.pid, (uint32_t)images->count))
        return false;
    images->all[images->count++] = image;
    return true;
}

bool dz_images_fork(dz_images *images, pid_t pid, pid_t parent, uint64_t at)
{
    return add(images, (dz_image){.pid = pid,
                                  .parent = dz_images_at(images, parent, at),
                                  .from = at,
                                  .forked = at});
}

bool dz_images_exec(dz_images *images, pid_t pid, uint64_t at)
{
    return add(images, (dz_image){.pid = pid, .parent = DZ_NO_IMAGE, .from = at});
}

bool dz_images_map(dz_images *images, pid_t pid, const dz_mapping *mapping)
{
    uint32_t image = dz_images_at(images, pid, mapping->at);
    if (image == DZ_NO_IMAGE) {
        if (!add(images, (dz_image){.pid = pid, .parent = DZ_NO_IMAGE}))
            return false;
        image = (uint32_t)images->count - 1;
    }
    dz_image *i = &images->all[image];
    if (!reserve((void **)&i->maps, i->count, &i->cap, sizeof *i->maps))
        return false;
    i->maps[i->count++] = *mapping;
    return true;
}

const dz_mapping *dz_images_find(const dz_images *images, uint32_t image, uint64_t address,
                                 uint64_t at)
{
    while (image < images->count) {
        const dz_image *i = &images->all[image];
        for (size_t k = i->count; k-- > 0;) { /* the newest mapping wins */
            const dz_mapping *m = &i->maps[k];
            if (address >= m->start && address < m->end && m->at <= at)
                return m;
        }
        at = i->forked < at ? i->forked : at;
        image = i->parent;
    }
    return NULL;
}
