/* The input buffer of a connection: on one made by hand, whose socket says what the test wants. */
#include "../check.h"
#include "../alloc.h"

#include "base/io.h"
#include "http/conn.h"

#include <errno.h>

/* --- a socket and an end that are only noted (--wrap=dz_recv,--wrap=dz_conn_close) --- */

typedef struct step {
    ssize_t result; /* bytes, 0 for the end, or -1 */
    int error;
} step;

static const step *script;
static size_t asked_for; /* the room of the last call */
static int reads;
static bool closed;
static char next_byte;

ssize_t __wrap_dz_recv(int fd, void *out, size_t size);
ssize_t __wrap_dz_recv(int fd, void *out, size_t size)
{
    assert_int_equal(fd, 77);
    reads++;
    asked_for = size;
    step now = *script++;
    if (now.result < 0) {
        errno = now.error;
        return -1;
    }
    size_t n = (size_t)now.result < size ? (size_t)now.result : size;
    for (size_t i = 0; i < n; i++)
        ((char *)out)[i] = next_byte++;
    return (ssize_t)n;
}

void __wrap_dz_conn_close(dz_conn *conn);
void __wrap_dz_conn_close(dz_conn *conn)
{
    (void)conn;
    closed = true;
}

/* --- the connection --- */

enum { FIRST = 8 << 10, HEAD_MAX = 20 << 10 };

static dz_server server;
static dz_server_loop home;
static dz_conn conn;
static dz_request req;

static int set_up(void **state)
{
    (void)state;
    memset(&server, 0, sizeof server);
    memset(&home, 0, sizeof home);
    memset(&conn, 0, sizeof conn);
    memset(&req, 0, sizeof req);
    server.options.head.head_max = HEAD_MAX;
    home.server = &server;
    conn.home = &home;
    conn.watch.fd = 77;
    conn.readable = true;
    reads = 0;
    closed = false;
    next_byte = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    dz_conn_drop_input(&conn);
    while (home.free_buffer_count > 0)
        free(home.free_buffers[--home.free_buffer_count]);
    free(req.head_bytes);
    return 0;
}

static bool fill(step now)
{
    const step steps[] = {now};
    script = steps;
    return dz_conn_fill(&conn);
}

#define GOT(n) ((step){.result = (n)})

static void assert_input(size_t from, size_t count)
{
    assert_int_equal(conn.in_end - conn.in_start, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(conn.in[conn.in_start + i], (char)(from + i));
}

/* --- reading --- */

static void a_short_read_waits_for_the_next_edge_and_a_full_one_does_not(void **state)
{
    (void)state;
    assert_true(fill(GOT(100)));
    assert_false(conn.readable);
    assert_input(0, 100);
    assert_false(fill(GOT(1))); /* not even tried */
    assert_int_equal(reads, 1);
    conn.readable = true;
    assert_true(fill(GOT(1 << 20)));
    assert_true(conn.readable); /* there may be more */
    assert_int_equal(asked_for, FIRST - 100);
    assert_input(0, FIRST);
}

static void an_end_that_came_with_the_data_is_read_although_no_edge_comes(void **state)
{
    (void)state;
    conn.peer_ended = true;
    assert_true(fill(GOT(10)));
    assert_true(conn.readable);
    assert_false(conn.input_ended);
    assert_false(fill(GOT(0)));
    assert_true(conn.input_ended);
    assert_false(conn.readable);
    assert_false(closed); /* a client may have said all and wait for its replies */
}

static void a_signal_is_no_reason_to_stop_and_nothing_there_is(void **state)
{
    (void)state;
    const step steps[] = {{-1, EINTR}, {-1, EINTR}, {5, 0}, {-1, EAGAIN}};
    script = steps;
    assert_true(dz_conn_fill(&conn));
    assert_int_equal(reads, 3);
    assert_input(0, 5);
    conn.readable = true;
    assert_false(dz_conn_fill(&conn));
    assert_false(conn.readable || conn.input_ended || closed);
}

static void a_connection_that_failed_is_closed(void **state)
{
    (void)state;
    static const int errors[] = {ECONNRESET, ETIMEDOUT, ENOMEM};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        closed = false;
        conn.readable = true;
        assert_false(fill((step){-1, errors[i]}));
        assert_true(closed);
        assert_false(conn.readable);
    }
}

/* --- room --- */

static void a_buffer_grows_to_what_a_head_may_need_and_no_further(void **state)
{
    (void)state;
    size_t have = 0;
    for (size_t cap = FIRST; cap < (size_t)2 * HEAD_MAX; cap *= 2) {
        assert_true(fill(GOT(1 << 20)));
        have = cap;
        assert_int_equal(conn.in_cap, cap);
        assert_input(0, have);
    }
    assert_true(conn.in_cap > HEAD_MAX);
    assert_false(fill(GOT(1)));
    assert_true(closed);
    assert_int_equal(conn.in_cap, have); /* and nothing was read into it */
}

static void used_bytes_make_room_before_the_buffer_grows(void **state)
{
    (void)state;
    assert_true(fill(GOT(1 << 20)));
    conn.in_start = 3000;
    assert_true(fill(GOT(500)));
    assert_int_equal(conn.in_cap, FIRST);
    assert_int_equal(conn.in_start, 0);
    assert_input(3000, FIRST - 3000 + 500);
    conn.in_start = conn.in_end; /* all is used: from the front again */
    conn.readable = true;
    assert_true(fill(GOT(10)));
    assert_int_equal(conn.in_start, 0);
    assert_int_equal(conn.in_end, 10);
}

/* A handler on another thread may be reading it. */
static void a_head_in_the_buffer_is_never_moved(void **state)
{
    (void)state;
    assert_true(fill(GOT(FIRST)));
    char *head = conn.in;
    conn.req = &req;
    conn.in_start = FIRST - 100; /* behind the head there are 100 bytes already */
    assert_true(fill(GOT(50)));
    assert_ptr_equal(req.head_bytes, head); /* now the request's */
    assert_ptr_not_equal(conn.in, head);
    for (size_t i = 0; i < FIRST; i++)
        assert_int_equal(head[i], (char)i);
    assert_input(FIRST - 100, 150);
    char *second = conn.in;
    conn.readable = true;
    assert_true(fill(GOT(1 << 20)));
    assert_ptr_equal(conn.in, second); /* it is no longer inside: as usual from here on */
    assert_ptr_equal(req.head_bytes, head);
}

static void a_head_at_the_buffers_front_stays_when_all_behind_it_is_used(void **state)
{
    (void)state;
    assert_true(fill(GOT(200)));
    conn.req = &req;
    conn.in_start = conn.in_end;
    conn.readable = true;
    assert_true(fill(GOT(10)));
    assert_int_equal(conn.in_start, 200); /* behind it, not over it */
    for (int i = 0; i < 200; i++)
        assert_int_equal(conn.in[i], (char)i);
}

static void a_large_head_leaves_a_buffer_as_large_as_what_follows_it_needs(void **state)
{
    (void)state;
    while (conn.in_cap < 4 * FIRST)
        assert_true(fill(GOT(1 << 20)));
    conn.req = &req;
    conn.in_start = 2 * FIRST; /* what follows needs more than the first size */
    assert_true(fill(GOT(1 << 20)));
    assert_int_equal(conn.in_cap, 4 * FIRST);
    assert_input((size_t)2 * FIRST, (size_t)4 * FIRST);
}

/* --- memory --- */

static void without_memory_the_connection_ends_and_nothing_is_read(void **state)
{
    (void)state;
    allocs_left = 0;
    bool filled = fill(GOT(10));
    allocs_left = -1;
    assert_false(filled);
    assert_true(closed);
    assert_int_equal(reads, 0);
}

static void when_it_can_t_grow_the_connection_ends_and_what_was_there_stays(void **state)
{
    (void)state;
    assert_true(fill(GOT(1 << 20)));
    for (int way = 0; way < 2; way++) {
        closed = false;
        conn.req = way ? &req : NULL; /* growing; and leaving a head behind */
        allocs_left = 0;
        bool filled = fill(GOT(10));
        allocs_left = -1;
        assert_false(filled);
        assert_true(closed);
        assert_null(req.head_bytes);
        assert_input(0, FIRST);
    }
}

static void buffers_are_used_again_and_only_so_many_are_kept(void **state)
{
    (void)state;
    enum { KEPT = sizeof home.free_buffers / sizeof home.free_buffers[0] };
    assert_true(fill(GOT(10)));
    char *first = conn.in;
    dz_conn_drop_input(&conn);
    assert_null(conn.in);
    assert_int_equal(conn.in_start + conn.in_end + conn.in_cap, 0);
    assert_int_equal(home.free_buffer_count, 1);
    conn.readable = true;
    assert_true(fill(GOT(10)));
    assert_ptr_equal(conn.in, first);
    assert_int_equal(home.free_buffer_count, 0);
    dz_conn others[KEPT + 5] = {0};
    for (size_t i = 0; i < KEPT + 5; i++) {
        others[i].home = &home;
        others[i].watch.fd = 77;
        others[i].readable = true;
        const step steps[] = {GOT(1)};
        script = steps;
        assert_true(dz_conn_fill(&others[i]));
    }
    for (size_t i = 0; i < KEPT + 5; i++)
        dz_conn_drop_input(&others[i]);
    assert_int_equal(home.free_buffer_count, KEPT);
}

static void a_buffer_that_grew_is_not_kept(void **state)
{
    (void)state;
    assert_true(fill(GOT(1 << 20)));
    assert_true(fill(GOT(1 << 20)));
    assert_int_equal(conn.in_cap, 2 * FIRST);
    dz_conn_drop_input(&conn);
    assert_int_equal(home.free_buffer_count, 0);
    dz_conn_drop_input(&conn); /* harmless */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_short_read_waits_for_the_next_edge_and_a_full_one_does_not),
        TEST(an_end_that_came_with_the_data_is_read_although_no_edge_comes),
        TEST(a_signal_is_no_reason_to_stop_and_nothing_there_is),
        TEST(a_connection_that_failed_is_closed),
        TEST(a_buffer_grows_to_what_a_head_may_need_and_no_further),
        TEST(used_bytes_make_room_before_the_buffer_grows),
        TEST(a_head_in_the_buffer_is_never_moved),
        TEST(a_head_at_the_buffers_front_stays_when_all_behind_it_is_used),
        TEST(a_large_head_leaves_a_buffer_as_large_as_what_follows_it_needs),
        TEST(without_memory_the_connection_ends_and_nothing_is_read),
        TEST(when_it_can_t_grow_the_connection_ends_and_what_was_there_stays),
        TEST(buffers_are_used_again_and_only_so_many_are_kept),
        TEST(a_buffer_that_grew_is_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
