/* run.h: one measured run of a command, as doctor and flame do it: start it (or attach), wait until
 * it listens, load it, watch it every 10 ms, end it. Ctrl-C ends the run early and well. */
#ifndef DZ_NODE_RUN_H
#define DZ_NODE_RUN_H

#include "session.h"

#include "target/ports.h"
#include "target/spawn.h"
#include "target/tree.h"

typedef struct dz_run dz_run;

typedef struct dz_run_options {
    const char *tool;    /* "donmaz doctor": starts every message */
    char **command;      /* NULL with pid */
    pid_t pid;           /* 0 with command */
    const char *on_port; /* shell command to run once it listens, with $PORT set; may be NULL */
    const char *load;    /* arguments for `donmaz load`; may be NULL */
    uint64_t duration;   /* ns to watch after it listens (or was attached); 0: until load ends */
    uint64_t listen_timeout; /* ns */
    bool need_port;          /* wait for a listening port even without a load */
    bool node;               /* look inside Node processes */
    bool admin;              /* have donmaz servers open their /metrics, and find them */
    bool hold;               /* stop before exec and call on_held */
    dz_node_options inside;
    void (*on_held)(void *arg, dz_run *run);
    void (*on_tick)(void *arg, dz_run *run); /* every 10 ms, after sampling */
    void (*on_load)(void *arg, dz_run *run); /* right before the load starts */
    void (*on_end)(void *arg, dz_run *run);  /* measuring is over, the command still lives */
    void *arg;
} dz_run_options;

struct dz_run {
    dz_run_options options;
    dz_target target, load;
    dz_node node;
    dz_tree tree;
    dz_port ports[16];
    int port_count;
    dz_port admin; /* a donmaz server's /metrics; with has_admin */
    bool has_admin;
    const dz_port *port; /* the one the load goes to; NULL when none */
    uint64_t started, listened, load_from, load_to, ended; /* dz_now; 0: did not come to that */
    uint64_t ticks;
    double load_cpu_ns;  /* that the load used, as far as it was seen */
    bool node_ready;     /* node was opened */
    bool interrupted;    /* by Ctrl-C */
    bool early_exit;     /* the command ended before the load did */
    char load_json[224]; /* where `load` writes its result; empty without --load */
    char problem[256];   /* why there is no result; empty when there is one */
};

/* 0, or the exit code to end with after a message on stderr: DZ_EXIT_TARGET when the command could
 * not be started or never listened, DZ_EXIT_USAGE. Call dz_run_close in every case. */
int dz_run_start(dz_run *run, const dz_run_options *options);
void dz_run_close(dz_run *run);

/* True when Ctrl-C was pressed (or SIGTERM or SIGHUP came). */
bool dz_run_stopping(void);

#endif
