#include "../check.h"

#include "base/clock.h"

#include <donmaz/error.h>
#include <donmaz/log.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_S = 20 };

/* ThreadSanitizer would refuse the writer of a forked child. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}

/* Thread creation fails while this is set. */
static atomic_bool no_threads;
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                          void *arg)
{
    return atomic_load(&no_threads) ? EAGAIN : __real_pthread_create(thread, attr, start, arg);
}

static char folder[64], file[96];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/dz-log-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(file, sizeof file, "%s/log", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(file);
    return rmdir(folder);
}

static dz_logger *open_logger(dz_log_options options)
{
    dz_logger *logger = NULL;
    assert_int_equal(dz_logger_open(&logger, &options), 0);
    return logger;
}

static char *read_fd_to_end(int fd)
{
    size_t len = 0, cap = 1 << 16;
    char *text = malloc(cap);
    for (;;) {
        ssize_t n = read(fd, text + len, cap - len - 1);
        assert_true(n >= 0);
        if (n == 0)
            break;
        len += (size_t)n;
        if (cap - len < 2)
            text = realloc(text, cap *= 2);
    }
    text[len] = '\0';
    return text;
}

static char *contents(const char *path)
{
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return strdup("");
    char *text = read_fd_to_end(fd);
    close(fd);
    return text;
}

/* Calls `each` with every line of text, which must be valid JSON; returns how many. */
static size_t for_lines(char *text, void (*each)(json_t *line, void *data), void *data)
{
    size_t lines = 0;
    /* Not strchr, which strict_string_checks makes look at all that follows. */
    const char *last = text + strlen(text);
    for (char *at = text, *end; at < last; at = end + 1, lines++) {
        end = memchr(at, '\n', (size_t)(last - at));
        assert_non_null(end);
        json_error_t error;
        json_t *json = json_loadb(at, (size_t)(end - at), JSON_REJECT_DUPLICATES, &error);
        if (!json)
            fail_msg("%s: %.*s", error.text, (int)(end - at), at);
        if (each)
            each(json, data);
        json_decref(json);
    }
    free(text);
    return lines;
}

static void wait_for_text(const char *path, const char *text)
{
    for (uint64_t end = dz_now() + PATIENCE_S * DZ_SEC;; poll(NULL, 0, 1)) {
        char *now = contents(path);
        bool there = strstr(now, text) != NULL;
        free(now);
        if (there)
            return;
        if (dz_now() > end)
            fail_msg("\"%s\" never came", text);
    }
}

static void check_pino_fields(json_t *line, void *data)
{
    (void)data;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    uint64_t now = dz_clock(CLOCK_REALTIME) / DZ_MS;
    assert_int_equal(json_integer_value(json_object_get(line, "level")), 40);
    uint64_t time = (uint64_t)json_integer_value(json_object_get(line, "time"));
    assert_true(time <= now && time + 60000 > now);
    assert_int_equal(json_integer_value(json_object_get(line, "pid")), getpid());
    assert_string_equal(json_string_value(json_object_get(line, "hostname")), host);
    assert_string_equal(json_string_value(json_object_get(line, "name")), "svc");
    assert_string_equal(json_string_value(json_object_get(line, "key")), "doc");
    assert_string_equal(json_string_value(json_object_get(line, "msg")), "it %s happened");
}

static void a_line_has_pinos_fields(void **state)
{
    (void)state;
    dz_logger *log = open_logger((dz_log_options){.path = file, .name = "svc"});
    errno = EDOM;
    dz_log(log, DZ_LOG_WARN, "it %s happened", dz_field_str("key", "doc"));
    assert_int_equal(errno, EDOM);
    dz_logger_close(log);
    assert_int_equal(for_lines(contents(file), check_pino_fields, NULL), 1);
}

static void lines_below_the_level_are_not_made(void **state)
{
    (void)state;
    dz_logger *log = open_logger((dz_log_options){.path = file});
    int made = 0;
    dz_log(log, DZ_LOG_DEBUG, "no", dz_field_int("n", made++));
    assert_int_equal(made, 0);
    dz_logger_set_level(log, DZ_LOG_DEBUG);
    dz_log(log, DZ_LOG_DEBUG, "yes", dz_field_int("n", made++));
    dz_logger_set_level(log, DZ_LOG_SILENT);
    dz_log(log, DZ_LOG_FATAL, "no");
    dz_log(NULL, DZ_LOG_FATAL, "no");
    dz_log_request(NULL, &(dz_log_request_info){.status = 200});
    dz_logger_close(NULL);
    dz_logger_close(log);
    assert_int_equal(made, 1);
    assert_int_equal(for_lines(contents(file), NULL, NULL), 1);
}

static void check_request(json_t *line, void *data)
{
    (void)data;
    char *text = json_dumps(json_object_get(line, "req"), JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(
        text, "{\"method\":\"GET\",\"remoteAddress\":\"127.0.0.1\","
              "\"remotePort\":4000,\"route\":\"/u/:id\",\"url\":\"/u/1?key=[Redacted]\"}");
    free(text);
    text = json_dumps(json_object_get(line, "res"), JSON_COMPACT);
    assert_string_equal(text, "{\"statusCode\":503,\"bytes\":12}");
    free(text);
    assert_int_equal(json_integer_value(json_object_get(line, "level")), 50);
    assert_string_equal(json_string_value(json_object_get(line, "reqId")), "req-1");
    assert_true(json_real_value(json_object_get(line, "responseTime")) == 1.5);
    assert_true(json_is_true(json_object_get(line, "rescued")));
    assert_string_equal(json_string_value(json_object_get(line, "msg")), "request completed");
}

static void a_request_line_has_fastifys_shape(void **state)
{
    (void)state;
    const char *const redact[] = {"?key"};
    dz_logger *log =
        open_logger((dz_log_options){.path = file, .redact = redact, .redact_count = 1});
    dz_log_request(log, &(dz_log_request_info){.id = DZ_LIT("req-1"),
                                               .method = DZ_LIT("GET"),
                                               .url = DZ_LIT("/u/1?key=secret"),
                                               .route = DZ_LIT("/u/:id"),
                                               .remote_address = DZ_LIT("127.0.0.1"),
                                               .remote_port = 4000,
                                               .status = 503,
                                               .rescued = true,
                                               .bytes = 12,
                                               .duration_ns = 1500000});
    dz_logger_close(log);
    assert_int_equal(for_lines(contents(file), check_request, NULL), 1);
}

static void lines_are_written_without_flush_or_close(void **state)
{
    (void)state;
    dz_logger *log = open_logger((dz_log_options){.path = file});
    dz_log(log, DZ_LOG_INFO, "first");
    wait_for_text(file, "first");
    dz_log(log, DZ_LOG_INFO, "second"); /* after the writer went to sleep, or just before */
    wait_for_text(file, "second");
    dz_logger_close(log);
}

/* --- threads */

enum { THREADS = 6, EACH = 5000 };

typedef struct tally {
    size_t lines, by_thread[THREADS];
} tally;

static void *log_many(void *arg)
{
    dz_logger *log = ((void **)arg)[0];
    int64_t thread = (intptr_t)((void **)arg)[1];
    for (int64_t n = 0; n < EACH; n++)
        dz_log(log, DZ_LOG_INFO, "line", dz_field_int("thread", thread), dz_field_int("n", n));
    return NULL;
}

static void check_order(json_t *line, void *data)
{
    tally *t = data;
    if (!json_object_get(line, "thread"))
        return;
    json_int_t thread = json_integer_value(json_object_get(line, "thread"));
    json_int_t n = json_integer_value(json_object_get(line, "n"));
    assert_in_range(thread, 0, THREADS - 1);
    assert_true((size_t)n >= t->by_thread[thread]); /* gaps are drops; going back never */
    t->by_thread[thread] = (size_t)n + 1;
    t->lines++;
}

static void run_threads(dz_logger *log)
{
    pthread_t threads[THREADS];
    void *args[THREADS][2];
    for (size_t i = 0; i < THREADS; i++) {
        args[i][0] = log;
        args[i][1] = (void *)(intptr_t)i;
        assert_int_equal(__real_pthread_create(&threads[i], NULL, log_many, args[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void blocking_loses_nothing_and_keeps_each_threads_order(void **state)
{
    (void)state;
    dz_logger *log = open_logger(
        (dz_log_options){.path = file, .block = true, .thread_bytes = 8192, .line_bytes = 1024});
    run_threads(log);
    dz_log_stats stats;
    dz_logger_stats(log, &stats);
    assert_int_equal(stats.lines, THREADS * EACH);
    assert_int_equal(stats.dropped, 0);
    dz_logger_close(log);
    tally t = {0};
    for_lines(contents(file), check_order, &t);
    assert_int_equal(t.lines, THREADS * EACH);
}

static void dropping_counts_what_it_drops_and_the_log_says_so(void **state)
{
    (void)state;
    dz_logger *log =
        open_logger((dz_log_options){.path = file, .thread_bytes = 8192, .line_bytes = 1024});
    run_threads(log);
    dz_log_stats stats;
    dz_logger_stats(log, &stats);
    assert_int_equal(stats.lines + stats.dropped, THREADS * EACH);
    dz_logger_close(log);
    tally t = {0};
    char *text = contents(file);
    if (stats.dropped > 0)
        assert_non_null(strstr(text, "log lines are missing here"));
    for_lines(text, check_order, &t);
    assert_int_equal(t.lines, stats.lines);
}

static void *log_one(void *log)
{
    dz_log(log, DZ_LOG_INFO, "from a thread that ends");
    return NULL;
}

static void threads_that_end_leave_their_lines_and_their_buffer(void **state)
{
    (void)state;
    dz_logger *log = open_logger((dz_log_options){.path = file, .thread_bytes = 1 << 20});
    for (int i = 0; i < 200; i++) {
        pthread_t thread;
        assert_int_equal(__real_pthread_create(&thread, NULL, log_one, log), 0);
        pthread_join(thread, NULL);
    }
    assert_int_equal(dz_logger_flush(log, PATIENCE_S * 1000), 0);
    assert_int_equal(for_lines(contents(file), NULL, NULL), 200);
    dz_logger_close(log);
}

/* --- the writer thread */

static void without_a_thread_nothing_is_lost(void **state)
{
    (void)state;
    atomic_store(&no_threads, true);
    dz_logger *log = open_logger((dz_log_options){.path = file});
    dz_log(log, DZ_LOG_INFO, "one");
    dz_log_stats stats;
    dz_logger_stats(log, &stats);
    assert_int_equal(stats.thread_failures, 1);
    assert_int_equal(dz_logger_flush(log, 1000), 0);
    assert_int_equal(for_lines(contents(file), NULL, NULL), 1);
    dz_log(log, DZ_LOG_INFO, "two");
    dz_logger_close(log);
    assert_int_equal(for_lines(contents(file), NULL, NULL), 2);
    dz_logger *blocking = open_logger(
        (dz_log_options){.path = file, .block = true, .thread_bytes = 4096, .line_bytes = 1024});
    for (int i = 0; i < 1000; i++)
        dz_log(blocking, DZ_LOG_INFO, "more than the buffer holds");
    dz_logger_close(blocking);
    atomic_store(&no_threads, false);
    assert_int_equal(for_lines(contents(file), NULL, NULL), 1002);
}

static void the_thread_is_tried_again_later(void **state)
{
    (void)state;
    atomic_store(&no_threads, true);
    dz_logger *log = open_logger((dz_log_options){.path = file});
    dz_log(log, DZ_LOG_INFO, "before");
    atomic_store(&no_threads, false);
    uint64_t end = dz_now() + PATIENCE_S * DZ_SEC;
    for (bool written = false; !written; poll(NULL, 0, 1)) {
        assert_true(dz_now() < end);
        dz_log(log, DZ_LOG_INFO, "after");
        char *text = contents(file);
        written = *text != '\0';
        free(text);
    }
    wait_for_text(file, "before");
    dz_logger_close(log);
}

/* The system call that the writer sits in; false where the kernel does not say. */
static bool writers_syscall(char *text, size_t size)
{
    char path[300];
    ssize_t n = -1;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (const struct dirent *task; n < 0 && (task = readdir(tasks));) {
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        char *comm = contents(path);
        bool is_writer = strcmp(comm, "dz-log\n") == 0;
        free(comm);
        if (!is_writer)
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/syscall", task->d_name);
        int fd = open(path, O_RDONLY);
        n = fd < 0 ? 0 : read(fd, text, size - 1);
        if (fd >= 0)
            close(fd);
    }
    closedir(tasks);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static void an_idle_writer_sleeps_without_a_timer(void **state)
{
    (void)state;
    dz_logger *log = open_logger((dz_log_options){.path = file});
    dz_log(log, DZ_LOG_INFO, "busy");
    wait_for_text(file, "busy");
    char text[256];
    if (!writers_syscall(text, sizeof text)) {
        dz_logger_close(log);
        skip();
    }
    for (uint64_t end = dz_now() + PATIENCE_S * DZ_SEC;; poll(NULL, 0, 1)) {
        long number = -1;
        unsigned long word, operation, value, timeout = 1;
        if (writers_syscall(text, sizeof text) &&
            sscanf(text, "%ld %lx %lx %lx %lx", &number, &word, &operation, &value, &timeout) ==
                5 &&
            number == SYS_futex && timeout == 0)
            break;
        if (dz_now() > end)
            fail_msg("the writer is in \"%s\"", text);
    }
    dz_logger_close(log);
}

/* --- files, pipes */

static void reopening_follows_a_rotated_file(void **state)
{
    (void)state;
    char old[128];
    snprintf(old, sizeof old, "%s.1", file);
    dz_logger *log = open_logger((dz_log_options){.path = file});
    dz_log(log, DZ_LOG_INFO, "old");
    assert_int_equal(dz_logger_flush(log, PATIENCE_S * 1000), 0);
    assert_int_equal(rename(file, old), 0);
    dz_logger_reopen(log);
    dz_log(log, DZ_LOG_INFO, "new");
    assert_int_equal(dz_logger_flush(log, PATIENCE_S * 1000), 0);
    assert_int_equal(for_lines(contents(file), NULL, NULL), 1);
    assert_int_equal(for_lines(contents(old), NULL, NULL), 1);
    unlink(old);
    dz_logger_close(log);
}

static void a_failed_reopen_keeps_the_old_file(void **state)
{
    (void)state;
    char old[128];
    snprintf(old, sizeof old, "%s.1", file);
    dz_logger *log = open_logger((dz_log_options){.path = file});
    dz_log(log, DZ_LOG_INFO, "one");
    assert_int_equal(dz_logger_flush(log, PATIENCE_S * 1000), 0);
    assert_int_equal(rename(file, old), 0);
    assert_int_equal(mkdir(file, 0700), 0); /* a folder can't be opened for writing */
    dz_logger_reopen(log);
    dz_log(log, DZ_LOG_INFO, "two");
    assert_int_equal(dz_logger_flush(log, PATIENCE_S * 1000), 0);
    char *text = contents(old);
    assert_non_null(strstr(text, "log file could not be reopened"));
    assert_non_null(strstr(text, "EISDIR"));
    assert_int_equal(for_lines(text, NULL, NULL), 3);
    dz_logger_close(log);
    unlink(old);
    rmdir(file);
}

static void a_path_that_cannot_be_opened_is_an_error(void **state)
{
    (void)state;
    dz_logger *log;
    assert_int_equal(dz_logger_open(&log, &(dz_log_options){.path = "/nowhere/at/all"}), -ENOENT);
    assert_int_equal(mkfifo(file, 0600), 0); /* that nobody reads */
    assert_int_equal(dz_logger_open(&log, &(dz_log_options){.path = file}), -ENXIO);
    assert_int_equal(dz_logger_open(&log, &(dz_log_options){.line_bytes = 10}), DZ_E_INVALID);
}

static void a_full_disk_loses_lines_and_counts_them(void **state)
{
    (void)state;
    dz_logger *log = open_logger((dz_log_options){.path = "/dev/full", .block = true});
    for (int i = 0; i < 100; i++)
        dz_log(log, DZ_LOG_INFO, "into the full");
    assert_int_equal(dz_logger_flush(log, PATIENCE_S * 1000), 0);
    dz_log_stats stats;
    dz_logger_stats(log, &stats);
    assert_int_equal(stats.lines, 100);
    assert_int_equal(stats.lost, 100);
    dz_logger_close(log);
}

static void a_reader_that_left_costs_lines_only(void **state)
{
    (void)state;
    int pipes[2], sockets[2];
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    for (int i = 0; i < 2; i++) {
        int *fds = i == 0 ? pipes : sockets;
        dz_logger *log = open_logger((dz_log_options){.fd = fds[1]});
        close(fds[0]);
        dz_log(log, DZ_LOG_INFO, "nobody reads this"); /* must not raise SIGPIPE */
        assert_int_equal(dz_logger_flush(log, PATIENCE_S * 1000), 0);
        dz_log_stats stats;
        dz_logger_stats(log, &stats);
        assert_int_equal(stats.lost, 1);
        dz_logger_close(log);
        close(fds[1]);
    }
}

static void a_reader_that_stands_still_never_blocks_the_caller(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    dz_logger *log = open_logger(
        (dz_log_options){.fd = fds[1], .thread_bytes = 8192, .line_bytes = 1024, .close_ms = 50});
    uint64_t logged = 0;
    do { /* pipe and ring fill up; a caller that is blocked would hang here */
        for (int i = 0; i < 1000; i++)
            dz_log(log, DZ_LOG_INFO, "nobody reads this yet", dz_field_uint("n", logged++));
    } while (dz_logger_flush(log, 200) == 0);
    dz_log_stats stats;
    dz_logger_stats(log, &stats);
    assert_int_equal(stats.lines + stats.dropped, logged);
    dz_logger_close(log); /* gives up after close_ms */
    close(fds[1]);
    for_lines(read_fd_to_end(fds[0]), NULL, NULL); /* only whole lines got into the pipe */
    close(fds[0]);
}

/* --- processes */

static int wait_status(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void a_forked_child_logs_its_own_lines_once(void **state)
{
    (void)state;
    dz_logger *log = open_logger((dz_log_options){.path = file});
    /* A thread being started while forking is more than the address sanitizer's locks bear. */
    dz_log(log, DZ_LOG_INFO, "the writer runs");
    wait_for_text(file, "the writer runs");
    dz_log(log, DZ_LOG_INFO, "parent before");
    pid_t child = fork(); /* the line above may still be in the buffer, for the parent to write */
    if (child == 0) {
        dz_log(log, DZ_LOG_INFO, "child");
        exit(0); /* writes what is left */
    }
    assert_int_equal(wait_status(child), 0);
    dz_log(log, DZ_LOG_INFO, "parent after");
    dz_logger_close(log);
    char *text = contents(file), pid[32];
    snprintf(pid, sizeof pid, "\"pid\":%d,", child);
    assert_non_null(strstr(text, pid));
    assert_int_equal(for_lines(text, NULL, NULL), 4);
}

static void exit_writes_everything(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        dz_logger *log = open_logger((dz_log_options){.path = file, .thread_bytes = 1 << 22});
        for (int i = 0; i < 10000; i++)
            dz_log(log, DZ_LOG_INFO, "line");
        exit(0);
    }
    assert_int_equal(wait_status(child), 0);
    assert_int_equal(for_lines(contents(file), NULL, NULL), 10000);
}

static void a_killed_process_keeps_what_was_written(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        dz_logger *log = open_logger((dz_log_options){.path = file});
        dz_log(log, DZ_LOG_INFO, "last words");
        for (;;)
            pause();
    }
    wait_for_text(file, "last words"); /* nobody flushed */
    kill(child, SIGKILL);
    wait_status(child);
    assert_int_equal(for_lines(contents(file), NULL, NULL), 1);
}

static void eight_loggers_and_no_more(void **state)
{
    (void)state;
    dz_logger *logs[8], *ninth;
    for (int round = 0; round < 3; round++) { /* slots are used again; stale rings are not */
        for (size_t i = 0; i < 8; i++)
            logs[i] = open_logger((dz_log_options){.path = file});
        assert_int_equal(dz_logger_open(&ninth, &(dz_log_options){.path = file}), DZ_E_STATE);
        for (size_t i = 0; i < 8; i++)
            dz_log(logs[i], DZ_LOG_INFO, "x");
        for (size_t i = 0; i < 8; i++)
            dz_logger_close(logs[i]);
    }
    assert_int_equal(for_lines(contents(file), NULL, NULL), 24);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_line_has_pinos_fields),
        TEST(lines_below_the_level_are_not_made),
        TEST(a_request_line_has_fastifys_shape),
        TEST(lines_are_written_without_flush_or_close),
        TEST(blocking_loses_nothing_and_keeps_each_threads_order),
        TEST(dropping_counts_what_it_drops_and_the_log_says_so),
        TEST(threads_that_end_leave_their_lines_and_their_buffer),
        TEST(without_a_thread_nothing_is_lost),
        TEST(the_thread_is_tried_again_later),
        TEST(an_idle_writer_sleeps_without_a_timer),
        TEST(reopening_follows_a_rotated_file),
        TEST(a_failed_reopen_keeps_the_old_file),
        TEST(a_path_that_cannot_be_opened_is_an_error),
        TEST(a_full_disk_loses_lines_and_counts_them),
        TEST(a_reader_that_left_costs_lines_only),
        TEST(a_reader_that_stands_still_never_blocks_the_caller),
        TEST(a_forked_child_logs_its_own_lines_once),
        TEST(exit_writes_everything),
        TEST(a_killed_process_keeps_what_was_written),
        TEST(eight_loggers_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
