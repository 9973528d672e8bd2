#include "http/conn.h"

/* What the bodies of all connections may bring in one turn of the loop, whoever they are from: the
 * loop must come back to the others soon, however many upload at once. A byte costs a copy, and
 * where the handler's buffer is new, the kernel a page as well: 64 KB take 20 to 400 us.
 *
 * Who gets nothing in this turn waits in a line, first come first served. */

enum { PER_TURN = 128 << 10, PER_BODY = 64 << 10 };

size_t dz_turn_room(dz_server_loop *home)
{
    uint64_t now = atomic_load_explicit(&home->loop->stats.ticks, memory_order_relaxed);
    if (home->turn != now) {
        home->turn = now;
        home->turn_left = PER_TURN;
    }
    return home->turn_left < PER_BODY ? home->turn_left : PER_BODY;
}

void dz_turn_count(dz_server_loop *home, size_t received)
{
    size_t left = home->turn_left;
    home->turn_left = received < left ? left - received : 0;
}

static void post(dz_server_loop *home)
{
    if (home->line_posted)
        return;
    home->line_posted = true;
    dz_loop_post(home->loop, &home->line_moves);
}

void dz_turn_wait(dz_conn *conn)
{
    if (!dz_list_empty(&conn->line))
        return; /* it has its place */
    dz_list_push(&conn->home->line, &conn->line);
    post(conn->home);
}

bool dz_turn_is_free(dz_server_loop *home)
{
    return dz_list_empty(&home->line) && dz_turn_room(home) > 0;
}

static void on_line_moves(dz_loop *loop, dz_msg *msg)
{
    (void)loop;
    dz_server_loop *home = DZ_CONTAINER(msg, dz_server_loop, line_moves);
    home->line_posted = false;
    const dz_list *last = home->line.prev;
    while (!dz_list_empty(&home->line) && dz_turn_room(home) > 0) {
        dz_list *link = dz_list_shift(&home->line);
        dz_conn *conn = DZ_CONTAINER(link, dz_conn, line);
        if (conn->body_read)
            dz_conn_read_piece(conn);
        if (link == last)
            break; /* the others came back into the line: in the next turn */
    }
    if (!dz_list_empty(&home->line))
        post(home);
}

void dz_turn_init(dz_server_loop *home)
{
    dz_list_init(&home->line);
    home->line_moves.fn = on_line_moves;
}
