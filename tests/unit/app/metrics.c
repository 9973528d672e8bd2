/* What an app's /metrics does when a loop does not answer, and when there is no memory. */
#include "../serve.h"
#include "../alloc.h"
#include "../wall_clock.h"

#include "app/exposure.h"

#include <semaphore.h>

/* --- an app --- */

static dz_app *app;
static unsigned port;
static sem_t may_go_on;
static _Atomic bool is_busy;

static void block(dz_request *req, dz_response *res)
{
    (void)req;
    atomic_store(&is_busy, true);
    sem_wait(&may_go_on); /* not parked: the loop answers nobody */
    dz_send_text(res, 200, "late");
}

static void created(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_text(res, 201, "");
}

static int set_up(void **state)
{
    (void)state;
    sem_init(&may_go_on, 0, 0);
    atomic_store(&is_busy, false);
    app = dz_app_new();
    dz_app_set(app, "rescue-after", "0");
    dz_app_set(app, "shed", "adaptive");
    dz_get(app, "/block", block);
    dz_post(app, "/users/:id", created);
    port = serve(app);
    return 0;
}

/* Registries that a running app had: its loops may still answer to them, so they go after it. */
enum { MOST = 5000 };
static dz_core past[MOST];
static size_t past_count;

static void forget_everything(void)
{
    assert_true(past_count < MOST);
    past[past_count].metrics = app->core->metrics;
    past[past_count++].exposure = app->core->exposure;
    assert_int_equal(dz_core_make_metrics(app->core), 0);
}

static int tear_down(void **state)
{
    (void)state;
    serve_end(app);
    while (past_count > 0)
        dz_core_free_metrics(&past[--past_count]);
    sem_destroy(&may_go_on);
    return 0;
}

/* The names and labels of all series, without their values; malloc'd. NULL and *rc: an error. */
static char *series(int *rc)
{
    dz_buf text = {0};
    *rc = dz_metrics_write(app->core->metrics, &text);
    char *out = *rc < 0 ? NULL : calloc(1, text.len + 1);
    size_t len = 0;
    for (size_t at = 0; out && at < text.len;) {
        size_t line = (size_t)((char *)memchr(text.data + at, '\n', text.len - at) - text.data);
        size_t name = at;
        while (name < line && (text.data[at] == '#' || text.data[name] != ' '))
            name++;
        memcpy(out + len, text.data + at, name - at);
        len += name - at;
        out[len++] = '\n';
        at = line + 1;
    }
    dz_buf_release(&text);
    return out;
}

static void a_loop_that_is_busy_is_waited_for_by_the_clock_that_nobody_sets(void **state)
{
    (void)state;
    int fd = connect_to(port), rc;
    say(fd, GET("/block"));
    wait_until(atomic_load(&is_busy));
    atomic_store(&wall_is_ahead, true);
    char *text = series(&rc); /* by the wall clock: in an hour */
    atomic_store(&wall_is_ahead, false);
    assert_int_equal(rc, 0);
    assert_non_null(strstr(text, "donmaz_loop_delay_seconds{loop=\"0\"}"));
    free(text);
    sem_post(&may_go_on);
    assert_reply(hear(fd), 200, "late");
    close(fd);
}

static void a_scrape_without_memory_is_an_error_and_the_next_one_shows_everything(void **state)
{
    (void)state;
    assert_status(ask(port, REQUEST("POST", "/users/7")), 201);
    int rc;
    char *all = series(&rc);
    assert_int_equal(rc, 0);
    assert_non_null(strstr(all, "donmaz_route_class{method=\"POST\",route=\"/users/:id\"}"));
    assert_non_null(strstr(all, "route=\"/users/:id\",status=\"201\""));
    bool failed = true;
    int failures = 0;
    for (int left = 0; failed; left++) {
        forget_everything();
        allocs_left = left;
        dz_buf text = {0};
        rc = dz_metrics_write(app->core->metrics, &text);
        failed = allocs_left == 0;
        allocs_left = -1;
        dz_buf_release(&text);
        if (!failed)
            break;
        failures += rc < 0;
        assert_true(rc == 0 || rc == DZ_E_NOMEM);
        char *again = series(&rc);
        assert_int_equal(rc, 0);
        assert_string_equal(again, all);
        free(again);
    }
    assert_true(failures > 100);
    free(all);
}

static void scrapes_that_fail_one_after_another_leave_no_more_than_one_does(void **state)
{
    (void)state;
    forget_everything();
    size_t before = 0;
    for (int i = 0; i < 50; i++) {
        allocs_left = 150;
        dz_buf text = {0};
        int rc = dz_metrics_write(app->core->metrics, &text);
        allocs_left = -1;
        dz_buf_release(&text);
        if (rc == 0)
            break; /* each goes on from where the last one ended */
        size_t refs = 0;
        for (const dz_route_ref *ref = app->core->exposure->refs; ref; ref = ref->next)
            refs++;
        assert_true(refs >= before && refs <= app->core->meter->routes);
        before = refs;
    }
    int rc;
    free(series(&rc));
    assert_int_equal(rc, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_loop_that_is_busy_is_waited_for_by_the_clock_that_nobody_sets),
        TEST(a_scrape_without_memory_is_an_error_and_the_next_one_shows_everything),
        TEST(scrapes_that_fail_one_after_another_leave_no_more_than_one_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
