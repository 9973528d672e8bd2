#include "proctree.h"

#include <donmaz/error.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct process {
    pid_t pid, parent;
    uint64_t rss_pages, ticks;
    bool dead; /* a zombie: nothing of it is left but its exit status */
    bool ours;
} process;

typedef struct process_list {
    process *items;
    size_t count, room;
} process_list;

/* proc(5): the name in brackets may hold anything, so fields are counted from its last bracket. */
static bool parse_stat(char *line, process *p)
{
    unsigned long long field[25] = {0}; /* field[3] is the state's successor: ppid is field 4 */
    char *at = strrchr(line, ')');
    if (!at || at[1] != ' ' || !at[2])
        return false;
    p->dead = at[2] == 'Z' || at[2] == 'X';
    at += 3;
    for (int i = 4; i <= 24; i++) {
        char *end;
        field[i] = strtoull(at, &end, 10);
        if (end == at)
            return false;
        at = end;
    }
    p->parent = (pid_t)field[4];
    p->ticks = field[14] + field[15] + field[16] + field[17];
    p->rss_pages = field[24];
    return true;
}

static bool read_process(int proc, const char *pid, process *p)
{
    char path[64], line[1024];
    snprintf(path, sizeof path, "%.20s/stat", pid);
    int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t len = read(fd, line, sizeof line - 1);
    close(fd);
    if (len <= 0)
        return false;
    line[len] = '\0';
    *p = (process){.pid = (pid_t)strtol(pid, NULL, 10)};
    return parse_stat(line, p);
}

static int add(process_list *list, const process *p)
{
    if (list->count == list->room) {
        size_t room = list->room ? list->room * 2 : 256;
        process *items = reallocarray(list->items, room, sizeof *items);
        if (!items)
            return DZ_E_NOMEM;
        list->items = items;
        list->room = room;
    }
    list->items[list->count++] = *p;
    return 0;
}

static int read_all(process_list *list)
{
    DIR *dir = opendir("/proc");
    if (!dir)
        return -errno;
    int rc = 0;
    const struct dirent *entry;
    while (rc == 0 && (entry = readdir(dir))) {
        process p;
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            read_process(dirfd(dir), entry->d_name, &p))
            rc = add(list, &p);
    }
    closedir(dir);
    return rc;
}

/* Marks what descends from root. Repeats until nothing changes: a child may come first. */
static void mark(process_list *list, pid_t root)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < list->count; i++) {
            process *p = &list->items[i];
            for (size_t j = 0; !p->ours && j < list->count; j++)
                if (list->items[j].ours && p->parent == list->items[j].pid)
                    p->ours = changed = true;
            if (!p->ours && p->parent == root)
                p->ours = changed = true;
        }
    }
}

/* VmRSS of /proc/PID/status is exact, where the field of /proc/PID/stat may lag behind by up to 32
 * pages a core (Linux 6.2 and later count per CPU). */
static uint64_t exact_rss_kb(int proc, const process *p)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "%d/status", p->pid);
    int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (len > 0) {
        text[len] = '\0';
        const char *at = strstr(text, "\nVmRSS:");
        if (at)
            return strtoull(at + 7, NULL, 10);
    }
    return p->rss_pages * ((uint64_t)sysconf(_SC_PAGESIZE) / 1024);
}

static void add_up(int proc, dz_proctree *tree, const process *p)
{
    tree->rss_kb += exact_rss_kb(proc, p);
    tree->cpu_ns += p->ticks * (UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK));
}

int dz_proctree_read(pid_t root, bool with_root, dz_proctree *tree)
{
    process_list list = {0};
    *tree = (dz_proctree){0};
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = proc < 0 ? -errno : read_all(&list);
    if (rc == 0 && !(tree->pids = calloc(list.count + 1, sizeof *tree->pids)))
        rc = DZ_E_NOMEM;
    if (rc < 0) {
        if (proc >= 0)
            close(proc);
        free(list.items);
        return rc;
    }
    mark(&list, root);
    for (size_t i = 0; i < list.count; i++) {
        const process *p = &list.items[i];
        bool is_root = p->pid == root;
        if (p->dead || !(p->ours || (with_root && is_root)))
            continue;
        tree->pids[tree->count++] = p->pid;
        if (is_root) { /* first */
            tree->pids[tree->count - 1] = tree->pids[0];
            tree->pids[0] = p->pid;
        }
        add_up(proc, tree, p);
    }
    close(proc);
    free(list.items);
    return 0;
}

void dz_proctree_refresh(dz_proctree *tree)
{
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (proc < 0)
        return;
    tree->rss_kb = tree->cpu_ns = 0;
    for (size_t i = 0; i < tree->count; i++) {
        char pid[24];
        process p;
        snprintf(pid, sizeof pid, "%d", tree->pids[i]);
        if (read_process(proc, pid, &p))
            add_up(proc, tree, &p);
    }
    close(proc);
}

void dz_proctree_free(dz_proctree *tree)
{
    free(tree->pids);
    *tree = (dz_proctree){0};
}
