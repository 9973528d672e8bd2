/* outside.h: what /proc shows of the processes under test, every 10 ms, kept as series. */
#ifndef DZ_DOCTOR_OUTSIDE_H
#define DZ_DOCTOR_OUTSIDE_H

#include "node/feed.h"
#include "target/tree.h"

/* One interval of a process. Shares are of one core. */
typedef struct dz_out_sample {
    uint64_t from, to;
    float cpu, main_cpu;   /* all threads; the main one */
    float wait, main_wait; /* ready to run, but no core was free */
    uint64_t rss;          /* bytes, at the end */
    uint32_t fds;
    uint32_t switches; /* of the main thread, voluntary, since the interval before */
} dz_out_sample;

typedef struct dz_out_series {
    pid_t pid, ppid;
    char name[32];
    uint64_t start_ticks;
    DZ_VECTOR(dz_out_sample) samples;
    uint64_t at, cpu, wait, main_cpu, main_wait, switches; /* as last seen */
} dz_out_series;

/* One interval of a thread, up to `to`. Shares are of one core. */
typedef struct dz_out_thread_sample {
    uint64_t to;
    float cpu, wait;
} dz_out_thread_sample;

typedef struct dz_out_thread {
    pid_t pid, tid;
    char name[32];
    DZ_VECTOR(dz_out_thread_sample) samples;
    uint64_t at, cpu, wait; /* as last seen */
    uint64_t first_cpu;
} dz_out_thread;

/* What a thread had used when the window opened. */
typedef struct dz_out_mark {
    pid_t pid, tid;
    uint64_t cpu, wait;
} dz_out_mark;

typedef struct dz_outside {
    DZ_VECTOR(dz_out_series) processes;
    DZ_VECTOR(dz_out_thread) threads;
    DZ_VECTOR(dz_out_mark) marks;
    uint64_t marked;         /* when; 0: not yet */
    uint64_t busy_mark;      /* busy time of all the machine's cores at the mark */
    uint64_t busy, busy_at;  /* the same since then, and when it was read */
    uint64_t ticked;         /* when threads were read last */
    uint64_t throttled_mark; /* time stopped by a cgroup quota, ns */
    uint64_t segments_mark;  /* TCP segments sent in its network namespace */
    bool out_of_memory;
} dz_outside;

void dz_outside_close(dz_outside *outside);

/* After dz_tree_sample: adds an interval to every process's series. */
void dz_outside_tick(dz_outside *outside, const dz_tree *tree, uint64_t now);

/* outside_threads.c: the part of tick and close about threads. */
void dz_outside_tick_threads(dz_outside *outside, const dz_tree *tree, uint64_t now);
void dz_outside_forget_threads(dz_outside *outside);

/* Opens the window: what threads have used so far does not count in dz_outside_demand. */
void dz_outside_mark(dz_outside *outside, const dz_tree *tree, uint64_t now);

/* CPU time of all processes in [from, to], ms. */
double dz_outside_cpu_ms(const dz_outside *outside, uint64_t from, uint64_t to);

typedef struct dz_demand {
    double running;   /* cores' worth of work done since the mark, per time */
    double wanted;    /* threads running or ready to run, on average: at most 1 for each */
    double waiting;   /* share of the wanted time that was spent waiting for a core */
    double machine;   /* cores busy with anything at all */
    double others;    /* of them, with neither the program nor its load */
    double throttled; /* share of the time the quota stopped us */
    double ready;     /* as wanted, counting waits for which others are to blame in full */
    double segments;  /* TCP segments sent, by whomever, a second; 0 unknown */
    double busiest;   /* the thread that wanted to run most: share of the time, at most 1 */
} dz_demand;

/* Since the mark, until the last tick; `load_ns` is the CPU time of the load generator. */
dz_demand dz_outside_demand(const dz_outside *outside, const dz_tree *tree, uint64_t now,
                            double load_ns);

#endif
