#include "shed/rss.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static const uint64_t EVERY_NS = DZ_SEC / 2;

void dz_rss_init(dz_rss *rss, const char *path)
{
    *rss = (dz_rss){.path = path ? path : "/proc/self/statm", .page = sysconf(_SC_PAGESIZE)};
}

/* The second number, in pages (proc(5)). 0: there is none. */
static uint64_t parse(const char *text, uint64_t page)
{
    char *end, *rest;
    errno = 0;
    strtoull(text, &end, 10);
    if (end == text || *end != ' ')
        return 0;
    unsigned long long pages = strtoull(end, &rest, 10);
    if (rest == end || errno != 0 || pages > UINT64_MAX / page)
        return 0;
    return pages * page;
}

static uint64_t read_now(const dz_rss *rss)
{
    char text[128];
    int fd = open(rss->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t len = read(fd, text, sizeof text - 1);
    close(fd);
    if (len <= 0)
        return 0;
    text[len] = '\0';
    return parse(text, (uint64_t)rss->page);
}

uint64_t dz_rss_now(dz_rss *rss, uint64_t now)
{
    uint64_t next = atomic_load_explicit(&rss->next, memory_order_relaxed);
    /* One of the threads that see that it is time reads; the others take the last figure. */
    if (now >= next && atomic_compare_exchange_strong(&rss->next, &next, now + EVERY_NS)) {
        uint64_t bytes = read_now(rss);
        atomic_store_explicit(&rss->bytes, bytes, memory_order_relaxed);
        if (bytes == 0)
            atomic_fetch_add_explicit(&rss->failures, 1, memory_order_relaxed);
    }
    return atomic_load_explicit(&rss->bytes, memory_order_relaxed);
}
