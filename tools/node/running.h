/* running.h: between the files of a run: run.c drives it, run_port.c finds where the command
 * listens, run_load.c loads it. */
#ifndef DZ_NODE_RUNNING_H
#define DZ_NODE_RUNNING_H

#include "run.h"

/* Keeps the first problem, says it on stderr, returns `code`. One %s. */
int dz_run_fail(dz_run *run, int code, const char *format, const char *detail);

/* One turn: waits for the next tick, takes what came, samples, looks whether the command lives. */
void dz_run_turn(dz_run *run);

bool dz_run_target_gone(dz_run *run);

/* run_port.c: the first port of its own, TCP before unix sockets. */
bool dz_run_find_port(dz_run *run);
/* 0, or the exit code. */
int dz_run_await_port(dz_run *run);

/* run_load.c: 0, or the exit code. */
int dz_run_start_load(dz_run *run);

#endif
