/* The request log's line, which is made in one way when all is usual and in another when not; and
 * what a file looks like that others write to as well. */
#include "../check.h"

#include "log/logger.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

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

static char *contents(void)
{
    static char text[1 << 17];
    int fd = open(file, O_RDONLY);
    assert_true(fd >= 0);
    ssize_t n = read(fd, text, sizeof text - 1);
    assert_true(n >= 0);
    close(fd);
    text[n] = '\0';
    return text;
}

static void append(const char *text)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_APPEND, 0600);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static dz_logger *open_logger(const char *const *rules, size_t count)
{
    dz_logger *log;
    dz_log_options options = {.path = file, .redact = rules, .redact_count = count};
    assert_int_equal(dz_logger_open(&log, &options), 0);
    return log;
}

/* The line of `info`, without its head: from "reqId" on. */
static char *line_of(const dz_log_request_info *info, const char *const *rules, size_t count)
{
    dz_logger *log = open_logger(rules, count);
    dz_log_request(log, info);
    dz_logger_close(log);
    char *text = contents();
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    if (!json)
        fail_msg("%s", text);
    json_decref(json);
    char *from = strstr(text, "\"reqId\"");
    assert_non_null(from);
    from = strdup(from);
    unlink(file);
    return from;
}

static const char *const SPARES[] = {"*.password", "?token", "user.name"};
/* Not found in any line, but it might be: "*.bytes" in a group of this name is a request's. */
static const char *const FOUND[] = {"res.statusCode"};

static const dz_log_request_info usual = {.id = {.ptr = "abc-1", .len = 5},
                                          .method = {.ptr = "GET", .len = 3},
                                          .url = {.ptr = "/users/17", .len = 9},
                                          .route = {.ptr = "/users/:id", .len = 10},
                                          .status = 200,
                                          .bytes = 512,
                                          .duration_ns = 1234567};

static void both_ways_make_the_same_line(void **state)
{
    (void)state;
    dz_log_request_info cases[8];
    for (size_t i = 0; i < 8; i++)
        cases[i] = usual;
    cases[1].route = (dz_slice){0};
    cases[2].url = DZ_LIT("/a\"b\\c\n\x01/\xff/and-some-more-to-be-longer");
    cases[3].remote_address = DZ_LIT("::1");
    cases[3].remote_port = 65535;
    cases[4].rescued = true;
    cases[4].duration_ns = 204000000;
    cases[5].status = 499;
    cases[5].aborted = true;
    cases[6].members = DZ_LIT("\"user\":\"ada\",\"n\":1");
    cases[7].status = 503;
    cases[7].bytes = INT64_MAX;
    cases[7].duration_ns = 999; /* rounds to a microsecond */
    for (size_t i = 0; i < 8; i++) {
        /* A rule that names a field of it takes the other way; this one is replaced there, so what
         * it names is put back to compare. */
        char status[16];
        char *fast = line_of(&cases[i], SPARES, 3), *slow = line_of(&cases[i], FOUND, 1);
        snprintf(status, sizeof status, "\":%u,", cases[i].status);
        char *hidden = strstr(slow, "\":\"[Redacted]\",");
        assert_non_null(hidden);
        char whole[2048];
        snprintf(whole, sizeof whole, "%.*s%s%s", (int)(hidden - slow), slow, status,
                 hidden + strlen("\":\"[Redacted]\","));
        assert_string_equal(fast, whole);
        free(fast);
        free(slow);
    }
}

static void the_usual_line_is_as_documented(void **state)
{
    (void)state;
    char *line = line_of(&usual, NULL, 0);
    assert_string_equal(
        line, "\"reqId\":\"abc-1\",\"req\":{\"method\":\"GET\",\"url\":\"/users/17\","
              "\"route\":\"/users/:id\"},\"res\":{\"statusCode\":200,\"bytes\":512},"
              "\"responseTime\":1.235,\"rescued\":false,\"msg\":\"request completed\"}\n");
    free(line);
}

static void durations_are_milliseconds_to_the_microsecond(void **state)
{
    (void)state;
    static const struct {
        uint64_t ns;
        const char *text;
    } cases[] = {{0, ":0,"},          {499, ":0,"},          {500, ":0.001,"},
                 {10000, ":0.01,"},   {100000, ":0.1,"},     {1000000, ":1,"},
                 {1050000, ":1.05,"}, {999999600, ":1000,"}, {12345678901, ":12345.679,"},
                 {120000, ":0.12,"},  {101000, ":0.101,"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        dz_log_request_info info = usual;
        info.duration_ns = cases[i].ns;
        char *line = line_of(&info, NULL, 0), *at = strstr(line, "responseTime\"");
        assert_memory_equal(at + strlen("responseTime\""), cases[i].text, strlen(cases[i].text));
        free(line);
    }
}

static void a_url_of_any_length_makes_a_valid_line(void **state)
{
    (void)state;
    static char url[60000];
    memset(url, '"', sizeof url); /* each takes two bytes */
    for (size_t len = 0; len < sizeof url; len = len * 2 + 1) {
        dz_log_request_info info = usual;
        info.url = dz_slice_make(url, len);
        char *line = line_of(&info, NULL, 0);
        assert_int_equal(strstr(line, "\"truncated\":true") != NULL, len > 8000);
        free(line);
    }
}

static void secrets_in_the_query_are_hidden_in_any_case(void **state)
{
    (void)state;
    dz_log_request_info info = usual;
    info.url = DZ_LIT("/a?x=1&Token=geheim&y=2");
    char *line = line_of(&info, SPARES, 3);
    assert_null(strstr(line, "geheim"));
    assert_non_null(strstr(line, "/a?x=1&Token=[Redacted]&y=2"));
    free(line);
}

static void a_rule_for_any_depth_hides_in_any_case(void **state)
{
    (void)state;
    dz_logger *log = open_logger(SPARES, 3);
    dz_log(log, DZ_LOG_INFO, "x", dz_field_group("headers"), dz_field_str("PassWord", "geheim"),
           dz_field_end(), dz_field_str("password", "geheim"));
    dz_logger_close(log);
    assert_null(strstr(contents(), "geheim"));
}

/* --- members --- */

static void rendered_members_are_redacted_and_fit(void **state)
{
    (void)state;
    char text[DZ_LINE_MIN], big[2 * DZ_LINE_MIN];
    dz_logger *log = open_logger(SPARES, 3);
    const dz_field fields[] = {dz_field_str("user", "ada"), dz_field_str("password", "geheim"),
                               dz_field_group("open"), dz_field_int("n", 1)};
    size_t len = dz_log_render_members(log, fields, 4, text, sizeof text);
    assert_slice(dz_slice_make(text, len),
                 "\"user\":\"ada\",\"password\":\"[Redacted]\",\"open\":{\"n\":1}");
    memset(big, 'a', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    const dz_field large = dz_field_str("s", big);
    len = dz_log_render_members(log, &large, 1, text, sizeof text);
    assert_true(len > 100 && len <= sizeof text && text[len - 1] == '"');
    dz_logger_close(log);
}

/* --- direct --- */

static void direct_lines_are_written_without_a_thread(void **state)
{
    (void)state;
    dz_logger *log = open_logger(NULL, 0);
    dz_logger_set_direct(log, true);
    dz_log(log, DZ_LOG_INFO, "one");
    assert_non_null(strstr(contents(), "\"one\""));
    assert_false(atomic_load(&log->running));
    dz_logger_set_direct(log, false);
    dz_log(log, DZ_LOG_INFO, "two");
    dz_logger_close(log);
    assert_non_null(strstr(contents(), "\"two\""));
}

static void a_direct_line_into_a_full_pipe_is_lost_soon_and_counted(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
    static char block[4096];
    while (write(fds[1], block, sizeof block) > 0)
        continue;
    dz_logger *log;
    assert_int_equal(dz_logger_open(&log, &(dz_log_options){.fd = fds[1], .close_ms = 50}), 0);
    dz_logger_set_direct(log, true);
    dz_log(log, DZ_LOG_INFO, "nobody reads this");
    dz_log_stats stats;
    dz_logger_stats(log, &stats);
    assert_int_equal(stats.lines, 1);
    assert_int_equal(stats.lost, 1);
    dz_logger_close(log);
    close(fds[0]);
    close(fds[1]);
}

/* --- a file that is shared --- */

static void a_line_that_someone_tore_is_ended_first(void **state)
{
    (void)state;
    append("{\"level\":30,\"ti"); /* killed here, before we began */
    dz_logger *log = open_logger(NULL, 0);
    dz_log(log, DZ_LOG_INFO, "one");
    dz_logger_flush(log, 60000);
    assert_non_null(strstr(contents(), "\"ti\n{\"level\":30"));
    append("{\"level\":30,\"other"); /* and another one while we write */
    dz_log(log, DZ_LOG_INFO, "two");
    dz_logger_close(log);
    char *text = contents();
    assert_non_null(strstr(text, "\"other\n{\"level\":30"));
    assert_null(strstr(text, "\n\n"));
}

static void whole_lines_are_left_alone(void **state)
{
    (void)state;
    append("{}\n");
    dz_logger *log = open_logger(NULL, 0);
    dz_log(log, DZ_LOG_INFO, "one");
    dz_logger_close(log);
    assert_int_equal(strncmp(contents(), "{}\n{\"level\"", 11), 0);
}

static void a_file_that_may_not_be_read_is_written(void **state)
{
    (void)state;
    append("torn");
    assert_int_equal(chmod(file, 0200), 0);
    dz_logger *log = open_logger(NULL, 0);
    dz_log(log, DZ_LOG_INFO, "one");
    dz_logger_close(log);
    assert_int_equal(chmod(file, 0600), 0);
    assert_non_null(strstr(contents(), "\"one\""));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(both_ways_make_the_same_line),
        TEST(the_usual_line_is_as_documented),
        TEST(durations_are_milliseconds_to_the_microsecond),
        TEST(a_url_of_any_length_makes_a_valid_line),
        TEST(secrets_in_the_query_are_hidden_in_any_case),
        TEST(a_rule_for_any_depth_hides_in_any_case),
        TEST(rendered_members_are_redacted_and_fit),
        TEST(direct_lines_are_written_without_a_thread),
        TEST(a_direct_line_into_a_full_pipe_is_lost_soon_and_counted),
        TEST(a_line_that_someone_tore_is_ended_first),
        TEST(whole_lines_are_left_alone),
        TEST(a_file_that_may_not_be_read_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
