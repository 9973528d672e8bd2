#include "run.h"

#include "common/options.h"
#include "common/terminal.h"
#include "target/procfs.h"
#include "tools.h"

#include <base/clock.h>
#include <donmaz/error.h>

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TICK_MS = 10, SLOW = 10, GRACE_MS = 2000, PROFILE_MS = 10000, TAIL_MS = 100 };

static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
    (void)number;
    if (stopping++ >= 2) /* asked three times: at once, whatever is lost */
        _exit(DZ_EXIT_FAILED);
}

bool dz_run_stopping(void)
{
    return stopping != 0;
}

static void catch_signals(void)
{
    struct sigaction a = {.sa_handler = on_signal};
    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
    sigaction(SIGHUP, &a, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static int fail(dz_run *run, int code, const char *format, const char *detail)
{
    if (!run->problem[0]) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* our own literals, one %s each */
        snprintf(run->problem, sizeof run->problem, format, detail);
#pragma GCC diagnostic pop
        dz_fail(code, run->options.tool, "%s", run->problem);
    }
    return code;
}

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

/* The first port of its own, TCP before unix sockets. */
static bool find_port(dz_run *run)
{
    dz_port all[16];
    int n = dz_ports_find(&run->tree, all, 16);
    if (run->node_ready) /* a process has announced itself before it opened any port */
        dz_node_poll(&run->node, 0, -1);
    run->port_count = 0;
    run->port = NULL;
    for (int i = 0; i < n; i++)
        if (!is_inspector(run, &all[i]))
            run->ports[run->port_count++] = all[i];
    if (run->port_count > 0)
        run->port = &run->ports[0];
    return run->port != NULL;
}

/* One turn: waits for the next tick, takes what came, samples, looks whether the command lives. */
static void turn(dz_run *run)
{
    uint64_t due = run->started + (run->ticks + 1) * TICK_MS * DZ_MS, now = dz_now();
    if (now > due + DZ_SEC) { /* we were stopped or starved: no burst of ticks to make up for it */
        run->ticks = (now - run->started) / (TICK_MS * DZ_MS);
        due = now;
    }
    do {
        unsigned ms = due > now ? (unsigned)((due - now) / DZ_MS) + 1 : 0;
        if (run->node_ready)
            dz_node_poll(&run->node, ms, -1);
        else
            usleep(ms * 1000);
        now = dz_now();
    } while (now < due && !stopping);
    run->ticks++;
    if (run->ticks % SLOW == 1)
        dz_tree_refresh(&run->tree);
    dz_tree_sample(&run->tree);
    if (run->options.command)
        dz_target_poll(&run->target);
    if (run->options.on_tick)
        run->options.on_tick(run->options.arg, run);
}

static void count_one(void *arg, long number)
{
    (void)number;
    ++*(int *)arg;
}

/* It has ended, and its parent has not asked how: such a process may stay for ever. One whose first
 * thread alone ended looks the same but for its other threads. */
static bool is_zombie(pid_t pid)
{
    char text[512], path[64];
    dz_procfs_stat stat;
    if (dz_procfs_read_pid(pid, "stat", text, sizeof text) <= 0 ||
        !dz_procfs_parse_stat(text, &stat) || stat.state != 'Z')
        return false;
    int threads = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    return dz_procfs_each(path, count_one, &threads) == 0 && threads <= 1;
}

static bool target_gone(dz_run *run)
{
    if (run->options.command)
        return run->target.exited;
    return (kill(run->options.pid, 0) < 0 && errno == ESRCH) || is_zombie(run->options.pid);
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

static int await_port(dz_run *run)
{
    uint64_t unix_since = 0;
    uint64_t deadline = dz_now() + run->options.listen_timeout;
    char how[96];
    while (!stopping) {
        turn(run);
        if (target_gone(run)) {
            dz_target_describe(&run->target, how, sizeof how);
            run->early_exit = true;
            return fail(run, DZ_EXIT_TARGET, "the command ended (%s) before it listened on a port",
                        how);
        }
        if (run->ticks % 2 == 0 && find_port(run) && suits(run, &unix_since)) {
            run->listened = dz_now();
            return 0;
        }
        if (dz_now() > deadline && unix_since)
            return fail(run, DZ_EXIT_TARGET,
                        "it listens on the unix socket %s only: load it with --on-port and $SOCKET",
                        run->port ? run->port->address : "");
        if (dz_now() > deadline) {
            snprintf(how, sizeof how, "%.0f", (double)run->options.listen_timeout / 1e9);
            return fail(run, DZ_EXIT_TARGET,
                        "the command did not listen on any port or unix socket within %s s", how);
        }
    }
    run->interrupted = true;
    return fail(run, DZ_EXIT_TARGET, "interrupted before the command listened%s", "");
}

/* The words of --load: split at spaces, quotes keep them; "/path" becomes the whole address. */
static int split_words(char *text, char **words, size_t cap)
{
    size_t n = 0;
    for (char *at = text; *at;) {
        while (*at == ' ')
            at++;
        if (!*at)
            break;
        char quote = ' ';
        if (*at == '\'' || *at == '"')
            quote = *at++;
        char *start = at;
        while (*at && *at != quote)
            at++;
        if (*at)
            *at++ = 0;
        if (n == cap)
            return DZ_E_TOO_LARGE;
        words[n++] = start;
    }
    return (int)n;
}

static int start_own_load(dz_run *run, const dz_target_options *base)
{
    enum { WORDS = 60 };
    char *words[WORDS + 8], exe[512], url[512], base_url[160], load[] = "load", json[] = "--json";
    char *text = strdup(run->options.load);
    if (!text)
        return DZ_E_NOMEM;
    ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
    int n = split_words(text, words + 4, WORDS), rc = n < 0 ? n : 0;
    if (len < 0)
        rc = -errno;
    if (rc == 0) {
        exe[len] = 0;
        bool six = run->port->kind == DZ_PORT_TCP6 && strcmp(run->port->address, "::") != 0;
        snprintf(base_url, sizeof base_url, six ? "http://[::1]:%u" : "http://127.0.0.1:%u",
                 run->port->port);
        bool addressed = false;
        for (int i = 4; i < n + 4; i++)
            if (words[i][0] == '/' && !addressed) {
                snprintf(url, sizeof url, "%s%s", base_url, words[i]);
                words[i] = url;
                addressed = true;
            }
        words[0] = exe;
        words[1] = load;
        words[2] = json;
        snprintf(run->load_json, sizeof run->load_json, "%s/load.json", run->node.dir);
        words[3] = run->load_json;
        if (!addressed) {
            snprintf(url, sizeof url, "%s/", base_url);
            words[4 + n++] = url;
        }
        words[4 + n] = NULL;
        dz_target_options o = *base;
        o.argv = words;
        rc = dz_target_start(&run->load, &o);
    }
    free(text);
    return rc;
}

static int start_load(dz_run *run)
{
    char port[32], socket[128];
    snprintf(port, sizeof port, "PORT=%u", run->port ? run->port->port : 0);
    snprintf(socket, sizeof socket, "SOCKET=%s",
             run->port && run->port->kind == DZ_PORT_UNIX ? run->port->address : "");
    const char *env[] = {port, socket, NULL};
    dz_target_options o = {.env = env, .out_to_stderr = true};
    if (run->options.on_load)
        run->options.on_load(run->options.arg, run);
    if (run->options.load && !run->port)
        return fail(run, DZ_EXIT_TARGET, "the process listens on no TCP port%s", "");
    int rc = run->options.load      ? start_own_load(run, &o)
             : run->options.on_port ? dz_target_start_shell(&run->load, run->options.on_port, &o)
                                    : 0;
    if (rc < 0)
        return fail(run, DZ_EXIT_TARGET, "the load could not be started: %s", dz_strerror(rc));
    run->load_from = dz_now();
    return 0;
}

/* The load's own CPU, so that it is not taken for other programs'. */
static void watch_load(dz_run *run, dz_tree *tree)
{
    if (run->ticks % SLOW == 0)
        dz_tree_refresh(tree);
    dz_tree_sample(tree);
    double cpu = 0;
    for (size_t i = 0; i < tree->count; i++)
        cpu += (double)tree->procs[i].cpu_ns;
    run->load_cpu_ns = cpu;
}

/* It listens at last: what it did until then was its start-up. */
static uint64_t start_over(dz_run *run, uint64_t end)
{
    run->listened = run->load_from = dz_now();
    if (run->options.on_load)
        run->options.on_load(run->options.arg, run);
    return run->options.duration ? dz_now() + run->options.duration : end;
}

static void watch(dz_run *run)
{
    dz_tree load;
    dz_tree_init(&load, run->load.pid);
    load.from_start = true;
    uint64_t end = run->options.duration ? dz_now() + run->options.duration : UINT64_MAX;
    bool loaded = run->load.pid != 0;
    while (!stopping && dz_now() < end) {
        turn(run);
        if (target_gone(run)) {
            run->early_exit = true;
            break;
        }
        if (loaded && dz_target_poll(&run->load))
            break;
        if (loaded)
            watch_load(run, &load);
        else if (run->options.command && !run->listened && run->ticks % SLOW == 0 && find_port(run))
            end = start_over(run, end);
    }
    dz_tree_close(&load);
    run->load_to = dz_now();
    run->interrupted = stopping != 0;
    if (loaded && !run->load.exited) /* it prints what it has on SIGINT */
        dz_target_stop(&run->load, SIGINT, GRACE_MS);
}

static int begin(dz_run *run)
{
    const dz_run_options *o = &run->options;
    if (o->node) {
        int rc = dz_node_open(&run->node, &o->inside);
        if (rc < 0)
            return fail(run, DZ_EXIT_TARGET, "no temporary directory could be made: %s",
                        dz_strerror(rc));
        run->node_ready = true;
    }
    if (!o->command) {
        dz_tree_init(&run->tree, o->pid);
        if (dz_tree_refresh(&run->tree) < 0)
            return fail(run, DZ_EXIT_TARGET, "there is no such process%s", "");
        const char *why = NULL;
        if (run->node_ready && dz_node_attach(&run->node, o->pid, &why) < 0 && why)
            fprintf(stderr, "%s: note: no look inside: %s\n", o->tool, why);
        return 0;
    }
    dz_target_options t = {.argv = o->command,
                           .env = run->node_ready ? dz_node_environment(&run->node) : NULL,
                           .out_to_stderr = true,
                           .hold = o->hold};
    int rc = dz_target_start(&run->target, &t);
    if (rc == 0 && o->hold) {
        if (o->on_held)
            o->on_held(o->arg, run);
        rc = dz_target_release(&run->target);
    }
    if (rc < 0) {
        char what[224];
        snprintf(what, sizeof what, "%.100s could not be started: %.100s", o->command[0],
                 dz_strerror(rc));
        return fail(run, DZ_EXIT_TARGET, "%s", what);
    }
    dz_tree_init(&run->tree, run->target.pid);
    run->tree.from_start = true;
    return 0;
}

int dz_run_start(dz_run *run, const dz_run_options *options)
{
    memset(run, 0, sizeof *run);
    run->options = *options;
    catch_signals();
    run->started = dz_now();
    int rc = begin(run);
    if (rc == 0 && (options->need_port || options->on_port || options->load)) {
        if (options->command)
            rc = await_port(run);
        else if (find_port(run))
            run->listened = dz_now();
    }
    if (rc == 0)
        rc = start_load(run);
    if (rc == 0)
        watch(run);
    run->ended = dz_now();
    if (options->on_end)
        options->on_end(options->arg, run);
    if (run->node_ready && run->node.profiling)
        dz_node_profile_stop(&run->node, PROFILE_MS);
    if (run->node_ready)
        dz_node_detach(&run->node);
    if (options->command)
        dz_target_stop(&run->target, SIGTERM, GRACE_MS);
    return rc;
}

void dz_run_close(dz_run *run)
{
    if (run->load_json[0])
        unlink(run->load_json);
    if (run->node_ready)
        dz_node_close(&run->node);
    dz_tree_close(&run->tree);
}
