/* scenario.h: phases and endpoints from a YAML file. */
#ifndef DZ_LOAD_SCENARIO_H
#define DZ_LOAD_SCENARIO_H

#include "load/cli.h"
#include "load/plan.h"

typedef struct load_scenario {
    load_plan *plans; /* one a phase, all with the same endpoints in the same order */
    size_t count;
    load_feed_rows rows; /* the file's own data; used when has_rows */
    bool has_rows;
    char *title; /* NULL: none; owned */
} load_scenario;

/* Reads cli->scenario; the command line's other options are the defaults of every phase.
 * DZ_OPTIONS_OK, or the exit code after one line on stderr that names file and line. */
int load_scenario_read(load_scenario *scenario, const load_cli *cli, load_feed_rows *rows);
void load_scenario_free(load_scenario *scenario);

#endif
