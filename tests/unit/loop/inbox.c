#include "../check.h"
#include "../wait.h"
#include "loop/inbox.h"
#include "loop/loop.h"

#include <pthread.h>
#include <sched.h>

enum { PRODUCERS = 4, EACH = 20000 };

typedef struct note {
    dz_msg msg;
    int producer, number;
} note;

static dz_inbox inbox;
static note notes[PRODUCERS][EACH];

static void *produce(void *arg)
{
    note *mine = arg;
    for (int i = 0; i < EACH; i++)
        dz_inbox_push(&inbox, &mine[i].msg);
    return NULL;
}

static void every_message_arrives_once_and_each_producers_in_order(void **state)
{
    (void)state;
    pthread_t threads[PRODUCERS];
    for (int p = 0; p < PRODUCERS; p++) {
        for (int i = 0; i < EACH; i++)
            notes[p][i] = (note){.producer = p, .number = i};
        assert_int_equal(pthread_create(&threads[p], NULL, produce, notes[p]), 0);
    }
    int next[PRODUCERS] = {0}, total = 0;
    uint64_t deadline = dz_now() + WAIT_SECONDS * DZ_SEC;
    while (total < PRODUCERS * EACH) {
        dz_msg *msg = dz_inbox_take(&inbox);
        if (!msg) {
            assert_true(dz_now() < deadline);
            sched_yield();
        }
        for (; msg; msg = msg->next, total++) {
            const note *it = DZ_CONTAINER(msg, note, msg);
            assert_int_equal(it->number, next[it->producer]++);
        }
    }
    for (int p = 0; p < PRODUCERS; p++)
        pthread_join(threads[p], NULL);
    assert_true(dz_inbox_empty(&inbox));
    assert_null(dz_inbox_take(&inbox));
}

static void taking_empties_and_keeps_the_order_of_one_producer(void **state)
{
    (void)state;
    dz_inbox box;
    atomic_init(&box.top, NULL);
    dz_msg a = {0}, b = {0};
    assert_true(dz_inbox_empty(&box));
    dz_inbox_push(&box, &a);
    dz_inbox_push(&box, &b);
    assert_false(dz_inbox_empty(&box));
    assert_ptr_equal(dz_inbox_take(&box), &a);
    assert_ptr_equal(a.next, &b);
    assert_null(b.next);
    assert_true(dz_inbox_empty(&box));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_arrives_once_and_each_producers_in_order),
        cmocka_unit_test(taking_empties_and_keeps_the_order_of_one_producer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
