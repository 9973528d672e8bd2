/* Where lines go, and what a file, pipe or socket can do to them. */
#include "../check.h"
#include "../wait.h"

#include "log/sink.h"

#include "base/clock.h"

#include <donmaz/error.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* --- a system that is told to refuse (--wrap=write,--wrap=open,--wrap=open64,--wrap=strdup) --- */

enum { ALL = 1 << 30 };

static struct {
    ssize_t takes; /* bytes at most */
    int error;     /* instead */
} script[8];
static size_t scripted, step; /* what a test said; how far it is */
static int open_error;
static bool no_memory;

ssize_t __real_write(int fd, const void *bytes, size_t len);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);
ssize_t __wrap_write(int fd, const void *bytes, size_t len)
{
    if (step >= scripted)
        return __real_write(fd, bytes, len);
    size_t now = step++;
    if (script[now].error) {
        errno = script[now].error;
        return -1;
    }
    return __real_write(fd, bytes,
                        len < (size_t)script[now].takes ? len : (size_t)script[now].takes);
}

static void next_writes(size_t count, ...)
{
    va_list list;
    va_start(list, count);
    scripted = count;
    step = 0;
    for (size_t i = 0; i < count; i++) { /* below 0: the error */
        int it = va_arg(list, int);
        script[i].takes = it;
        script[i].error = it < 0 ? -it : 0;
    }
    va_end(list);
}

#define OPEN_WRAP(name)                                                                            \
    int __real_##name(const char *path, int flags, ...);                                           \
    int __wrap_##name(const char *path, int flags, ...);                                           \
    int __wrap_##name(const char *path, int flags, ...)                                            \
    {                                                                                              \
        mode_t mode = 0;                                                                           \
        if (flags & O_CREAT) {                                                                     \
            va_list list;                                                                          \
            va_start(list, flags);                                                                 \
            mode = va_arg(list, mode_t);                                                           \
            va_end(list);                                                                          \
        }                                                                                          \
        if (open_error) {                                                                          \
            errno = open_error;                                                                    \
            return -1;                                                                             \
        }                                                                                          \
        return __real_##name(path, flags, mode);                                                   \
    }

OPEN_WRAP(open)
OPEN_WRAP(open64)

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
    return no_memory ? NULL : __real_strdup(text);
}

/* --- a folder and a sink for each test --- */

static char folder[64], file[96], other[96];
static dz_sink sink;

static int set_up(void **state)
{
    (void)state;
    scripted = step = 0;
    open_error = 0;
    no_memory = false;
    snprintf(folder, sizeof folder, "/tmp/dz-sink-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(file, sizeof file, "%s/log", folder);
    snprintf(other, sizeof other, "%s/log.1", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(file);
    unlink(other);
    return rmdir(folder);
}

static void open_file(void)
{
    assert_int_equal(dz_sink_open(&sink, file, -1), 0);
}

static void put(const char *text)
{
    dz_sink_write(&sink, text, strlen(text));
}

/* What is in the file; what has come through the pipe or socket. */
static const char *read_all(int fd)
{
    static char text[1 << 20];
    size_t len = 0;
    ssize_t n;
    while ((n = read(fd, text + len, sizeof text - 1 - len)) > 0)
        len += (size_t)n;
    text[len] = '\0';
    return text;
}

static const char *contents(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    const char *text = read_all(fd);
    close(fd);
    return text;
}

static void put_there(const char *text)
{
    FILE *out = fopen(file, "we");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
}

static int open_count(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* --- opening --- */

static void a_file_is_made_and_written_to_at_its_end(void **state)
{
    (void)state;
    open_file();
    assert_int_equal(sink.kind, DZ_SINK_FILE);
    put("one\n");
    FILE *beside = fopen(file, "ae"); /* another process's */
    assert_non_null(beside);
    fputs("two\n", beside);
    fclose(beside);
    put("three\n");
    dz_sink_close(&sink);
    assert_string_equal(contents(file), "one\ntwo\nthree\n");
    open_file();
    put("four\n");
    dz_sink_close(&sink);
    assert_string_equal(contents(file), "one\ntwo\nthree\nfour\n");
}

static void what_can_t_be_opened_is_an_error_and_leaves_nothing_open(void **state)
{
    (void)state;
    int count = open_count();
    assert_int_equal(dz_sink_open(&sink, "/nowhere/at/all", -1), -ENOENT);
    assert_int_equal(dz_sink_open(&sink, folder, -1), -EISDIR);
    assert_int_equal(mkfifo(file, 0600), 0);
    assert_int_equal(dz_sink_open(&sink, file, -1), -ENXIO); /* nobody reads it: no hang */
    open_error = EMFILE;
    assert_int_equal(dz_sink_open(&sink, file, -1), -EMFILE);
    open_error = 0;
    no_memory = true;
    assert_int_equal(dz_sink_open(&sink, file, -1), DZ_E_NOMEM);
    assert_int_equal(open_count(), count);
}

static void a_given_descriptor_stays_open(void **state)
{
    (void)state;
    int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(dz_sink_open(&sink, NULL, fd), 0);
    put("one\n");
    assert_int_equal(dz_sink_reopen(&sink), 0); /* there is nothing to open */
    dz_sink_close(&sink);
    assert_int_equal(write(fd, "two\n", 4), 4);
    close(fd);
    assert_string_equal(contents(file), "one\ntwo\n");
}

/* --- opening again --- */

static void opening_again_follows_a_file_that_was_moved_away(void **state)
{
    (void)state;
    open_file();
    put("old\n");
    assert_int_equal(rename(file, other), 0);
    put("still old\n");
    int count = open_count();
    assert_int_equal(dz_sink_reopen(&sink), 0);
    put("new\n");
    assert_int_equal(open_count(), count);
    dz_sink_close(&sink);
    assert_string_equal(contents(other), "old\nstill old\n");
    assert_string_equal(contents(file), "new\n");
}

static void when_it_can_t_be_opened_again_the_old_file_stays_in_use(void **state)
{
    (void)state;
    open_file();
    int count = open_count();
    open_error = EMFILE;
    assert_int_equal(dz_sink_reopen(&sink), -EMFILE);
    open_error = 0;
    assert_int_equal(rename(file, other), 0);
    assert_int_equal(mkdir(file, 0700), 0);
    assert_int_equal(dz_sink_reopen(&sink), -EISDIR);
    assert_int_equal(rmdir(file), 0);
    put("kept\n");
    assert_int_equal(open_count(), count);
    dz_sink_close(&sink);
    assert_string_equal(contents(other), "kept\n");
}

static void a_line_torn_in_the_old_file_leaves_no_gap_in_the_new_one(void **state)
{
    (void)state;
    open_file();
    next_writes(2, 3, -ENOSPC);
    put("torn\n");
    assert_true(sink.torn);
    assert_int_equal(rename(file, other), 0);
    assert_int_equal(dz_sink_reopen(&sink), 0);
    put("new\n");
    dz_sink_close(&sink);
    assert_string_equal(contents(other), "tor");
    assert_string_equal(contents(file), "new\n");
}

/* --- a file that somebody left in mid-line --- */

static void a_line_that_was_cut_off_does_not_swallow_ours(void **state)
{
    (void)state;
    put_there("whole\nkilled in the mid");
    open_file();
    put("ours\n");
    put("and ours\n");
    dz_sink_close(&sink);
    assert_string_equal(contents(file), "whole\nkilled in the mid\nours\nand ours\n");
}

static void a_file_whose_lines_are_whole_gets_no_empty_one(void **state)
{
    (void)state;
    put_there("whole\n");
    open_file();
    put("ours\n");
    dz_sink_write(&sink, "", 0);
    dz_sink_close(&sink);
    assert_string_equal(contents(file), "whole\nours\n");
}

static void nothing_to_write_ends_no_line(void **state)
{
    (void)state;
    put_there("killed");
    open_file();
    dz_sink_write(&sink, "", 0);
    dz_sink_close(&sink);
    assert_string_equal(contents(file), "killed");
}

/* --- disks --- */

static void what_a_full_disk_does_not_take_is_counted_line_by_line(void **state)
{
    (void)state;
    open_file();
    next_writes(1, -ENOSPC);
    put("a\nb\nc\n");
    assert_int_equal(sink.lost, 3);
    assert_int_equal(sink.error, -ENOSPC);
    assert_false(sink.torn);
    put("d\n");
    assert_int_equal(sink.lost, 3);
    assert_int_equal(sink.error, 0); /* it works again */
    dz_sink_close(&sink);
    assert_string_equal(contents(file), "d\n");
}

static void a_line_that_was_begun_is_lost_and_the_next_begins_anew(void **state)
{
    (void)state;
    open_file();
    next_writes(2, 4, -ENOSPC);
    put("a\nbcd\nefg\n");
    assert_int_equal(sink.lost, 2); /* all but the first */
    assert_true(sink.torn);
    put("next\n");
    assert_false(sink.torn);
    dz_sink_close(&sink);
    assert_string_equal(contents(file), "a\nbc\nnext\n");
}

static void a_write_that_stopped_between_lines_tore_none(void **state)
{
    (void)state;
    open_file();
    next_writes(2, 2, -EIO);
    put("a\nb\n");
    assert_int_equal(sink.lost, 1);
    assert_false(sink.torn);
    put("c\n");
    dz_sink_close(&sink);
    assert_string_equal(contents(file), "a\nc\n");
}

static void while_the_torn_line_can_t_be_ended_nothing_is_written_behind_it(void **state)
{
    (void)state;
    open_file();
    next_writes(4, 2, -ENOSPC, -ENOSPC, -ENOSPC);
    put("torn\n");
    put("b\nc\n");
    put("d\n");
    assert_int_equal(sink.lost, 4);
    assert_true(sink.torn);
    put("e\n");
    assert_int_equal(sink.lost, 4);
    dz_sink_close(&sink);
    assert_string_equal(contents(file), "to\ne\n");
}

static void short_writes_and_signals_go_on_where_they_stopped(void **state)
{
    (void)state;
    open_file();
    next_writes(5, 1, -EINTR, 3, -EINTR, ALL);
    put("one\ntwo\n");
    assert_int_equal(step, 5);
    assert_int_equal(sink.lost, 0);
    dz_sink_close(&sink);
    assert_string_equal(contents(file), "one\ntwo\n");
}

/* --- pipes --- */

static int ends[2];

static void open_pipe(void)
{
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(dz_sink_open(&sink, NULL, ends[1]), 0);
    assert_int_equal(sink.kind, DZ_SINK_PIPE);
}

static const char *close_and_read(void)
{
    dz_sink_close(&sink);
    close(ends[1]);
    const char *text = read_all(ends[0]);
    close(ends[0]);
    return text;
}

static void a_pipe_is_not_made_non_blocking_for_those_who_share_it(void **state)
{
    (void)state;
    int count = open_count();
    open_pipe();
    assert_true(sink.nonblocking);
    assert_int_not_equal(sink.fd, ends[1]);
    assert_int_equal(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
    put("line\n");
    assert_string_equal(close_and_read(), "line\n");
    assert_int_equal(open_count(), count); /* its own descriptor is closed, too */
}

static void a_fifo_by_name_is_a_pipe_and_opened_again_when_it_was_replaced(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(file, 0600), 0);
    int reader = open(file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(reader >= 0);
    int count = open_count();
    open_file();
    assert_int_equal(sink.kind, DZ_SINK_PIPE);
    assert_true(sink.nonblocking);
    put("line\n");
    assert_string_equal(read_all(reader), "line\n");
    assert_int_equal(unlink(file), 0);
    assert_int_equal(dz_sink_reopen(&sink), 0);
    assert_int_equal(sink.kind, DZ_SINK_FILE);
    put("on a disk\n");
    dz_sink_close(&sink);
    assert_int_equal(open_count(), count);
    close(reader);
    assert_string_equal(contents(file), "on a disk\n");
}

/* Several may share the pipe: only so much goes in undivided. */
static void what_is_longer_than_a_pipe_takes_undivided_is_split_between_lines(void **state)
{
    (void)state;
    static char lines[3 * PIPE_BUF];
    memset(lines, 'x', sizeof lines);
    for (size_t i = 99; i < sizeof lines; i += 100)
        lines[i] = '\n';
    size_t len = sizeof lines / 100 * 100;
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_DIRECT), 0); /* each write is one read */
    assert_int_equal(dz_sink_open(&sink, NULL, ends[1]), 0);
    fcntl(sink.fd, F_SETFL, fcntl(sink.fd, F_GETFL) | O_DIRECT);
    dz_sink_write(&sink, lines, len);
    dz_sink_close(&sink);
    close(ends[1]);
    static char piece[2 * PIPE_BUF];
    size_t got = 0;
    for (ssize_t n; (n = read(ends[0], piece, sizeof piece)) > 0; got += (size_t)n) {
        assert_true(n <= PIPE_BUF);
        assert_int_equal(piece[n - 1], '\n');
    }
    close(ends[0]);
    assert_int_equal(got, len);
    assert_int_equal(sink.lost, 0);
}

static void a_line_longer_than_that_is_written_all_the_same(void **state)
{
    (void)state;
    enum { LONG = 3 * PIPE_BUF };
    static char text[LONG + 10];
    memset(text, 'y', LONG);
    text[LONG - 1] = '\n';
    memcpy(text + LONG, "short\n", 7);
    open_pipe();
    put(text);
    assert_string_equal(close_and_read(), text);
    assert_int_equal(sink.lost, 0);
}

static void a_reader_that_left_costs_lines_and_no_signal(void **state)
{
    (void)state;
    open_pipe();
    close(ends[0]);
    put("a\nb\n");
    assert_int_equal(sink.lost, 2);
    assert_int_equal(sink.error, -EPIPE);
    dz_sink_close(&sink);
    close(ends[1]);
    int fds[2];
    signal(SIGPIPE, SIG_DFL); /* a socket asks for none */
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(dz_sink_open(&sink, NULL, fds[1]), 0);
    assert_int_equal(sink.kind, DZ_SINK_SOCKET);
    put("c\n");
    close(fds[0]);
    put("d\n");
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(sink.lost, 1);
    assert_int_equal(sink.error, -EPIPE);
    dz_sink_close(&sink);
    close(fds[1]);
}

static char line[1024];

/* Fills what the kernel holds; how many lines that were. */
static uint64_t fill(void)
{
    memset(line, 'z', sizeof line);
    line[sizeof line - 1] = '\n';
    atomic_store(&sink.deadline, 1); /* long past: who does not read at once is given up */
    uint64_t written = 0;
    for (; sink.lost == 0; written++)
        dz_sink_write(&sink, line, sizeof line);
    assert_int_equal(sink.lost, 1);
    assert_int_equal(sink.error, DZ_E_TIMEOUT);
    return written - 1;
}

static void a_reader_that_stands_still_is_given_up_at_the_deadline(void **state)
{
    (void)state;
    open_pipe();
    uint64_t written = fill();
    assert_true(written > 0);
    assert_int_equal(strlen(close_and_read()), written * sizeof line);
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(dz_sink_open(&sink, NULL, fds[1]), 0);
    assert_true(fill() > 0);
    assert_int_equal(fcntl(fds[1], F_GETFL) & O_NONBLOCK, 0);
    dz_sink_close(&sink);
    close(fds[0]);
    close(fds[1]);
}

/* Without a second descriptor (no /proc, none left) the pipe is waited for before each write. */
static void a_pipe_that_can_t_be_opened_again_is_waited_for(void **state)
{
    (void)state;
    open_error = EMFILE;
    open_pipe();
    open_error = 0;
    assert_int_equal(sink.fd, ends[1]);
    assert_false(sink.nonblocking);
    put("line\n");
    uint64_t written = fill();
    assert_true(written > 0);
    const char *text = close_and_read();
    assert_int_equal(strncmp(text, "line\n", 5), 0);
    assert_int_equal(strlen(text), 5 + written * sizeof line);
}

static _Atomic bool has_written;

static void *write_one(void *unused)
{
    (void)unused;
    dz_sink_write(&sink, line, sizeof line);
    atomic_store(&has_written, true);
    return NULL;
}

static void without_a_deadline_a_slow_reader_is_waited_for(void **state)
{
    (void)state;
    open_pipe();
    fill();
    atomic_store(&sink.deadline, 0);
    atomic_store(&has_written, false);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_one, NULL), 0);
    poll(NULL, 0, 250); /* longer than one wait: it goes on waiting */
    assert_false(atomic_load(&has_written));
    static char taken[64 << 10];
    assert_true(read(ends[0], taken, sizeof taken) > 0);
    wait_until(atomic_load(&has_written));
    pthread_join(thread, NULL);
    assert_int_equal(sink.lost, 1); /* the one that filled it */
    assert_int_equal(sink.error, 0);
    close_and_read();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    signal(SIGPIPE, SIG_IGN); /* as the writer's thread blocks it */
    const struct CMUnitTest tests[] = {
        TEST(a_file_is_made_and_written_to_at_its_end),
        TEST(what_can_t_be_opened_is_an_error_and_leaves_nothing_open),
        TEST(a_given_descriptor_stays_open),
        TEST(opening_again_follows_a_file_that_was_moved_away),
        TEST(when_it_can_t_be_opened_again_the_old_file_stays_in_use),
        TEST(a_line_torn_in_the_old_file_leaves_no_gap_in_the_new_one),
        TEST(a_line_that_was_cut_off_does_not_swallow_ours),
        TEST(a_file_whose_lines_are_whole_gets_no_empty_one),
        TEST(nothing_to_write_ends_no_line),
        TEST(what_a_full_disk_does_not_take_is_counted_line_by_line),
        TEST(a_line_that_was_begun_is_lost_and_the_next_begins_anew),
        TEST(a_write_that_stopped_between_lines_tore_none),
        TEST(while_the_torn_line_can_t_be_ended_nothing_is_written_behind_it),
        TEST(short_writes_and_signals_go_on_where_they_stopped),
        TEST(a_pipe_is_not_made_non_blocking_for_those_who_share_it),
        TEST(a_fifo_by_name_is_a_pipe_and_opened_again_when_it_was_replaced),
        TEST(what_is_longer_than_a_pipe_takes_undivided_is_split_between_lines),
        TEST(a_line_longer_than_that_is_written_all_the_same),
        TEST(a_reader_that_left_costs_lines_and_no_signal),
        TEST(a_reader_that_stands_still_is_given_up_at_the_deadline),
        TEST(a_pipe_that_can_t_be_opened_again_is_waited_for),
        TEST(without_a_deadline_a_slow_reader_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
