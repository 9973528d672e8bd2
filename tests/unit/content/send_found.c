/* The response for a file: what it says of the bytes is what it sends, also when the file changes
 * between the look and the sending. */
#include "../serve.h"
#include "folder.h"

#include "content/beneath.h"

#include <sys/time.h>
#include <time.h>

enum { BIG = 300000, SMALL = 1000 };

/* --- a file that changes its size once it was looked at --- */

static const char *_Atomic changing; /* its path; NULL: none */
static atomic_long new_size;

int __real_dz_open_beneath(int root, const char *path, dz_lookup how, bool walk, struct stat *st);
int __wrap_dz_open_beneath(int root, const char *path, dz_lookup how, bool walk, struct stat *st);
int __wrap_dz_open_beneath(int root, const char *path, dz_lookup how, bool walk, struct stat *st)
{
    int fd = __real_dz_open_beneath(root, path, how, walk, st);
    const char *victim = atomic_load(&changing);
    if (fd >= 0 && victim && strcmp(path, victim) == 0)
        assert_int_equal(truncate(in_folder(path).text, atomic_load(&new_size)), 0);
    return fd;
}

/* --- the service --- */

static dz_app *app;
static unsigned port;
static char *big;

static void age(const char *name, long seconds)
{
    const struct timeval times[2] = {{time(NULL) - seconds, 0}, {time(NULL) - seconds, 0}};
    assert_int_equal(utimes(in_folder(name).text, times), 0);
}

static void make_files(void)
{
    folder_write("big.txt", big, BIG);
    folder_write("small.txt", big, SMALL);
    folder_write("empty.txt", "", 0);
    folder_text("app.js", "plain script");
    folder_text("app.js.gz", "gz bytes");
    folder_text("app.js.br", "br bytes");
    folder_text("odd.qqq", "odd");
    age("big.txt", 100);
    age("small.txt", 100);
    age("app.js", 100);
    age("app.js.gz", 50);
    age("app.js.br", 50);
}

static int set_up(void **state)
{
    (void)state;
    static const dz_type own[] = {{"qqq", "application/x-own"}, {NULL, NULL}};
    static dz_files_options options;
    big = malloc(BIG + 1);
    assert_non_null(big);
    for (size_t i = 0; i < BIG; i++)
        big[i] = (char)('a' + i * 7919 % 26);
    big[BIG] = '\0';
    folder_make();
    dz_files_options_init(&options);
    options.types = own;
    options.max_age_s = 60;
    app = dz_app_new();
    dz_static(app, "/", folder, &options);
    port = serve(app);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    serve_end(app);
    folder_remove();
    free(big);
    return 0;
}

static int each(void **state)
{
    (void)state;
    atomic_store(&changing, NULL);
    make_files();
    return 0;
}

static void request(int fd, const char *method, const char *path, const char *fields)
{
    char text[512];
    snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: t\r\n%s\r\n", method, path, fields);
    say(fd, text);
}

static reply get(const char *path, const char *fields)
{
    int fd = connect_to(port);
    request(fd, "GET", path, fields);
    reply got = hear(fd);
    close(fd);
    return got;
}

/* How many bytes of the body come before the connection ends, and *promised by Content-Length. */
static size_t bytes_until_the_end(const char *path, size_t *promised)
{
    static char text[2 * BIG];
    size_t len = 0;
    int fd = connect_to(port);
    request(fd, "GET", path, "");
    for (ssize_t n; (n = recv(fd, text + len, sizeof text - 1 - len, 0)) > 0;) {
        len += (size_t)n;
        text[len] = '\0';
        const char *head_end = strstr(text, "\r\n\r\n"), *length = strstr(text, "Content-Length: ");
        assert_non_null(length);
        *promised = strtoul(length + 16, NULL, 10);
        if (head_end && len >= (size_t)(head_end - text) + 4 + *promised)
            break; /* complete */
    }
    close(fd);
    return len - (size_t)(strstr(text, "\r\n\r\n") + 4 - text);
}

/* --- tests --- */

static void files_of_all_sizes_are_sent_with_what_describes_them(void **state)
{
    (void)state;
    reply got = get("/small.txt", "");
    assert_true(reply_has(&got, "Content-Type: text/plain; charset=utf-8"));
    assert_true(reply_has(&got, "Accept-Ranges: bytes"));
    assert_true(reply_has(&got, "Cache-Control: public, max-age=60"));
    assert_non_null(strstr(got.head, "\r\nETag: \""));
    assert_non_null(strstr(got.head, "\r\nLast-Modified: "));
    assert_int_equal(got.len, SMALL);
    assert_memory_equal(got.body, big, SMALL);
    reply_free(&got);
    assert_reply(get("/big.txt", ""), 200, big);
    assert_reply(get("/empty.txt", ""), 200, "");
    got = get("/odd.qqq", "");
    assert_true(reply_has(&got, "Content-Type: application/x-own"));
    assert_reply(got, 200, "odd");
}

static void head_says_what_get_would(void **state)
{
    (void)state;
    int fd = connect_to(port);
    request(fd, "HEAD", "/big.txt", "");
    reply got = hear_reply(fd, true);
    char line[64];
    snprintf(line, sizeof line, "Content-Length: %d", BIG);
    assert_true(reply_has(&got, line));
    reply_free(&got);
    request(fd, "GET", "/small.txt", ""); /* no body was in between */
    got = hear(fd);
    assert_int_equal(got.status, 200);
    reply_free(&got);
    close(fd);
}

static void a_small_file_that_shrank_is_a_503_that_says_try_again(void **state)
{
    (void)state;
    atomic_store(&new_size, 10);
    atomic_store(&changing, "small.txt");
    reply got = get("/small.txt", "");
    assert_int_equal(got.status, 503);
    assert_true(reply_has(&got, "Retry-After: 1"));
    assert_null(strstr(got.head, "ETag"));
    assert_null(strstr(got.head, "Last-Modified"));
    assert_null(strstr(got.head, "Cache-Control"));
    reply_free(&got);
    atomic_store(&changing, NULL);
    assert_int_equal(truncate(in_folder("small.txt").text, 10), 0);
    got = get("/small.txt", ""); /* as it is now */
    assert_int_equal(got.len, 10);
    assert_memory_equal(got.body, big, 10);
    reply_free(&got);
}

static void a_large_file_that_shrank_never_looks_complete(void **state)
{
    (void)state;
    size_t promised = 0;
    atomic_store(&new_size, BIG / 3);
    atomic_store(&changing, "big.txt");
    size_t got = bytes_until_the_end("/big.txt", &promised);
    assert_int_equal(promised, BIG);
    assert_true(got <= BIG / 3);
    atomic_store(&changing, NULL);
    make_files();
    assert_reply(get("/big.txt", ""), 200, big); /* the service is as before */
}

static void a_file_that_grew_is_sent_as_it_was(void **state)
{
    (void)state;
    atomic_store(&new_size, BIG + 5000);
    atomic_store(&changing, "big.txt");
    assert_reply(get("/big.txt", ""), 200, big);
}

static void ranges_are_cut_out_of_small_and_large_files(void **state)
{
    (void)state;
    reply got = get("/small.txt", "Range: bytes=10-19\r\n");
    assert_int_equal(got.status, 206);
    assert_true(reply_has(&got, "Content-Range: bytes 10-19/1000"));
    assert_int_equal(got.len, 10);
    assert_memory_equal(got.body, big + 10, 10);
    reply_free(&got);
    got = get("/big.txt", "Range: bytes=100000-\r\n");
    assert_int_equal(got.status, 206);
    assert_int_equal(got.len, BIG - 100000);
    assert_memory_equal(got.body, big + 100000, got.len);
    reply_free(&got);
    got = get("/big.txt", "Range: bytes=0-0,-2\r\n");
    assert_int_equal(got.status, 206);
    assert_non_null(strstr(got.head, "\r\nContent-Type: multipart/byteranges; boundary="));
    assert_null(strstr(got.head, "\r\nContent-Range: "));
    assert_non_null(strstr(got.body, "Content-Range: bytes 299998-299999/300000\r\n\r\n"));
    reply_free(&got);
}

static void a_range_outside_is_a_416_that_tells_the_size(void **state)
{
    (void)state;
    reply got = get("/small.txt", "Range: bytes=1000-\r\n");
    assert_int_equal(got.status, 416);
    assert_true(reply_has(&got, "Content-Range: bytes */1000"));
    assert_null(strstr(got.head, "ETag"));
    assert_null(strstr(got.head, "Cache-Control"));
    reply_free(&got);
}

static void a_range_of_another_version_gets_the_whole(void **state)
{
    (void)state;
    reply got = get("/small.txt", "Range: bytes=0-9\r\nIf-Range: \"other\"\r\n");
    assert_int_equal(got.status, 200);
    assert_int_equal(got.len, SMALL);
    reply_free(&got);
}

static void a_neighbour_is_sent_to_who_takes_it_and_only_while_it_is_not_older(void **state)
{
    (void)state;
    reply got = get("/app.js", "Accept-Encoding: gzip, br\r\n");
    assert_true(reply_has(&got, "Content-Encoding: br"));
    assert_true(reply_has(&got, "Vary: Accept-Encoding"));
    assert_non_null(strstr(got.head, "-br\"\r\n"));
    assert_reply(got, 200, "br bytes");
    got = get("/app.js", "Accept-Encoding: gzip\r\n");
    assert_true(reply_has(&got, "Content-Encoding: gzip"));
    assert_reply(got, 200, "gz bytes");
    got = get("/app.js", "");
    assert_null(strstr(got.head, "Content-Encoding"));
    assert_true(reply_has(&got, "Vary: Accept-Encoding"));
    assert_reply(got, 200, "plain script");
    age("app.js.br", 200); /* the script was changed since */
    assert_reply(get("/app.js", "Accept-Encoding: gzip, br\r\n"), 200, "gz bytes");
    age("app.js.gz", 200);
    got = get("/app.js", "Accept-Encoding: gzip, br\r\n");
    assert_null(strstr(got.head, "Content-Encoding"));
    assert_reply(got, 200, "plain script");
}

static void a_time_that_may_hide_a_change_makes_the_tag_weak(void **state)
{
    (void)state;
    age("small.txt", 0);
    reply got = get("/small.txt", "");
    assert_non_null(strstr(got.head, "\r\nETag: W/\""));
    reply_free(&got);
    age("small.txt", -1000); /* from the future: Last-Modified is not later than Date */
    got = get("/small.txt", "");
    const char *date = strstr(got.head, "\r\nDate: "),
               *modified = strstr(got.head, "\r\nLast-Modified: ");
    assert_non_null(modified);
    struct tm a, b;
    assert_non_null(strptime(date + 8, "%a, %d %b %Y %H:%M:%S GMT", &a));
    assert_non_null(strptime(modified + 17, "%a, %d %b %Y %H:%M:%S GMT", &b));
    assert_true(timegm(&b) <= timegm(&a));
    reply_free(&got);
}

#define TEST(name) cmocka_unit_test_setup(name, each)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(files_of_all_sizes_are_sent_with_what_describes_them),
        TEST(head_says_what_get_would),
        TEST(a_small_file_that_shrank_is_a_503_that_says_try_again),
        TEST(a_large_file_that_shrank_never_looks_complete),
        TEST(a_file_that_grew_is_sent_as_it_was),
        TEST(ranges_are_cut_out_of_small_and_large_files),
        TEST(a_range_outside_is_a_416_that_tells_the_size),
        TEST(a_range_of_another_version_gets_the_whole),
        TEST(a_neighbour_is_sent_to_who_takes_it_and_only_while_it_is_not_older),
        TEST(a_time_that_may_hide_a_change_makes_the_tag_weak),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
