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
#include <sys/wait.h>
#include <unistd.h>

enum { LONGEST = 64 << 20 };

int dz_lab_child_start(dz_lab_child *child, char *const *argv, const char *cwd)
{
    int out[2], err[2];
    *child = (dz_lab_child){.out = -1, .err = -1};
    if (pipe2(out, O_CLOEXEC) < 0)
        return -errno;
    if (pipe2(err, O_CLOEXEC) < 0) {
        int error = errno;
        close(out[0]);
        close(out[1]);
        return -error;
    }
    dz_target_options options = {
        .argv = argv, .cwd = cwd, .output = DZ_TARGET_PIPED, .out = out[1], .err = err[1]};
    int rc = dz_target_start(&child->process, &options);
    close(out[1]);
    close(err[1]);
    child->out = out[0];
    child->err = err[0];
    if (rc < 0)
        dz_lab_child_end(child);
    return rc;
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
    dz_target *process = &child->process;
    while (!process->exited || child->out >= 0 || child->err >= 0) {
        uint64_t now = dz_now();
        if (now >= until)
            return false;
        struct pollfd fds[] = {{.fd = child->out, .events = POLLIN},
                               {.fd = child->err, .events = POLLIN},
                               {.fd = process->exited ? -1 : process->socket, .events = POLLIN}};
        /* What the ended child left behind may keep the pipes open: they get no longer wait. */
        struct timespec wait = {.tv_sec = (time_t)((until - now) / DZ_SEC),
                                .tv_nsec = (long)((until - now) % DZ_SEC)};
        if (process->exited)
            wait = (struct timespec){0};
        int n = ppoll(fds, 3, &wait, NULL);
        if (n < 0)
            return false;
        if (n == 0 && process->exited)
            return true;
        if (fds[0].revents)
            read_output(child);
        if (fds[1].revents)
            read_errors(child);
        if (fds[2].revents)
            dz_target_poll(process);
    }
    return true;
}

void dz_lab_child_end(dz_lab_child *child)
{
    dz_target_stop(&child->process, SIGKILL, 0);
    if (child->out >= 0)
        close(child->out);
    if (child->err >= 0)
        close(child->err);
    child->out = child->err = -1;
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
            rc = WIFEXITED(child.process.status) ? WEXITSTATUS(child.process.status) : DZ_E_CRASHED;
        if (child.output && size > 0)
            snprintf(line, size, "%.*s", (int)strcspn(child.output, "\n"), child.output);
        dz_lab_child_end(&child);
    }
    dz_lab_words_free(words);
    return rc;
}
