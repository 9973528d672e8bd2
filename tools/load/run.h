/* run.h: one plan from start to finish: threads, progress, sampling of the target. */
#ifndef DZ_LOAD_RUN_H
#define DZ_LOAD_RUN_H

#include "load/cli.h"
#include "load/result.h"

/* Ctrl-C and SIGTERM set this; a second one ends the program as usual. */
void load_catch_signals(void);
bool load_was_interrupted(void);

/* Runs the plan and fills *result. DZ_OPTIONS_OK when there is something to report (even if it is
 * only failures), else the exit code after one line on stderr. pid 0: no target is sampled. */
int load_run(load_plan *plan, const load_cli *cli, int pid, load_result *result);

#endif
