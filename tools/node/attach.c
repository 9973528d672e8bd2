/* Node processes that run already. */
#include "session.h"

#include "target/ports.h"
#include "target/procfs.h"

#include <base/clock.h>
#include <donmaz/error.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const char dz_node_preload[];

static bool is_node(pid_t pid)
{
    char path[64], link[512];
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    ssize_t n = readlink(path, link, sizeof link - 1);
    if (n <= 0)
        return false;
    link[n] = 0;
    const char *name = strrchr(link, '/');
    return name && strncmp(name + 1, "node", 4) == 0;
}

typedef struct listening {
    dz_port at[32];
    int count;
} listening;

static void find_listening(pid_t pid, listening *out)
{
    dz_tree tree;
    dz_tree_init(&tree, pid);
    dz_tree_refresh(&tree);
    out->count = dz_ports_find(&tree, out->at, 32);
    dz_tree_close(&tree);
}

static bool holds(const listening *set, uint64_t inode)
{
    for (int i = 0; i < set->count; i++)
        if (set->at[i].inode == inode)
            return true;
    return false;
}

/* Whether it was started with its inspector open, on whatever port. */
static bool inspects(pid_t pid)
{
    char text[4096];
    ssize_t n = dz_procfs_read_pid(pid, "cmdline", text, sizeof text);
    return n > 0 && memmem(text, (size_t)n, "--inspect", 9) != NULL;
}

/* Asks only ports that can be an inspector's, so that the program's own server is not bothered: the
 * default one, one that was not there before, and any on loopback of a process that inspects. */
static int find_url(pid_t pid, const listening *before, char *url, size_t cap)
{
    enum { DEFAULT_PORT = 9229 };
    listening now;
    find_listening(pid, &now);
    for (int i = 0; i < now.count; i++) {
        const dz_port *p = &now.at[i];
        if (p->pid != pid || p->kind == DZ_PORT_UNIX || !p->loopback)
            continue;
        bool may_be =
            p->port == DEFAULT_PORT || (before ? !holds(before, p->inode) : inspects(pid));
        if (may_be && dz_inspector_find(p->port, p->kind == DZ_PORT_TCP6, 500, url, cap) == 0)
            return 0;
    }
    return DZ_E_NOT_FOUND;
}

/* The preload script, with what it would read from the environment set inside. */
static char *reporter(const dz_node *node)
{
    char *text;
    int n = asprintf(&text, "{ const DONMAZ_FEED_PATH = \"%s\"; %s }", node->fifo_path,
                     dz_node_preload);
    return n < 0 ? NULL : text;
}

int dz_node_attach(dz_node *node, pid_t pid, const char **why)
{
    if (!is_node(pid)) {
        *why = "not a Node process";
        return DZ_E_NOT_FOUND;
    }
    char url[160];
    listening before;
    find_listening(pid, &before);
    bool open_before = find_url(pid, NULL, url, sizeof url) == 0;
    /* Node's signal to open its inspector on 127.0.0.1:9229, or the port given at its start. */
    if (!open_before && kill(pid, SIGUSR1) < 0) {
        *why = errno == EPERM ? "it belongs to another user: run as that user" : "it is gone";
        return -errno;
    }
    int rc = open_before ? 0 : DZ_E_NOT_FOUND;
    for (uint64_t deadline = dz_now() + 3 * DZ_SEC; rc < 0 && dz_now() < deadline; usleep(20000))
        rc = find_url(pid, &before, url, sizeof url);
    dz_inspector *in = NULL;
    if (rc == 0)
        rc = dz_inspector_open(&in, pid, url, 1000);
    if (rc < 0) {
        *why =
            "its inspector did not open (is port 9229 taken, or SIGUSR1 handled by the program?)";
        return rc;
    }
    char *script = reporter(node);
    dz_node_link link = {.inspector = in, .attached = true, .opened = !open_before};
    memcpy(link.url, url, sizeof link.url);
    if (!script || dz_node_add(node, link) < 0) {
        free(script);
        dz_inspector_close(in);
        return DZ_E_NOMEM;
    }
    if (!dz_inspector_evaluate_wait(in, script, 5000))
        *why = "the reporter could not be loaded into it: only what /proc shows is measured";
    free(script);
    if (node->profiling)
        dz_inspector_profile_start(in, node->options.interval_us);
    return 0;
}

void dz_node_detach(dz_node *node)
{
    for (size_t i = 0; i < node->links.count; i++) {
        const dz_node_link *link = &node->links.at[i];
        if (!link->attached || dz_inspector_gone(link->inspector))
            continue;
        dz_inspector_evaluate_wait(link->inspector,
                                   "globalThis[Symbol.for('donmaz.preload')]?.stop()", 2000);
        /* After we have hung up: it would wait for us. */
        if (link->opened)
            dz_inspector_evaluate_wait(
                link->inspector,
                "{ const i = require('inspector'); setTimeout(() => i.close(), 20).unref() }",
                2000);
    }
}
