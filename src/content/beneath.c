#include "content/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Not in the headers of older kernels. */
#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20
#endif

enum {
    FLAGS = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
    TRIES = 8, /* the kernel gives up when something is renamed while it resolves `..` in a link */
};

static int open_how(int root, const char *path, unsigned resolve)
{
    struct open_how how = {.flags = FLAGS,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve};
    long fd = syscall(SYS_openat2, root, path, &how, sizeof how);
    return fd < 0 ? -errno : (int)fd;
}

static int open_by_openat2(int root, const char *path, dz_lookup lookup)
{
    if (lookup == DZ_LOOKUP_CACHED) {
        int fd = open_how(root, path, RESOLVE_CACHED);
        return fd == -EINVAL ? -EAGAIN : fd; /* Linux before 5.12 has no such flag */
    }
    int fd = -EAGAIN;
    for (int i = 0; i < TRIES && fd == -EAGAIN; i++)
        fd = open_how(root, path, 0);
    return fd;
}

/* The folder or file `name`, which is no link. */
static int open_step(int folder, const char *name, size_t len, bool last)
{
    char text[NAME_MAX + 1];
    if (len >= sizeof text)
        return -ENAMETOOLONG;
    memcpy(text, name, len);
    text[len] = '\0';
    int fd = openat(folder, text,
                    last ? FLAGS | O_NOFOLLOW : O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int open_by_walking(int root, const char *path)
{
    int folder = root;
    for (;;) {
        size_t len = strcspn(path, "/");
        bool last = path[len] == '\0';
        int fd = open_step(folder, path, len, last);
        if (folder != root)
            close(folder);
        if (fd < 0 || last)
            return fd;
        folder = fd;
        path += len + 1;
    }
}

int dz_open_beneath(int root, const char *path, dz_lookup lookup, bool walk, struct stat *st)
{
    if (walk && lookup == DZ_LOOKUP_CACHED)
        return -EAGAIN;
    int fd = walk ? open_by_walking(root, path) : open_by_openat2(root, path, lookup);
    if (fd < 0)
        return fd;
    if (fstat(fd, st) < 0) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    return fd;
}

bool dz_beneath_must_walk(int root)
{
    int fd = open_how(root, ".", 0);
    if (fd >= 0)
        close(fd);
    return fd == -ENOSYS || fd == -EPERM; /* seccomp filters answer either */
}
