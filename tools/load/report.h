/* report.h: results for people and for programs. */
#ifndef DZ_LOAD_REPORT_H
#define DZ_LOAD_REPORT_H

#include "load/cli.h"
#include "load/result.h"

#include <jansson.h>
#include <stdio.h>

/* A whole session: one result a phase (one only without a scenario), and their sum. */
typedef struct load_session {
    const load_cli *cli;
    load_result *phases;
    size_t phase_count;
    load_result *total; /* = phases when there is only one */
} load_session;

/* The line or two before the run: what is loaded, and how. */
void load_print_plan(const load_plan *plan, const load_cli *cli, FILE *out);

/* Tables, as autocannon's users know them, and what they lack. DZ_E_NOMEM. */
int load_print_result(const load_session *session, const load_result *result, FILE *out);

/* autocannon's object with ours beside; NULL when memory ran out. A new reference. */
json_t *load_result_json(const load_session *session);

/* One line an endpoint. */
int load_write_csv(const load_session *session, FILE *out);

/* Every latency; the format is described in docs/load.md. */
int load_write_latencies(const load_session *session, FILE *out);

/* Differences from an earlier JSON. DZ_OPTIONS_OK, or the exit code after one line on stderr. */
int load_check_comparison(const char *base_file); /* before the run: can it be read? */
int load_print_comparison(const load_session *session, const char *base_file, FILE *out);

/* --fail-if: whether the expressions can be read (before the run), and whether one holds (after
 * it; says on stderr which). DZ_OPTIONS_OK, or the exit code. */
int load_check_conditions(const dz_strings *expressions);
int load_judge(const load_session *session, const dz_strings *expressions);

/* Requests or bytes a second, a value an interval, ascending; free its values. */
load_sample load_per_second(const load_result *result, bool bytes);

/* What autocannon calls 0.001 ... 99.999, in order. */
enum { LOAD_PERCENTILES = 15 };
extern const double load_percentiles[LOAD_PERCENTILES];

#endif
