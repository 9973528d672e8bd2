/* inspecting.h: between the files of the inspector: inspector.c speaks with the process,
 * inspector_profile.c has its threads profiled. */
#ifndef DZ_NODE_INSPECTING_H
#define DZ_NODE_INSPECTING_H

#include "inspector.h"
#include "ws.h"

/* What a request was: an id is its thread's index times PURPOSES, plus this. */
enum purpose { OTHER, START, STOP, EVALUATE, COLLECT, PURPOSES = 8 };

struct dz_inspector {
    dz_ws *ws;
    pid_t pid;
    bool gone;
    unsigned interval_us; /* 0: not profiling */
    dz_js_thread *threads;
    size_t count, cap;
    const char *on_worker;
    size_t collecting; /* answers to come */
    int evaluated;     /* -1 waiting, 0 exception, 1 well */
};

/* Sends a request; takes `params`. */
void dz_inspector_call(dz_inspector *in, size_t thread, enum purpose purpose, const char *method,
                       json_t *params);

/* Waits 10 ms for what comes. */
void dz_inspector_await(dz_inspector *in);

/* The index of a living worker with that threadId; 0 none. */
size_t dz_inspector_worker(const dz_inspector *in, unsigned number);

/* inspector_profile.c */
void dz_inspector_start_thread(dz_inspector *in, size_t thread);
/* A worker's profile of the time since the one before. */
void dz_inspector_keep_part(dz_js_thread *thread, const json_t *profile);

#endif
