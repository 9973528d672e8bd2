#include "base/block.h"
#include "pool/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { UNMAP_STEP = 1 << 20 };

typedef struct shared_block {
    dz_block block;
    size_t size;
    int fd;
} shared_block;

/* As long as memory is unmapped, no other thread of the process can map, unmap or grow any: a loop
 * would wait for all of a catalogue's pages. */
static void unmap_in_steps(char *memory, size_t size)
{
    while (size > 0) {
        size_t step = size < UNMAP_STEP ? size : UNMAP_STEP;
        munmap(memory, step);
        memory += step;
        size -= step;
    }
}

static void release_shared(dz_block *block)
{
    shared_block *shared = (shared_block *)block;
    unmap_in_steps(block->memory, shared->size);
    close(shared->fd);
    free(shared);
}

/* Takes over fd. */
static int map_shared(dz_buf *buf, int fd, size_t size)
{
    shared_block *shared = malloc(sizeof *shared);
    void *memory = shared && size > 0 ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                                      : MAP_FAILED;
    if (memory == MAP_FAILED) {
        free(shared);
        close(fd);
        return DZ_E_NOMEM;
    }
    *shared = (shared_block){.size = size, .fd = fd};
    atomic_init(&shared->block.refs, 1);
    shared->block.cap = size;
    shared->block.memory = memory;
    shared->block.release = release_shared;
    *buf = dz_buf_of_block(&shared->block, 0);
    return 0;
}

int dz_buf_alloc_shared(dz_buf *buf, size_t cap)
{
    *buf = (dz_buf){0};
    if (cap == 0)
        cap = 1;
    if (cap > PTRDIFF_MAX)
        return DZ_E_NOMEM;
    int fd = memfd_create("donmaz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    /* Sealed, so that the other side can't cut it short under a reader. */
    if (ftruncate(fd, (off_t)cap) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0) {
        int error = -errno;
        close(fd);
        return error;
    }
    return map_shared(buf, fd, cap);
}

int dz_shared_fd(const dz_buf *buf)
{
    const dz_block *block = buf->block;
    if (!block || block->release != release_shared || buf->data != block->memory)
        return -1;
    return ((const shared_block *)block)->fd;
}

int dz_shared_reserve(dz_buf *buf, size_t cap)
{
    if (!buf->block && !buf->data)
        return dz_buf_alloc_shared(buf, cap);
    int fd = dz_shared_fd(buf);
    if (fd < 0)
        return DZ_E_NOT_OWNED;
    if (cap <= buf->cap)
        return 0;
    size_t size = cap > PTRDIFF_MAX / 2 ? cap : cap * 2; /* pages not written to cost nothing */
    if (size > PTRDIFF_MAX)
        return DZ_E_NOMEM;
    if (ftruncate(fd, (off_t)size) < 0)
        return -errno;
    shared_block *shared = (shared_block *)buf->block;
    void *memory = mremap(buf->data, shared->size, size, MREMAP_MAYMOVE);
    if (memory == MAP_FAILED)
        return DZ_E_NOMEM;
    shared->size = shared->block.cap = size;
    shared->block.memory = memory;
    *buf = dz_buf_of_block(&shared->block, buf->len);
    return 0;
}

int dz_shared_copy(dz_buf *buf, dz_slice bytes)
{
    int rc = dz_buf_alloc_shared(buf, bytes.len);
    if (rc < 0)
        return rc;
    if (bytes.len > 0)
        memcpy(buf->data, bytes.ptr, bytes.len);
    buf->len = bytes.len;
    return 0;
}

int dz_shared_adopt(dz_buf *buf, int fd, uint64_t len)
{
    *buf = (dz_buf){0};
    struct stat info;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &info) < 0 || info.st_size < 0 ||
        len > (uint64_t)info.st_size) {
        close(fd);
        return DZ_E_PROTOCOL;
    }
    int rc = map_shared(buf, fd, (size_t)info.st_size);
    if (rc == 0)
        buf->len = (size_t)len;
    return rc;
}

void *dz_shared_new(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void dz_shared_free(void *memory, size_t size)
{
    if (memory)
        munmap(memory, size);
}
