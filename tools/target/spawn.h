/* spawn.h: starting and ending the command a tool looks at.
 *
 * The command gets a process group of its own, so that Ctrl-C in the terminal reaches the tool
 * alone and the tool decides; it is killed when the tool dies (PDEATHSIG, and for what it started
 * itself a keeper: a process that waits for the tool's end and then kills the group), and its
 * orphans become the tool's children (subreaper), so nothing is left behind. Call from one thread,
 * which must outlive the command: PDEATHSIG follows the thread that forked. */
#ifndef DZ_TARGET_SPAWN_H
#define DZ_TARGET_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct dz_target {
    pid_t pid; /* also its process group; 0 when not started */
    bool exited;
    int status;    /* as waitpid gives it, once exited */
    pid_t keeper;  /* 0 when there is none */
    int keeper_fd; /* closes with the tool, which is what the keeper waits for */
} dz_target;

typedef struct dz_target_options {
    char *const *argv;      /* NULL-terminated; argv[0] is looked up in PATH */
    const char *cwd;        /* NULL: the tool's */
    const char *const *env; /* "NAME=value" set on top of ours, NULL-terminated; may be NULL */
    bool out_to_stderr;     /* so that the command's output never mixes with ours */
    bool hold;              /* started but not yet executed, until dz_target_release */
} dz_target_options;

/* 0, or -errno: of fork, chdir, or of executing argv[0]. */
int dz_target_start(dz_target *target, const dz_target_options *options);

/* With `hold`: lets the command run. 0, or -errno of executing it. */
int dz_target_release(dz_target *target);

/* True once the command itself has ended; never blocks. Reaps orphans on the way. */
bool dz_target_poll(dz_target *target);

/* Waits until it has ended or `ms` have passed; true when it has ended. */
bool dz_target_wait(dz_target *target, unsigned ms);

/* Ends the command and everything it started: `signal`, then SIGKILL after `grace_ms`. */
void dz_target_stop(dz_target *target, int signal, unsigned grace_ms);

/* "exit status 3", "signal 11 (Segmentation fault)". */
void dz_target_describe(const dz_target *target, char *out, size_t cap);

/* Splits nothing, expands nothing: runs `/bin/sh -c text`, for commands given as one string. */
int dz_target_start_shell(dz_target *target, const char *text, const dz_target_options *options);

#endif
