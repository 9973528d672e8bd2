#include "pingpong.h"

#include "base/clock.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct game {
    size_t count;
    void (*begin)(void);
} game;

static _Atomic uint32_t ball;

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

double bench_median_us(uint64_t *times, size_t count)
{
    qsort(times, count, sizeof times[0], compare);
    uint64_t middle = times[count / 2];
    return (double)middle / 1e3;
}

static void wait_while(uint32_t value)
{
    while (atomic_load(&ball) == value)
        syscall(SYS_futex, &ball, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void hit(uint32_t value)
{
    atomic_store(&ball, value);
    syscall(SYS_futex, &ball, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *pong(void *arg)
{
    const game *it = arg;
    if (it->begin)
        it->begin();
    for (size_t i = 0; i < it->count; i++) {
        wait_while(0);
        hit(0);
    }
    return NULL;
}

double bench_futex_us(uint64_t *times, size_t count, void (*begin)(void))
{
    game it = {count, begin};
    pthread_t thread;
    atomic_store(&ball, 0);
    if (pthread_create(&thread, NULL, pong, &it) != 0)
        return 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t start = dz_now();
        hit(1);
        wait_while(1);
        times[i] = dz_now() - start;
    }
    pthread_join(thread, NULL);
    return bench_median_us(times, count);
}
