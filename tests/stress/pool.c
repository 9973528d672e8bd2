/* Tasks of all kinds through a pool, by the million, while clients leave, cancels fire and worker
 * processes are killed at any instruction. Each task must end exactly once and run at most once,
 * each byte that comes back must be right, and nothing may be left over.
 *   test-stress-pool [--isolation threads|processes] [--tasks N] [--seed N] [--kill-every US] */
#include "base/clock.h"
#include "loop/runtime.h"
#include "pool/process.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 3, FIBERS = 48, LARGE = 200 << 10, TASKS_MOST = 100000000 };

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "stress-pool: %s:%d: %s\n", __FILE__, __LINE__, #condition);           \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static uint64_t task_count = 20000, seed = 1, kill_every_us = 2000;
static dz_isolation isolation = DZ_THREADS;
static dz_pool *pool;
static dz_runtime *runtime;

/* By task, in memory that worker processes see. */
static _Atomic uint8_t *runs; /* how often its function began */
static uint8_t *ends;         /* how often its caller was told; one loop writes */
static _Atomic uint64_t next_task;
static _Atomic unsigned fibers_left;
static _Atomic bool stop_others;
static _Atomic uint64_t kills, leaves;
enum { FINE, FAILED, CANCELLED, TIMED_OUT, EXPIRED, CRASHED, REFUSED, RESULTS };
static uint64_t by_result[RESULTS];

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* --- the task: what it does follows from its number --- */

typedef struct order {
    uint64_t number;
    uint64_t dice;
} order;

static size_t length_of(uint64_t dice)
{
    return dice % 64 == 0 ? LARGE : sizeof(order) + dice % 4000;
}

static int work(dz_task *task, dz_buf *in, dz_buf *out)
{
    order it;
    memcpy(&it, in->data, sizeof it);
    atomic_fetch_add(&runs[it.number], 1);
    if (it.dice % 50 == 7) /* until somebody ends it */
        while (!dz_task_cancelled(task))
            sched_yield();
    for (unsigned i = 0; i < it.dice % 3; i++)
        (void)dz_task_post(task, dz_slice_make(in->data, sizeof it));
    if (it.dice % 29 == 3)
        return DZ_E_FORMAT;
    if (it.dice % 5 == 0)
        return dz_buf_transfer(out, in); /* the same memory back */
    return dz_buf_copy(out, dz_buf_slice(in));
}

/* --- the callers --- */

typedef struct client {
    dz_fiber *fiber;
    _Atomic bool gone;

    dz_timer leave;
    uint64_t random;
} client;

static client clients[FIBERS];
static dz_cancel *cancel_now; /* fired from another thread again and again */
static pthread_mutex_t cancel_lock = PTHREAD_MUTEX_INITIALIZER;

static void check_output(const order *it, const dz_buf *out, int rc)
{
    if (rc < 0)
        return;
    REQUIRE(out->len == length_of(it->dice));
    REQUIRE(memcmp(out->data, it, sizeof *it) == 0);
    for (size_t i = sizeof *it; i < out->len; i += 61)
        REQUIRE(out->data[i] == (char)(it->dice + i));
}

static void note_end(const order *it, int rc)
{
    ends[it->number]++;
    int kind = rc >= 0                 ? FINE
               : rc == DZ_E_CANCELLED  ? CANCELLED
               : rc == DZ_E_TIMEOUT    ? TIMED_OUT
               : rc == DZ_E_EXPIRED    ? EXPIRED
               : rc == DZ_E_CRASHED    ? CRASHED
               : rc == DZ_E_QUEUE_FULL ? REFUSED
               : rc == DZ_E_FORMAT     ? FAILED
                                       : -1;
    if (kind < 0)
        fprintf(stderr, "stress-pool: task %" PRIu64 ": %s\n", it->number, dz_strerror(rc));
    REQUIRE(kind >= 0);
    by_result[kind]++;
    if (rc == DZ_E_FORMAT)
        REQUIRE(it->dice % 29 == 3);
}

static void make_input(const order *it, dz_buf *in)
{
    size_t len = length_of(it->dice);
    int rc = it->dice & 1024 ? dz_buf_alloc_shared(in, len) : dz_buf_alloc(in, len);
    REQUIRE(rc == 0);
    memcpy(in->data, it, sizeof *it);
    for (size_t i = sizeof *it; i < len; i++)
        in->data[i] = (char)(it->dice + i);
    in->len = len;
}

/* Reads some messages, cancels perhaps. */
static int start_and_finish(const order *it, dz_buf *in, dz_buf *out, uint64_t random)
{
    bool endless = it->dice % 50 == 7;
    dz_work_options options = {.priority = (dz_priority)(random % 3),
                               .max_messages = 2,
                               .coalesce = random & 8,
                               .run_limit_ns = random & 16 || endless ? 3 * DZ_MS : 0,
                               .queue_timeout_ns = random & 32 ? DZ_MS : 0};
    dz_cancel *own = random & 64 ? dz_cancel_new() : NULL;
    options.cancel = own;
    dz_work *started;
    int rc = dz_pool_start(pool, "work", in, &options, &started);
    if (rc < 0) {
        dz_cancel_free(own);
        return rc;
    }
    dz_buf message;
    if (own && random & 128) {
        pthread_mutex_lock(&cancel_lock); /* the other thread fires it, now or after us */
        if (!cancel_now)
            cancel_now = own;
        pthread_mutex_unlock(&cancel_lock);
    } else if (random & 256) {
        dz_work_cancel(started);
    }
    for (unsigned i = 0; i < random % 3 && dz_work_next(started, &message) > 0; i++) {
        REQUIRE(message.len == sizeof *it && memcmp(message.data, it, sizeof *it) == 0);
        dz_buf_release(&message);
    }
    rc = dz_work_finish(started, out);
    pthread_mutex_lock(&cancel_lock);
    if (cancel_now == own)
        cancel_now = NULL;
    pthread_mutex_unlock(&cancel_lock);
    dz_cancel_free(own);
    return rc;
}

static void run_client(dz_fiber *fiber)
{
    client *self = fiber->owner;
    while (!atomic_load(&self->gone)) {
        order it = {.number = atomic_fetch_add(&next_task, 1)};
        if (it.number >= task_count)
            return;
        it.dice = mix(seed ^ mix(it.number));
        self->random = mix(self->random);
        dz_buf in, out;
        make_input(&it, &in);
        bool endless = it.dice % 50 == 7;
        int rc = endless || self->random & 512
                     ? start_and_finish(&it, &in, &out, self->random >> 10)
                     : dz_pool_run(pool, "work", &in, &out);
        check_output(&it, &out, rc);
        note_end(&it, rc);
        if (rc == DZ_E_QUEUE_FULL)
            (void)dz_fiber_sleep(dz_now() + DZ_MS); /* as a client that retries later */
        dz_buf_release(&out);
        dz_buf_release(&in);
    }
}

static void begin_client(dz_loop *loop, client *self);

/* The client goes away in the middle of whatever it waits for. */
static void on_leave(dz_loop *loop, dz_timer *timer)
{
    (void)loop;
    client *self = DZ_CONTAINER(timer, client, leave);
    atomic_store(&self->gone, true);
    atomic_fetch_add(&leaves, 1);
    if (self->fiber->abandoned)
        self->fiber->abandoned(self->fiber);
}

static void client_done(dz_loop *loop, dz_fiber *fiber)
{
    client *self = fiber->owner;
    dz_timer_stop(loop, &self->leave);
    dz_timer_unreserve(loop);
    dz_fiber_free(fiber);
    if (atomic_load(&next_task) < task_count)
        begin_client(loop, self); /* somebody else comes in its place */
    else
        atomic_fetch_sub(&fibers_left, 1);
}

static void begin_client(dz_loop *loop, client *self)
{
    self->random = mix(self->random + 1);
    atomic_store(&self->gone, false);
    REQUIRE(dz_timer_reserve(loop) == 0);
    dz_timer_init(&self->leave, on_leave);
    dz_timer_start(loop, &self->leave, dz_now() + (1 + self->random % 40) * DZ_MS);
    self->fiber = dz_fiber_new(loop);
    REQUIRE(self->fiber);
    self->fiber->entry = run_client;
    self->fiber->done = client_done;
    self->fiber->owner = self;
    self->fiber->gone = &self->gone;
    self->fiber->label = "stress";
    dz_fiber_ready(self->fiber);
}

static void begin_all(dz_loop *loop, dz_msg *msg)
{
    (void)msg;
    for (size_t i = 0; i < FIBERS; i++) {
        clients[i].random = mix(seed + i);
        begin_client(loop, &clients[i]);
    }
}

static void stop_loop(dz_loop *loop, dz_msg *msg)
{
    (void)msg;
    dz_loop_stop(loop);
}

/* --- others who interfere --- */

static void *fire_cancels(void *arg)
{
    while (!atomic_load(&stop_others)) {
        pthread_mutex_lock(&cancel_lock); /* held, so that it is not freed meanwhile */
        if (cancel_now)
            dz_cancel_fire(cancel_now);
        pthread_mutex_unlock(&cancel_lock);
        nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
    }
    return arg;
}

static size_t read_numbers(const char *path, pid_t *list, size_t cap)
{
    char text[1024];
    FILE *file = fopen(path, "re");
    size_t len = file ? fread(text, 1, sizeof text - 1, file) : 0, count = 0;
    if (file)
        (void)fclose(file);
    text[len] = '\0';
    for (char *at = text, *end; count < cap; at = end) {
        long number = strtol(at, &end, 10);
        if (end == at)
            break;
        list[count++] = (pid_t)number;
    }
    return count;
}

static pid_t parent_of(pid_t pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    size_t len = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        (void)fclose(file);
    text[len] = '\0';
    char *end = strrchr(text, ')');
    return end && strlen(end) > 4 ? (pid_t)strtol(end + 4, NULL, 10) : -1;
}

/* Kills a process whatever it is doing, if `parent` made it. Its number can't be another's: the
 * descriptor is taken first, then it is looked whose child it is. */
static bool kill_child(pid_t parent, pid_t victim)
{
    int fd = (int)syscall(SYS_pidfd_open, victim, 0);
    if (fd < 0)
        return false;
    bool killed =
        parent_of(victim) == parent && syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0;
    close(fd);
    return killed;
}

static pid_t child_of(pid_t parent, uint64_t random)
{
    char path[64];
    pid_t children[16];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", parent, parent);
    size_t count = read_numbers(path, children, 16);
    return count > 0 ? children[random % count] : 0;
}

/* Mostly a worker or a spare zygote; now and then the zygote that the workers are made by. */
static bool kill_one(uint64_t random)
{
    pid_t self = getpid(), zygote = child_of(self, random >> 8);
    if (zygote <= 0)
        return false;
    if (random % 32 == 0)
        return kill_child(self, zygote);
    pid_t victim = child_of(zygote, random >> 16);
    return victim > 0 && kill_child(zygote, victim);
}

/* What a killed zygote leaves behind becomes a child of this process. */
static void *kill_workers(void *arg)
{
    uint64_t random = seed;
    while (!atomic_load(&stop_others)) {
        random = mix(random);
        uint64_t ns = random % (2 * kill_every_us) * 1000;
        nanosleep(
            &(struct timespec){.tv_sec = (time_t)(ns / DZ_SEC), .tv_nsec = (long)(ns % DZ_SEC)},
            NULL);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        atomic_fetch_add(&kills, kill_one(random >> 32));
    }
    return arg;
}

/* --- nothing is left over --- */

static size_t open_descriptors(void)
{
    size_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    REQUIRE(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static size_t shared_mappings(void)
{
    char line[1024];
    size_t count = 0;
    FILE *file = fopen("/proc/self/maps", "re");
    REQUIRE(file);
    while (fgets(line, sizeof line, file))
        count += strstr(line, "memfd:donmaz") != NULL;
    (void)fclose(file);
    return count;
}

static void check_ends(const dz_pool_stats *stats)
{
    uint64_t never_ran = 0;
    for (uint64_t i = 0; i < task_count; i++) {
        REQUIRE(ends[i] == 1);
        REQUIRE(atomic_load(&runs[i]) <= 1);
        never_ran += atomic_load(&runs[i]) == 0;
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < RESULTS; i++)
        sum += by_result[i];
    REQUIRE(sum == task_count);
    REQUIRE(stats->completed == by_result[FINE] && stats->failed == by_result[FAILED]);
    REQUIRE(stats->cancelled == by_result[CANCELLED] && stats->timed_out == by_result[TIMED_OUT]);
    REQUIRE(stats->expired == by_result[EXPIRED]);
    REQUIRE(stats->crashed == by_result[CRASHED] && stats->refused == by_result[REFUSED]);
    REQUIRE(never_ran <= by_result[CANCELLED] + by_result[TIMED_OUT] + by_result[EXPIRED] +
                             by_result[CRASHED] + by_result[REFUSED]);
    /* How many of each is the machine's affair: cancels and kills come by the clock. */
    REQUIRE(by_result[FINE] > 0 && by_result[CANCELLED] > 0);
    REQUIRE(by_result[CRASHED] <= WORKERS * atomic_load(&kills)); /* by a zygote, all of them */
}

static void stress(void)
{
    REQUIRE(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    size_t before = open_descriptors();
    dz_pool_options options;
    dz_pool_options_init(&options);
    options.isolation = isolation;
    options.max_workers = WORKERS;
    options.max_queue = 44; /* a little less than may come at once */
    options.idle_timeout_ns = 5 * DZ_MS;
    options.recycle_tasks = 5000;
    runs = dz_shared_new(task_count);
    ends = calloc(task_count, 1);
    pool = dz_pool_new(&options);
    REQUIRE(runs && ends && pool && dz_pool_add_task(pool, "work", work) == 0);
    int error;
    const dz_runtime_options loops = {.loops = 1, .stack_size = 256 << 10};
    runtime = dz_runtime_new(&loops, &error);
    REQUIRE(runtime && dz_runtime_start(runtime) == 0);
    pthread_t canceller, killer;
    REQUIRE(pthread_create(&canceller, NULL, fire_cancels, NULL) == 0);
    bool kill_them = isolation == DZ_PROCESSES && kill_every_us > 0;
    REQUIRE(!kill_them || pthread_create(&killer, NULL, kill_workers, NULL) == 0);
    dz_msg begin = {.fn = begin_all}, end = {.fn = stop_loop};
    atomic_store(&fibers_left, FIBERS);
    dz_loop_post(&runtime->loops[0], &begin);
    while (atomic_load(&fibers_left) > 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    atomic_store(&stop_others, true);
    pthread_join(canceller, NULL);
    if (kill_them)
        pthread_join(killer, NULL);
    dz_pool_stats stats;
    dz_pool_get_stats(pool, &stats);
    dz_pool_free(pool);
    dz_loop_post(&runtime->loops[0], &end);
    REQUIRE(dz_runtime_join(runtime, dz_now() + 60 * DZ_SEC) == 0);
    dz_runtime_free(runtime);
    check_ends(&stats);
    REQUIRE(open_descriptors() == before);
    REQUIRE(shared_mappings() == 0);
    dz_shared_free((void *)(uintptr_t)runs, task_count);
    free(ends);
}

static bool read_number(const char *text, uint64_t *value)
{
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return errno == 0 && text[0] >= '0' && text[0] <= '9' && *end == '\0';
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"isolation", required_argument, NULL, 'i'},
                                            {"tasks", required_argument, NULL, 't'},
                                            {"seed", required_argument, NULL, 's'},
                                            {"kill-every", required_argument, NULL, 'k'},
                                            {NULL, 0, NULL, 0}};
    bool ok = true;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'i')
            isolation = strcmp(optarg, "processes") == 0 ? DZ_PROCESSES : DZ_THREADS;
        else if (c == '?')
            ok = false;
        else
            ok = ok && read_number(optarg, c == 't'   ? &task_count
                                           : c == 's' ? &seed
                                                      : &kill_every_us);
    }
    if (!ok || optind != argc || task_count < 1000 || task_count > TASKS_MOST) {
        fputs("usage: test-stress-pool [--isolation threads|processes] [--tasks N] [--seed N] "
              "[--kill-every MICROSECONDS]\n",
              stderr);
        return 2;
    }
    uint64_t start = dz_now();
    stress();
    printf("%s, seed %" PRIu64 ": %" PRIu64 " tasks in %.1f s, each ended once: %" PRIu64
           " fine, %" PRIu64 " failed, %" PRIu64 " cancelled, %" PRIu64 " timed out, %" PRIu64
           " expired, %" PRIu64 " crashed, %" PRIu64 " refused; %" PRIu64 " clients left, %" PRIu64
           " processes killed\n",
           isolation == DZ_PROCESSES ? "processes" : "threads", seed, task_count,
           (double)(dz_now() - start) / 1e9, by_result[FINE], by_result[FAILED],
           by_result[CANCELLED], by_result[TIMED_OUT], by_result[EXPIRED], by_result[CRASHED],
           by_result[REFUSED], atomic_load(&leaves), atomic_load(&kills));
    return 0;
}
