/* timers.c: what a timer costs when few or very many are set, in nanoseconds per call (the best
 * of several rounds).
 *   timers [MOST]          default 1000000 nodes
 * Insert, remove and move are of nodes at random, the shape of idle timers that never fire: most
 * sit near the bottom, so few levels are walked. Fire takes the earliest and sets it again later,
 * which walks every level: divided by the number of levels it stays level until the nodes no longer
 * fit the caches, whose misses then show in it. */
#include "base/clock.h"
#include "base/heap.h"

#include <stdio.h>
#include <stdlib.h>

enum { CALLS = 200000, ROUNDS = 5 };

typedef struct cost {
    double insert, remove, move, fire;
} cost;

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

/* The earliest `calls` timers fire and are set again. */
static double time_fire(dz_heap *heap, size_t calls, uint64_t *seed)
{
    uint64_t start = dz_now();
    for (size_t i = 0; i < calls; i++) {
        dz_heap_node *first = dz_heap_min(heap);
        uint64_t due = first->key;
        dz_heap_remove(heap, first);
        (void)dz_heap_insert(heap, first, due + next_random(seed));
    }
    return (double)(dz_now() - start) / (double)calls;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* The heap always holds `count` nodes; a batch of them is taken out at random and put in again,
 * with keys that move on as time does: the shape of idle timers, of which most never fire. */
static cost measure(size_t count)
{
    dz_heap heap;
    dz_heap_node *nodes = calloc(count, sizeof *nodes);
    dz_heap_init(&heap);
    if (!nodes || dz_heap_reserve(&heap, count) < 0) {
        fprintf(stderr, "timers: out of memory\n");
        exit(1);
    }
    uint64_t seed = 1, now = 0;
    for (size_t i = 0; i < count; i++)
        (void)dz_heap_insert(&heap, &nodes[i], next_random(&seed));
    size_t batch = count < 1000 ? count : 1000, batches = CALLS / batch;
    cost best = {1e9, 1e9, 1e9, 1e9};
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t insert = 0, removal = 0, move = 0;
        for (size_t b = 0; b < batches; b++) {
            size_t first = next_random(&seed) % (count - batch + 1);
            now += 1000;
            uint64_t start = dz_now();
            for (size_t i = 0; i < batch; i++)
                dz_heap_move(&heap, &nodes[first + i], now + next_random(&seed));
            uint64_t moved = dz_now();
            for (size_t i = 0; i < batch; i++)
                dz_heap_remove(&heap, &nodes[first + i]);
            uint64_t removed = dz_now();
            for (size_t i = 0; i < batch; i++)
                (void)dz_heap_insert(&heap, &nodes[first + i], now + next_random(&seed));
            uint64_t end = dz_now();
            move += moved - start;
            removal += removed - moved;
            insert += end - removed;
        }
        double calls = (double)(batches * batch);
        best.insert = least(best.insert, (double)insert / calls);
        best.remove = least(best.remove, (double)removal / calls);
        best.move = least(best.move, (double)move / calls);
        best.fire = least(best.fire, time_fire(&heap, CALLS, &seed));
    }
    dz_heap_close(&heap);
    free(nodes);
    return best;
}

int main(int argc, char **argv)
{
    unsigned long most = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000;
    if (most < 10 || most > 100000000) {
        fprintf(stderr, "usage: timers [MOST]   10 to 100000000\n");
        return 2;
    }
    printf("%10s %8s %10s %10s %10s %10s %14s\n", "nodes", "levels", "ns insert", "ns remove",
           "ns move", "ns fire", "ns fire/level");
    for (size_t count = 10; count <= most; count *= 10) {
        unsigned levels = 1; /* of a heap with four children a node */
        for (size_t room = 1; room < count; room = room * 4 + 1)
            levels++;
        cost c = measure(count);
        printf("%10zu %8u %10.1f %10.1f %10.1f %10.1f %14.1f\n", count, levels, c.insert, c.remove,
               c.move, c.fire, c.fire / levels);
    }
    return 0;
}
