/* guard.h: a stack under test that can't outlive the lab.
 *
 *   lab ── guard ── target ── its children …
 *
 * The guard is a small process between them. It is the reaper of everything the target starts
 * (PR_SET_CHILD_SUBREAPER), so nothing escapes by daemonising; it reads what the target prints,
 * however much, and keeps only the end; and it kills all of it when told to, or when the lab's end
 * of their socket closes, whatever the lab died of. Should the guard itself be killed, the kernel
 * kills the target (PR_SET_PDEATHSIG) and its orphans fall to the lab, which is a reaper too. */
#ifndef DZ_LAB_GUARD_H
#define DZ_LAB_GUARD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { DZ_LAB_TAIL = 2000 };

/* How a target ended and what it said last. */
typedef struct dz_lab_end {
    bool exited;            /* false: still running */
    bool guard_lost;        /* it went with its guard, which someone killed */
    int status;             /* as from waitpid */
    int exec_error;         /* errno when the command could not be started; 0 */
    uint64_t printed;       /* bytes of stdout and stderr in all */
    unsigned killed;        /* processes that outlived SIGTERM and had to be killed */
    char tail[DZ_LAB_TAIL]; /* the end of what it printed */
} dz_lab_end;

typedef struct dz_lab_target {
    pid_t guard, pid;
    int socket;
    uint64_t started; /* monotonic nanoseconds, just before exec */
    dz_lab_end end;
} dz_lab_target;

/* Starts argv in folder `cwd` with `environment` (NAME=value strings, NULL-terminated) added to
 * ours. 0 or a negative error; -errno of exec when the command can't be run. */
int dz_lab_target_start(dz_lab_target *target, char *const *argv, const char *cwd,
                        char *const *environment);

/* Whether the target still runs; when it does not, target->end says why. Does not wait. */
bool dz_lab_target_alive(dz_lab_target *target);

/* Ends everything the target started: SIGTERM, after `grace_ms` SIGKILL. Returns when all of it is
 * gone; target->end is filled in. Calling it again does nothing. */
void dz_lab_target_stop(dz_lab_target *target, unsigned grace_ms);

/* "exited with status 1", "was killed by SIGSEGV", "can't be run: …" in static storage. */
const char *dz_lab_end_text(const dz_lab_end *end);

#endif
