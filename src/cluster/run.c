#include "cluster/start.h"
#include "cluster/supervisor.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* dz_run: what a service's main() calls. The library itself never prints, exits or touches signals;
 * this does, because it was asked to run the program. */

static void log_to_stderr(void *context, int level, const char *message)
{
    (void)context;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    /* One write a line, so that threads and processes don't mix. Messages are ours: no escaping. */
    char line[1280];
    int len = snprintf(
        line, sizeof line, "{\"level\":%d,\"time\":%lld,\"pid\":%d,\"msg\":\"%s\"}\n", level,
        (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000, (int)getpid(), message);
    ssize_t n = write(STDERR_FILENO, line, (size_t)len < sizeof line ? (size_t)len : sizeof line);
    (void)n;
}

static void block_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

typedef struct second_signal {
    pthread_t thread;
    sigset_t set;
    _Atomic bool ended; /* we are done without it */
} second_signal;

static void *end_at_second_signal(void *arg)
{
    second_signal *it = arg;
    int signal = SIGHUP;
    while (signal == SIGHUP && !atomic_load(&it->ended))
        sigwait(&it->set, &signal);
    if (!atomic_load(&it->ended))
        _exit(1);
    return NULL;
}

static void wait_for_end(const sigset_t *set)
{
    int signal;
    do
        sigwait(set, &signal);
    while (signal == SIGHUP); /* nothing to reload; the default action would end the service */
}

/* Serves in this process until told to stop. */
static int serve(dz_app *app, const char *program)
{
    dz_core *core = app->core;
    sigset_t set;
    block_signals(&set);
    char text[512];
    unsigned port = 0;
    int rc = dz_start_service(app, &port, text, sizeof text);
    if (rc < 0) {
        fprintf(stderr, "%s: %s\n", program, text);
        return 1;
    }
    if (!core->settings.quiet)
        dz_log_listening(core, port);
    wait_for_end(&set);
    if (!core->settings.quiet)
        dz_core_log(core, 30, "stopping: finishing the requests that run");
    dz_app_stop(app);
    second_signal second = {.set = set};
    bool watched = pthread_create(&second.thread, NULL, end_at_second_signal, &second) == 0;
    rc = dz_app_wait(app);
    if (rc < 0) {
        dz_core_log(core, 50, "handlers still compute after --drain-timeout: ending without them");
        _exit(1); /* their threads use what exit() would free */
    }
    if (watched) {
        atomic_store(&second.ended, true);
        pthread_kill(second.thread, SIGHUP); /* wakes it; SIGHUP is blocked, so nothing else */
        pthread_join(second.thread, NULL);
    }
    if (core->on_stop)
        core->on_stop(app, core->data);
    return 0;
}

int dz_run(dz_app *app, int argc, char **argv)
{
    const char *program = argc > 0 ? argv[0] : "service";
    if (!app) {
        fprintf(stderr, "%s: out of memory\n", program);
        return 1;
    }
    int rc = dz_settings_parse(app, argc, argv);
    if (rc >= 0) {
        dz_app_free(app);
        return rc;
    }
    if (!app->core->on_log)
        dz_on_log(app, log_to_stderr, NULL);
    dz_fault_install();
    if (app->core->settings.rescue_backtrace)
        app->core->backtrace_signal = dz_fault_install_backtrace();
    rc = app->core->settings.processes > 1 ? dz_supervise(app, program) : serve(app, program);
    dz_app_free(app);
    return rc;
}
