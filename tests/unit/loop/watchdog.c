/* Rescue: when a loop is taken from its thread, when not, and what becomes of the thread. */
#include "create.h"
#include "rig.h"

#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* --- clocks that stand still: a thread that is ready but gets no core --- */

static _Atomic bool no_cpu_for_anyone;

int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);

int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    if (clock < 0 && atomic_load(&no_cpu_for_anyone)) { /* another thread's CPU time */
        *out = (struct timespec){0};
        return 0;
    }
    return __real_clock_gettime(clock, out);
}

/* --- helpers --- */

static dz_runtime_options usual(void)
{
    return (dz_runtime_options){
        .loops = 1, .rescue_after_ns = 2 * DZ_MS, .rescue_max = 8, .demote_after_ns = 10 * DZ_SEC};
}

static const dz_loop_stats *stats(const dz_runtime *runtime)
{
    return &runtime->loops[0].stats;
}

static _Atomic bool let_go, nap_over;
static _Atomic int computing;
static _Atomic bool was_rescued;
static _Atomic uint64_t wall_ns;

static void compute_until_let_go(dz_fiber *fiber)
{
    (void)fiber;
    atomic_fetch_add(&computing, 1);
    while (!atomic_load(&let_go))
        ;
    atomic_fetch_sub(&computing, 1);
}

static void let_it_go(dz_loop *loop, void *arg)
{
    (void)loop, (void)arg;
    atomic_store(&let_go, true);
}

static void nothing(dz_loop *loop, void *arg)
{
    (void)loop, (void)arg;
}

static void note_rescue(dz_loop *loop, dz_fiber *fiber)
{
    atomic_store(&was_rescued, fiber->rescued);
    atomic_store(&wall_ns, fiber->wall_ns);
    rig_done(loop, fiber);
}

/* Starts a fiber from a timer: nothing else, such as the wake-up for a message, is on its way to
 * the loop then. */
typedef struct timed {
    dz_timer timer;
    rig_fiber fiber;
    _Atomic bool posted; /* who set the timer has done waking the loop */
    int quiet_ticks;
} timed;

static void start_it(dz_loop *loop, timed *it)
{
    dz_fiber *fiber = dz_fiber_new(loop);
    assert_non_null(fiber);
    fiber->entry = it->fiber.entry;
    fiber->done = note_rescue;
    fiber->owner = &it->fiber.done;
    dz_fiber_ready(fiber);
}

static void on_time(dz_loop *loop, dz_timer *timer)
{
    timed *it = DZ_CONTAINER(timer, timed, timer);
    /* A wake-up that came late is read in the tick after. */
    if (!atomic_load(&it->posted) || it->quiet_ticks++ < 2) {
        dz_timer_start(loop, timer, dz_now() + DZ_MS);
        return;
    }
    dz_timer_unreserve(loop);
    start_it(loop, it);
}

static void set_time(dz_loop *loop, void *arg)
{
    timed *it = arg;
    assert_int_equal(dz_timer_reserve(loop), 0);
    dz_timer_init(&it->timer, on_time);
    dz_timer_start(loop, &it->timer, dz_now() + DZ_MS);
}

static void start_quietly(dz_runtime *runtime, timed *it, dz_fiber_fn *entry)
{
    *it = (timed){.fiber.entry = entry};
    atomic_store(&let_go, false);
    atomic_store(&was_rescued, false);
    rig_call_on(&runtime->loops[0], set_time, it);
    atomic_store(&it->posted, true);
}

/* --- when --- */

static void a_computing_handler_loses_the_loop_when_something_waits(void **state)
{
    (void)state;
    dz_runtime *runtime = rig_new(usual());
    for (uint64_t i = 1; i <= 20; i++) {
        timed it;
        start_quietly(runtime, &it, compute_until_let_go);
        wait_until(atomic_load(&computing) == 1);
        /* Only the loop lets the handler go, and the handler's thread is the loop's. */
        rig_call_on(&runtime->loops[0], let_it_go, NULL);
        wait_until(atomic_load(&it.fiber.done) == 1);
        assert_true(atomic_load(&was_rescued));
        assert_int_equal(atomic_load(&stats(runtime)->rescues), i);
    }
    rig_free(runtime);
}

static void compute_60_ms(dz_fiber *fiber)
{
    (void)fiber;
    uint64_t until = dz_thread_cpu() + 60 * DZ_MS;
    while (dz_thread_cpu() < until)
        ;
}

static void a_computing_handler_keeps_the_loop_when_nothing_waits(void **state)
{
    (void)state;
    dz_runtime *runtime = rig_new(usual());
    timed it;
    start_quietly(runtime, &it, compute_60_ms);
    wait_until(atomic_load(&it.fiber.done) == 1);
    assert_false(atomic_load(&was_rescued));
    assert_int_equal(atomic_load(&stats(runtime)->rescues), 0);
    assert_true(dz_histogram_count(stats(runtime)->stalls) >= 1);
    assert_true(dz_histogram_max(stats(runtime)->stalls) >= 60 * DZ_MS);
    rig_free(runtime);
}

static void without_rescue_after_nobody_watches(void **state)
{
    (void)state;
    dz_runtime_options options = usual();
    options.rescue_after_ns = 0;
    dz_runtime *runtime = rig_new(options);
    assert_false(runtime->has_watchdog);
    timed it;
    start_quietly(runtime, &it, compute_60_ms);
    rig_call_on(&runtime->loops[0], nothing, NULL); /* waits with the handler */
    wait_until(atomic_load(&it.fiber.done) == 1);
    assert_false(atomic_load(&was_rescued));
    assert_int_equal(atomic_load(&stats(runtime)->rescues), 0);
    rig_free(runtime);
}

static int pipe_ends[2];

static void read_pipe(dz_fiber *fiber)
{
    (void)fiber;
    char byte;
    atomic_fetch_add(&computing, 1);
    assert_int_equal(read(pipe_ends[0], &byte, 1), 1);
    atomic_fetch_sub(&computing, 1);
}

static void write_pipe(dz_loop *loop, void *arg)
{
    (void)loop, (void)arg;
    assert_int_equal(write(pipe_ends[1], "x", 1), 1);
}

static void a_handler_blocked_in_a_system_call_loses_the_loop_too(void **state)
{
    (void)state;
    assert_int_equal(pipe(pipe_ends), 0);
    dz_runtime *runtime = rig_new(usual());
    timed it;
    start_quietly(runtime, &it, read_pipe);
    wait_until(atomic_load(&computing) == 1);
    rig_call_on(&runtime->loops[0], write_pipe, NULL);
    wait_until(atomic_load(&it.fiber.done) == 1);
    assert_true(atomic_load(&was_rescued));
    rig_free(runtime);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}

static void a_long_rescue_after_is_kept_although_the_watchdog_parks_early(void **state)
{
    (void)state;
    dz_runtime_options options = usual();
    options.rescue_after_ns = 500 * DZ_MS;
    dz_runtime *runtime = rig_new(options);
    timed it;
    start_quietly(runtime, &it, compute_until_let_go);
    wait_until(atomic_load(&computing) == 1);
    rig_call_on(&runtime->loops[0], let_it_go, NULL);
    wait_until(atomic_load(&it.fiber.done) == 1);
    assert_true(atomic_load(&was_rescued));
    assert_true(atomic_load(&wall_ns) >= options.rescue_after_ns);
    rig_free(runtime);
}

static void set_time_late(dz_loop *loop, void *arg)
{
    timed *it = arg;
    usleep(300000);     /* as if the thread got no core: in mid-tick, but in no handler */
    start_it(loop, it); /* its handler runs in this same tick */
}

static void a_tick_that_takes_long_before_its_handlers_does_not_hide_them(void **state)
{
    (void)state;
    dz_runtime *runtime = rig_new(usual());
    timed it = {.fiber.entry = compute_until_let_go};
    atomic_store(&let_go, false);
    rig_call_on(&runtime->loops[0], set_time_late, &it);
    wait_until(atomic_load(&computing) == 1);
    rig_call_on(&runtime->loops[0], let_it_go, NULL);
    wait_until(atomic_load(&it.fiber.done) == 1);
    assert_true(atomic_load(&was_rescued));
    rig_free(runtime);
}

static void a_thread_that_only_waits_for_a_core_keeps_the_loop_for_longer(void **state)
{
    (void)state;
    enum { LIMIT_MS = 20, PATIENCE = 8 };
    dz_runtime_options options = usual();
    options.rescue_after_ns = LIMIT_MS * DZ_MS;
    dz_runtime *runtime = rig_new(options);
    atomic_store(&no_cpu_for_anyone, true);
    timed it;
    start_quietly(runtime, &it, compute_until_let_go);
    wait_until(atomic_load(&computing) == 1);
    rig_call_on(&runtime->loops[0], let_it_go, NULL);
    wait_until(atomic_load(&it.fiber.done) == 1);
    atomic_store(&no_cpu_for_anyone, false);
    /* In the end it loses the loop all the same, but not a moment before its time. */
    assert_true(atomic_load(&was_rescued));
    assert_true(atomic_load(&wall_ns) >= (uint64_t)LIMIT_MS * PATIENCE * DZ_MS);
    rig_free(runtime);
}

/* --- how many --- */

static void at_the_cap_a_handler_is_left_where_it_is_and_counted_once(void **state)
{
    (void)state;
    dz_runtime_options options = usual();
    options.rescue_max = 1;
    dz_runtime *runtime = rig_new(options);
    atomic_store(&let_go, false);
    rig_fiber fibers[2] = {0};
    rig_start(&runtime->loops[0], &fibers[0], compute_until_let_go);
    wait_until(atomic_load(&computing) == 1);
    rig_start(&runtime->loops[0], &fibers[1], compute_until_let_go);
    wait_until(atomic_load(&computing) == 2);
    rig_call waits = {.msg.fn = rig_on_call, .fn = nothing};
    sem_init(&waits.done, 0, 0);
    dz_loop_post(&runtime->loops[0], &waits.msg);
    wait_until(atomic_load(&stats(runtime)->rescues_capped) == 1);
    usleep(20000); /* many more looks at the same stall */
    assert_int_equal(atomic_load(&stats(runtime)->rescues_capped), 1);
    assert_int_equal(atomic_load(&stats(runtime)->rescues), 1);
    assert_int_equal(sem_trywait(&waits.done), -1);
    atomic_store(&let_go, true);
    while (sem_wait(&waits.done) < 0)
        ;
    wait_until(atomic_load(&fibers[0].done) + atomic_load(&fibers[1].done) == 2);
    sem_destroy(&waits.done);
    rig_free(runtime);
}

static void without_a_thread_the_stall_is_counted_and_rescue_works_again_later(void **state)
{
    (void)state;
    dz_runtime *runtime = rig_new(usual());
    atomic_store(&threads_left, 0);
    atomic_store(&let_go, false);
    rig_fiber fibers[2] = {0};
    /* The first takes the one thread that stands by; none can be started after. */
    rig_start(&runtime->loops[0], &fibers[0], compute_until_let_go);
    rig_start(&runtime->loops[0], &fibers[1], compute_until_let_go);
    wait_until(atomic_load(&computing) == 2);
    rig_call waits = {.msg.fn = rig_on_call, .fn = nothing};
    sem_init(&waits.done, 0, 0);
    dz_loop_post(&runtime->loops[0], &waits.msg);
    wait_until(atomic_load(&stats(runtime)->rescues_failed) == 1);
    assert_int_equal(atomic_load(&stats(runtime)->rescues), 1);
    atomic_store(&threads_left, -1); /* threads can be had again: the same stall is resolved */
    while (sem_wait(&waits.done) < 0)
        ;
    assert_int_equal(atomic_load(&stats(runtime)->rescues), 2);
    atomic_store(&let_go, true);
    wait_until(atomic_load(&fibers[0].done) + atomic_load(&fibers[1].done) == 2);
    sem_destroy(&waits.done);
    rig_free(runtime);
}

/* --- priority --- */

static _Atomic int nice_seen;
static _Atomic pid_t demoted_thread;
static int base_nice;

static void compute_until_demoted(dz_fiber *fiber)
{
    (void)fiber;
    atomic_fetch_add(&computing, 1);
    uint64_t deadline = dz_now() + WAIT_SECONDS * DZ_SEC;
    id_t id = (id_t)gettid();
    while (getpriority(PRIO_PROCESS, id) == base_nice && dz_now() < deadline)
        ;
    atomic_store(&nice_seen, getpriority(PRIO_PROCESS, id));
    atomic_store(&demoted_thread, (pid_t)id);
    atomic_fetch_sub(&computing, 1);
}

static bool every_thread_has_base_nice(void)
{
    DIR *folder = opendir("/proc/self/task");
    assert_non_null(folder);
    bool all = true;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        errno = 0;
        int nice = getpriority(PRIO_PROCESS, (id_t)atoi(entry->d_name));
        all &= nice == base_nice || errno == ESRCH; /* it has ended meanwhile */
    }
    closedir(folder);
    return all;
}

static dz_runtime_options demoting(void)
{
    base_nice = getpriority(PRIO_PROCESS, 0);
    dz_runtime_options options = usual();
    options.demote_after_ns = 5 * DZ_MS;
    options.demote_nice = 3;
    return options;
}

/* One handler that computes until its thread is demoted. */
static void run_until_demoted(dz_runtime *runtime)
{
    rig_fiber it = {0};
    rig_start(&runtime->loops[0], &it, compute_until_demoted);
    wait_until(atomic_load(&computing) == 1);
    rig_call_on(&runtime->loops[0], nothing, NULL);
    wait_until(atomic_load(&it.done) == 1);
    assert_int_equal(atomic_load(&nice_seen), base_nice + 3);
}

/* For the calling thread and those it starts: whether they may raise a priority. */
static void may_raise_priority(bool may)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    assert_int_equal(syscall(SYS_capget, &header, data), 0);
    const uint32_t bit = 1U << CAP_SYS_NICE;
    data[0].effective =
        may ? data[0].effective | (data[0].permitted & bit) : data[0].effective & ~bit;
    assert_int_equal(syscall(SYS_capset, &header, data), 0);
    const struct rlimit none = {0};
    assert_int_equal(setrlimit(RLIMIT_NICE, &none), 0);
}

static void without_privilege_a_demoted_thread_ends_and_a_fresh_one_stands_by(void **state)
{
    (void)state;
    may_raise_priority(false);
    dz_runtime *runtime = rig_new(demoting());
    for (int i = 0; i < 3; i++) {
        run_until_demoted(runtime);
        wait_until(tgkill(getpid(), atomic_load(&demoted_thread), 0) < 0 && errno == ESRCH);
        assert_true(every_thread_has_base_nice());
    }
    assert_int_equal(atomic_load(&stats(runtime)->rescues_failed), 0);
    rig_free(runtime);
    may_raise_priority(true);
}

static void a_heavy_handlers_thread_is_demoted_and_never_carries_a_loop_so(void **state)
{
    (void)state;
    dz_runtime *runtime = rig_new(demoting());
    for (int i = 0; i < 3; i++) {
        run_until_demoted(runtime);
        /* Restored by the privileged, else retired. */
        wait_until(every_thread_has_base_nice());
    }
    rig_free(runtime);
}

static void a_rescued_handler_keeps_its_priority_until_it_has_used_enough_cpu(void **state)
{
    (void)state;
    base_nice = getpriority(PRIO_PROCESS, 0);
    dz_runtime_options options = usual();
    options.demote_after_ns = 3600 * DZ_SEC;
    options.demote_nice = 3;
    dz_runtime *runtime = rig_new(options);
    atomic_store(&let_go, false);
    rig_fiber it = {0};
    rig_start(&runtime->loops[0], &it, compute_until_let_go);
    wait_until(atomic_load(&computing) == 1);
    rig_call_on(&runtime->loops[0], nothing, NULL);
    usleep(20000);
    assert_true(every_thread_has_base_nice());
    atomic_store(&let_go, true);
    wait_until(atomic_load(&it.done) == 1);
    rig_free(runtime);
}

/* --- rest --- */

/* Threads that were there before the runtime: this one, and a sanitizer's. */
static long strangers[64];
static size_t stranger_count;

static void note_strangers(void)
{
    DIR *folder = opendir("/proc/self/task");
    assert_non_null(folder);
    stranger_count = 0;
    for (struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.' && stranger_count < 64)
            strangers[stranger_count++] = atol(entry->d_name);
    closedir(folder);
}

static bool is_stranger(long id)
{
    for (size_t i = 0; i < stranger_count; i++)
        if (strangers[i] == id)
            return true;
    return false;
}

/* Voluntary context switches of the runtime's threads. */
static unsigned long switches(void)
{
    DIR *folder = opendir("/proc/self/task");
    assert_non_null(folder);
    unsigned long sum = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.' || is_stranger(atol(entry->d_name)))
            continue;
        char path[300], line[128];
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE *file = fopen(path, "r");
        while (file && fgets(line, sizeof line, file))
            if (strncmp(line, "voluntary_ctxt_switches:", 24) == 0)
                sum += strtoul(line + 24, NULL, 10);
        if (file)
            fclose(file);
    }
    closedir(folder);
    return sum;
}

static bool rests_for(unsigned ms)
{
    unsigned long before = switches();
    usleep(ms * 1000);
    return switches() == before;
}

static void an_idle_process_makes_no_wake_ups(void **state)
{
    (void)state;
    dz_runtime_options options = usual();
    options.loops = 2;
    note_strangers();
    dz_runtime *runtime = rig_new(options);
    for (int i = 0; i < 3; i++) {
        wait_until(atomic_load(&runtime->watchdog_parked));
        /* On a busy machine the switch into the park itself may be long in coming; what wakes up
         * now and then never rests. */
        wait_until(rests_for(300)); /* three times what the watchdog waits before it parks */
        assert_true(atomic_load(&runtime->watchdog_parked));
        /* And it comes back: rescue works after the rest as before. */
        timed it;
        start_quietly(runtime, &it, compute_until_let_go);
        wait_until(atomic_load(&computing) == 1);
        rig_call_on(&runtime->loops[0], let_it_go, NULL);
        wait_until(atomic_load(&it.fiber.done) == 1);
        assert_true(atomic_load(&was_rescued));
    }
    rig_free(runtime);
}

/* --- pins --- */

static _Atomic bool pinned_at_first, pinned_at_last, tried;

static void pin_before_and_after(dz_fiber *fiber)
{
    atomic_store(&pinned_at_first, dz_loop_pin(fiber->loop));
    if (atomic_load(&pinned_at_first))
        dz_loop_unpin(fiber->loop);
    compute_until_let_go(fiber);
    atomic_store(&pinned_at_last, dz_loop_pin(fiber->loop));
    atomic_store(&tried, true);
}

static void a_handler_can_pin_the_loop_only_while_its_thread_has_it(void **state)
{
    (void)state;
    dz_runtime *runtime = rig_new(usual());
    timed it;
    start_quietly(runtime, &it, pin_before_and_after);
    wait_until(atomic_load(&computing) == 1);
    assert_true(atomic_load(&pinned_at_first));
    rig_call_on(&runtime->loops[0], let_it_go, NULL);
    wait_until(atomic_load(&it.fiber.done) == 1);
    assert_false(atomic_load(&pinned_at_last));
    assert_false(dz_loop_pin(&runtime->loops[0])); /* nor can a thread that has no loop */
    rig_free(runtime);
}

static void hold_pinned(dz_fiber *fiber)
{
    assert_true(dz_loop_pin(fiber->loop));
    atomic_fetch_add(&computing, 1);
    while (!atomic_load(&nap_over))
        usleep(100);
    atomic_fetch_sub(&computing, 1);
    dz_loop_unpin(fiber->loop);
}

static void a_pinned_loop_is_not_taken(void **state)
{
    (void)state;
    dz_runtime *runtime = rig_new(usual());
    atomic_store(&nap_over, false);
    timed it;
    start_quietly(runtime, &it, hold_pinned);
    wait_until(atomic_load(&computing) == 1);
    rig_call waits = {.msg.fn = rig_on_call, .fn = nothing};
    sem_init(&waits.done, 0, 0);
    dz_loop_post(&runtime->loops[0], &waits.msg);
    usleep(30000);
    assert_int_equal(atomic_load(&stats(runtime)->rescues), 0);
    atomic_store(&nap_over, true);
    while (sem_wait(&waits.done) < 0)
        ;
    wait_until(atomic_load(&it.fiber.done) == 1);
    sem_destroy(&waits.done);
    rig_free(runtime);
}

/* --- signals --- */

static sigset_t mask_of_loop;

static void read_mask(dz_loop *loop, void *arg)
{
    (void)loop, (void)arg;
    pthread_sigmask(SIG_SETMASK, NULL, &mask_of_loop);
}

/* A fault whose signal is blocked kills at once: the report of a stack overflow would never run. */
static void threads_leave_signals_to_others_but_not_faults(void **state)
{
    (void)state;
    dz_runtime *runtime = rig_new(usual());
    rig_call_on(&runtime->loops[0], read_mask, NULL);
    rig_free(runtime);
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        assert_false(sigismember(&mask_of_loop, faults[i]));
    static const int others[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGCHLD, SIGALRM};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_true(sigismember(&mask_of_loop, others[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_computing_handler_loses_the_loop_when_something_waits),
        cmocka_unit_test(a_computing_handler_keeps_the_loop_when_nothing_waits),
        cmocka_unit_test(without_rescue_after_nobody_watches),
        cmocka_unit_test(a_handler_blocked_in_a_system_call_loses_the_loop_too),
        cmocka_unit_test(a_long_rescue_after_is_kept_although_the_watchdog_parks_early),
        cmocka_unit_test(a_tick_that_takes_long_before_its_handlers_does_not_hide_them),
        cmocka_unit_test(a_thread_that_only_waits_for_a_core_keeps_the_loop_for_longer),
        cmocka_unit_test(at_the_cap_a_handler_is_left_where_it_is_and_counted_once),
        cmocka_unit_test(without_a_thread_the_stall_is_counted_and_rescue_works_again_later),
        cmocka_unit_test(a_heavy_handlers_thread_is_demoted_and_never_carries_a_loop_so),
        cmocka_unit_test(without_privilege_a_demoted_thread_ends_and_a_fresh_one_stands_by),
        cmocka_unit_test(a_rescued_handler_keeps_its_priority_until_it_has_used_enough_cpu),
        cmocka_unit_test(an_idle_process_makes_no_wake_ups),
        cmocka_unit_test(a_handler_can_pin_the_loop_only_while_its_thread_has_it),
        cmocka_unit_test(a_pinned_loop_is_not_taken),
        cmocka_unit_test(threads_leave_signals_to_others_but_not_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
