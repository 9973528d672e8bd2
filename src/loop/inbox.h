/* inbox.h: lock-free queue of messages from any thread to the thread that owns a loop.
 *
 * Many producers push onto a stack with compare-and-swap; the one consumer takes the whole stack at
 * once and turns it round, so messages of one producer keep their order. Messages are intrusive:
 * posting never allocates and never fails. */
#ifndef DZ_LOOP_INBOX_H
#define DZ_LOOP_INBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct dz_loop dz_loop;
typedef struct dz_msg dz_msg;

struct dz_msg {
    dz_msg *next;
    void (*fn)(dz_loop *loop, dz_msg *msg); /* runs on the loop; may free or post msg again */
};

typedef struct dz_inbox {
    _Atomic(dz_msg *) top;
} dz_inbox;

static inline void dz_inbox_push(dz_inbox *inbox, dz_msg *msg)
{
    dz_msg *top = atomic_load_explicit(&inbox->top, memory_order_relaxed);
    do {
        msg->next = top;
        /* seq_cst: pairs with the owner's "sleeping" flag, see dz_loop_post. */
    } while (!atomic_compare_exchange_weak(&inbox->top, &top, msg));
}

static inline bool dz_inbox_empty(const dz_inbox *inbox)
{
    return atomic_load(&((dz_inbox *)(size_t)inbox)->top) == NULL;
}

/* All messages, oldest first. */
static inline dz_msg *dz_inbox_take(dz_inbox *inbox)
{
    dz_msg *top = atomic_exchange_explicit(&inbox->top, NULL, memory_order_acq_rel);
    dz_msg *first = NULL;
    while (top) {
        dz_msg *next = top->next;
        top->next = first;
        first = top;
        top = next;
    }
    return first;
}

#endif
