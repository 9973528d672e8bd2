/* Which file a name means: nothing outside, nothing hidden, folders by the rules. */
#include "../serve.h"
#include "../alloc.h"
#include "folder.h"

#include "content/files.h"

#include <pthread.h>

static dz_app *app;
static unsigned port;
static dz_files *files;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static dz_slice wanted; /* the name that /named sends; under the lock */
static atomic_int named_result;
static atomic_int allocations = -1;

static void named(dz_request *req, dz_response *res)
{
    pthread_mutex_lock(&lock);
    dz_slice name = wanted;
    pthread_mutex_unlock(&lock);
    dz_res_header(res, "X-Before", "kept");
    atomic_store(&named_result, dz_send_file(req, res, files, name));
}

static void want(dz_slice name)
{
    pthread_mutex_lock(&lock);
    wanted = name;
    pthread_mutex_unlock(&lock);
}

static void twice(dz_request *req, dz_response *res)
{
    dz_send_text(res, 200, "first");
    atomic_store(&named_result, dz_send_file(req, res, files, DZ_LIT("plain.txt")));
}

static void poor(dz_request *req, dz_response *res)
{
    static char longest[9000];
    memset(longest, 'x', sizeof longest - 1);
    allocs_left = atomic_load(&allocations); /* more than fits into the request's first block */
    atomic_store(&named_result,
                 dz_send_file(req, res, files, dz_slice_make(longest, sizeof longest - 1)));
    allocs_left = -1;
}

static int set_up(void **state)
{
    (void)state;
    folder_make();
    folder_text("plain.txt", "plain");
    folder_text("index.html", "<index>");
    folder_text(".hidden", "hidden");
    folder_sub("dir");
    folder_text("dir/index.html", "<dir>");
    folder_sub("empty");
    folder_sub("a b%");
    folder_text("a b%/index.html", "<odd>");
    folder_sub(".well-known");
    folder_text(".well-known/key", "key");
    folder_sub("dir/.well-known");
    folder_text("dir/.well-known/key", "deep key");
    assert_int_equal(mkfifo(in_folder("fifo").text, 0600), 0);
    assert_int_equal(dz_files_open(&files, folder, NULL), 0);
    static dz_files_options spa, known, bare;
    dz_files_options_init(&spa);
    spa.fallback = "index.html";
    dz_files_options_init(&known);
    known.well_known = true;
    dz_files_options_init(&bare);
    bare.index = NULL;
    app = dz_app_new();
    dz_static(app, "/files", folder, NULL);
    dz_static(app, "/spa", folder, &spa);
    dz_static(app, "/known", folder, &known);
    dz_static(app, "/bare", folder, &bare);
    dz_get(app, "/named", named);
    dz_get(app, "/twice", twice);
    dz_get(app, "/poor", poor);
    port = serve(app);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    serve_end(app);
    dz_files_close(files);
    folder_remove();
    return 0;
}

static reply get(const char *path)
{
    char request[512];
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: t\r\n\r\n", path);
    return ask(port, request);
}

static void a_handler_s_name_is_sent_with_the_fields_set_before(void **state)
{
    (void)state;
    want(DZ_LIT("plain.txt"));
    reply got = get("/named");
    assert_true(reply_has(&got, "X-Before: kept"));
    assert_reply(got, 200, "plain");
    want(DZ_LIT("dir/index.html"));
    assert_reply(get("/named"), 200, "<dir>");
}

static void names_that_are_not_clean_do_not_exist(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t len;
    } names[] = {{"", 0},
                 {"/plain.txt", 10},
                 {"plain.txt/", 10},
                 {"dir//x", 6},
                 {".", 1},
                 {"..", 2},
                 {"dir/..", 6},
                 {"dir/../x", 8},
                 {"./plain.txt", 11},
                 {"../secret", 9},
                 {"plain.txt\0x", 11},
                 {".hidden", 7},
                 {"dir/.hidden", 11},
                 {"missing", 7},
                 {"dir", 3},
                 {"fifo", 4},
                 {"plain.txt/below", 15}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        want(dz_slice_make(names[i].text, names[i].len));
        reply got = get("/named");
        if (got.status != 404)
            fail_msg("%s: %d", names[i].text, got.status);
        assert_int_equal(atomic_load(&named_result), 0); /* it has answered */
        reply_free(&got);
    }
}

static void a_response_that_was_sent_is_not_sent_again(void **state)
{
    (void)state;
    assert_reply(get("/twice"), 200, "first");
    wait_until(atomic_load(&named_result) == DZ_E_STATE);
}

static void without_memory_for_the_name_it_is_a_503(void **state)
{
    (void)state;
    atomic_store(&allocations, 0);
    reply got = get("/poor");
    assert_int_equal(got.status, 503);
    assert_true(reply_has(&got, "Retry-After: 1"));
    reply_free(&got);
    atomic_store(&allocations, -1);
    assert_status(get("/poor"), 404);
}

static void a_folder_is_its_index_and_is_redirected_to_without_the_slash(void **state)
{
    (void)state;
    assert_reply(get("/files/dir/"), 200, "<dir>");
    assert_status(get("/files/empty/"), 404);
    static const struct {
        const char *path, *location;
    } rows[] = {{"/files/dir", "Location: /files/dir/"},
                {"/files/dir?a=1&b", "Location: /files/dir/?a=1&b"},
                {"/files/a%20b%25", "Location: /files/a%20b%25/"},
                {"/files", "Location: /files/"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        reply got = get(rows[i].path);
        assert_int_equal(got.status, 301);
        assert_true(reply_has(&got, rows[i].location));
        reply_free(&got);
    }
}

static void a_redirect_never_names_another_host(void **state)
{
    (void)state;
    static const char *const paths[] = {"//evil.example/..", "/files//evil.example",
                                        "/files/%2f%2fevil.example", "/files/..%2f..%2fdir"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        reply got = get(paths[i]);
        assert_null(strstr(got.head, "\r\nLocation: //"));
        assert_true(got.status >= 300);
        reply_free(&got);
    }
}

static void hidden_names_do_not_exist_but_for_well_known_where_it_is_asked_for(void **state)
{
    (void)state;
    assert_status(get("/files/.hidden"), 404);
    assert_status(get("/files/.well-known/key"), 404);
    assert_reply(get("/known/.well-known/key"), 200, "key");
    assert_status(get("/known/.hidden"), 404);
    assert_status(get("/known/.well-known/.hidden"), 404);
    assert_status(get("/known/.well-knownx"), 404);
    assert_status(get("/known/dir/.well-known/key"), 404); /* only at the top (RFC 8615) */
}

static void without_an_index_a_folder_is_nothing(void **state)
{
    (void)state;
    assert_status(get("/bare/dir/"), 404);
    assert_status(get("/bare/dir"), 404);
    assert_reply(get("/bare/plain.txt"), 200, "plain");
}

static void paths_without_a_file_s_name_fall_back_where_that_is_asked_for(void **state)
{
    (void)state;
    assert_reply(get("/spa/users/7"), 200, "<index>");
    assert_reply(get("/spa/users/"), 200, "<index>");
    assert_status(get("/spa/app.js"), 404); /* a missing script must not be a page */
    assert_reply(get("/spa/plain.txt"), 200, "plain");
    assert_status(get("/spa/.hidden"), 404);
    assert_int_equal(rename(in_folder("index.html").text, in_folder("away").text), 0);
    assert_status(get("/spa/users/7"), 404); /* nothing to fall back to */
    assert_int_equal(rename(in_folder("away").text, in_folder("index.html").text), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handler_s_name_is_sent_with_the_fields_set_before),
        cmocka_unit_test(names_that_are_not_clean_do_not_exist),
        cmocka_unit_test(a_response_that_was_sent_is_not_sent_again),
        cmocka_unit_test(without_memory_for_the_name_it_is_a_503),
        cmocka_unit_test(a_folder_is_its_index_and_is_redirected_to_without_the_slash),
        cmocka_unit_test(a_redirect_never_names_another_host),
        cmocka_unit_test(hidden_names_do_not_exist_but_for_well_known_where_it_is_asked_for),
        cmocka_unit_test(without_an_index_a_folder_is_nothing),
        cmocka_unit_test(paths_without_a_file_s_name_fall_back_where_that_is_asked_for),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
