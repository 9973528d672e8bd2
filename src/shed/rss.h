/* rss.h: the resident memory of this process, read now and then. Any number of threads. */
#ifndef DZ_SHED_RSS_H
#define DZ_SHED_RSS_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct dz_rss {
    const char *path; /* as /proc/self/statm */
    long page;        /* bytes */
    _Atomic uint64_t next, bytes, failures;
} dz_rss;

/* A NULL path is /proc/self/statm. */
void dz_rss_init(dz_rss *rss, const char *path);

/* The last figure in bytes, read anew when it is older than half a second; 0 when it can't be read:
 * what can't be known protects from nothing, and refuses nobody. */
uint64_t dz_rss_now(dz_rss *rss, uint64_t now);

#endif
