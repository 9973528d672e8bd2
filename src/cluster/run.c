#include "cluster/start.h"
#include "cluster/supervisor.h"
#include "ops/admin.h"

#include <donmaz/error.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* dz_run: what a service's main() calls. The library itself never prints, exits or touches signals;
 * this does, because it was asked to run the program. */

enum { LAST_WORDS_MS = 200 }; /* for the log, when the process ends at once */

/* A socket that gets the number of a closed standard stream would be sent what is printed there. */
static void hold_standard_streams(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

static void block_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    sigaddset(set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static bool reopens_log(int signal)
{
    return signal == SIGHUP || signal == SIGUSR1;
}

typedef struct second_signal {
    const dz_core *core;
    pthread_t thread;
    sigset_t set;
    _Atomic bool ended; /* we are done without it */
} second_signal;

static void *end_at_second_signal(void *arg)
{
    second_signal *it = arg;
    int signal = SIGHUP;
    while (reopens_log(signal) && !atomic_load(&it->ended))
        sigwait(&it->set, &signal);
    if (!atomic_load(&it->ended)) {
        dz_core_flush_log(it->core, LAST_WORDS_MS);
        _exit(1);
    }
    return NULL;
}

static void wait_for_end(const dz_core *core, const sigset_t *set)
{
    int signal;
    for (sigwait(set, &signal); reopens_log(signal); sigwait(set, &signal))
        dz_logger_reopen(core->logger);
}

/* Serves in this process until told to stop. */
static int serve(dz_app *app, const char *program)
{
    dz_core *core = app->core;
    sigset_t set;
    block_signals(&set);
    char text[512];
    unsigned port = 0, admin_port = 0;
    bool admin_on = dz_admin_wanted(core);
    int listener = admin_on ? dz_admin_listen(core, &admin_port, text, sizeof text) : -1;
    if (admin_on && listener < 0) {
        fprintf(stderr, "%s: %s\n", program, text);
        return 1;
    }
    int rc = dz_start_service(app, &port, text, sizeof text);
    if (rc < 0) {
        fprintf(stderr, "%s: %s\n", program, text);
        return 1;
    }
    dz_admin *admin = NULL;
    if (admin_on && (rc = dz_admin_start(&admin, app, listener, NULL, NULL)) < 0) {
        fprintf(stderr, "%s: could not start --admin: %s\n", program, dz_strerror(rc));
        dz_core_flush_log(core, LAST_WORDS_MS);
        _exit(1);
    }
    if (admin_on)
        close(listener); /* it has a copy */
    if (!core->settings.quiet)
        dz_log_listening(core, port);
    if (admin && !core->settings.quiet)
        dz_admin_log_listening(core, admin_port);
    wait_for_end(core, &set);
    if (!core->settings.quiet)
        dz_core_log(core, 30, "stopping: finishing the requests that run");
    dz_app_stop(app);
    second_signal second = {.core = core, .set = set};
    bool watched = pthread_create(&second.thread, NULL, end_at_second_signal, &second) == 0;
    rc = dz_app_wait(app);
    if (rc < 0) {
        dz_core_log(core, 50, "handlers still compute after --drain-timeout: ending without them");
        dz_core_flush_log(core, LAST_WORDS_MS);
        _exit(1); /* their threads use what exit() would free */
    }
    if (watched) {
        atomic_store(&second.ended, true);
        pthread_kill(second.thread, SIGHUP); /* wakes it; SIGHUP is blocked, so nothing else */
        pthread_join(second.thread, NULL);
    }
    dz_admin_stop(admin);
    if (core->on_stop)
        core->on_stop(app, core->data);
    return 0;
}

int dz_run(dz_app *app, int argc, char **argv)
{
    const char *program = argc > 0 ? argv[0] : "service";
    hold_standard_streams();
    if (!app) {
        fprintf(stderr, "%s: out of memory\n", program);
        return 1;
    }
    int rc = dz_settings_parse(app, argc, argv);
    if (rc >= 0) {
        dz_app_free(app);
        return rc;
    }
    rc = dz_core_open_log(app->core);
    if (rc < 0) {
        fprintf(stderr, "%s: can't log to %s: %s; see --log and --log-redact\n", program,
                app->core->settings.log, dz_strerror(rc));
        dz_app_free(app);
        return 1;
    }
    dz_fault_install();
    if (app->core->settings.rescue_backtrace)
        app->core->backtrace_signal = dz_fault_install_backtrace();
    rc = app->core->settings.processes > 1 ? dz_supervise(app, program) : serve(app, program);
    dz_app_free(app);
    return rc;
}
