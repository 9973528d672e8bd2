/* experiment.h: what an experiment file says. Strings belong to the experiment. */
#ifndef DZ_LAB_EXPERIMENT_H
#define DZ_LAB_EXPERIMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One path under load in a phase. */
typedef struct dz_lab_endpoint {
    char *path;
    unsigned connections;
    double work_ms; /* CPU time one request is defined to need; 0 when not given */
    char *connections_text, *work_text;
} dz_lab_endpoint;

typedef struct dz_lab_phase {
    char *name;
    uint64_t duration, warmup;             /* nanoseconds */
    uint64_t quick_duration, quick_warmup; /* the same with --quick */
    double rate;                           /* requests a second, open loop; 0: closed loop */
    char *rate_of;                         /* an earlier phase: rate_times the 2xx it reached */
    double rate_times;                     /* with rate_of */
    bool success_only;                     /* only 2xx have a latency */
    unsigned pipelining;                   /* requests in flight per connection */
    dz_lab_endpoint *endpoints;
    unsigned endpoints_count;
    char *duration_text, *warmup_text, *quick_duration_text, *quick_warmup_text;
    char *rate_text, *rate_times_text, *pipelining_text;
} dz_lab_phase;

/* Something a stack can't run without; exactly one of the first three is set. */
typedef struct dz_lab_need {
    char *executable, *file, *script;
    char *hint; /* what to do when it is missing; may be NULL */
} dz_lab_need;

/* How to learn a version: a command's first output line, or a package.json's "version". */
typedef struct dz_lab_version {
    char *name, *command, *package;
} dz_lab_version;

typedef struct dz_lab_ready {
    char *http;      /* path that answers 200 when ready */
    bool connect;    /* ready as soon as the port accepts */
    uint64_t within; /* nanoseconds */
    char *within_text;
} dz_lab_ready;

typedef struct dz_lab_stack {
    char *name, *command, *cwd;
    char **environment; /* "NAME=value" */
    unsigned environment_count;
    dz_lab_ready ready;
    dz_lab_need *needs;
    unsigned needs_count;
    dz_lab_version *versions;
    unsigned versions_count;
    char **services; /* names of processes that come with it and are accounted apart */
    unsigned services_count;
    unsigned port; /* for a command that can't be told its port; 0: any free one */
    char *port_text;
} dz_lab_stack;

/* A row of the result table: a metric of a phase's endpoint, of a phase, or of the stack. */
typedef struct dz_lab_row {
    char *metric, *phase, *path, *label;
} dz_lab_row;

/* A request whose answer every stack must give alike before anything is measured. */
typedef struct dz_lab_check {
    char *path, *body, *type;
    char **headers; /* "Name: value": exactly the end-to-end fields it has; a value of * is any */
    unsigned headers_count;
    unsigned status;
    char *status_text;
} dz_lab_check;

/* A claim that `--judge` tests: the stack's metric against a rival's. */
typedef struct dz_lab_expect {
    char *stack, *metric, *phase, *path;
    char *against;       /* a stack's name, or "best" */
    char *against_phase; /* the same figure of the stack itself in this phase */
    char *at_most_text, *at_least_text;
    double at_most, at_least; /* times the rival's figure (or absolute without `against`); NaN */
} dz_lab_expect;

/* Which stack "best" means: the one among `stacks` with the lowest (or highest) metric. */
typedef struct dz_lab_best {
    char *stacks, *metric, *phase, *path;
} dz_lab_best;

typedef struct dz_lab_experiment {
    char *title, *description, *root;
    unsigned repeats, startups;
    uint64_t settle; /* nanoseconds between ready and reading the idle RSS */
    char *repeats_text, *startups_text, *settle_text;
    dz_lab_phase *phases;
    unsigned phases_count;
    dz_lab_stack *stacks;
    unsigned stacks_count;
    dz_lab_row *table;
    unsigned table_count;
    dz_lab_check *checks;
    unsigned checks_count;
    dz_lab_best best;
    dz_lab_expect *expect;
    unsigned expect_count;
    /* Not in the file: */
    char *file; /* its path as given */
    char *name; /* its base name without .yaml */
    char *home; /* absolute folder the stacks run in */
} dz_lab_experiment;

/* Reads and checks `path`. On failure returns NULL and prints one line with file and line number,
 * what is wrong, and the nearest known key where that helps. */
dz_lab_experiment *dz_lab_experiment_load(const char *path);

void dz_lab_experiment_free(dz_lab_experiment *experiment);

#endif
