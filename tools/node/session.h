/* session.h: everything a tool needs to see inside the Node processes under a command: a private
 * directory with the preload script and its FIFO, the environment that makes Node load it, the
 * series it reports, and each process's inspector.
 *
 *   dz_node_open -> start the command with dz_node_environment -> dz_node_poll again and again
 *   -> dz_node_profile_start / _stop -> end the command -> dz_node_close (removes the directory) */
#ifndef DZ_NODE_SESSION_H
#define DZ_NODE_SESSION_H

#include "feed.h"
#include "inspector.h"

typedef struct dz_node_options {
    bool inspect;         /* open each process's inspector on loopback */
    bool from_start;      /* profile from the first line of each process on: it waits for us */
    bool perf_map;        /* V8 writes /tmp/perf-PID.map, which the caller reads and removes */
    unsigned interval_us; /* between profiler samples */
} dz_node_options;

typedef struct dz_node_link {
    dz_inspector *inspector;
    bool attached; /* by dz_node_attach: to be left as it was found */
    bool opened;   /* its inspector was closed before */
    char url[160]; /* of an attached one */
} dz_node_link;

typedef struct dz_node {
    dz_node_options options;
    dz_feed feed;
    int fifo; /* -1 when closed */
    char dir[160], preload[192], fifo_path[192];
    char *environment[5]; /* "NAME=value", NULL-terminated */
    bool profiling;
    DZ_VECTOR(dz_node_link) links;
    size_t looked_at; /* series whose inspector was looked for */
} dz_node;

/* 0, -errno, DZ_E_NOMEM. Nothing is left behind on failure. */
int dz_node_open(dz_node *node, const dz_node_options *options);

/* Disconnects, removes the directory, frees all. */
void dz_node_close(dz_node *node);

/* For dz_target_options.env; NODE_OPTIONS keeps what the user had set. */
const char *const *dz_node_environment(const dz_node *node);

/* Waits at most `ms` for news, takes all of it, and connects to new processes. `fd` (-1: none) is
 * watched as well, so that the caller can be woken. */
void dz_node_poll(dz_node *node, unsigned ms, int fd);

/* Profiles every Node process, those to come included. */
void dz_node_profile_start(dz_node *node);

/* Stops and waits at most `ms` for the profiles. */
void dz_node_profile_stop(dz_node *node, unsigned ms);

/* Has all heaps collected, side by side, and waits at most `ms` for that. */
void dz_node_collect_garbage(dz_node *node, unsigned ms);

/* For a process that runs already: opens its inspector (SIGUSR1), loads the reporter through it.
 * DZ_E_NOT_FOUND: it is not Node, or its inspector can't be had; *why then says so. */
int dz_node_attach(dz_node *node, pid_t pid, const char **why);

/* Takes the reporter out again and closes the inspectors that dz_node_attach opened. */
void dz_node_detach(dz_node *node);

/* Takes ownership of the inspector. DZ_E_NOMEM: still the caller's. */
int dz_node_add(dz_node *node, dz_node_link link);

#endif
