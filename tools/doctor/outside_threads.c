/* The CPU of every thread, interval by interval. */
#include "outside.h"

#include <stdlib.h>
#include <string.h>

static bool grow(void *vector, size_t size)
{
    DZ_VECTOR(void) *v = vector;
    if (v->count < v->cap)
        return true;
    size_t cap = v->cap ? v->cap * 2 : 64;
    void *more = reallocarray(v->at, cap, size);
    if (!more)
        return false; /* the series has a gap */
    v->at = more;
    v->cap = cap;
    return true;
}

/* Threads are seen in the same order each time, so the search begins where the last one ended. */
static dz_out_thread *thread_of(dz_outside *o, pid_t pid, const dz_tree_thread *t, uint64_t now,
                                size_t *hint)
{
    size_t n = o->threads.count;
    for (size_t i = 0; i < n; i++) {
        dz_out_thread *s = &o->threads.at[(*hint + i) % n];
        if (s->tid == t->tid && s->pid == pid) {
            *hint = (*hint + i + 1) % n;
            return s;
        }
    }
    if (!grow(&o->threads, sizeof *o->threads.at))
        return NULL;
    dz_out_thread *s = &o->threads.at[o->threads.count++];
    *s = (dz_out_thread){.pid = pid,
                         .tid = t->tid,
                         .at = now,
                         .cpu = t->cpu_ns,
                         .wait = t->wait_ns,
                         .first_cpu = t->first_cpu_ns};
    *hint = 0;
    return s;
}

static float share(uint64_t now, uint64_t before, uint64_t span)
{
    return now > before && span ? (float)((double)(now - before) / (double)span) : 0;
}

static void tick_thread(dz_out_thread *s, const dz_tree_thread *t, uint64_t now)
{
    memcpy(s->name, t->name, sizeof s->name);
    bool idle = t->cpu_ns == s->cpu && t->wait_ns == s->wait;
    size_t n = s->samples.count;
    /* Of a thread that rests, the beginning and the end of the rest are kept. */
    if (idle && n >= 2 && s->samples.at[n - 1].cpu <= 0 && s->samples.at[n - 2].cpu <= 0 &&
        s->samples.at[n - 1].wait <= 0)
        s->samples.at[n - 1].to = now;
    else if (now > s->at && grow(&s->samples, sizeof *s->samples.at))
        s->samples.at[s->samples.count++] =
            (dz_out_thread_sample){.to = now,
                                   .cpu = share(t->cpu_ns, s->cpu, now - s->at),
                                   .wait = share(t->wait_ns, s->wait, now - s->at)};
    s->at = now;
    s->cpu = t->cpu_ns;
    s->wait = t->wait_ns;
}

void dz_outside_tick_threads(dz_outside *o, const dz_tree *tree, uint64_t now)
{
    size_t hint = 0;
    for (size_t i = 0; i < tree->count; i++)
        for (size_t k = 0; !tree->procs[i].gone && k < tree->procs[i].count; k++) {
            const dz_tree_thread *t = &tree->procs[i].threads[k];
            dz_out_thread *s = t->gone ? NULL : thread_of(o, tree->procs[i].pid, t, now, &hint);
            if (s)
                tick_thread(s, t, now);
        }
}

void dz_outside_forget_threads(dz_outside *o)
{
    for (size_t i = 0; i < o->threads.count; i++)
        free(o->threads.at[i].samples.at);
    free(o->threads.at);
}
