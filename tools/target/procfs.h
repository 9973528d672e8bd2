/* procfs.h: reading /proc without stdio. Names are formatted into small buffers, files are read in
 * one go; a process that vanishes meanwhile is an ordinary error (-ENOENT, -ESRCH). */
#ifndef DZ_TARGET_PROCFS_H
#define DZ_TARGET_PROCFS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads at most `cap` - 1 bytes and ends them with NUL. The number of bytes, or -errno. */
ssize_t dz_procfs_read(const char *path, char *out, size_t cap);

/* The same for /proc/PID/NAME. */
ssize_t dz_procfs_read_pid(pid_t pid, const char *name, char *out, size_t cap);

/* Reads a whole file of any size into memory that the caller frees; NULL on error. */
char *dz_procfs_slurp(const char *path, size_t *len);

/* What /proc/PID/stat says that the tools need. */
typedef struct dz_procfs_stat {
    char name[32];
    char state; /* R, S, D, T, Z ... */
    pid_t ppid, pgrp;
    uint64_t cpu_ns;       /* user + system, whole ticks */
    uint64_t child_cpu_ns; /* the same of children that ended and were waited for */
    uint64_t rss_pages;    /* may lag by some pages a core (Linux 6.2 and later count per CPU) */
    uint64_t start_ticks;  /* since boot: with the pid, names a process for good */
} dz_procfs_stat;

/* Parses a stat file of a process or a thread. False when it is not one. */
bool dz_procfs_parse_stat(const char *text, dz_procfs_stat *out);

/* Calls `each` with every numeric name in the directory. 0, or -errno when it can't be opened. */
int dz_procfs_each(const char *dir, void (*each)(void *arg, long number), void *arg);

#endif
