/* inspector.h: one Node process through its V8 inspector (Chrome DevTools protocol), with its
 * worker threads (NodeWorker domain). Requests are fire and forget; answers are kept here as they
 * come.
 *
 * The inspector interrupts running JavaScript, so all of this works on a script that never returns
 * to its loop. One thread at a time. */
#ifndef DZ_NODE_INSPECTOR_H
#define DZ_NODE_INSPECTOR_H

#include <donmaz/slice.h>

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

typedef enum dz_js_state {
    DZ_JS_IDLE,
    DZ_JS_STARTING, /* Profiler.start sent */
    DZ_JS_RUNNING,
    DZ_JS_STOPPING, /* Profiler.stop sent */
    DZ_JS_DONE,     /* profile here, or lost with its thread */
} dz_js_state;

typedef struct dz_js_thread {
    char session[32]; /* of the NodeWorker domain; empty for the main thread */
    unsigned number;  /* Node's threadId; 0 for the main thread */
    char title[64];   /* "main", or what Node calls the worker */
    dz_js_state state;
    bool gone;
    json_t *profile; /* as Profiler.stop gave it; NULL until then */
    FILE *parts;     /* of a worker: the profiles before that, a line each; NULL: none */
    unsigned due;    /* parts asked for that have not come */
    uint64_t since;  /* when the profile that goes on began */
} dz_js_thread;

typedef struct dz_inspector dz_inspector;

/* Connects to the "ws://..." address of process `pid`. 0 and *out; errors as dz_ws_open. */
int dz_inspector_open(dz_inspector **out, pid_t pid, const char *url, unsigned timeout_ms);

/* Disconnects and frees, profiles included. Accepts NULL. */
void dz_inspector_close(dz_inspector *inspector);

pid_t dz_inspector_pid(const dz_inspector *inspector);
int dz_inspector_fd(const dz_inspector *inspector);
short dz_inspector_events(const dz_inspector *inspector); /* for poll */
bool dz_inspector_gone(const dz_inspector *inspector);

/* Handles what has come and sends what waits. */
void dz_inspector_pump(dz_inspector *inspector);

/* Disconnects, keeping the profiles: a process that ends waits for us otherwise. */
void dz_inspector_hang_up(dz_inspector *inspector);

/* Profiles every thread, also those that start later, with a sample every `interval_us`. */
void dz_inspector_profile_start(dz_inspector *inspector, unsigned interval_us);

/* An expression that every worker runs as soon as it is known. Borrowed. */
void dz_inspector_on_worker(dz_inspector *inspector, const char *expression);

/* Asks every thread for its profile. */
void dz_inspector_profile_stop(dz_inspector *inspector);

/* Fetches what each worker's profiler has when that is older than a second: a worker that is ended
 * from outside takes with it what is not fetched. Call every 10 ms. */
void dz_inspector_save_workers(dz_inspector *inspector);

/* The same for the worker with Node's threadId `number` alone; true once nothing is to come. */
bool dz_inspector_worker_stop(dz_inspector *inspector, unsigned number);

/* Runs an expression in that worker. */
void dz_inspector_worker_evaluate(dz_inspector *inspector, unsigned number, const char *expression);

/* True while a thread's profiler is starting or stopping. */
bool dz_inspector_busy(const dz_inspector *inspector);

/* Asks every thread to collect its garbage, so that what stays is really held. */
void dz_inspector_collect_garbage(dz_inspector *inspector);

/* True while a thread has not answered that. */
bool dz_inspector_collecting(const dz_inspector *inspector);

/* Runs an expression in the main thread, with `require` at hand; its value is dropped. */
void dz_inspector_evaluate(dz_inspector *inspector, const char *expression);

/* The same, and waits for its answer: true when it came in time and was no exception. */
bool dz_inspector_evaluate_wait(dz_inspector *inspector, const char *expression,
                                unsigned timeout_ms);

size_t dz_inspector_threads(const dz_inspector *inspector);
const dz_js_thread *dz_inspector_thread(const dz_inspector *inspector, size_t at);

/* Finds the inspector address of a process that listens on `port` of loopback. DZ_E_NOT_FOUND. */
int dz_inspector_find(unsigned port, bool six, unsigned timeout_ms, char *url, size_t cap);

#endif
