/* facts.h: a run's series boiled down to the numbers that verdicts are made from. */
#ifndef DZ_DOCTOR_FACTS_H
#define DZ_DOCTOR_FACTS_H

#include "inside.h"
#include "outside.h"
#include "probe.h"

#include "flame/profile.h"
#include "node/feed.h"

/* A function that time is put down to: the user's innermost under which most of it was spent. */
typedef struct dz_culprit {
    bool known;
    double share; /* of the time looked at */
    char name[128], file[512];
    unsigned line;      /* where it begins */
    char inner[128];    /* what runs at the top of the stack below it, when that is another */
    double inner_share; /* of the culprit's time */
    char caller[128], caller_file[512]; /* the user's function that calls it; may be empty */
    unsigned caller_line;
} dz_culprit;

typedef struct dz_route_facts {
    const char *name; /* borrowed from the feed */
    uint64_t count;
    double total_ms, sync_ms; /* mean per request, from start to finish; of the loop's time */
    double sync_max_ms;
    double sync_deviation_ms;
    double share; /* of the loop's busy time */
    /* Of a donmaz server only, whose sync_ms are CPU time. */
    double held_ms;  /* mean time its handler ran; more than sync_ms: it blocked, or had no core */
    double piece_ms; /* CPU time of the request that a moment of its work belongs to, on average */
    double late_ms;  /* sync_ms in the second half */
    double rescued;  /* share of the requests */
    int klass;       /* 0: its handlers start on the loop */
} dz_route_facts;

enum { DZ_MAX_ROUTES = 8 };

/* One event loop of a Node thread, over the window. */
typedef struct dz_loop_facts {
    pid_t pid, tid;
    const char *role; /* borrowed */
    double seconds;
    double utilisation; /* share of the time it was not waiting for events */
    double delay_p50_ms, delay_p90_ms, delay_p99_ms, delay_max_ms;
    size_t samples;
    size_t stalls;        /* intervals at least DZ_STALL_MS late */
    double stalled;       /* share of the time they take */
    double single;        /* of the stalled time: caused by one piece of work, not by many */
    double stall_gc;      /* of the stalled time: spent collecting garbage */
    double stall_cpu;     /* CPU share of the loop's thread while stalled; -1 unknown */
    double piece_max_ms;  /* the longest single piece seen */
    double starved;       /* of the time its thread could have run: waiting for a core */
    double gc, gc_max_ms; /* share of the time; longest pause */
    size_t gcs, gcs_major;
    double heap_start_mb, heap_end_mb; /* after collections before and after the load */
    double floor_rise_mb,
        floor_late_mb; /* of the heap's floor over the window; over its 2nd half */
    bool floor_steady; /* it rose in nearly every part of the window */
    double floor_start_mb;
    uint64_t requests;
    double request_ms, sync_ms; /* means over all requests: start to finish; loop time */
    double sync_deviation_ms;
    double inflight, inflight_max;
    double connections; /* handles at most, less those that were there before the load */
    bool hung;          /* it has not come back from a stall when the window closed */
    dz_route_facts routes[DZ_MAX_ROUTES]; /* by share, most first */
    size_t route_count;
    dz_culprit culprit; /* of the stalls, or of all busy time when there are none */
} dz_loop_facts;

/* One process seen from outside, over the window. */
typedef struct dz_process_facts {
    pid_t pid;
    const char *name; /* borrowed */
    bool node;
    double seconds;
    double cpu, main_cpu, wait, main_wait; /* mean shares of a core */
    double cpu_max;
    double rss_start_mb, rss_end_mb, rss_late_mb; /* rise in the second half */
    bool rss_steady;
} dz_process_facts;

/* What the load generator saw; from `donmaz load`. */
typedef struct dz_load_facts {
    bool known;
    double requests, rps, p50_ms, p99_ms, max_ms, errors, non2xx, connections;
    double late_requests, late_cpu; /* of its second half: answered, and CPU time they took, ms */
} dz_load_facts;

/* How soon the server refused a line that is no request; time that the prober or other programs
 * took is taken out. */
typedef struct dz_probe_facts {
    size_t count, answered;
    double p50_ms, p90_ms, max_ms;
    size_t late;           /* answers that took DZ_STALL_MS or more */
    double stalled;        /* share of the time that those took */
    double stalled_at_all; /* the same with what the prober and others took */
    double pending_ms;     /* the last one had not been answered for so long when the load ended */
} dz_probe_facts;

/* What a donmaz server told of itself. */
typedef struct dz_inside_facts {
    bool known;
    double seconds;
    size_t loops;
    unsigned worker, loop; /* the worst loop, which the next ones are about */
    double delay_p50_ms, delay_p90_ms, delay_max_ms;
    double stalls;           /* handlers that held it for DZ_EXPO_STALL_MS or more */
    double stalled;          /* share of the time that those took */
    double hung_ms;          /* it has not come back since; 0: it has */
    double rescues, refused; /* all loops */
    double requests, request_ms, held_ms, cpu_ms; /* all routes: number, and sums */
    double in_flight;                             /* at most */
    dz_route_facts routes[DZ_MAX_ROUTES];         /* by CPU time and time held, most first */
    size_t route_count;
} dz_inside_facts;

enum { DZ_MAX_LOOPS = 64, DZ_MAX_PROCESSES = 64 };

typedef struct dz_facts {
    uint64_t from, to; /* the window */
    double seconds;
    unsigned cores; /* that the program may use */
    dz_demand demand;
    dz_loop_facts loops[DZ_MAX_LOOPS];
    size_t loop_count;
    dz_process_facts processes[DZ_MAX_PROCESSES];
    size_t process_count;
    dz_load_facts load;
    dz_probe_facts probe;
    dz_inside_facts inside; /* of a donmaz server */
    bool profiled;
    dz_culprit native; /* of a program that is not Node, when perf events could look */
} dz_facts;

enum { DZ_STALL_MS = 30, DZ_PIECE_MS = 5, DZ_INTERVAL_MS = 10 };

/* One loop: `garbage` are the times at which heaps were collected before and after (0: not). */
void dz_facts_loop(dz_loop_facts *out, const dz_js_series *series, const dz_out_series *outside,
                   uint64_t from, uint64_t to, uint64_t garbage_before, uint64_t garbage_after);

void dz_facts_process(dz_process_facts *out, const dz_out_series *series, uint64_t from,
                      uint64_t to);

/* `others`: the part of a wait for a core that other programs are to blame for. */
void dz_facts_probe(dz_probe_facts *out, const dz_probe_samples *samples, const dz_outside *outside,
                    double others, uint64_t from, uint64_t to);

/* The names of its routes are borrowed from `seen`. */
void dz_facts_inside(dz_inside_facts *out, const dz_inside_seen *seen, uint64_t from, uint64_t to);

/* Who held the loop: from ticks of the profile in the loop's stalls (`stalled`), or of all its busy
 * time. Without a series: of a program that is not Node, all its threads. */
void dz_facts_culprit(dz_culprit *out, const dz_profile *profile, const dz_js_series *series,
                      uint64_t from, uint64_t to, bool stalled);

/* The share of the loop's busy time, or of its stalls, that the profile saw in the garbage
 * collector; -1 when it saw nothing. A busy machine lengthens pauses and work alike, so this share
 * holds where sums of pauses do not. */
double dz_facts_garbage(const dz_profile *profile, const dz_js_series *series, uint64_t from,
                        uint64_t to, bool stalled);

/* Whether an interval counts as a stall. */
bool dz_is_stall(const dz_js_sample *sample);

#endif
