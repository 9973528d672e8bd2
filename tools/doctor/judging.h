/* judging.h: what the parts of the judgement share. Private to tools/doctor. */
#ifndef DZ_DOCTOR_JUDGING_H
#define DZ_DOCTOR_JUDGING_H

#include "judge.h"

#include <donmaz/export.h>

/* The thresholds, each printed beside what was measured; docs/doctor.md gives the reasons. */
#define MIN_SECONDS    1.0
#define STALLED        0.05 /* of the time */
#define STALLS         2    /* once is a hiccup */
#define GC_SHARE       0.15
#define GC_OF_STALLS   0.50
#define RETAINED_MB    8.0
#define RETAINED_PART  0.20
#define RSS_MB         20.0
#define WAIT_SHARE     0.20
#define EXTRA_DEMAND   0.5 /* cores */
#define THROTTLED      0.05
#define FULL           0.90 /* utilisation */
#define QUEUE_MS       20.0
#define WAITING_MS     20.0
#define WAITING_LOOP   0.70
#define WAITING_PART   0.20
#define STARVED_WANTED 0.5  /* of the time, by one thread */
#define STARVED_GOT    0.1  /* of that, by all */
#define FULL_MACHINE   0.85 /* of the cores */

/* A line of evidence. */
void dz_say(dz_diagnosis *d, const char *format, ...) DZ_PRINTF(2, 3);

/* What a request costs the loop, as if no other program had taken the cores: what ran right after
 * it began, or, of a loop that hardly rests, all it did. */
double dz_cost_ms(const dz_loop_facts *loop);

/* CPU time of all the program's threads for each request, or for each of the second half if that is
 * more; at least so much where the load does not say how many there were; 0 unknown. */
double dz_cpu_per_request_ms(const dz_facts *facts);

/* A process that is not Node and whose memory grows. */
bool dz_process_grows(const dz_process_facts *process);

/* The verdicts on a program whose inside can't be seen. */
typedef struct dz_outside_view {
    bool memory, blocked, overloaded, waiting;
} dz_outside_view;

dz_outside_view dz_look_outside(const dz_facts *facts);

/* What its own figures say against a donmaz server's loop. */
typedef enum dz_inside_fault {
    DZ_INSIDE_FREE,     /* nothing */
    DZ_INSIDE_HUNG,     /* a handler never came back */
    DZ_INSIDE_COMPUTES, /* a handler computes on the loop */
    DZ_INSIDE_WAITS,    /* a handler waits in a call that stops the thread */
} dz_inside_fault;

dz_inside_fault dz_inside_blocked(const dz_facts *facts);
bool dz_inside_waiting(const dz_facts *facts);

/* The route that its loops work most for; NULL when that can't be told. */
const dz_route_facts *dz_inside_route(const dz_facts *facts);

/* CPU time of one of its requests, or of one in the second half if that is more. */
double dz_route_cost_ms(const dz_route_facts *route);

/* The evidence for each verdict; `loop` is the one it is about, NULL for what was judged from
 * outside. */
void dz_explain_inside(dz_diagnosis *d, const dz_facts *facts); /* a donmaz server's own figures */
void dz_explain_blocked(dz_diagnosis *d, const dz_facts *facts, const dz_loop_facts *loop);
void dz_explain_memory(dz_diagnosis *d, const dz_facts *facts, const dz_loop_facts *loop);
void dz_explain_garbage(dz_diagnosis *d, const dz_loop_facts *loop);
void dz_explain_cores(dz_diagnosis *d, const dz_facts *facts);
void dz_explain_overloaded(dz_diagnosis *d, const dz_facts *facts, const dz_loop_facts *loop);
void dz_explain_waiting(dz_diagnosis *d, const dz_facts *facts, const dz_loop_facts *loop);
void dz_explain_healthy(dz_diagnosis *d, const dz_facts *facts, const dz_loop_facts *loop);

#endif
