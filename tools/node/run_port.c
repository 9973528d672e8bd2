/* Where the command listens. */
#include "running.h"

#include "admin.h"

#include "common/options.h"

#include <base/clock.h>

#include <stdio.h>
#include <string.h>

static bool is_inspector(const dz_run *run, const dz_port *port)
{
    char text[24];
    snprintf(text, sizeof text, ":%u/", port->port);
    for (size_t i = 0; i < run->node.feed.threads.count; i++) {
        const dz_js_series *s = &run->node.feed.threads.at[i];
        /* Its inspector opens before it says where: until then any port of its may be that. */
        bool unsaid = run->options.command && run->options.inside.inspect && s->pid == port->pid &&
                      !s->number && !s->url[0];
        if (unsaid || strstr(s->url, text))
            return true;
    }
    for (size_t i = 0; i < run->node.links.count; i++)
        if (strstr(run->node.links.at[i].url, text))
            return true;
    return false;
}

static bool is_node(const dz_run *run, pid_t pid)
{
    for (size_t i = 0; i < run->node.feed.threads.count; i++)
        if (run->node.feed.threads.at[i].pid == pid)
            return true;
    return false;
}

/* Takes a donmaz server's /metrics out of the ports, for on_load to read. */
static int take_admin(dz_run *run, dz_port *ports, int count)
{
    enum { ASK_MS = 500 };
    dz_port others[16];
    int which[16], n = 0;
    for (int i = 0; i < count; i++)
        if (!is_node(run, ports[i].pid)) {
            others[n] = ports[i];
            which[n++] = i;
        }
    int at = n > 0 ? dz_admin_find(others, n, ASK_MS) : -1;
    run->has_admin = at >= 0;
    if (at < 0)
        return count;
    run->admin = others[at];
    memmove(&ports[which[at]], &ports[which[at] + 1],
            (size_t)(count - which[at] - 1) * sizeof *ports);
    return count - 1;
}

bool dz_run_find_port(dz_run *run)
{
    dz_port all[16];
    int n = dz_ports_find(&run->tree, all, 16);
    if (run->node_ready) /* a process has announced itself before it opened any port */
        dz_node_poll(&run->node, 0, -1);
    if (run->options.admin)
        n = take_admin(run, all, n);
    run->port_count = 0;
    run->port = NULL;
    for (int i = 0; i < n; i++)
        if (!is_inspector(run, &all[i]))
            run->ports[run->port_count++] = all[i];
    if (run->port_count > 0)
        run->port = &run->ports[0];
    return run->port != NULL;
}

/* A unix socket may be a server's own business, and `load` can't use it: TCP gets half a second to
 * appear beside it. */
static bool suits(const dz_run *run, uint64_t *unix_since)
{
    if (run->port->kind != DZ_PORT_UNIX)
        return true;
    if (*unix_since == 0)
        *unix_since = dz_now();
    return !run->options.load && dz_now() - *unix_since > DZ_SEC / 2;
}

int dz_run_await_port(dz_run *run)
{
    uint64_t unix_since = 0;
    uint64_t deadline = dz_now() + run->options.listen_timeout;
    char how[96];
    while (!dz_run_stopping()) {
        dz_run_turn(run);
        if (dz_run_target_gone(run)) {
            dz_target_describe(&run->target, how, sizeof how);
            run->early_exit = true;
            return dz_run_fail(run, DZ_EXIT_TARGET, "the command %s before it listened on a port",
                               how);
        }
        if (run->ticks % 2 == 0 && dz_run_find_port(run) && suits(run, &unix_since)) {
            run->listened = dz_now();
            return 0;
        }
        if (dz_now() > deadline && unix_since)
            return dz_run_fail(
                run, DZ_EXIT_TARGET,
                "it listens on the unix socket %s only: load it with --on-port and $SOCKET",
                run->port ? run->port->address : "");
        if (dz_now() > deadline) {
            snprintf(how, sizeof how, "%.0f", (double)run->options.listen_timeout / 1e9);
            return dz_run_fail(run, DZ_EXIT_TARGET,
                               "the command did not listen on any port or unix socket within %s s",
                               how);
        }
    }
    run->interrupted = true;
    return dz_run_fail(run, DZ_EXIT_TARGET, "interrupted before the command listened%s", "");
}
