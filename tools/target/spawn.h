/* spawn.h: a command that a tool starts, and that can't outlive the tool.
 *
 *   tool ── guard ── command ── its children …
 *
 * The guard is a small process between them (guard.h). It is the reaper of everything the command
 * starts (PR_SET_CHILD_SUBREAPER), so nothing escapes by daemonising; where asked it reads what the
 * command prints, however much, and keeps only the end; and it kills all of it when told to, or
 * when the tool's end of their socket closes, whatever the tool died of. Should the guard itself be
 * killed, the kernel kills the command (PR_SET_PDEATHSIG), and its orphans fall to the tool, which
 * is a reaper too. The command gets a process group of its own, so that Ctrl-C in the terminal
 * reaches the tool alone and the tool decides. Call from one thread at a time. */
#ifndef DZ_TARGET_SPAWN_H
#define DZ_TARGET_SPAWN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    DZ_TARGET_TAIL = 2000,
    DZ_TARGET_END_MS = 5000, /* what dz_target_stop takes at most, beyond the grace */
};

/* Where the command's stdout and stderr go. */
typedef enum dz_target_output {
    DZ_TARGET_INHERIT,   /* where the tool's go */
    DZ_TARGET_TO_STDERR, /* both to the tool's stderr, so that they never mix with results */
    DZ_TARGET_KEPT,      /* to the guard: `printed` and `tail` tell of it */
    DZ_TARGET_PIPED,     /* to the descriptors `out` and `err` of the options */
} dz_target_output;

typedef struct dz_target_options {
    char *const *argv;       /* NULL-terminated; argv[0] is looked up in PATH */
    const char *cwd;         /* NULL: the tool's */
    const char *const *env;  /* "NAME=value" set on top of ours, NULL-terminated; may be NULL */
    dz_target_output output; /* stdin is always /dev/null */
    int out, err;            /* borrowed, and only looked at with DZ_TARGET_PIPED */
    bool hold;               /* started but not yet executed, until dz_target_release */
} dz_target_options;

/* All zeros: not started, and safe to stop. */
typedef struct dz_target {
    pid_t pid;        /* also its process group; stays after the end. 0: not started */
    uint64_t started; /* monotonic nanoseconds, right before it was forked */
    bool exited;      /* the command itself: what it started may still run */
    bool guard_lost;  /* it went with its guard, which someone killed */
    int status;       /* as from waitpid, once exited */
    /* Told once it has ended or was stopped: */
    unsigned killed;           /* processes that outlived the grace and had to be killed */
    uint64_t printed;          /* DZ_TARGET_KEPT: bytes of stdout and stderr in all */
    char tail[DZ_TARGET_TAIL]; /* DZ_TARGET_KEPT: the end of them */
    pid_t guard;               /* all that the command starts hangs below it; 0: none, or stopped */
    /* Private: */
    int socket;     /* to the guard */
    int go;         /* releases a held command; -1: not held */
    unsigned event; /* how far the guard has come, a dz_guard_event */
    int error;      /* errno of starting the command */
} dz_target;

/* 0, or -errno: of fork, chdir, or of executing argv[0]. After an error there is nothing to stop.
 */
int dz_target_start(dz_target *target, const dz_target_options *options);

/* Splits nothing, expands nothing: runs `/bin/sh -c text`, for commands given as one string. */
int dz_target_start_shell(dz_target *target, const char *text, const dz_target_options *options);

/* With `hold`: lets the command run. 0, or -errno of executing it. */
int dz_target_release(dz_target *target);

/* True once the command itself has ended; never blocks. */
bool dz_target_poll(dz_target *target);

/* Waits until it has ended or `ms` have passed; true when it has ended. */
bool dz_target_wait(dz_target *target, unsigned ms);

/* Ends the command and everything it started: `signal`, then SIGKILL after `grace_ms` (0: at once).
 * Returns when all of it is gone, or DZ_TARGET_END_MS after the grace: what is in uninterruptible
 * sleep, or not ours to kill, is given up. Calling it again does nothing. */
void dz_target_stop(dz_target *target, int signal, unsigned grace_ms);

/* "exited with status 3", "was killed by signal 11 (SIGSEGV)": after "it" or a name. */
void dz_target_describe(const dz_target *target, char *out, size_t cap);

#endif
