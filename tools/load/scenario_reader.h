/* scenario_reader.h: a scenario file being turned into plans. Private to scenario*.c.
 *
 * Functions that can fail return DZ_OPTIONS_OK, or an exit status after saying what is wrong. */
#ifndef DZ_LOAD_SCENARIO_READER_H
#define DZ_LOAD_SCENARIO_READER_H

#include "load/scenario.h"
#include "load/scenario_file.h"

#include "common/yaml.h"

typedef struct scenario_reader {
    const load_cli *cli;
    const scenario_file *file;
    dz_yaml_text text;
    load_scenario *out;
    load_feed_rows *rows;
} scenario_reader;

/* Says "FILE:LINE: KEY: WANTED, not 'VALUE'", where the line is the first that has this value at
 * this key. */
int scenario_wrong(const scenario_reader *r, const char *key, const char *value,
                   const char *wanted);
int scenario_out_of_memory(void);

/* Each leaves *out alone when the key is absent (text is NULL). */
int scenario_count(const scenario_reader *r, const char *key, const char *text, uint64_t min,
                   uint64_t max, uint64_t *out);
int scenario_duration(const scenario_reader *r, const char *key, const char *text, uint64_t *out);
int scenario_rate(const scenario_reader *r, const char *text, double *out);

/* What phases call the endpoint: its name, else its path. */
const char *scenario_name(const scenario_endpoint *e);

/* The file's endpoints in the order of all plans, and the groups of those that the phase uses (all
 * when phase is NULL or names none). `cli`: the options with what the phase says on top. */
int scenario_add_endpoints(const scenario_reader *r, load_plan *plan, const load_cli *cli,
                           const scenario_phase *phase);

#endif
