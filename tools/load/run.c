#include "load/run.h"

#include "load/conn.h"
#include "load/usage.h"

#include "base/clock.h"
#include "common/format.h"
#include "common/terminal.h"

#include <donmaz/error.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SAMPLE_MS = 200 };

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    interrupted = 1;
    signal(number, SIG_DFL); /* whoever asks twice means it */
}

void load_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

bool load_was_interrupted(void)
{
    return interrupted != 0;
}

/* A run under way. */
typedef struct runner {
    load_plan *plan;
    const load_cli *cli;
    load_shared shared;
    load_engine **engines;
    pthread_t *threads;
    size_t started, done; /* threads */
    load_watch watch;
    double cpu_before; /* our CPU seconds when counting began */
    bool counting, progress;
    uint64_t last_completed, last_progress;
} runner;

static double own_cpu(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static uint64_t unix_now(void)
{
    return dz_clock(CLOCK_REALTIME);
}

static bool wants_tls(const load_plan *plan)
{
    for (size_t i = 0; i < plan->origin_count; i++)
        if (plan->origins[i].tls)
            return true;
    return false;
}

static int prepare(runner *r)
{
    load_shared *shared = &r->shared;
    char why[256] = "";
    shared->plan = r->plan;
    shared->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (shared->done_fd < 0)
        return dz_fail(DZ_EXIT_USAGE, LOAD_TOOL, "eventfd: %s", dz_strerror(-errno));
    if (wants_tls(r->plan) && load_tls_setup(shared, why, sizeof why) < 0)
        return dz_usage(LOAD_TOOL, "%s", why);
    shared->start = dz_now();
    shared->counting = shared->start + r->plan->warmup;
    shared->end =
        r->plan->duration == UINT64_MAX ? UINT64_MAX : shared->counting + r->plan->duration;
    r->engines = calloc(r->plan->threads, sizeof(load_engine *));
    r->threads = calloc(r->plan->threads, sizeof *r->threads);
    if (!r->engines || !r->threads)
        return dz_fail(DZ_EXIT_USAGE, LOAD_TOOL, "out of memory");
    for (size_t i = 0; i < r->plan->threads; i++)
        if (!(r->engines[i] = load_engine_new(shared, i)))
            return dz_fail(DZ_EXIT_USAGE, LOAD_TOOL, "out of memory for %zu connections",
                           r->plan->connections);
    return DZ_OPTIONS_OK;
}

static int start_threads(runner *r)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old); /* signals belong to the main thread */
    int rc = 0;
    for (; r->engines && r->started < r->plan->threads && rc == 0; r->started += rc == 0)
        rc = pthread_create(&r->threads[r->started], NULL, load_engine_run, r->engines[r->started]);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc == 0)
        return DZ_OPTIONS_OK;
    atomic_store(&r->shared.stop, true);
    return dz_fail(DZ_EXIT_USAGE, LOAD_TOOL, "can't start thread %zu: %s", r->started + 1,
                   dz_strerror(-rc));
}

static void print_progress(runner *r, uint64_t now)
{
    uint64_t completed = 0, errors = 0;
    for (size_t i = 0; i < r->plan->threads; i++) {
        const load_live *live = load_engine_live(r->engines[i]);
        completed += atomic_load_explicit(&live->completed, memory_order_relaxed);
        errors += atomic_load_explicit(&live->errors, memory_order_relaxed);
    }
    double seconds = (double)(now - r->last_progress) / 1e9;
    double rate = r->last_progress > 0 ? (double)(completed - r->last_completed) / seconds : 0;
    uint64_t passed = now - r->shared.start;
    fprintf(stderr, "\r\x1b[K%s%s", dz_format_duration(passed / DZ_SEC * DZ_SEC).text,
            now < r->shared.counting ? " (warm-up)" : "");
    if (r->shared.end != UINT64_MAX)
        fprintf(stderr, " of %s", dz_format_duration(r->shared.end - r->shared.start).text);
    fprintf(stderr, "  %s requests  %s req/s", dz_format_short((double)completed).text,
            dz_format_short(rate).text);
    if (errors > 0)
        fprintf(stderr, "  %s errors", dz_format_short((double)errors).text);
    fflush(stderr);
    r->last_completed = completed;
    r->last_progress = now;
}

/* How long the main thread may sleep: until the next sample, or until counting begins. */
static int pause_ms(const runner *r, uint64_t now)
{
    if (r->counting || r->shared.counting >= now + SAMPLE_MS * DZ_MS)
        return SAMPLE_MS;
    return r->shared.counting > now ? (int)((r->shared.counting - now + DZ_MS - 1) / DZ_MS) : 0;
}

static void look(runner *r)
{
    uint64_t now = dz_now();
    if (!r->counting && now >= r->shared.counting) {
        r->counting = true;
        r->cpu_before = own_cpu();
    }
    load_watch_sample(&r->watch, now, r->shared.counting);
    if (r->progress)
        print_progress(r, now);
    if (interrupted)
        atomic_store(&r->shared.stop, true);
}

static void wait_threads(runner *r)
{
    look(r);
    while (r->done < r->started) {
        struct pollfd done = {.fd = r->shared.done_fd, .events = POLLIN};
        int n = poll(&done, 1, pause_ms(r, dz_now()));
        uint64_t count;
        if (n > 0 && read(r->shared.done_fd, &count, sizeof count) == sizeof count)
            r->done += count;
        if (n <= 0)
            look(r);
    }
    for (size_t i = 0; i < r->started; i++)
        pthread_join(r->threads[i], NULL);
}

/* What to do when nothing answers at the place. */
static const char *advice(int error)
{
    return error == ECONNREFUSED || error == ENOENT
               ? "; start the server first, or have it started: donmaz load /path -- COMMAND"
               : "";
}

static int report_fatal(const runner *r, int error)
{
    const load_origin *origin = &r->plan->origins[atomic_load(&r->shared.fatal_origin)];
    if (origin->unix_path)
        return dz_fail(DZ_EXIT_TARGET, LOAD_TOOL, "can't connect to %s: %s (%s)%s",
                       origin->unix_path, dz_strerror(-error), dz_error_name(-error),
                       advice(error));
    if (error == DZ_E_PROTOCOL)
        return dz_fail(DZ_EXIT_TARGET, LOAD_TOOL, "can't speak TLS with %s port %s: %s",
                       origin->host, origin->port,
                       r->shared.tls_reason[0] ? r->shared.tls_reason : "handshake failed");
    if (error == EMFILE || error == ENFILE)
        return dz_fail(DZ_EXIT_TARGET, LOAD_TOOL, "can't open %zu connections: %s (ulimit -n)",
                       r->plan->connections, dz_strerror(-error));
    return dz_fail(DZ_EXIT_TARGET, LOAD_TOOL, "can't connect to %s port %s: %s (%s)%s",
                   origin->host, origin->port, dz_strerror(-error), dz_error_name(-error),
                   advice(error));
}

/* A run in which an origin was never reached and nothing failed either: it was all waiting. */
static int check_reached(const runner *r)
{
    bool any = false;
    for (size_t i = 0; i < r->plan->origin_count; i++)
        any = any || atomic_load(&r->plan->origins[i].reached);
    if (any || interrupted)
        return DZ_OPTIONS_OK;
    const load_origin *origin = &r->plan->origins[0];
    return dz_fail(DZ_EXIT_TARGET, LOAD_TOOL, "no connection to %s port %s in %s", origin->host,
                   origin->port, dz_format_duration(r->shared.end - r->shared.start).text);
}

static uint64_t counted_time(const runner *r, uint64_t now)
{
    const load_shared *shared = &r->shared;
    uint64_t end = now < shared->end ? now : shared->end;
    bool all_done = !atomic_load(&shared->stop) && end != shared->end;
    uint64_t last = 0;
    for (size_t i = 0; i < r->plan->threads; i++)
        if (load_engine_finished_at(r->engines[i]) > last)
            last = load_engine_finished_at(r->engines[i]);
    /* With a fixed amount the time ends with the last response, not with our tidying up. */
    if (all_done && last > shared->counting)
        end = last;
    return end > shared->counting ? end - shared->counting : 0;
}

static int collect(runner *r, load_result *result, uint64_t now)
{
    result->plan = r->plan;
    result->interval = r->plan->interval;
    result->corrected = r->plan->scheduled && !r->cli->ignore_omission;
    result->duration = counted_time(r, now);
    result->interrupted = interrupted != 0;
    result->bailed_out =
        r->plan->bailout > 0 && atomic_load(&r->shared.failures) >= r->plan->bailout;
    result->client_cpu = r->counting ? own_cpu() - r->cpu_before : 0;
    memcpy(result->tls_reason, r->shared.tls_reason, sizeof result->tls_reason);
    load_watch_stop(&r->watch, now);
    if (load_result_collect(result, r->engines, r->plan->threads) < 0)
        return dz_fail(DZ_EXIT_USAGE, LOAD_TOOL, "out of memory while adding up the results");
    return DZ_OPTIONS_OK;
}

static int execute(runner *r, int pid, load_result *result)
{
    int rc = prepare(r);
    if (rc != DZ_OPTIONS_OK)
        return rc;
    if (pid > 0 && load_watch_start(&r->watch, &result->target, pid) < 0)
        return dz_fail(DZ_EXIT_TARGET, LOAD_TOOL, "there is no process %d to sample", pid);
    r->watch.usage = &result->target;
    result->started = unix_now();
    rc = start_threads(r);
    wait_threads(r);
    uint64_t now = dz_now();
    result->finished = unix_now();
    if (r->progress)
        fputs("\r\x1b[K", stderr);
    int fatal = atomic_load(&r->shared.fatal);
    if (rc == DZ_OPTIONS_OK && fatal != 0)
        rc = report_fatal(r, fatal);
    if (rc == DZ_OPTIONS_OK)
        rc = check_reached(r);
    if (rc == DZ_OPTIONS_OK)
        rc = collect(r, result, now);
    return rc;
}

int load_run(load_plan *plan, const load_cli *cli, int pid, load_result *result)
{
    runner r = {.plan = plan, .cli = cli};
    r.progress = !cli->no_table && !cli->json && dz_is_terminal(stderr);
    r.watch.usage = &result->target;
    int rc = execute(&r, pid, result);
    for (size_t i = 0; r.engines && i < plan->threads; i++)
        load_engine_free(r.engines[i]);
    free(r.engines);
    free(r.threads);
    dz_tree_close(&r.watch.tree);
    load_tls_free(&r.shared);
    if (r.shared.done_fd >= 0)
        close(r.shared.done_fd);
    return rc;
}
