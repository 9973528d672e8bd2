#include "proctree.h"

#include "procfs.h"

#include <donmaz/error.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct process {
    pid_t pid;
    dz_procfs_stat stat;
    bool ours;
} process;

typedef struct process_list {
    process *items;
    size_t count, room;
    int rc;
} process_list;

static bool read_process(pid_t pid, process *p)
{
    char text[1024];
    *p = (process){.pid = pid};
    return dz_procfs_read_pid(pid, "stat", text, sizeof text) > 0 &&
           dz_procfs_parse_stat(text, &p->stat);
}

/* A zombie: nothing of it is left but its exit status. */
static bool is_dead(const process *p)
{
    return p->stat.state == 'Z' || p->stat.state == 'X';
}

static void add(void *argument, long number)
{
    process_list *list = argument;
    process p;
    if (list->rc < 0 || !read_process((pid_t)number, &p))
        return;
    if (list->count == list->room) {
        size_t room = list->room ? list->room * 2 : 256;
        process *items = reallocarray(list->items, room, sizeof *items);
        if (!items) {
            list->rc = DZ_E_NOMEM;
            return;
        }
        list->items = items;
        list->room = room;
    }
    list->items[list->count++] = p;
}

/* Marks what descends from root. Repeats until nothing changes: a child may come first. */
static void mark(process_list *list, pid_t root)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < list->count; i++) {
            process *p = &list->items[i];
            for (size_t j = 0; !p->ours && j < list->count; j++)
                if (list->items[j].ours && p->stat.ppid == list->items[j].pid)
                    p->ours = changed = true;
            if (!p->ours && p->stat.ppid == root)
                p->ours = changed = true;
        }
    }
}

/* VmRSS of /proc/PID/status is exact, where the field of /proc/PID/stat may lag behind by up to 32
 * pages a core. */
static uint64_t exact_rss_kb(const process *p)
{
    char text[4096];
    if (dz_procfs_read_pid(p->pid, "status", text, sizeof text) > 0) {
        const char *at = strstr(text, "\nVmRSS:");
        if (at)
            return strtoull(at + 7, NULL, 10);
    }
    return p->stat.rss_pages * ((uint64_t)sysconf(_SC_PAGESIZE) / 1024);
}

static void add_up(dz_proctree *tree, const process *p)
{
    tree->rss_kb += exact_rss_kb(p);
    tree->cpu_ns += p->stat.cpu_ns + p->stat.child_cpu_ns;
}

int dz_proctree_read(pid_t root, bool with_root, dz_proctree *tree)
{
    process_list list = {0};
    *tree = (dz_proctree){0};
    int rc = dz_procfs_each("/proc", add, &list);
    rc = rc < 0 ? rc : list.rc;
    if (rc == 0 && !(tree->pids = calloc(list.count + 1, sizeof *tree->pids)))
        rc = DZ_E_NOMEM;
    if (rc < 0) {
        free(list.items);
        return rc;
    }
    mark(&list, root);
    for (size_t i = 0; i < list.count; i++) {
        const process *p = &list.items[i];
        bool is_root = p->pid == root;
        if (is_dead(p) || !(p->ours || (with_root && is_root)))
            continue;
        tree->pids[tree->count++] = p->pid;
        if (is_root) { /* first */
            tree->pids[tree->count - 1] = tree->pids[0];
            tree->pids[0] = p->pid;
        }
        add_up(tree, p);
    }
    free(list.items);
    return 0;
}

void dz_proctree_refresh(dz_proctree *tree)
{
    tree->rss_kb = tree->cpu_ns = 0;
    for (size_t i = 0; i < tree->count; i++) {
        process p;
        if (read_process(tree->pids[i], &p))
            add_up(tree, &p);
    }
}

void dz_proctree_free(dz_proctree *tree)
{
    free(tree->pids);
    *tree = (dz_proctree){0};
}
