/* guard.h: the process between a tool and the command it started. spawn.h tells what for.
 *
 * They talk through a SOCK_SEQPACKET pair, one struct a message. The guard sends, in this order:
 * FORKED (the command has a pid, and may still be held), EXECUTED (or why not: then the guard is
 * gone), ENDED when the command itself ends, EMPTIED when nothing of it is left: then it exits. The
 * tool sends one order, to end it all; its end of the socket closing is the order to kill. */
#ifndef DZ_TARGET_GUARD_H
#define DZ_TARGET_GUARD_H

#include "spawn.h"

/* The guard's name in ps, by which a tool tells it from an orphan. */
#define DZ_GUARD_NAME "donmaz-guard"

/* Of DZ_TARGET_END_MS: */
enum {
    DZ_GUARD_KILL_MS = 3000,   /* the guard kills what outlived the grace */
    DZ_GUARD_LATE_MS = 1000,   /* and is late itself: someone stopped it, or it gets no core */
    DZ_GUARD_ORPHAN_MS = 1000, /* then the tool kills it, and what it left */
};
_Static_assert(DZ_GUARD_KILL_MS + DZ_GUARD_LATE_MS + DZ_GUARD_ORPHAN_MS == DZ_TARGET_END_MS,
               "dz_target_stop keeps its word");

typedef enum dz_guard_event {
    DZ_GUARD_FORKED,
    DZ_GUARD_EXECUTED,
    DZ_GUARD_ENDED,
    DZ_GUARD_EMPTIED,
} dz_guard_event;

typedef struct dz_guard_message {
    dz_guard_event event;
    int error; /* errno of starting the command, or 0 */
    pid_t pid;
    uint64_t started;
    bool exited;
    int status;
    unsigned killed;
    uint64_t printed;
    char tail[DZ_TARGET_TAIL];
} dz_guard_message;

typedef struct dz_guard_order {
    int signal;
    unsigned grace_ms;
} dz_guard_order;

/* What the guard is given by the tool it was forked from. */
typedef struct dz_guard_task {
    const dz_target_options *options;
    char **environment; /* of the command, in full */
    pid_t tool;
    int socket;
    int go; /* the command runs when a byte can be read; -1: at once */
} dz_guard_task;

/* The guard's whole life, in a process forked for it. */
__attribute__((noreturn)) void dz_guard_run(const dz_guard_task *task);

#endif
