/* What the supervisor makes of what workers say and how they end. */
#include "crew.h"

#include <sys/wait.h>

/* --- the ends of processes that there are not (--wrap=waitpid) --- */

typedef struct end {
    pid_t pid;
    int status, error; /* error: waitpid fails with it */
} end;

static end ends[4];
static size_t end_count;

pid_t __wrap_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
    assert_true(pid > 0); /* never a child of the program's own */
    assert_int_equal(options, WNOHANG);
    for (size_t i = 0; i < end_count; i++) {
        if (ends[i].pid != pid)
            continue;
        *status = ends[i].status;
        errno = ends[i].error;
        return ends[i].error ? -1 : pid;
    }
    return 0;
}

static void died(pid_t pid, int status)
{
    ends[end_count++] = (end){pid, status, 0};
    dz_crew_reap(&it);
    end_count = 0;
}

#define EXITED(code)   ((code) << 8)
#define KILLED(signal) (signal)

static char gave_up[256]; /* why; empty: it did not */

void __wrap_dz_supervisor_give_up(dz_supervisor *supervisor, const char *why);
void __wrap_dz_supervisor_give_up(dz_supervisor *supervisor, const char *why)
{
    assert_ptr_equal(supervisor, &it);
    snprintf(gave_up, sizeof gave_up, "%s", why);
}

static int set_up(void **state)
{
    gave_up[0] = '\0';
    end_count = 0;
    return crew_set_up(state);
}

static void tell(dz_worker *worker, int far_end, enum dz_says what, const char *text)
{
    assert_int_equal(dz_channel_say(far_end, what, text), 0);
    dz_crew_listen(&it, worker);
}

static void assert_said(const char *text)
{
    if (!strstr(said, text))
        fail_msg("not said: %s; but: %s", text, said);
}

/* --- what they say --- */

static void a_worker_that_is_ready_serves_from_then_on(void **state)
{
    (void)state;
    int far;
    dz_worker *worker = crew_add(1, 500, DZ_WORKER_STARTING, &far);
    assert_null(dz_place_server(&places[1]));
    tell(worker, far, DZ_SAYS_READY, NULL);
    assert_int_equal(worker->state, DZ_WORKER_READY);
    assert_ptr_equal(dz_place_server(&places[1]), worker);
    assert_true(it.ever_ready);
    assert_string_equal(said, ""); /* of the first ones "listening" tells */
    worker->state = DZ_WORKER_STARTING;
    it.announced = true;
    tell(worker, far, DZ_SAYS_READY, NULL);
    assert_string_equal(said, "30 worker 2 is ready (pid 500)\n");
    close(far);
}

static void a_replacement_that_is_ready_sends_the_old_one_away(void **state)
{
    (void)state;
    int old_far, far;
    dz_worker *old = crew_add(0, 500, DZ_WORKER_READY, &old_far);
    places[0].old = old;
    dz_worker *worker = crew_add(0, 501, DZ_WORKER_STARTING, &far);
    assert_ptr_equal(dz_place_server(&places[0]), old);
    tell(worker, far, DZ_SAYS_READY, NULL);
    assert_ptr_equal(dz_place_server(&places[0]), worker);
    assert_null(places[0].old);
    assert_int_equal(old->state, DZ_WORKER_LEAVING);
    assert_true(crew_told_to_end(old_far));
    assert_false(crew_told_to_end(far));
    close(old_far);
    close(far);
}

static void one_that_was_dismissed_before_it_was_ready_does_not_serve(void **state)
{
    (void)state;
    int far;
    dz_worker *worker = crew_add(0, 500, DZ_WORKER_STARTING, &far);
    dz_worker_dismiss(&it, worker);
    tell(worker, far, DZ_SAYS_READY, NULL);
    assert_int_equal(worker->state, DZ_WORKER_LEAVING);
    assert_false(it.ever_ready);
    close(far);
}

static void what_the_first_one_can_t_do_none_can(void **state)
{
    (void)state;
    int far;
    dz_worker *worker = crew_add(0, 500, DZ_WORKER_STARTING, &far);
    tell(worker, far, DZ_SAYS_FAILED, "could not start: no luck");
    assert_string_equal(gave_up, "could not start: no luck");
    assert_true(worker->failed);
    close(far);
}

static void what_a_later_one_can_t_do_is_logged_with_its_reason(void **state)
{
    (void)state;
    int far;
    it.ever_ready = true;
    dz_worker *worker = crew_add(2, 500, DZ_WORKER_STARTING, &far);
    tell(worker, far, DZ_SAYS_FAILED, "no luck");
    assert_string_equal(gave_up, "");
    assert_string_equal(said, "50 worker 3 (pid 500): no luck\n");
    said[0] = '\0';
    it.stopping = true; /* then it is nobody's concern */
    tell(worker, far, DZ_SAYS_FAILED, "no luck");
    assert_string_equal(said, "");
    close(far);
}

static void one_that_was_told_to_stop_by_someone_else_gets_a_successor_at_once(void **state)
{
    (void)state;
    int far;
    dz_worker *worker = crew_add(0, 500, DZ_WORKER_READY, &far);
    tell(worker, far, DZ_SAYS_LEAVING, NULL);
    assert_null(places[0].worker);
    assert_int_equal(places[0].due, 0);
    assert_int_equal(worker->state, DZ_WORKER_LEAVING);
    assert_true(crew_told_to_end(far)); /* all that was sent before is read by then */
    assert_said("40 worker 1 (pid 500) was told to stop: starting another\n");
    said[0] = '\0';
    tell(worker, far, DZ_SAYS_LEAVING, NULL); /* once */
    assert_string_equal(said, "");
    close(far);
}

static void the_end_of_the_service_needs_no_successor(void **state)
{
    (void)state;
    int far;
    it.stopping = true;
    dz_worker *worker = crew_add(0, 500, DZ_WORKER_READY, &far);
    tell(worker, far, DZ_SAYS_LEAVING, NULL);
    assert_true(places[0].due == UINT64_MAX);
    assert_string_equal(said, "");
    close(far);
}

static void last_words_are_heard_and_the_channels_end_is_watched_no_more(void **state)
{
    (void)state;
    int far;
    dz_worker *worker = crew_add(0, 500, DZ_WORKER_STARTING, &far);
    dz_channel_say(far, DZ_SAYS_READY, NULL);
    dz_channel_say(far, DZ_SAYS_LEAVING, NULL);
    close(far);
    dz_crew_listen(&it, worker);
    assert_int_equal(worker->state, DZ_WORKER_LEAVING);
    assert_true(it.ever_ready);
    assert_true(worker->hung_up);
    struct epoll_event event; /* or it would be told of for ever */
    assert_int_equal(epoll_wait(it.epoll_fd, &event, 1, 0), 0);
}

/* --- how they end --- */

static void a_death_is_told_with_its_cause_and_what_comes_next(void **state)
{
    (void)state;
    int far;
    it.ever_ready = true;
    crew_add(1, 500, DZ_WORKER_READY, &far);
    died(500, KILLED(SIGSEGV));
    assert_said("50 worker 2 (pid 500) was killed by signal 11 (SIGSEGV) after 0.");
    assert_said(" s: starting another now\n");
    assert_null(places[1].worker);
    assert_true(places[1].due <= dz_now());
    assert_int_equal(crew_size(), 0);
    close(far);
    crew_add(1, 501, DZ_WORKER_READY, &far);
    uint64_t before = dz_now();
    died(501, EXITED(7));
    assert_said("50 worker 2 (pid 501) exited with code 7 after 0.");
    assert_said(" s: starting another in 100 ms\n");
    assert_true(places[1].due >= before + 100 * DZ_MS && places[1].due < before + 3600 * DZ_SEC);
    close(far);
}

static void nobody_is_taken_for_dead_who_lives(void **state)
{
    (void)state;
    int far;
    dz_worker *worker = crew_add(0, 500, DZ_WORKER_READY, &far);
    dz_crew_reap(&it);
    assert_int_equal(crew_size(), 1);
    ends[0] = (end){500, 0, EINTR};
    end_count = 1;
    dz_crew_reap(&it);
    assert_int_equal(crew_size(), 1);
    assert_ptr_equal(places[0].worker, worker);
    assert_string_equal(said, "");
    ends[0].error = ECHILD; /* someone else has waited for it */
    dz_crew_reap(&it);
    assert_int_equal(crew_size(), 0);
    close(far);
}

static void of_several_dead_each_is_taken(void **state)
{
    (void)state;
    int far[PLACES];
    for (unsigned i = 0; i < PLACES; i++)
        crew_add(i, 500 + (pid_t)i, DZ_WORKER_READY, &far[i]);
    ends[0] = (end){502, KILLED(SIGKILL), 0};
    ends[1] = (end){500, KILLED(SIGKILL), 0};
    end_count = 2;
    size_t before = descriptors();
    dz_crew_reap(&it);
    assert_int_equal(crew_size(), 1);
    assert_int_equal(descriptors(), before - 2);
    assert_non_null(places[1].worker);
    assert_null(places[0].worker);
    assert_null(places[2].worker);
    for (unsigned i = 0; i < PLACES; i++)
        close(far[i]);
}

static void a_reason_that_came_with_the_end_is_heard(void **state)
{
    (void)state;
    int far;
    crew_add(0, 500, DZ_WORKER_STARTING, &far);
    dz_channel_say(far, DZ_SAYS_FAILED, "no luck");
    close(far);
    died(500, EXITED(1));
    assert_string_equal(gave_up, "no luck");
}

static void an_old_one_that_dies_is_followed_by_its_replacement(void **state)
{
    (void)state;
    int old_far, far;
    it.ever_ready = true;
    places[0].old = crew_add(0, 500, DZ_WORKER_READY, &old_far);
    dz_worker *worker = crew_add(0, 501, DZ_WORKER_STARTING, &far);
    died(500, KILLED(SIGKILL));
    assert_said(": its replacement is starting\n");
    assert_null(places[0].old);
    assert_ptr_equal(places[0].worker, worker);
    assert_true(places[0].due == UINT64_MAX); /* there is one already */
    close(old_far);
    close(far);
}

static void a_replacement_that_dies_leaves_the_old_one_and_ends_the_replacing(void **state)
{
    (void)state;
    int old_far, far;
    it.ever_ready = true;
    dz_worker *old = crew_add(0, 500, DZ_WORKER_READY, &old_far);
    places[0].old = old;
    crew_add(0, 501, DZ_WORKER_STARTING, &far);
    places[1].renew = places[2].renew = true;
    died(501, EXITED(1));
    assert_said(", before it was ready: the one it should replace goes on\n");
    assert_ptr_equal(places[0].worker, old);
    assert_null(places[0].old);
    assert_false(crew_told_to_end(old_far));
    for (unsigned i = 0; i < PLACES; i++)
        assert_false(places[i].renew);
    close(old_far);
    close(far);
}

static void workers_that_never_get_ready_are_given_up_when_nobody_serves(void **state)
{
    (void)state;
    for (int serving = 1; serving >= 0; serving--) {
        int other, far;
        gave_up[0] = '\0';
        places[0].restart = (dz_restart){0};
        if (serving)
            crew_add(1, 400, DZ_WORKER_READY, &other);
        for (int i = 0; i < DZ_START_TRIES; i++) {
            assert_string_equal(gave_up, "");
            crew_add(0, 500, DZ_WORKER_STARTING, &far);
            died(500, EXITED(3));
            close(far);
        }
        if (serving) {
            assert_string_equal(gave_up, "");
            died(400, KILLED(SIGKILL));
            close(other);
        } else {
            assert_string_equal(gave_up, "no worker could be started: the last one exited with "
                                         "code 3 before it was ready");
        }
    }
}

/* --- how they end when they should --- */

static void one_that_ends_as_told_is_not_worth_a_word(void **state)
{
    (void)state;
    int far;
    dz_worker_dismiss(&it, crew_add(0, 500, DZ_WORKER_READY, &far));
    it.stopping = true;
    died(500, EXITED(0));
    assert_string_equal(said, "");
    assert_int_equal(it.exit_code, 0);
    close(far);
}

static void one_that_crashes_while_it_stops_makes_the_exit_code_1(void **state)
{
    (void)state;
    int far;
    for (int stopping = 0; stopping < 2; stopping++) {
        said[0] = '\0';
        it.stopping = stopping;
        dz_worker_dismiss(&it, crew_add(0, 500, DZ_WORKER_READY, &far));
        died(500, KILLED(SIGABRT));
        assert_said("50 worker 1 (pid 500) was killed by signal 6 (SIGABRT) while it was stopping");
        assert_int_equal(it.exit_code, stopping); /* of a replaced one the service goes on */
        close(far);
    }
}

static void one_that_was_killed_for_being_late_was_named_already(void **state)
{
    (void)state;
    int far;
    it.stopping = true;
    dz_worker *worker = crew_add(0, 500, DZ_WORKER_READY, &far);
    dz_worker_dismiss(&it, worker);
    worker->killed = true;
    died(500, KILLED(SIGKILL));
    assert_string_equal(said, "");
    assert_int_equal(it.exit_code, 1);
    close(far);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, crew_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_worker_that_is_ready_serves_from_then_on),
        TEST(a_replacement_that_is_ready_sends_the_old_one_away),
        TEST(one_that_was_dismissed_before_it_was_ready_does_not_serve),
        TEST(what_the_first_one_can_t_do_none_can),
        TEST(what_a_later_one_can_t_do_is_logged_with_its_reason),
        TEST(one_that_was_told_to_stop_by_someone_else_gets_a_successor_at_once),
        TEST(the_end_of_the_service_needs_no_successor),
        TEST(last_words_are_heard_and_the_channels_end_is_watched_no_more),
        TEST(a_death_is_told_with_its_cause_and_what_comes_next),
        TEST(nobody_is_taken_for_dead_who_lives),
        TEST(of_several_dead_each_is_taken),
        TEST(a_reason_that_came_with_the_end_is_heard),
        TEST(an_old_one_that_dies_is_followed_by_its_replacement),
        TEST(a_replacement_that_dies_leaves_the_old_one_and_ends_the_replacing),
        TEST(workers_that_never_get_ready_are_given_up_when_nobody_serves),
        TEST(one_that_ends_as_told_is_not_worth_a_word),
        TEST(one_that_crashes_while_it_stops_makes_the_exit_code_1),
        TEST(one_that_was_killed_for_being_late_was_named_already),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
