#include "metrics/registry.h"

#include <stdlib.h>
#include <unistd.h>

enum { LINE = 64, MAX_CELLS = 16 };

/* One cell a cache line; threads spread over the cells, so that adding seldom shares a line. */
typedef struct cell {
    _Alignas(LINE) _Atomic uint64_t value;
} cell;

struct dz_counter {
    _Alignas(LINE) size_t mask; /* cells - 1 */
    cell cells[];
};

static size_t cell_count(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t count = 1;
    while (count < MAX_CELLS && (long)count < cores)
        count *= 2;
    return count;
}

static size_t my_cell(void)
{
    static _Atomic size_t threads;
    static _Thread_local size_t mine; /* index + 1; 0 before the first use */
    if (mine == 0)
        mine = 1 + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed);
    return mine - 1;
}

dz_counter *dz_counter_new(void)
{
    size_t count = cell_count();
    dz_counter *counter = aligned_alloc(LINE, sizeof *counter + count * sizeof(cell));
    if (!counter)
        return NULL;
    counter->mask = count - 1;
    for (size_t i = 0; i < count; i++)
        atomic_init(&counter->cells[i].value, 0);
    return counter;
}

void dz_counter_free(dz_counter *counter)
{
    free(counter);
}

void dz_counter_add(dz_counter *counter, uint64_t amount)
{
    atomic_fetch_add_explicit(&counter->cells[my_cell() & counter->mask].value, amount,
                              memory_order_relaxed);
}

uint64_t dz_counter_value(const dz_counter *counter)
{
    uint64_t sum = 0;
    for (size_t i = 0; i <= counter->mask; i++)
        sum += atomic_load_explicit(&counter->cells[i].value, memory_order_relaxed);
    return sum;
}

void dz_gauge_set(dz_gauge *gauge, int64_t value)
{
    atomic_store_explicit(&gauge->value, value, memory_order_relaxed);
}

void dz_gauge_add(dz_gauge *gauge, int64_t amount)
{
    atomic_fetch_add_explicit(&gauge->value, amount, memory_order_relaxed);
}

int64_t dz_gauge_value(const dz_gauge *gauge)
{
    return atomic_load_explicit(&gauge->value, memory_order_relaxed);
}
