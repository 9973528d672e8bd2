/* supervisor.h: the process that owns the listening socket and the workers. One thread, no handler
 * code, so that nothing in it can stall or crash.
 *
 * A worker:
 *              says ready          told to leave, or says it does
 *   STARTING ─────────────> READY ───────────────────────────────> LEAVING
 *      │                      │                                       │ ended, or killed when it
 *      │ died                 │ died                                  │ has not by kill_at
 *      └──────────────────────┴───────────────────────────────────────┴──> reaped
 *
 * Each place in the cluster has one worker; a place whose worker died gets another when `due`.
 * While a worker is replaced (SIGHUP) its place has two: `old` serves until `worker` is ready. */
#ifndef DZ_CLUSTER_SUPERVISOR_H
#define DZ_CLUSTER_SUPERVISOR_H

#include "app/app.h"
#include "base/list.h"
#include "cluster/restart.h"
#include "cluster/spread.h"
#include "cluster/worker.h"

#include <signal.h>

enum dz_worker_state { DZ_WORKER_STARTING, DZ_WORKER_READY, DZ_WORKER_LEAVING };

typedef struct dz_place dz_place;

typedef struct dz_worker {
    dz_list link; /* in supervisor->workers, from fork to wait */
    dz_place *place;
    pid_t pid;
    enum dz_worker_state state;
    int channel;
    bool hung_up; /* its end of the channel is closed: not watched any more */
    bool failed;  /* it said why it could not start */
    bool killed;  /* by us */
    dz_share *share;
    uint64_t sent; /* connections */
    uint64_t born; /* monotonic ns */
    uint64_t kill_at;
} dz_worker;

struct dz_place {
    dz_worker *worker, *old; /* NULL: none. Never LEAVING ones */
    uint64_t due;            /* without a worker: when to start one; UINT64_MAX: not now */
    bool renew;              /* SIGHUP: to be replaced */
    dz_restart restart;
};

typedef struct dz_supervisor {
    dz_app *app;
    dz_core *core;
    const char *program;
    pid_t pid;
    int epoll_fd, signal_fd;
    int listen_fd; /* -1 once it stops */
    unsigned port;
    int admin_fd; /* listening for --admin, which the workers do; or -1 */
    unsigned admin_port;
    dz_peers peers;
    sigset_t mask_before;
    struct sigaction child_before;

    dz_place *places;
    unsigned count;
    dz_list workers; /* dz_worker.link, also those that leave */
    bool ever_ready;
    bool announced; /* the service is up: connections are accepted */
    uint64_t announce_by;
    bool child_ended; /* somebody is to be waited for */
    bool stopping;
    int exit_code;

    /* accept.c */
    dz_load *loads;     /* of each place, for dz_spread_pick */
    unsigned last;      /* the place that got the last connection */
    bool accepting;     /* whether epoll reports the listening socket */
    int held_fd;        /* accepted, but no worker could take it yet; or -1 */
    uint64_t accept_at; /* not before; 0: now */
    uint64_t next_complaint;
} dz_supervisor;

/* Runs the app in settings.processes workers until told to stop. Returns the exit code, in the
 * supervisor only: a worker exits. */
int dz_supervise(dz_app *app, const char *program);

/* --- crew.c: the workers --- */

/* Starts what is due and kills what is overdue. Does not return in a new worker. */
void dz_crew_act(dz_supervisor *it, uint64_t now);
/* When dz_crew_act has something to do; UINT64_MAX: never. */
uint64_t dz_crew_next_due(const dz_supervisor *it);
/* Replaces all workers, one after the other. */
void dz_crew_renew(dz_supervisor *it);
/* Tells all to finish their requests and end. */
void dz_crew_dismiss(dz_supervisor *it);
/* Sends all a signal. */
void dz_crew_signal(const dz_supervisor *it, int signal);
/* Ends all now. */
void dz_crew_kill(dz_supervisor *it);
/* The one that connections of this place go to; NULL: none now. */
dz_worker *dz_place_server(const dz_place *place);
bool dz_crew_serves(const dz_supervisor *it);
/* No worker is on its first way up. */
bool dz_crew_settled(const dz_supervisor *it);

/* The place's number in messages, from 1. */
unsigned dz_place_number(const dz_supervisor *it, const dz_place *place);
/* Tells a worker to finish its requests and end; harmless when it was told. */
void dz_worker_dismiss(const dz_supervisor *it, dz_worker *worker);
/* No more events of its channel. */
void dz_worker_unwatch(const dz_supervisor *it, dz_worker *worker);
void dz_worker_free(dz_worker *worker);

/* --- reap.c: what they say and how they end --- */

/* The worker's channel is readable or was closed. */
void dz_crew_listen(dz_supervisor *it, dz_worker *worker);
/* Waits for those that ended. */
void dz_crew_reap(dz_supervisor *it);

/* --- accept.c: the connections --- */

/* Accepts what waits, and hands it over. */
void dz_accept_connections(dz_supervisor *it);
/* Tries again what could not be handed over, and looks at the listening socket if it should. */
void dz_accept_act(dz_supervisor *it, uint64_t now);
uint64_t dz_accept_next_due(const dz_supervisor *it);
/* Hands over what the kernel accepted already, then closes the listening socket. */
void dz_accept_stop(dz_supervisor *it);

/* --- supervisor.c --- */

/* In a worker just forked: lets go of everything that is the supervisor's, and serves. */
_Noreturn void dz_become_worker(dz_supervisor *it, dz_worker *self);
/* Ends with exit code 1 because no worker can be started; `why` is one line. */
void dz_supervisor_give_up(dz_supervisor *it, const char *why);

#endif
