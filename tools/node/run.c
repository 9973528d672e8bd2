#include "running.h"

#include "admin.h"

#include "common/options.h"
#include "common/printable.h"
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

int dz_run_fail(dz_run *run, int code, const char *format, const char *detail)
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

void dz_run_turn(dz_run *run)
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

bool dz_run_target_gone(dz_run *run)
{
    if (run->options.command)
        return run->target.exited;
    return (kill(run->options.pid, 0) < 0 && errno == ESRCH) || is_zombie(run->options.pid);
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
        dz_run_turn(run);
        if (dz_run_target_gone(run)) {
            run->early_exit = true;
            break;
        }
        if (loaded && dz_target_poll(&run->load))
            break;
        if (loaded)
            watch_load(run, &load);
        else if (run->options.command && !run->listened && run->ticks % SLOW == 0 &&
                 dz_run_find_port(run))
            end = start_over(run, end);
    }
    dz_tree_close(&load);
    run->load_to = dz_now();
    run->interrupted = stopping != 0;
    if (loaded && !run->load.exited) /* it prints what it has on SIGINT */
        dz_target_stop(&run->load, SIGINT, GRACE_MS);
}

/* For eight. */
static void environment(const dz_run *run, const char **out)
{
    size_t n = 0;
    const char *const *node = run->node_ready ? dz_node_environment(&run->node) : NULL;
    while (node && node[n] && n < 6) {
        out[n] = node[n];
        n++;
    }
    const char *admin = run->options.admin ? dz_admin_environment() : NULL;
    if (admin)
        out[n++] = admin;
    out[n] = NULL;
}

static int begin(dz_run *run)
{
    const dz_run_options *o = &run->options;
    if (o->node) {
        int rc = dz_node_open(&run->node, &o->inside);
        if (rc < 0)
            return dz_run_fail(run, DZ_EXIT_TARGET, "no temporary directory could be made: %s",
                               dz_strerror(rc));
        run->node_ready = true;
    }
    if (!o->command) {
        dz_tree_init(&run->tree, o->pid);
        if (dz_tree_refresh(&run->tree) < 0)
            return dz_run_fail(run, DZ_EXIT_TARGET, "there is no such process%s", "");
        const char *why = NULL;
        if (run->node_ready && o->inside.inspect && dz_node_attach(&run->node, o->pid, &why) < 0 &&
            why)
            dz_print_clean(stderr, "%s: note: no look inside: %s\n", o->tool, why);
        return 0;
    }
    const char *env[8];
    environment(run, env);
    dz_target_options t = {
        .argv = o->command, .env = env, .output = DZ_TARGET_TO_STDERR, .hold = o->hold};
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
        return dz_run_fail(run, DZ_EXIT_TARGET, "%s", what);
    }
    dz_tree_init(&run->tree, run->target.pid);
    run->tree.from_start = true;
    return 0;
}

/* Every wait has an end, which is said: on a machine that is full these take their time. */
static void finish(dz_run *run)
{
    const dz_run_options *o = &run->options;
    if (run->node_ready && run->node.profiling) {
        dz_progress(o->tool, "its profiles are fetched (10 s at most)");
        dz_node_profile_stop(&run->node, PROFILE_MS);
    }
    if (run->node_ready) {
        dz_progress(o->tool, "the inspector is closed (4 s at most)");
        dz_node_detach(&run->node);
    }
    if (o->command) {
        _Static_assert(GRACE_MS + DZ_TARGET_END_MS == 7000, "as is said here and in the docs");
        dz_progress(o->tool, "the program is ended (7 s at most)");
        dz_target_stop(&run->target, SIGTERM, GRACE_MS);
    }
    dz_progress(o->tool, NULL);
}

int dz_run_start(dz_run *run, const dz_run_options *options)
{
    memset(run, 0, sizeof *run);
    run->options = *options;
    catch_signals();
    run->started = dz_now();
    int rc = begin(run);
    bool needed = options->need_port || options->on_port || options->load;
    if (rc == 0 && options->command && needed)
        rc = dz_run_await_port(run);
    else if (rc == 0 && !options->command && dz_run_find_port(run))
        run->listened = dz_now();
    if (rc == 0)
        rc = dz_run_start_load(run);
    if (rc == 0)
        watch(run);
    run->ended = dz_now();
    if (options->on_end)
        options->on_end(options->arg, run);
    finish(run);
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
