#include "scheduler.h"

#include <math.h>
#include <stdint.h>

static const double TICK_MS = 4, SLICE_MS = 1.4, BALANCE_MS = 250, AHEAD_MS = 0.1;

static const size_t NONE = SIZE_MAX;

void dz_sched_init(dz_sched *s, size_t cores, size_t threads)
{
    cores = cores ? cores : 1;
    *s = (dz_sched){.core_count = cores, .thread_count = threads, .balance = BALANCE_MS};
    for (size_t c = 0; c < cores; c++) /* the kernel does not tick on all cores at once either */
        s->cores[c] =
            (dz_sched_core){.running = NONE, .tick = TICK_MS * (double)(c + 1) / (double)cores};
    for (size_t i = 0; i < threads; i++)
        s->threads[i].core = cores ? i % cores : 0;
}

/* The one that has had least; `waiting`: leaves out the one that runs. */
static size_t least(const dz_sched *s, size_t core, bool waiting)
{
    size_t best = NONE;
    for (size_t i = 0; i < s->thread_count; i++) {
        const dz_sched_thread *t = &s->threads[i];
        if (!t->ready || t->core != core || (waiting && s->cores[core].running == i))
            continue;
        if (best == NONE || t->had < s->threads[best].had)
            best = i;
    }
    return best;
}

/* What the thread with least has had: newcomers begin there. */
static double floor_of(const dz_sched *s, size_t core)
{
    size_t i = least(s, core, false);
    return i == NONE ? 0 : s->threads[i].had;
}

static void put_on(dz_sched *s, size_t core, size_t thread)
{
    s->cores[core].running = thread;
    s->cores[core].since = s->now;
}

static void move(dz_sched *s, size_t thread, size_t to)
{
    dz_sched_thread *t = &s->threads[thread];
    double ahead = t->had - floor_of(s, t->core);
    t->ready = false; /* so that it does not count as its own floor */
    t->had = floor_of(s, to) + ahead;
    t->ready = true;
    s->cores[t->core].ready--;
    s->cores[to].ready++;
    t->core = to;
    t->moved = s->now;
}

static size_t idle_core(const dz_sched *s, size_t preferred)
{
    if (s->cores[preferred].running == NONE)
        return preferred;
    for (size_t c = 0; c < s->core_count; c++)
        if (s->cores[c].running == NONE)
            return c;
    return NONE;
}

void dz_sched_wake(dz_sched *s, size_t thread)
{
    dz_sched_thread *t = &s->threads[thread];
    if (t->ready)
        return;
    size_t idle = idle_core(s, t->core);
    if (idle != NONE)
        t->core = idle;
    double low = floor_of(s, t->core);
    /* One that slept is not owed the time it slept, but comes before those that computed on. */
    t->had = idle != NONE ? low : low - AHEAD_MS;
    t->ready = true;
    dz_sched_core *c = &s->cores[t->core];
    c->ready++;
    if (c->running == NONE ||
        (s->now - c->since >= SLICE_MS && t->had < s->threads[c->running].had))
        put_on(s, t->core, thread);
}

/* A waiting thread of the core with most, for a core that has nothing. */
static size_t steal(const dz_sched *s)
{
    size_t best = NONE, most = 1;
    for (size_t c = 0; c < s->core_count; c++) {
        size_t n = s->cores[c].ready;
        if (n > most) {
            most = n;
            best = c;
        }
    }
    return best == NONE ? NONE : least(s, best, true);
}

void dz_sched_sleep(dz_sched *s, size_t thread)
{
    dz_sched_thread *t = &s->threads[thread];
    size_t core = t->core;
    s->cores[core].ready -= t->ready;
    t->ready = false;
    if (s->cores[core].running != thread)
        return;
    s->cores[core].running = NONE;
    size_t next = least(s, core, false);
    if (next == NONE && (next = steal(s)) != NONE)
        move(s, next, core);
    if (next != NONE)
        put_on(s, core, next);
}

static bool shared(const dz_sched *s, size_t core)
{
    return s->cores[core].running != NONE && s->cores[core].ready > 1;
}

double dz_sched_next(const dz_sched *s)
{
    double next = INFINITY;
    for (size_t c = 0; c < s->core_count; c++)
        if (shared(s, c))
            next = fmin(next, fmin(s->cores[c].tick, s->balance));
    return next;
}

static size_t longest_there(const dz_sched *s, size_t core)
{
    size_t best = NONE;
    for (size_t i = 0; i < s->thread_count; i++)
        if (s->threads[i].ready && s->threads[i].core == core &&
            (best == NONE || s->threads[i].moved < s->threads[best].moved))
            best = i;
    return best;
}

/* Moves the thread that has been there longest from the core with most to the one with fewest, so
 * that all have their turn of the less crowded one. */
static void balance(dz_sched *s)
{
    size_t most = 0, fewest = 0, max = 0, min = SIZE_MAX;
    for (size_t c = 0; c < s->core_count; c++) {
        size_t n = s->cores[c].ready;
        if (n > max) {
            max = n;
            most = c;
        }
        if (n < min) {
            min = n;
            fewest = c;
        }
    }
    if (max < 2 || max == min)
        return;
    size_t thread = longest_there(s, most);
    bool ran = s->cores[most].running == thread;
    move(s, thread, fewest);
    if (ran)
        put_on(s, most, least(s, most, false));
    if (s->cores[fewest].running == NONE)
        put_on(s, fewest, thread);
}

static void tick(dz_sched *s, size_t core)
{
    dz_sched_core *c = &s->cores[core];
    size_t next = c->running == NONE ? NONE : least(s, core, true);
    if (next != NONE && s->threads[next].had < s->threads[c->running].had)
        put_on(s, core, next);
}

void dz_sched_advance(dz_sched *s, double to)
{
    for (size_t c = 0; c < s->core_count; c++)
        if (s->cores[c].running != NONE)
            s->threads[s->cores[c].running].had += to - s->now;
    s->now = to;
    for (size_t c = 0; c < s->core_count; c++) {
        if (s->cores[c].tick > to)
            continue;
        tick(s, c);
        s->cores[c].tick += TICK_MS * (floor((to - s->cores[c].tick) / TICK_MS) + 1);
    }
    if (s->balance <= to) {
        balance(s);
        s->balance = to + BALANCE_MS;
    }
}
