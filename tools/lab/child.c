#include "child.h"

#include "words.h"

#include <base/clock.h>
#include <donmaz/error.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONGEST = 64 << 20 };

__attribute__((noreturn)) static void child_exec(char *const *argv, const char *cwd, pid_t parent,
                                                 int out, int err)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (getppid() == parent && input >= 0 && dup2(input, 0) >= 0 && dup2(out, 1) >= 0 &&
        dup2(err, 2) >= 0 && (!cwd || chdir(cwd) == 0))
        execvp(argv[0], argv);
    dprintf(err, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

int dz_lab_child_start(dz_lab_child *child, char *const *argv, const char *cwd)
{
    int out[2], err[2];
    *child = (dz_lab_child){.out = -1, .err = -1, .handle = -1};
    if (pipe2(out, O_CLOEXEC) < 0)
        return -errno;
    if (pipe2(err, O_CLOEXEC) < 0) {
        int error = errno;
        close(out[0]);
        close(out[1]);
        return -error;
    }
    fflush(NULL);
    pid_t self = getpid();
    child->pid = fork();
    if (child->pid == 0)
        child_exec(argv, cwd, self, out[1], err[1]);
    int error = child->pid < 0 ? errno : 0;
    close(out[1]);
    close(err[1]);
    child->out = out[0];
    child->err = err[0];
    if (!error) {
        child->handle = pidfd_open(child->pid, 0);
        error = child->handle < 0 ? errno : 0;
    }
    if (error)
        dz_lab_child_end(child);
    return -error;
}

static bool close_at_end(int *fd, ssize_t n)
{
    if (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)))
        return n > 0;
    close(*fd);
    *fd = -1;
    return false;
}

static void read_output(dz_lab_child *child)
{
    if (child->output_room - child->output_len < 65536) {
        size_t room = child->output_room ? child->output_room * 2 : 131072;
        char *output = room <= LONGEST ? realloc(child->output, room) : NULL;
        if (!output) {
            child->too_long = true;
            close(child->out);
            child->out = -1;
            return;
        }
        child->output = output;
        child->output_room = room;
    }
    ssize_t n = read(child->out, child->output + child->output_len,
                     child->output_room - child->output_len - 1);
    if (!close_at_end(&child->out, n))
        return;
    child->output_len += (size_t)n;
    child->output[child->output_len] = '\0';
}

static void read_errors(dz_lab_child *child)
{
    char chunk[4096];
    ssize_t n = read(child->err, chunk, sizeof chunk);
    if (!close_at_end(&child->err, n))
        return;
    for (ssize_t i = 0; i < n; i++) {
        bool end = chunk[i] == '\n' || chunk[i] == '\r';
        if (!end && child->line_len < sizeof child->line - 1)
            child->line[child->line_len++] = chunk[i];
        if (!end || child->line_len == 0)
            continue;
        child->line[child->line_len] = '\0';
        memcpy(child->last, child->line, child->line_len + 1);
        child->line_len = 0;
    }
}

bool dz_lab_child_wait(dz_lab_child *child, uint64_t until)
{
    while (!child->exited || child->out >= 0 || child->err >= 0) {
        uint64_t now = dz_now();
        if (now >= until)
            return false;
        struct pollfd fds[] = {{.fd = child->out, .events = POLLIN},
                               {.fd = child->err, .events = POLLIN},
                               {.fd = child->exited ? -1 : child->handle, .events = POLLIN}};
        /* What the ended child left behind may keep the pipes open: they get no longer wait. */
        struct timespec wait = {.tv_sec = (time_t)((until - now) / DZ_SEC),
                                .tv_nsec = (long)((until - now) % DZ_SEC)};
        if (child->exited)
            wait = (struct timespec){0};
        int n = ppoll(fds, 3, &wait, NULL);
        if (n < 0)
            return false;
        if (n == 0 && child->exited)
            return true;
        if (fds[0].revents)
            read_output(child);
        if (fds[1].revents)
            read_errors(child);
        if (fds[2].revents && waitpid(child->pid, &child->status, 0) == child->pid)
            child->exited = true;
    }
    return true;
}

void dz_lab_child_end(dz_lab_child *child)
{
    if (child->pid > 0 && !child->exited) {
        kill(-child->pid, SIGKILL);
        kill(child->pid, SIGKILL); /* should it not have got its group yet */
        while (waitpid(child->pid, &child->status, 0) < 0 && errno == EINTR)
            continue;
        child->exited = true;
    }
    int *fds[] = {&child->out, &child->err, &child->handle};
    for (size_t i = 0; i < 3; i++)
        if (*fds[i] >= 0) {
            close(*fds[i]);
            *fds[i] = -1;
        }
    free(child->output);
    child->output = NULL;
}

int dz_lab_capture(const char *command, const char *cwd, char *line, size_t size)
{
    dz_lab_child child;
    char **words = dz_lab_words(command);
    if (size > 0)
        line[0] = '\0';
    if (!words || !words[0]) {
        dz_lab_words_free(words);
        return DZ_E_INVALID;
    }
    int rc = dz_lab_child_start(&child, words, cwd);
    if (rc == 0) {
        uint64_t deadline = dz_now() + 10 * DZ_SEC;
        if (!dz_lab_child_wait(&child, deadline))
            rc = DZ_E_TIMEOUT;
        else
            rc = WIFEXITED(child.status) ? WEXITSTATUS(child.status) : DZ_E_CRASHED;
        if (child.output && size > 0)
            snprintf(line, size, "%.*s", (int)strcspn(child.output, "\n"), child.output);
        dz_lab_child_end(&child);
    }
    dz_lab_words_free(words);
    return rc;
}
