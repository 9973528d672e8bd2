/* start.h: the command after --, started for the run and ended with it. */
#ifndef DZ_LOAD_START_H
#define DZ_LOAD_START_H

#include "load/cli.h"

#include "target/spawn.h"

typedef struct load_started {
    dz_target target;
} load_started;

/* Starts it, waits until it listens on a TCP port, and writes the port to cli->started_port.
 * DZ_OPTIONS_OK, or the exit code after one line on stderr; then nothing is left running. */
int load_start_target(load_started *started, load_cli *cli);
void load_stop_target(load_started *started);

#endif
