/* judge.h: from facts to a verdict, with the numbers it rests on and what to do. */
#ifndef DZ_DOCTOR_JUDGE_H
#define DZ_DOCTOR_JUDGE_H

#include "facts.h"

/* X(name, json, words) */
#define DZ_VERDICTS(X)                                                                             \
    X(HEALTHY, "healthy", "healthy")                                                               \
    X(BLOCKED, "blocked-loop", "blocked event loop")                                               \
    X(CORES, "too-few-cores", "too few cores")                                                     \
    X(GARBAGE, "garbage-collection", "garbage collection")                                         \
    X(MEMORY, "memory-growth", "memory growth")                                                    \
    X(WAITING, "waiting-for-io", "waiting for an outside service")                                 \
    X(OVERLOADED, "overloaded", "overloaded")                                                      \
    X(NO_DATA, "not-enough-data", "not enough data")

typedef enum dz_verdict {
#define X(name, json, words) DZ_VERDICT_##name,
    DZ_VERDICTS(X)
#undef X
        DZ_VERDICT_COUNT
} dz_verdict;

const char *dz_verdict_name(dz_verdict verdict);  /* for JSON */
const char *dz_verdict_words(dz_verdict verdict); /* for people */

enum { DZ_MAX_LINES = 16, DZ_LINE = 512 };

typedef struct dz_diagnosis {
    dz_verdict verdict;
    dz_verdict also[DZ_VERDICT_COUNT]; /* other findings, weightiest first */
    size_t also_count;
    const dz_loop_facts *loop; /* the one the verdict is about; NULL */
    char evidence[DZ_MAX_LINES][DZ_LINE];
    size_t evidence_count;
    char advice[DZ_MAX_LINES][DZ_LINE];
    size_t advice_count;
    char series[32]; /* the chart that shows it: delay, cpu, gc, heap, rss, inflight */
} dz_diagnosis;

void dz_judge(dz_diagnosis *out, const dz_facts *facts);

#endif
