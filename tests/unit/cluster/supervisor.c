/* The supervisor from its start to its exit code, with workers that do as the test says. */
#include "../check.h"
#include "../alloc.h"
#include "../wait.h"

#include "cluster/channel.h"
#include "cluster/supervisor.h"

#include <donmaz.h>
#include <donmaz/error.h>

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

/* --- a system that is out of things (--wrap) --- */

static bool no_epoll, no_signalfd;
static int forks_left = -1; /* below 0: any number; at 0 SIGTERM comes and each fails */

int __real_epoll_create1(int flags);
int __wrap_epoll_create1(int flags);
int __wrap_epoll_create1(int flags)
{
    if (!no_epoll)
        return __real_epoll_create1(flags);
    errno = EMFILE;
    return -1;
}

int __real_signalfd(int fd, const sigset_t *set, int flags);
int __wrap_signalfd(int fd, const sigset_t *set, int flags);
int __wrap_signalfd(int fd, const sigset_t *set, int flags)
{
    if (!no_signalfd)
        return __real_signalfd(fd, set, flags);
    errno = ENFILE;
    return -1;
}

pid_t __real_fork(void);
pid_t __wrap_fork(void);
pid_t __wrap_fork(void)
{
    if (forks_left == 0) {
        raise(SIGTERM);
        errno = EAGAIN;
        return -1;
    }
    forks_left -= forks_left > 0;
    return __real_fork();
}

/* --- workers --- */

static void (*be_worker)(unsigned number, int channel);

_Noreturn void __wrap_dz_become_worker(dz_supervisor *it, dz_worker *self);
_Noreturn void __wrap_dz_become_worker(dz_supervisor *it, dz_worker *self)
{
    be_worker(dz_place_number(it, self->place), self->channel);
    _exit(0);
}

static void wait_for_the_end(int channel)
{
    struct pollfd end = {.fd = channel, .events = POLLRDHUP};
    while (!(end.revents & (POLLRDHUP | POLLHUP)))
        if (poll(&end, 1, WAIT_SECONDS * 1000) == 0)
            _exit(99);
}

static void serve_and_end(unsigned number, int channel)
{
    (void)number;
    dz_channel_say(channel, DZ_SAYS_READY, NULL);
    wait_for_the_end(channel);
}

static void have_no_luck(unsigned number, int channel)
{
    (void)number;
    dz_channel_say(channel, DZ_SAYS_FAILED, "no luck today");
    _exit(1);
}

static void end_with_7(unsigned number, int channel)
{
    serve_and_end(number, channel);
    _exit(7);
}

static void be_deaf(unsigned number, int channel)
{
    (void)number;
    dz_channel_say(channel, DZ_SAYS_READY, NULL);
    for (uint64_t end = dz_now() + WAIT_SECONDS * DZ_SEC; dz_now() < end;)
        poll(NULL, 0, 1000);
}

/* --- the service --- */

static dz_app *app;
static int stderr_before, stderr_pipe[2];
static const char *at_listening; /* what happens when the service says that it is up */

static void on_log(void *context, int level, const char *message)
{
    (void)context, (void)level;
    if (strncmp(message, "listening", 9) != 0 || !at_listening)
        return;
    for (const char *what = at_listening; *what; what++)
        raise(*what == 'T' ? SIGTERM : SIGINT);
}

static int set_up(void **state)
{
    (void)state;
    no_epoll = no_signalfd = false;
    forks_left = -1;
    be_worker = serve_and_end;
    at_listening = "T";
    app = dz_app_new();
    if (!app || dz_app_set(app, "processes", "2") < 0 || dz_app_set(app, "port", "0") < 0)
        return -1;
    dz_on_log(app, on_log, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    dz_app_free(app);
    return 0;
}

static size_t descriptors(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* Runs it; `wanted` is all that it may write to stderr. */
static void supervised(int code, const char *wanted)
{
    char text[1024];
    assert_int_equal(pipe(stderr_pipe), 0);
    stderr_before = dup(2);
    size_t before = descriptors();
    dup2(stderr_pipe[1], 2);
    int got = dz_supervise(app, "service");
    dup2(stderr_before, 2);
    assert_int_equal(descriptors(), before);
    close(stderr_before);
    close(stderr_pipe[1]);
    ssize_t len = read(stderr_pipe[0], text, sizeof text - 1);
    assert_true(len >= 0);
    text[len] = '\0';
    close(stderr_pipe[0]);
    assert_string_equal(text, wanted);
    assert_int_equal(got, code);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nobody is left */
    assert_int_equal(errno, ECHILD);
}

/* --- its start --- */

static void without_the_means_it_says_which_in_one_line_and_ends(void **state)
{
    (void)state;
    no_epoll = true;
    supervised(1, "service: could not start: Too many open files\n");
    no_epoll = false;
    no_signalfd = true;
    supervised(1, "service: could not start: Too many open files in system\n");
    no_signalfd = false;
    allocs_left = 0;
    int rc = dz_supervise(app, "service");
    allocs_left = -1;
    assert_int_equal(rc, 1);
}

static void handler(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_text(res, 200, "");
}

static void a_route_that_can_t_be_is_told_before_anything_is_opened(void **state)
{
    (void)state;
    assert_null(dz_get(app, "no-slash", handler));
    supervised(1, "service: route or middleware 'no-slash': invalid argument\n");
}

/* --- its end --- */

static void told_to_stop_it_ends_when_its_workers_have(void **state)
{
    (void)state;
    supervised(0, "");
}

static void a_worker_that_fails_in_its_end_makes_the_exit_code_1(void **state)
{
    (void)state;
    be_worker = end_with_7;
    supervised(1, "");
}

static void a_second_signal_ends_those_that_do_not_listen(void **state)
{
    (void)state;
    be_worker = be_deaf;
    at_listening = "TI";
    supervised(1, "");
}

static void what_no_worker_can_do_is_said_once_and_ends_it(void **state)
{
    (void)state;
    be_worker = have_no_luck;
    supervised(1, "service: no luck today\n");
}

static void told_to_stop_while_nobody_can_be_started_it_ends_well(void **state)
{
    (void)state;
    forks_left = 0;
    supervised(0, "");
}

static void one_worker_too_few_does_not_keep_the_others_from_serving(void **state)
{
    (void)state;
    forks_left = 1; /* the second can't be started; SIGTERM comes with the failure */
    supervised(0, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_the_means_it_says_which_in_one_line_and_ends),
        TEST(a_route_that_can_t_be_is_told_before_anything_is_opened),
        TEST(told_to_stop_it_ends_when_its_workers_have),
        TEST(a_worker_that_fails_in_its_end_makes_the_exit_code_1),
        TEST(a_second_signal_ends_those_that_do_not_listen),
        TEST(what_no_worker_can_do_is_said_once_and_ends_it),
        TEST(told_to_stop_while_nobody_can_be_started_it_ends_well),
        TEST(one_worker_too_few_does_not_keep_the_others_from_serving),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
