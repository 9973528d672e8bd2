#include "both.h"

static void buffers_change_owners_both_ways(void **state)
{
    (void)state;
    open_pool((dz_pool_options){0});
    for (int way = 0; way < 4; way++) {
        caller one = {.text = "catalogue", .shared_input = way & 1};
        begin(&one, way & 2 ? "shared" : "upper");
        expect(&one, 0);
        assert_string_equal(one.output, way & 2 ? "catalogue" : "CATALOGUE");
    }
    close_pool();
}

/* Few bytes are sent along with a process's task, many as shared memory. */
static const size_t lengths[] = {1, 4096, (32 << 10) - 1, 32 << 10, (32 << 10) + 1, 3 << 20};

typedef struct trip {
    const char *task;
    size_t length;
    bool shared;
    int result;
    bool right;
} trip;

static void make_trip(void *arg)
{
    trip *self = arg;
    dz_buf in, out;
    self->result =
        self->shared ? dz_buf_alloc_shared(&in, self->length) : dz_buf_alloc(&in, self->length);
    if (self->result < 0)
        return;
    for (in.len = 0; in.len < self->length; in.len++)
        in.data[in.len] = (char)(in.len * 31 % 251);
    self->result = dz_pool_run(pool, self->task, &in, &out);
    self->right = out.len == self->length && !in.data;
    for (size_t i = 0; i < out.len && self->right; i++)
        self->right = out.data[i] == (char)(i * 31 % 251);
    dz_buf_release(&out);
}

static void bytes_of_any_length_come_back(void **state)
{
    (void)state;
    open_pool((dz_pool_options){0});
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        for (int way = 0; way < 4; way++) {
            trip one = {
                .task = way & 1 ? "copy" : "give back", .length = lengths[i], .shared = way & 2};
            run_handler_to_end(make_trip, &one);
            assert_int_equal(one.result, 0);
            assert_true(one.right);
        }
    close_pool();
}

static void a_part_of_a_block_is_refused_and_kept(void *arg)
{
    dz_buf whole, part, out;
    int *results = arg;
    results[0] = dz_buf_copy(&whole, DZ_LIT("0123456789"));
    results[1] = dz_buf_share(&part, &whole, 2, 3);
    results[2] = dz_pool_run(pool, "upper", &part, &out);
    results[3] = (int)part.len;
    results[4] = dz_pool_run(pool, "nothing", NULL, &out);
    dz_buf_release(&part);
    dz_buf_release(&whole);
}

static void what_cannot_be_transferred_is_refused(void **state)
{
    (void)state;
    open_pool((dz_pool_options){0});
    int results[5] = {0};
    run_handler_to_end(a_part_of_a_block_is_refused_and_kept, results);
    assert_int_equal(results[2], DZ_E_NOT_OWNED);
    assert_int_equal(results[3], 3);
    assert_int_equal(results[4], DZ_E_NOT_FOUND);
    close_pool();
    assert_int_equal(dz_pool_run(pool, "upper", NULL, NULL), DZ_E_STATE);
}

static void errors_of_the_task_reach_the_caller(void **state)
{
    (void)state;
    open_pool((dz_pool_options){0});
    caller one = {0};
    begin(&one, "error");
    expect(&one, DZ_E_FORMAT);
    close_pool();
}

/* cases/pool 2: B cancelled while it waits, then A while it runs: C starts. */
static void cancelling_a_queued_and_a_running_task_lets_the_next_start(void **state)
{
    (void)state;
    open_pool((dz_pool_options){0});
    dz_cancel *a_cancel = dz_cancel_new(), *b_cancel = dz_cancel_new();
    caller a = {.options.cancel = a_cancel}, b = {.options.cancel = b_cancel}, c = {0};
    begin(&a, "gate");
    wait_until(atomic_load(&shared->running) == 1);
    begin(&b, "gate");
    begin(&c, "gate");
    dz_pool_stats stats;
    wait_until((dz_pool_get_stats(pool, &stats), stats.queued == 2));
    dz_cancel_fire(b_cancel);
    expect(&b, DZ_E_CANCELLED); /* at once, although A still runs */
    dz_cancel_fire(a_cancel);
    expect(&a, DZ_E_CANCELLED);
    wait_until(atomic_load(&shared->running) == 2);
    atomic_store(&shared->gate, 1);
    expect(&c, 0);
    assert_int_equal(atomic_load(&shared->finished), 1);
    dz_pool_get_stats(pool, &stats);
    assert_int_equal(stats.cancelled, 2);
    assert_int_equal(stats.completed, 1);
    close_pool();
    dz_cancel_free(a_cancel);
    dz_cancel_free(b_cancel);
}

/* cases/pool 1: the client drops a long task and retries: the retry is not hit by its end. */
static void a_retry_after_the_client_left_is_not_harmed(void **state)
{
    (void)state;
    open_pool((dz_pool_options){0});
    for (int round = 0; round < 20; round++) {
        atomic_store(&shared->gate, 0);
        int before = atomic_load(&shared->running);
        caller first = {0}, retry = {.text = "again"};
        begin(&first, "gate");
        wait_until(atomic_load(&shared->running) == before + 1);
        leave_handler(&first.handler);
        begin(&retry, "upper");
        expect(&retry, 0);
        assert_string_equal(retry.output, "AGAIN");
        expect(&first, DZ_E_CANCELLED);
    }
    assert_int_equal(atomic_load(&shared->finished), 0);
    close_pool();
}

/* Waits in the queue for longer than it may run, and is run all the same. On a slow machine even an
 * empty task may take that long: then with a longer limit. */
static void wait_longer_than_the_run_limit(void)
{
    for (uint64_t limit = 30 * DZ_MS;; limit *= 2) {
        int before = atomic_load(&shared->running);
        atomic_store(&shared->gate, 0);
        caller blocking = {0}, waiting = {.options.run_limit_ns = limit};
        begin(&blocking, "gate");
        wait_until(atomic_load(&shared->running) == before + 1);
        begin(&waiting, "upper");
        dz_pool_stats stats;
        wait_until((dz_pool_get_stats(pool, &stats), stats.queued == 1));
        uint64_t until = dz_now() + limit + limit / 2;
        wait_until(dz_now() > until);
        atomic_store(&shared->gate, 1);
        expect(&blocking, 0);
        wait_until(atomic_load(&waiting.handler.done));
        if (waiting.result == 0)
            return;
        assert_int_equal(waiting.result, DZ_E_TIMEOUT);
        assert_true(limit < 10 * DZ_SEC);
    }
}

/* The same for a task that waits, and for a client that had gone before it asked. */
static void a_client_that_leaves_takes_its_waiting_task_with_it(void **state)
{
    (void)state;
    open_pool((dz_pool_options){0});
    caller first = {0}, waiting = {0}, last = {.text = "next"};
    begin(&first, "gate");
    wait_until(atomic_load(&shared->running) == 1);
    begin(&waiting, "gate");
    dz_pool_stats stats;
    wait_until((dz_pool_get_stats(pool, &stats), stats.queued == 1));
    leave_handler(&waiting.handler);
    expect(&waiting, DZ_E_CANCELLED); /* at once, although the first still runs */
    assert_int_equal(atomic_load(&shared->running), 1);
    begin(&last, "upper");
    atomic_store(&shared->gate, 1);
    expect(&first, 0);
    expect(&last, 0);
    assert_string_equal(last.output, "NEXT");
    close_pool();
}

/* Case 1 with the run limit in place of the client: what ends one task never hits the next. */
static void a_run_limit_ends_its_own_task_only(void **state)
{
    (void)state;
    open_pool((dz_pool_options){0});
    for (int round = 0; round < 10; round++) {
        int before = atomic_load(&shared->running);
        caller endless = {.options.run_limit_ns = DZ_MS}, next = {.text = "again"};
        begin(&endless, "gate");
        begin(&next, "upper");
        expect(&next, 0);
        assert_string_equal(next.output, "AGAIN");
        expect(&endless, DZ_E_TIMEOUT);
        assert_in_range(atomic_load(&shared->running) - before, 0, 1);
    }
    close_pool();
}

/* cases/pool 3: the run limit starts when the task runs, the queue deadline when it is asked for.
 */
static void waiting_does_not_count_as_running(void **state)
{
    (void)state;
    open_pool((dz_pool_options){0});
    caller first = {0}, limited = {.text = "x", .options.run_limit_ns = 60 * DZ_SEC};
    caller late = {.options.queue_timeout_ns = 10 * DZ_MS};
    begin(&first, "gate");
    wait_until(atomic_load(&shared->running) == 1);
    begin(&limited, "upper");
    begin(&late, "gate");
    expect(&late, DZ_E_EXPIRED);
    assert_int_equal(atomic_load(&shared->running), 1); /* it never began */
    atomic_store(&shared->gate, 1);
    expect(&first, 0);
    expect(&limited, 0);
    wait_longer_than_the_run_limit();
    atomic_store(&shared->gate, 0);
    caller endless = {.options.run_limit_ns = 30 * DZ_MS};
    begin(&endless, "gate");
    expect(&endless, DZ_E_TIMEOUT);
    dz_pool_stats stats; /* which of both it was is told apart there, too */
    dz_pool_get_stats(pool, &stats);
    assert_int_equal(stats.expired, 1);
    assert_true(stats.timed_out >= 1);
    close_pool();
}

static void a_full_queue_refuses(void **state)
{
    (void)state;
    open_pool((dz_pool_options){.max_queue = 1});
    caller a = {0}, b = {0}, c = {0};
    begin(&a, "gate");
    wait_until(atomic_load(&shared->running) == 1);
    begin(&b, "gate");
    dz_pool_stats stats;
    wait_until((dz_pool_get_stats(pool, &stats), stats.queued == 1));
    begin(&c, "gate");
    expect(&c, DZ_E_QUEUE_FULL);
    dz_pool_get_stats(pool, &stats);
    assert_true(stats.needs_drain);
    assert_int_equal(stats.refused, 1);
    atomic_store(&shared->gate, 1);
    expect(&a, 0);
    expect(&b, 0);
    dz_pool_get_stats(pool, &stats);
    assert_false(stats.needs_drain);
    close_pool();
}

static void urgent_tasks_go_first(void **state)
{
    (void)state;
    open_pool((dz_pool_options){0});
    caller first = {0}, low = {.options.priority = DZ_PRIORITY_LOW}, normal = {0};
    caller high = {.options.priority = DZ_PRIORITY_HIGH};
    dz_pool_stats stats;
    begin(&first, "gate");
    wait_until(atomic_load(&shared->running) == 1);
    begin(&low, "stamp");
    begin(&normal, "stamp");
    begin(&high, "stamp");
    wait_until((dz_pool_get_stats(pool, &stats), stats.queued == 3));
    atomic_store(&shared->gate, 1);
    expect(&high, 0);
    expect(&normal, 1);
    expect(&low, 2);
    expect(&first, 0);
    close_pool();
}

typedef struct reader {
    const char *count;
    unsigned room;
    bool coalesce;
    int result, received, last;
    bool ordered;
} reader;

static void read_messages(void *arg)
{
    reader *self = arg;
    dz_buf in, message;
    dz_work *work;
    self->ordered = true;
    self->last = -1;
    dz_work_options options = {.max_messages = self->room, .coalesce = self->coalesce};
    if (dz_buf_copy(&in, dz_slice_make(self->count, strlen(self->count) + 1)) < 0 ||
        (self->result = dz_pool_start(pool, "messages", &in, &options, &work)) < 0)
        return;
    while (dz_work_next(work, &message) > 0) {
        int value = 0;
        for (size_t i = 0; i < message.len; i++)
            value = value * 10 + (message.data[i] - '0');
        self->ordered = self->ordered && value > self->last;
        self->last = value;
        self->received++;
        dz_buf_release(&message);
    }
    self->result = dz_work_finish(work, NULL);
}

static void messages_of_a_task_arrive_in_order(void **state)
{
    (void)state;
    open_pool((dz_pool_options){0});
    reader all = {.count = "5000", .room = 10000}, some = {.count = "5000", .room = 4};
    reader newest = {.count = "5000", .room = 1, .coalesce = true};
    run_handler_to_end(read_messages, &all);
    assert_int_equal(all.result, 5000);
    assert_int_equal(all.received, 5000);
    assert_true(all.ordered);
    run_handler_to_end(read_messages, &some);
    assert_true(some.ordered && some.received >= 4 && some.received <= 5000);
    run_handler_to_end(read_messages, &newest);
    assert_true(newest.ordered && newest.received >= 1);
    assert_int_equal(newest.last, 4999); /* coalescing keeps the newest */
    close_pool();
}

static void many_tasks_end_exactly_once(void **state)
{
    (void)state;
    open_pool((dz_pool_options){.max_workers = 2, .max_queue = 1000});
    static caller callers[200];
    atomic_store(&shared->gate, 1);
    for (int round = 0; round < 10; round++) {
        memset(callers, 0, sizeof callers);
        for (int i = 0; i < 200; i++) {
            memcpy(callers[i].text, "ab", 3);
            begin(&callers[i], i % 3 ? "upper" : "gate");
            if (i % 7 == 0)
                leave_handler(&callers[i].handler);
        }
        for (int i = 0; i < 200; i++) {
            wait_until(atomic_load(&callers[i].handler.done));
            assert_int_equal(atomic_load(&callers[i].completions), 1);
            if (callers[i].result != DZ_E_CANCELLED)
                assert_int_equal(callers[i].result, 0);
            else
                assert_int_equal(i % 7, 0);
        }
    }
    close_pool();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_change_owners_both_ways),
        cmocka_unit_test(bytes_of_any_length_come_back),
        cmocka_unit_test(what_cannot_be_transferred_is_refused),
        cmocka_unit_test(errors_of_the_task_reach_the_caller),
        cmocka_unit_test(cancelling_a_queued_and_a_running_task_lets_the_next_start),
        cmocka_unit_test(a_retry_after_the_client_left_is_not_harmed),
        cmocka_unit_test(a_client_that_leaves_takes_its_waiting_task_with_it),
        cmocka_unit_test(a_run_limit_ends_its_own_task_only),
        cmocka_unit_test(waiting_does_not_count_as_running),
        cmocka_unit_test(a_full_queue_refuses),
        cmocka_unit_test(urgent_tasks_go_first),
        cmocka_unit_test(messages_of_a_task_arrive_in_order),
        cmocka_unit_test(many_tasks_end_exactly_once),
    };
    RUN_BOTH(tests);
}
