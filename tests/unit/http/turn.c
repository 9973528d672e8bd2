/* Several bodies at once: how much of them a turn of the loop takes, and whose. */
#include "rig.h"

enum { UPLOADS = 5, LENGTH = 1 << 20, PER_TURN = 128 << 10, PER_BODY = 64 << 10 };

typedef struct upload {
    dz_conn *conn;
    int client;
    size_t sent;
    dz_fiber fiber; /* of the handler that waits; it never runs */
    dz_body_read reader;
} upload;

static upload uploads[UPLOADS];

/* Hands the kernel what it takes, so that every turn finds each socket full. */
static void fill(upload *one)
{
    static const char zeros[64 << 10];
    while (one->client >= 0 && one->sent < LENGTH) {
        size_t left = LENGTH - one->sent;
        ssize_t n = send(one->client, zeros, left < sizeof zeros ? left : sizeof zeros,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0)
            return;
        one->sent += (size_t)n;
    }
}

static void turn_with_full_sockets(void)
{
    for (size_t i = 0; i < UPLOADS; i++)
        fill(&uploads[i]);
    turn();
}

/* What its handler has got by now. */
static size_t taken(const upload *one)
{
    return one->reader.req->body.whole.len;
}

/* A handler asks for the whole body. */
static void begin(upload *one, dz_conn *of)
{
    dz_request *req = of->req;
    assert_non_null(req);
    one->conn = of;
    one->fiber.loop = &loop;
    dz_list_init(&one->fiber.link);
    req->fiber = &one->fiber;
    assert_int_equal(dz_buf_reserve(&req->body.whole, LENGTH), 0);
    req->body.state = DZ_BODY_STATE_READING;
    one->reader = (dz_body_read){.req = req, .started = loop.now};
    of->body_read = &one->reader;
    dz_conn_read_body(of);
}

static void ask(upload *one, int socket)
{
    char head[128];
    int len = snprintf(head, sizeof head,
                       "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n", LENGTH);
    one->client = socket;
    one->sent = 0;
    assert_int_equal(send(socket, head, (size_t)len, MSG_NOSIGNAL), len);
    started = NULL;
    turn();
    assert_non_null(started);
    begin(one, started->conn);
}

static int set_up_uploads(void **state)
{
    set_up(state);
    memset(uploads, 0, sizeof uploads);
    ask(&uploads[0], client);
    client = -1;
    for (size_t i = 1; i < UPLOADS; i++) {
        int fds[2];
        rig_pair(false, fds);
        assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
        atomic_fetch_add(&home.open, 1);
        atomic_fetch_add(&server.stats.open, 1);
        dz_conn_open(&home, fds[0]);
        ask(&uploads[i], fds[1]);
    }
    return 0;
}

static void end(upload *one)
{
    dz_request *req = one->reader.req;
    dz_conn_close(one->conn);
    dz_list_remove(&one->fiber.link);
    dz_buf_release(&req->body.whole);
    req->handler_done = true;
    dz_request_free(req);
    one->conn->req = NULL;
    one->conn = NULL;
    close(one->client);
    one->client = -1;
}

static int tear_down_uploads(void **state)
{
    for (size_t i = 0; i < UPLOADS; i++)
        if (uploads[i].conn)
            end(&uploads[i]);
    return tear_down(state);
}

static void all_bodies_together_get_no_more_than_one_turn_has_room_for(void **state)
{
    (void)state;
    for (int turns = 0; turns < 20; turns++) {
        size_t before[UPLOADS], sum = 0;
        for (size_t i = 0; i < UPLOADS; i++)
            before[i] = taken(&uploads[i]);
        turn_with_full_sockets();
        for (size_t i = 0; i < UPLOADS; i++) {
            size_t got = taken(&uploads[i]) - before[i];
            assert_in_range(got, 0, PER_BODY);
            sum += got;
        }
        assert_in_range(sum, 1, PER_TURN);
    }
}

static void none_waits_while_another_gets_more_than_a_piece_ahead(void **state)
{
    (void)state;
    for (int turns = 0; turns < 30; turns++) {
        turn_with_full_sockets(); /* which is an edge for each of them, also for those in line */
        size_t least = SIZE_MAX, most = 0;
        for (size_t i = 0; i < UPLOADS; i++) {
            size_t got = taken(&uploads[i]);
            least = got < least ? got : least;
            most = got > most ? got : most;
        }
        assert_in_range(most - least, 0, 2 * PER_BODY);
    }
    for (size_t i = 0; i < UPLOADS; i++)
        assert_in_range(taken(&uploads[i]), PER_BODY, LENGTH);
}

static void each_gets_all_of_its_body_in_the_end(void **state)
{
    (void)state;
    for (int turns = 0; turns < 10000; turns++)
        turn_with_full_sockets();
    for (size_t i = 0; i < UPLOADS; i++) {
        assert_int_equal(taken(&uploads[i]), LENGTH);
        assert_null(uploads[i].conn->body_read);
        assert_int_equal(uploads[i].reader.result, LENGTH);
    }
    assert_true(dz_list_empty(&home.line));
}

static void a_connection_that_ends_in_the_line_leaves_it_to_the_others(void **state)
{
    (void)state;
    for (int turns = 0; dz_list_empty(&uploads[2].conn->line); turns++) {
        assert_in_range(turns, 0, 20);
        turn_with_full_sockets();
    }
    end(&uploads[2]);
    size_t before = taken(&uploads[3]);
    for (int turns = 0; turns < 20; turns++)
        turn_with_full_sockets();
    assert_in_range(taken(&uploads[3]), before + PER_BODY, LENGTH);
}

static void who_sends_nothing_keeps_nobody_waiting(void **state)
{
    (void)state;
    for (size_t i = 1; i < UPLOADS; i++)
        uploads[i].sent = LENGTH; /* so that fill() gives it no more */
    for (int turns = 0; turns < 1000; turns++)
        turn_with_full_sockets();
    assert_int_equal(taken(&uploads[0]), LENGTH);
    assert_true(dz_list_empty(&home.line));
}

#define UPLOAD_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_uploads, tear_down_uploads)

int main(void)
{
    const struct CMUnitTest tests[] = {
        UPLOAD_TEST(all_bodies_together_get_no_more_than_one_turn_has_room_for),
        UPLOAD_TEST(none_waits_while_another_gets_more_than_a_piece_ahead),
        UPLOAD_TEST(each_gets_all_of_its_body_in_the_end),
        UPLOAD_TEST(a_connection_that_ends_in_the_line_leaves_it_to_the_others),
        UPLOAD_TEST(who_sends_nothing_keeps_nobody_waiting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
