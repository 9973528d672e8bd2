/* Workers are started when due, replaced one after the other, sent away, and killed when they stay.
 */
#include "crew.h"

#include "../alloc.h"

#include <setjmp.h>

/* --- a system of which the test decides (--wrap) --- */

static pid_t next_pid; /* what fork returns; below 0: it fails with EAGAIN */
static bool no_channel, no_mapping, no_epoll;
static struct {
    pid_t pid;
    int signal;
} kills[8];
static size_t kill_count;
static jmp_buf in_child;
static int childs_channel;

pid_t __wrap_fork(void);
pid_t __wrap_fork(void)
{
    if (next_pid < 0)
        errno = EAGAIN;
    return next_pid > 0 ? next_pid++ : next_pid;
}

int __wrap_kill(pid_t pid, int signal);
int __wrap_kill(pid_t pid, int signal)
{
    assert_true(kill_count < 8);
    kills[kill_count].pid = pid;
    kills[kill_count++].signal = signal;
    return 0;
}

int __real_dz_channel_open(int ends[2]);
int __wrap_dz_channel_open(int ends[2]);
int __wrap_dz_channel_open(int ends[2])
{
    return no_channel ? -EMFILE : __real_dz_channel_open(ends);
}

void *__real_mmap64(void *at, size_t size, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t size, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
    if (!no_mapping)
        return __real_mmap64(at, size, prot, flags, fd, offset);
    errno = ENOMEM;
    return MAP_FAILED;
}

int __real_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
    if (!no_epoll)
        return __real_epoll_ctl(epoll, op, fd, event);
    errno = ENOSPC;
    return -1;
}

_Noreturn void __wrap_dz_become_worker(dz_supervisor *supervisor, dz_worker *self);
_Noreturn void __wrap_dz_become_worker(dz_supervisor *supervisor, dz_worker *self)
{
    assert_ptr_equal(supervisor, &it);
    childs_channel = self->channel;
    self->channel = -1;
    dz_worker_free(self);
    longjmp(in_child, 1);
}

static int set_up(void **state)
{
    next_pid = 1000;
    no_channel = no_mapping = no_epoll = false;
    kill_count = 0;
    return crew_set_up(state);
}

static void assert_killed(size_t i, pid_t pid, int signal)
{
    assert_true(i < kill_count);
    assert_int_equal(kills[i].pid, pid);
    assert_int_equal(kills[i].signal, signal);
}

/* --- birth --- */

static void what_is_due_is_started_and_nothing_else(void **state)
{
    (void)state;
    places[0].due = 0;
    places[1].due = 5000;
    places[2].due = 5001;
    dz_crew_act(&it, 5000);
    assert_int_equal(crew_size(), 2);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(places[i].worker->pid, 1000 + (pid_t)i);
        assert_int_equal(places[i].worker->state, DZ_WORKER_STARTING);
        assert_int_equal(places[i].worker->born, 5000);
        assert_true(places[i].due == UINT64_MAX);
        assert_null(dz_place_server(&places[i]));
    }
    assert_null(places[2].worker);
    assert_int_equal(dz_crew_next_due(&it), 5001);
    dz_crew_act(&it, 5000); /* once */
    assert_int_equal(crew_size(), 2);
}

static void the_child_keeps_its_end_of_the_channel_alone(void **state)
{
    (void)state;
    size_t before = descriptors();
    places[0].due = 0;
    next_pid = 0;
    if (setjmp(in_child) == 0) {
        dz_crew_act(&it, 1);
        fail_msg("a child came back");
    }
    assert_int_equal(descriptors(), before + 1);
    close(childs_channel);
}

static void when_it_stops_nobody_is_started(void **state)
{
    (void)state;
    places[0].due = 0;
    it.stopping = true;
    dz_crew_act(&it, 5000);
    assert_int_equal(crew_size(), 0);
}

static void who_can_t_be_started_is_tried_again_later_and_leaves_nothing(void **state)
{
    (void)state;
    for (int way = 0; way < 5; way++) {
        static const char *const why[] = {
            "Too many open files", "Cannot allocate memory", "No space left on device",
            "Resource temporarily unavailable", "Cannot allocate memory"};
        char line[200];
        size_t before = descriptors();
        said[0] = '\0';
        places[1] = (dz_place){.due = 0};
        no_channel = way == 0;
        no_mapping = way == 1;
        no_epoll = way == 2;
        next_pid = way == 3 ? -1 : 1000;
        allocs_left = way == 4 ? 0 : -1;
        dz_crew_act(&it, 7 * DZ_SEC);
        allocs_left = -1;
        assert_int_equal(crew_size(), 0);
        assert_null(places[1].worker);
        assert_int_equal(descriptors(), before);
        assert_int_equal(places[1].due, 7 * DZ_SEC + 100 * DZ_MS);
        snprintf(line, sizeof line,
                 "50 worker 2 could not be started: %s; trying again in 100 ms\n", why[way]);
        assert_string_equal(said, line);
        dz_crew_act(&it, 7 * DZ_SEC); /* not before */
        assert_string_equal(said, line);
    }
    no_channel = true;
    dz_crew_act(&it, 8 * DZ_SEC);
    assert_non_null(strstr(said, "trying again in 200 ms\n"));
}

/* --- who serves --- */

static void the_crew_serves_with_one_and_has_settled_with_all(void **state)
{
    (void)state;
    int far[PLACES];
    assert_false(dz_crew_serves(&it));
    assert_false(dz_crew_settled(&it)); /* nobody was started yet */
    dz_worker *first = crew_add(0, 500, DZ_WORKER_STARTING, &far[0]);
    assert_false(dz_crew_serves(&it));
    first->state = DZ_WORKER_READY;
    assert_true(dz_crew_serves(&it));
    crew_add(1, 501, DZ_WORKER_READY, &far[1]);
    assert_false(dz_crew_settled(&it));
    dz_worker *last = crew_add(2, 502, DZ_WORKER_STARTING, &far[2]);
    assert_false(dz_crew_settled(&it));
    last->state = DZ_WORKER_READY;
    assert_true(dz_crew_settled(&it));
    /* One that died on its first way up is not waited for. */
    last->state = DZ_WORKER_STARTING;
    places[2].restart.deaths = 1;
    assert_true(dz_crew_settled(&it));
    for (unsigned i = 0; i < PLACES; i++)
        close(far[i]);
}

/* --- replacement --- */

static void workers_are_replaced_one_after_the_other(void **state)
{
    (void)state;
    int far[PLACES];
    dz_worker *old[PLACES];
    it.announced = true;
    for (unsigned i = 0; i < PLACES; i++)
        old[i] = crew_add(i, 500 + (pid_t)i, DZ_WORKER_READY, &far[i]);
    dz_crew_renew(&it);
    assert_string_equal(said, "30 SIGHUP: replacing the workers, one after the other\n");
    for (unsigned i = 0; i < PLACES; i++) {
        dz_crew_act(&it, 1000 + i);
        dz_crew_act(&it, 1000 + i); /* no further one meanwhile */
        assert_int_equal(crew_size(), PLACES + i + 1);
        assert_ptr_equal(places[i].old, old[i]);
        assert_int_equal(places[i].worker->pid, 1000 + (pid_t)i);
        assert_ptr_equal(dz_place_server(&places[i]), old[i]); /* serves until then */
        places[i].worker->state = DZ_WORKER_READY;             /* as reap.c does it */
        places[i].old = NULL;
        assert_ptr_equal(dz_place_server(&places[i]), places[i].worker);
    }
    dz_crew_act(&it, 2000);
    assert_int_equal(crew_size(), 2 * PLACES);
    for (unsigned i = 0; i < PLACES; i++)
        close(far[i]);
}

static void a_place_that_has_nobody_gets_a_new_one_anyway(void **state)
{
    (void)state;
    int far;
    it.announced = true;
    places[0].due = UINT64_MAX; /* its worker died and is not due yet */
    crew_add(1, 501, DZ_WORKER_READY, &far);
    dz_crew_renew(&it);
    dz_crew_act(&it, 1000);
    assert_null(places[0].worker);
    assert_non_null(places[1].old);
    close(far);
}

static void before_the_start_and_at_the_end_nobody_is_replaced(void **state)
{
    (void)state;
    int far;
    crew_add(0, 500, DZ_WORKER_READY, &far);
    dz_crew_renew(&it);
    it.announced = it.stopping = true;
    dz_crew_renew(&it);
    it.stopping = false;
    dz_crew_act(&it, 1000);
    assert_int_equal(crew_size(), 1);
    assert_string_equal(said, "");
    close(far);
}

/* --- leaving --- */

static void all_are_told_to_end_and_have_their_time(void **state)
{
    (void)state;
    int far[3];
    app->core->settings.drain_timeout_ns = 10 * DZ_SEC;
    dz_worker *ready = crew_add(0, 500, DZ_WORKER_READY, &far[0]),
              *starting = crew_add(1, 501, DZ_WORKER_STARTING, &far[1]),
              *leaving = crew_add(2, 502, DZ_WORKER_LEAVING, &far[2]);
    leaving->kill_at = 4242;
    places[2].due = 0;
    uint64_t before = dz_now();
    dz_crew_dismiss(&it);
    uint64_t after = dz_now(), grace = 14 * DZ_SEC;
    dz_worker *const told[] = {ready, starting};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(told[i]->state, DZ_WORKER_LEAVING);
        assert_in_range(told[i]->kill_at, before + grace, after + grace);
    }
    assert_int_equal(leaving->kill_at, 4242); /* its time runs already */
    for (unsigned i = 0; i < PLACES; i++) {
        assert_true(crew_told_to_end(far[i]));
        assert_null(dz_place_server(&places[i]));
        assert_true(places[i].due == UINT64_MAX);
        close(far[i]);
    }
    assert_int_equal(dz_crew_next_due(&it), 4242);
}

static void who_stays_beyond_its_time_is_killed_once(void **state)
{
    (void)state;
    int far[2];
    dz_worker *late = crew_add(0, 500, DZ_WORKER_LEAVING, &far[0]);
    dz_worker *other = crew_add(1, 501, DZ_WORKER_LEAVING, &far[1]);
    late->kill_at = 1000;
    other->kill_at = 1001;
    it.stopping = true;
    dz_crew_act(&it, 999);
    assert_int_equal(kill_count, 0);
    dz_crew_act(&it, 1000);
    dz_crew_act(&it, 1000);
    assert_int_equal(kill_count, 1);
    assert_killed(0, 500, SIGKILL);
    assert_true(late->killed);
    assert_false(other->killed);
    assert_string_equal(said, "50 worker 1 (pid 500) did not end after --drain-timeout: killed\n");
    assert_int_equal(dz_crew_next_due(&it), 1001);
    close(far[0]);
    close(far[1]);
}

static void a_signal_goes_to_every_worker_whatever_its_state(void **state)
{
    (void)state;
    int far[3];
    crew_add(0, 500, DZ_WORKER_READY, &far[0]);
    crew_add(1, 501, DZ_WORKER_STARTING, &far[1]);
    crew_add(2, 502, DZ_WORKER_LEAVING, &far[2]);
    dz_crew_signal(&it, SIGUSR1);
    assert_int_equal(kill_count, 3);
    for (size_t i = 0; i < 3; i++)
        assert_killed(i, 500 + (pid_t)i, SIGUSR1);
    dz_crew_kill(&it);
    assert_int_equal(kill_count, 6);
    for (size_t i = 0; i < 3; i++)
        assert_killed(3 + i, 500 + (pid_t)i, SIGKILL);
    assert_true(dz_crew_next_due(&it) == UINT64_MAX); /* nothing is left to do but wait */
    for (size_t i = 0; i < 3; i++)
        close(far[i]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, crew_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_due_is_started_and_nothing_else),
        TEST(the_child_keeps_its_end_of_the_channel_alone),
        TEST(when_it_stops_nobody_is_started),
        TEST(who_can_t_be_started_is_tried_again_later_and_leaves_nothing),
        TEST(the_crew_serves_with_one_and_has_settled_with_all),
        TEST(workers_are_replaced_one_after_the_other),
        TEST(a_place_that_has_nobody_gets_a_new_one_anyway),
        TEST(before_the_start_and_at_the_end_nobody_is_replaced),
        TEST(all_are_told_to_end_and_have_their_time),
        TEST(who_stays_beyond_its_time_is_killed_once),
        TEST(a_signal_goes_to_every_worker_whatever_its_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
