#include "jit.h"

#include "target/procfs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void dz_jit_close(dz_jit *j)
{
    free(j->entries);
    *j = (dz_jit){0};
}

static int by_start(const void *a, const void *b)
{
    const dz_jit_entry *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* The number a process has in its own namespace is the last of NSpid. */
static pid_t inner_pid(pid_t pid)
{
    char text[4096];
    if (dz_procfs_read_pid(pid, "status", text, sizeof text) <= 0)
        return pid;
    const char *line = strstr(text, "\nNSpid:");
    pid_t last = pid;
    for (const char *at = line ? line + 7 : NULL; at && *at && *at != '\n';) {
        char *end;
        long n = strtol(at, &end, 10);
        if (end == at)
            break;
        last = (pid_t)n;
        at = end;
    }
    return last;
}

static FILE *open_map(pid_t pid, char *path, size_t cap)
{
    pid_t inner = inner_pid(pid);
    snprintf(path, cap, "/proc/%d/root/tmp/perf-%d.map", (int)pid, (int)inner);
    FILE *in = fopen(path, "re");
    if (in || inner != pid)
        return in;
    snprintf(path, cap, "/tmp/perf-%d.map", (int)pid); /* it may have ended */
    return fopen(path, "re");
}

static bool add(dz_jit *j, dz_jit_entry entry)
{
    if (j->count == j->cap) {
        size_t cap = j->cap ? j->cap * 2 : 1024;
        dz_jit_entry *more = reallocarray(j->entries, cap, sizeof *more);
        if (!more)
            return false;
        j->entries = more;
        j->cap = cap;
    }
    j->entries[j->count++] = entry;
    return true;
}

void dz_jit_read(dz_jit *j, dz_profile *profile, pid_t pid, bool remove_it)
{
    char path[96];
    FILE *in = open_map(pid, path, sizeof path);
    char *line = NULL;
    size_t cap = 0;
    bool room = true;
    for (ssize_t n; in && room && (n = getline(&line, &cap, in)) > 0;) {
        uint64_t start, length;
        int name = 0;
        if (line[n - 1] == '\n')
            line[--n] = 0;
        if (sscanf(line, "%" SCNx64 " %" SCNx64 " %n", &start, &length, &name) < 2 || !name ||
            length > UINT64_MAX - start)
            continue;
        dz_frame f;
        dz_frame_of_symbol(profile, dz_slice_make(line + name, (size_t)n - (size_t)name),
                           DZ_LIT(""), &f);
        room = add(j, (dz_jit_entry){.start = start,
                                     .end = start + length,
                                     .pid = pid,
                                     .frame = dz_profile_frame(profile, &f),
                                     .order = j->count});
    }
    free(line);
    if (!in)
        return;
    fclose(in);
    if (remove_it)
        unlink(path);
    qsort(j->entries, j->count, sizeof *j->entries, by_start);
}

/* The last entry that begins at or before the address. */
const dz_jit_entry *dz_jit_find(const dz_jit *j, pid_t pid, uint64_t address)
{
    size_t low = 0, high = j->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const dz_jit_entry *e = &j->entries[mid];
        if (e->pid < pid || (e->pid == pid && e->start <= address))
            low = mid + 1;
        else
            high = mid;
    }
    const dz_jit_entry *e = low ? &j->entries[low - 1] : NULL;
    return e && e->pid == pid && address < e->end ? e : NULL;
}
