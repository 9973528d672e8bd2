#include "procfs.h"

#include <base/clock.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ssize_t read_all(int fd, char *out, size_t cap)
{
    size_t len = 0;
    while (len < cap - 1) {
        ssize_t n = read(fd, out + len, cap - 1 - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        len += (size_t)n;
    }
    out[len] = 0;
    return (ssize_t)len;
}

ssize_t dz_procfs_read(const char *path, char *out, size_t cap)
{
    out[0] = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = read_all(fd, out, cap);
    close(fd);
    return n;
}

ssize_t dz_procfs_read_pid(pid_t pid, const char *name, char *out, size_t cap)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    return dz_procfs_read(path, out, cap);
}

char *dz_procfs_slurp(const char *path, size_t *len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    size_t cap = 16384, used = 0;
    char *text = malloc(cap);
    while (text) {
        ssize_t n = read_all(fd, text + used, cap - used);
        if (n < 0) {
            free(text);
            text = NULL;
            break;
        }
        used += (size_t)n;
        if (used < cap - 1)
            break;
        char *more = cap > SIZE_MAX / 2 ? NULL : realloc(text, cap * 2);
        if (!more)
            free(text);
        text = more;
        cap *= 2;
    }
    close(fd);
    if (text && len)
        *len = used;
    return text;
}

bool dz_procfs_parse_stat(const char *text, dz_procfs_stat *out)
{
    memset(out, 0, sizeof *out);
    /* The name is in parentheses and may itself hold spaces and parentheses: the last one ends it.
     */
    const char *open = strchr(text, '('), *end = strrchr(text, ')');
    if (!open || !end || end < open)
        return false;
    size_t len = (size_t)(end - open - 1);
    len = len < sizeof out->name - 1 ? len : sizeof out->name - 1;
    memcpy(out->name, open + 1, len);
    int ppid, pgrp;
    unsigned long user, system;
    long child_user, child_system, rss;
    unsigned long long start;
    int got =
        sscanf(end + 1,
               " %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %ld %ld %*d %*d %*d "
               "%*d %llu %*u %ld",
               &out->state, &ppid, &pgrp, &user, &system, &child_user, &child_system, &start, &rss);
    if (got != 9 || child_user < 0 || child_system < 0 || rss < 0)
        return false;
    long hz = sysconf(_SC_CLK_TCK);
    uint64_t tick = DZ_SEC / (uint64_t)(hz > 0 ? hz : 100);
    out->ppid = ppid;
    out->pgrp = pgrp;
    out->cpu_ns = (user + system) * tick;
    out->child_cpu_ns = (uint64_t)(child_user + child_system) * tick;
    out->rss_pages = (uint64_t)rss;
    out->start_ticks = start;
    return true;
}

int dz_procfs_each(const char *dir, void (*each)(void *arg, long number), void *arg)
{
    DIR *d = opendir(dir);
    if (!d)
        return -errno;
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        char *end;
        long number = strtol(e->d_name, &end, 10);
        if (end != e->d_name && !*end)
            each(arg, number);
    }
    closedir(d);
    return 0;
}
