#include "load/start.h"

#include "load/run.h"

#include "base/clock.h"
#include "target/ports.h"

#include <donmaz/error.h>

#include <signal.h>
#include <stdio.h>

enum { LOOK_EVERY_MS = 20, GRACE_MS = 2000, PORTS = 16 };

/* How long a server may take to listen. */
#define LISTEN_WITHIN (60 * DZ_SEC)

void load_stop_target(load_started *started)
{
    dz_target_stop(&started->target, SIGTERM, GRACE_MS);
}

/* The first TCP port that the command listens on; 0: none yet. */
static unsigned find_port(dz_tree *tree)
{
    dz_port ports[PORTS];
    if (dz_tree_refresh(tree) < 0)
        return 0;
    int count = dz_ports_find(tree, ports, PORTS);
    for (int i = 0; i < count; i++)
        if (ports[i].kind != DZ_PORT_UNIX)
            return ports[i].port;
    return 0;
}

static int wait_for_port(load_started *started, const char *name, unsigned *port)
{
    dz_tree tree;
    uint64_t until = dz_now() + LISTEN_WITHIN;
    dz_tree_init(&tree, started->target.pid);
    *port = 0;
    while (*port == 0 && !dz_target_wait(&started->target, LOOK_EVERY_MS) && dz_now() < until &&
           !load_was_interrupted())
        *port = find_port(&tree);
    dz_tree_close(&tree);
    if (*port > 0)
        return DZ_OPTIONS_OK;
    if (started->target.exited) {
        char how[80];
        dz_target_describe(&started->target, how, sizeof how);
        return dz_fail(DZ_EXIT_TARGET, LOAD_TOOL,
                       "'%s' %s before it listened; run it by hand to see why", name, how);
    }
    return dz_fail(DZ_EXIT_TARGET, LOAD_TOOL, "'%s' %s", name,
                   load_was_interrupted() ? "was interrupted before it listened"
                                          : "did not listen on a TCP port within 60 s");
}

int load_start_target(load_started *started, load_cli *cli)
{
    char **command = cli->operands.command;
    dz_target_options options = {.argv = command, .output = DZ_TARGET_TO_STDERR};
    *started = (load_started){0};
    int rc = dz_target_start(&started->target, &options);
    if (rc < 0)
        return dz_fail(DZ_EXIT_TARGET, LOAD_TOOL, "can't start '%s': %s", command[0],
                       dz_strerror(rc));
    unsigned port;
    rc = wait_for_port(started, command[0], &port);
    if (rc == DZ_OPTIONS_OK)
        snprintf(cli->started_port, sizeof cli->started_port, "%u", port);
    else
        load_stop_target(started);
    return rc;
}
