/* How long stopping a command may take when everything hangs that can: by a clock of the test's
 * own, on which only waiting takes time. */
#include "../check.h"

#include <target/spawn.h>

#include <base/clock.h>

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static bool hangs; /* nobody but the guard can be killed, and waiting is over at once */
static uint64_t slept;
static pid_t guard;

int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    if (!hangs)
        return __real_clock_gettime(clock, out);
    *out = (struct timespec){.tv_sec = 1000 + (time_t)(slept / DZ_SEC),
                             .tv_nsec = (long)(slept % DZ_SEC)};
    return 0;
}

int __real_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit,
                 const sigset_t *mask);
int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit,
                 const sigset_t *mask);
int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit,
                 const sigset_t *mask)
{
    if (!hangs)
        return __real_ppoll(fds, count, limit, mask);
    slept += (uint64_t)limit->tv_sec * DZ_SEC + (uint64_t)limit->tv_nsec;
    return 0;
}

int __real_usleep(useconds_t us);
int __wrap_usleep(useconds_t us);
int __wrap_usleep(useconds_t us)
{
    if (!hangs)
        return __real_usleep(us);
    slept += 100 * DZ_MS; /* longer than it was asked for: less to do */
    return 0;
}

int __real_kill(pid_t pid, int signal);
int __wrap_kill(pid_t pid, int signal);
int __wrap_kill(pid_t pid, int signal)
{
    return hangs && pid != guard ? 0 : __real_kill(pid, signal);
}

static void a_stopped_guard_and_what_cannot_be_killed_are_given_up_in_time(void **state)
{
    (void)state;
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    dz_target t;
    dz_target_options o = {.output = DZ_TARGET_PIPED, .out = pipes[1], .err = 2};
    assert_int_equal(dz_target_start_shell(&t, "setsid sh -c 'echo $$; exec sleep 600' & wait", &o),
                     0);
    close(pipes[1]);
    char text[16] = "";
    assert_true(read(pipes[0], text, sizeof text - 1) > 0);
    pid_t daemon = (pid_t)strtol(text, NULL, 10);
    assert_true(daemon > 1);

    guard = t.guard;
    assert_int_equal(kill(guard, SIGSTOP), 0);
    int status;
    assert_int_equal(waitpid(guard, &status, WUNTRACED), guard);
    assert_true(WIFSTOPPED(status));
    hangs = true;
    dz_target_stop(&t, SIGTERM, 2000);
    hangs = false;
    assert_int_equal(slept, (2000 + DZ_TARGET_END_MS) * DZ_MS);

    assert_int_equal(kill(daemon, SIGKILL), 0);
    pid_t ended; /* all that the guard left is ours */
    do
        ended = waitpid(-1, NULL, 0);
    while (ended > 0 && ended != daemon);
    assert_int_equal(ended, daemon);
    close(pipes[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stopped_guard_and_what_cannot_be_killed_are_given_up_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
