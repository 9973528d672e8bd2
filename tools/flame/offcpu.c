#include "offcpu.h"

#include <stdlib.h>

void dz_offcpu_close(dz_offcpu *o)
{
    free(o->threads);
    dz_map_close(&o->by_tid);
    *o = (dz_offcpu){0};
}

static dz_off_thread *find(dz_offcpu *o, pid_t tid)
{
    uint32_t index;
    for (size_t at = SIZE_MAX; dz_map_next(&o->by_tid, (uint64_t)tid, &at, &index);)
        if (!o->threads[index].ended)
            return &o->threads[index];
    return NULL;
}

static dz_off_thread *find_or_add(dz_offcpu *o, pid_t pid, pid_t tid)
{
    dz_off_thread *t = find(o, tid);
    if (t)
        return t;
    if (o->count == o->cap) {
        size_t cap = o->cap ? o->cap * 2 : 64;
        dz_off_thread *more = reallocarray(o->threads, cap, sizeof *more);
        if (!more)
            return NULL;
        o->threads = more;
        o->cap = cap;
    }
    if (!dz_map_put(&o->by_tid, (uint64_t)tid, (uint32_t)o->count))
        return NULL;
    t = &o->threads[o->count++];
    *t = (dz_off_thread){.pid = pid, .tid = tid};
    return t;
}

bool dz_offcpu_leave(dz_offcpu *o, pid_t pid, pid_t tid, uint32_t chain, uint64_t at)
{
    dz_off_thread *t = find_or_add(o, pid, tid);
    if (!t)
        return false;
    t->chain = chain;
    t->since = at;
    return true;
}

bool dz_offcpu_left(dz_offcpu *o, pid_t pid, pid_t tid, uint64_t at, bool preempted)
{
    dz_off_thread *t = find_or_add(o, pid, tid);
    if (!t)
        return false;
    if (preempted)
        t->since = 0;
    else if (t->since == 0) {
        t->chain = 0;
        t->since = at;
    }
    return true;
}

bool dz_offcpu_back(dz_offcpu *o, pid_t tid, uint64_t at, dz_wait *wait)
{
    dz_off_thread *t = find(o, tid);
    if (!t || t->since == 0)
        return false;
    *wait = (dz_wait){.pid = t->pid, .tid = tid, .chain = t->chain, .from = t->since, .to = at};
    t->since = 0;
    return at > wait->from;
}

void dz_offcpu_end(dz_offcpu *o, pid_t tid)
{
    dz_off_thread *t = find(o, tid);
    if (!t)
        return;
    t->since = 0;
    t->ended = true; /* its number may be given to another */
}

void dz_offcpu_finish(dz_offcpu *o, uint64_t at, void (*each)(void *arg, const dz_wait *wait),
                      void *arg)
{
    for (size_t i = 0; i < o->count; i++) {
        dz_wait wait;
        if (!o->threads[i].ended && dz_offcpu_back(o, o->threads[i].tid, at, &wait))
            each(arg, &wait);
    }
}
