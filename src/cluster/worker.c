#include "cluster/worker.h"

#include "cluster/channel.h"
#include "cluster/start.h"
#include "ops/admin.h"

#include <donmaz/error.h>

#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* A worker ends for one of three reasons, and drains in each of them: the supervisor closes its
 * channel; the supervisor dies, which closes the channel too; or someone sends SIGTERM. An init
 * system may send SIGTERM to all processes of the service at once, so after the first reason the
 * others mean nothing. SIGINT and SIGHUP are the supervisor's business: a terminal sends them to
 * everyone. SIGUSR1, which the supervisor passes on, opens the log file anew. Ending at once is
 * SIGKILL, which the supervisor sends. */

enum {
    LEAVE_MS = 1000,     /* for a supervisor to notice that we leave */
    LAST_WORDS_MS = 200, /* for the log, when the process ends at once */
};

/* The parent's death must end a worker that is still in on_start, where nothing drains yet; later
 * it is an order to drain. Changing user or group in on_start clears the request, the end of the
 * channel does not depend on it. */
static void end_with_parent(int signal)
{
    prctl(PR_SET_PDEATHSIG, signal);
}

static void set_name(const dz_birth *birth)
{
    char name[16], mine[16];
    if (prctl(PR_GET_NAME, name) < 0)
        return;
    int suffix = snprintf(mine, sizeof mine, "-w%u", birth->number);
    snprintf(mine, sizeof mine, "%.*s-w%u", (int)sizeof mine - 1 - suffix, name, birth->number);
    prctl(PR_SET_NAME, mine);
}

static unsigned count_descriptors(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        return 64;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* A socket that arrives when no descriptor is free is lost, so the supervisor must not send more
 * than there is room for; some are left to the handlers. */
static uint32_t count_room(const dz_core *core)
{
    uint64_t most = core->settings.connections_max;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
        return (uint32_t)most;
    uint64_t all = limit.rlim_cur, used = count_descriptors() + 8 + all / 16;
    uint64_t room = all > used ? all - used : 1;
    return (uint32_t)(room < most ? room : most);
}

static int open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR1);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* True: told to end. */
static bool read_signals(const dz_core *core, int signals)
{
    struct signalfd_siginfo info;
    bool end = false;
    while (read(signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGUSR1)
            dz_logger_reopen(core->logger);
        else
            end = true;
    }
    return end;
}

static void wait_for_end(const dz_core *core, int channel, int signals)
{
    /* Not POLLIN: what comes down is read by the first loop. */
    struct pollfd from[2] = {{.fd = channel, .events = POLLRDHUP},
                             {.fd = signals, .events = POLLIN}};
    for (bool told = false; !told;) {
        if (poll(from, 2, -1) < 0)
            continue;
        if (from[0].revents)
            return;
        told = read_signals(core, signals);
    }
    /* Connections on their way here must not be lost: ask for the end of the channel. */
    dz_channel_say(channel, DZ_SAYS_LEAVING, NULL);
    uint64_t until = dz_now() + LEAVE_MS * DZ_MS;
    for (uint64_t now; (now = dz_now()) < until;)
        if (poll(from, 1, (int)((until - now) / DZ_MS) + 1) > 0)
            return;
}

/* What of /metrics is this worker's part. */
typedef struct ops {
    dz_peer *peer;
    dz_admin *admin;
} ops;

static int start_ops(ops *it, dz_app *app, const dz_birth *birth)
{
    *it = (ops){0};
    if (birth->admin_fd < 0)
        return 0;
    int rc = dz_peer_start(&it->peer, birth->peers, birth->number, app->core);
    return rc < 0 ? rc
                  : dz_admin_start(&it->admin, app, birth->admin_fd, dz_peer_write_all, it->peer);
}

/* At the beginning of the end: another worker answers from here on, also for this place. */
static void stop_ops(ops *it)
{
    dz_admin_stop(it->admin);
    dz_peer_stop(it->peer);
}

static int drain(dz_app *app)
{
    dz_core *core = app->core;
    dz_app_stop(app);
    if (dz_app_wait(app) < 0) {
        dz_core_log(core, 50, "handlers still compute after --drain-timeout: ending without them");
        dz_core_flush_log(core, LAST_WORDS_MS);
        _exit(1); /* their threads use what exit() would free */
    }
    if (core->on_stop)
        core->on_stop(app, core->data);
    return 0;
}

int dz_worker_run(dz_app *app, const dz_birth *birth)
{
    dz_core *core = app->core;
    end_with_parent(SIGKILL);
    if (getppid() != birth->supervisor)
        return 1; /* it died before the call above */
    set_name(birth);
    core->adopt_fd = birth->channel;
    core->given_back = &birth->share->given_back;
    char text[DZ_CHANNEL_TEXT - 1];
    unsigned port;
    int signals = open_signals();
    if (signals < 0 || dz_start_service(app, &port, text, sizeof text) < 0) {
        dz_channel_say(birth->channel, DZ_SAYS_FAILED, signals < 0 ? "could not start" : text);
        return 1;
    }
    ops mine;
    int rc = start_ops(&mine, app, birth);
    if (rc < 0) {
        snprintf(text, sizeof text, "could not start --admin: %s", dz_strerror(rc));
        dz_channel_say(birth->channel, DZ_SAYS_FAILED, text);
        dz_core_flush_log(core, LAST_WORDS_MS);
        _exit(1); /* the loops run already */
    }
    end_with_parent(SIGTERM);
    atomic_store(&birth->share->room, count_room(core));
    dz_channel_say(birth->channel, DZ_SAYS_READY, NULL);
    wait_for_end(core, birth->channel, signals);
    close(signals);
    stop_ops(&mine);
    return drain(app);
}
