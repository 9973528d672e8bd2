#include "tree.h"

#include "procfs.h"

#include <donmaz/error.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void dz_tree_init(dz_tree *tree, pid_t root)
{
    memset(tree, 0, sizeof *tree);
    tree->root = root;
}

static void close_thread(dz_tree_thread *t)
{
    if (t->fd >= 0)
        close(t->fd);
    t->fd = -1;
    t->gone = true;
}

static void close_proc(dz_tree_proc *p)
{
    for (size_t i = 0; i < p->count; i++)
        close_thread(&p->threads[i]);
    if (p->statm_fd >= 0)
        close(p->statm_fd);
    p->statm_fd = -1;
    p->gone = true;
}

void dz_tree_close(dz_tree *tree)
{
    for (size_t i = 0; i < tree->count; i++) {
        close_proc(&tree->procs[i]);
        free(tree->procs[i].threads);
    }
    free(tree->procs);
    memset(tree, 0, sizeof *tree);
}

dz_tree_proc *dz_tree_find(dz_tree *tree, pid_t pid)
{
    for (size_t i = 0; i < tree->count; i++)
        if (tree->procs[i].pid == pid && !tree->procs[i].gone)
            return &tree->procs[i];
    return NULL;
}

static void *grow(void *array, size_t *cap, size_t size)
{
    size_t want = *cap ? *cap * 2 : 8;
    void *more = reallocarray(array, want, size);
    if (more)
        *cap = want;
    return more;
}

/* False when the thread is gone. */
static bool sample_thread(dz_tree_thread *t)
{
    char text[512];
    ssize_t n = pread(t->fd, text, sizeof text - 1, 0);
    if (n <= 0)
        return false;
    text[n] = 0;
    if (t->coarse) {
        dz_procfs_stat stat;
        if (dz_procfs_parse_stat(text, &stat))
            t->cpu_ns = stat.cpu_ns;
        return true;
    }
    uint64_t run, wait;
    if (sscanf(text, "%" SCNu64 " %" SCNu64, &run, &wait) == 2) {
        t->cpu_ns = run;
        t->wait_ns = wait;
    }
    return true;
}

static int add_thread(dz_tree *tree, dz_tree_proc *p, pid_t tid)
{
    if (p->count == p->cap) {
        dz_tree_thread *more = grow(p->threads, &p->cap, sizeof *more);
        if (!more)
            return DZ_E_NOMEM;
        p->threads = more;
    }
    dz_tree_thread t = {.tid = tid};
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int)p->pid, (int)tid);
    dz_procfs_stat stat;
    if (dz_procfs_read(path, text, sizeof text) <= 0 || !dz_procfs_parse_stat(text, &stat))
        return 0; /* gone again */
    memcpy(t.name, stat.name, sizeof t.name);
    snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", (int)p->pid, (int)tid);
    t.fd = open(path, O_RDONLY | O_CLOEXEC);
    if (t.fd < 0) {
        snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int)p->pid, (int)tid);
        t.fd = open(path, O_RDONLY | O_CLOEXEC);
        t.coarse = true;
    }
    if (t.fd < 0)
        return errno == EMFILE || errno == ENFILE ? -errno : 0;
    sample_thread(&t);
    if (!tree->from_start) {
        t.first_cpu_ns = t.cpu_ns;
        t.first_wait_ns = t.wait_ns;
    }
    p->threads[p->count++] = t;
    return 0;
}

typedef struct scan {
    dz_tree *tree;
    dz_tree_proc *proc;
    pid_t pid;
    bool *alive; /* of the threads known before */
    size_t known;
    int rc;
} scan;

static void each_thread(void *arg, long number)
{
    scan *s = arg;
    for (size_t i = 0; i < s->known; i++)
        if (s->proc->threads[i].tid == (pid_t)number && !s->proc->threads[i].gone) {
            s->alive[i] = true;
            return;
        }
    int rc = add_thread(s->tree, s->proc, (pid_t)number);
    if (rc < 0)
        s->rc = rc;
}

static int refresh_threads(dz_tree *tree, dz_tree_proc *p)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)p->pid);
    scan s = {.tree = tree, .proc = p, .known = p->count};
    s.alive = calloc(p->count + 1, sizeof *s.alive);
    if (!s.alive)
        return DZ_E_NOMEM;
    dz_procfs_each(path, each_thread, &s);
    for (size_t i = 0; i < s.known; i++)
        if (!s.alive[i] && !p->threads[i].gone)
            close_thread(&p->threads[i]);
    free(s.alive);
    return s.rc;
}

static void each_fd(void *arg, long number)
{
    (void)number;
    ++*(unsigned *)arg;
}

static void read_slow(dz_tree_proc *p)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)p->pid);
    struct stat st;
    /* Since Linux 6.2 the size of the directory is the count; before, it is 0. */
    if (stat(path, &st) == 0 && st.st_size > 0) {
        p->fds = (unsigned)st.st_size;
    } else {
        p->fds = 0;
        dz_procfs_each(path, each_fd, &p->fds);
    }
    if (dz_procfs_read_pid(p->pid, "status", text, sizeof text) <= 0)
        return;
    const char *at = strstr(text, "voluntary_ctxt_switches:");
    if (at)
        p->switches = strtoull(at + 24, NULL, 10);
    at = strstr(text, "nonvoluntary_ctxt_switches:");
    if (at)
        p->preempted = strtoull(at + 27, NULL, 10);
}

static int add_proc(dz_tree *tree, pid_t pid)
{
    char text[512];
    dz_procfs_stat stat;
    if (dz_procfs_read_pid(pid, "stat", text, sizeof text) <= 0 ||
        !dz_procfs_parse_stat(text, &stat) || stat.state == 'Z')
        return 0;
    dz_tree_proc *known = dz_tree_find(tree, pid);
    if (known && known->start_ticks == stat.start_ticks) {
        known->seen = true;
        memcpy(known->name, stat.name, sizeof known->name); /* exec may have changed it */
        return 0;
    }
    if (known)
        close_proc(known); /* the pid was given to another */
    if (tree->count == tree->cap) {
        dz_tree_proc *more = grow(tree->procs, &tree->cap, sizeof *more);
        if (!more)
            return DZ_E_NOMEM;
        tree->procs = more;
    }
    dz_tree_proc *p = &tree->procs[tree->count];
    *p = (dz_tree_proc){.pid = pid, .ppid = stat.ppid, .start_ticks = stat.start_ticks};
    memcpy(p->name, stat.name, sizeof p->name);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    p->statm_fd = open(path, O_RDONLY | O_CLOEXEC);
    p->seen = true;
    tree->count++;
    return 0;
}

/* Adds the children listed in one thread's file. */
static void each_parent(void *arg, long tid)
{
    scan *s = arg;
    char path[80], text[8192];
    snprintf(path, sizeof path, "/proc/%d/task/%ld/children", (int)s->pid, tid);
    if (dz_procfs_read(path, text, sizeof text) <= 0)
        return;
    char *at = text, *end;
    for (long pid = strtol(at, &end, 10); end != at; pid = strtol(at, &end, 10)) {
        int rc = add_proc(s->tree, (pid_t)pid);
        if (rc < 0)
            s->rc = rc;
        at = end;
    }
}

int dz_tree_refresh(dz_tree *tree)
{
    for (size_t i = 0; i < tree->count; i++)
        tree->procs[i].seen = false;
    int rc = add_proc(tree, tree->root);
    /* A known process stays in the tree although its parent ended: so each is asked, not only those
     * still linked to the root. */
    for (size_t i = 0; i < tree->count; i++) {
        dz_tree_proc *p = &tree->procs[i];
        if (!p->gone && !p->seen)
            add_proc(tree, p->pid);
    }
    size_t alive = 0;
    for (size_t i = 0; i < tree->count && rc >= 0; i++) { /* grows while it runs */
        dz_tree_proc *p = &tree->procs[i];
        if (!p->gone && !p->seen)
            close_proc(p);
        if (p->gone)
            continue;
        alive++;
        rc = refresh_threads(tree, p);
        read_slow(p);
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/task", (int)p->pid);
        scan s = {.tree = tree, .pid = p->pid};
        dz_procfs_each(path, each_parent, &s);
        rc = rc < 0 ? rc : s.rc;
    }
    return rc < 0 ? rc : alive ? 0 : DZ_E_NOT_FOUND;
}

static void sample_rss(dz_tree_proc *p)
{
    char text[128];
    ssize_t n = p->statm_fd < 0 ? -1 : pread(p->statm_fd, text, sizeof text - 1, 0);
    uint64_t total, resident;
    if (n <= 0)
        return;
    text[n] = 0;
    if (sscanf(text, "%" SCNu64 " %" SCNu64, &total, &resident) == 2)
        p->rss = resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

void dz_tree_sample(dz_tree *tree)
{
    for (size_t i = 0; i < tree->count; i++) {
        dz_tree_proc *p = &tree->procs[i];
        p->cpu_ns = p->wait_ns = 0;
        for (size_t j = 0; j < p->count; j++) {
            dz_tree_thread *t = &p->threads[j];
            if (!t->gone && !sample_thread(t))
                close_thread(t);
            p->cpu_ns += t->cpu_ns - t->first_cpu_ns;
            p->wait_ns += t->wait_ns - t->first_wait_ns;
        }
        if (!p->gone)
            sample_rss(p);
    }
}
