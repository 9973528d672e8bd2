/* Spends its time where the tests can look for it: main, alpha, beta, gamma_, and from there in
 * burning or in waiting.
 *   calls burn MS      of CPU time
 *   calls wait N MS    N waits of MS milliseconds
 *   calls deep N MS    the same as burn, N calls deep
 *   calls signal MS    burn in a signal handler
 *   calls fork MS      burn in a child that runs itself anew, and wait for it
 *   calls threads N MS N threads, the last of which burns; the others sleep
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Something to do after each call, so that none becomes a jump. */
#define AFTER() __asm__ volatile("" ::: "memory")

static volatile double sink;
static int (*volatile work)(int, int);

static long cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

__attribute__((noinline)) static int burns(int ms, int unused)
{
    long end = cpu_ms() + ms;
    (void)unused;
    while (cpu_ms() < end)
        for (int i = 0; i < 200000; i++)
            sink = sink * 0.5 + i;
    return 0;
}

__attribute__((noinline)) static int waits(int count, int ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    for (int i = 0; i < count; i++)
        nanosleep(&t, NULL);
    return 0;
}

__attribute__((noinline)) static int gamma_(int a, int b)
{
    int rc = work(a, b);
    AFTER();
    return rc;
}

__attribute__((noinline)) static int beta(int a, int b)
{
    int rc = gamma_(a, b);
    AFTER();
    return rc;
}

__attribute__((noinline)) static int alpha(int a, int b)
{
    int rc = beta(a, b);
    AFTER();
    return rc;
}

__attribute__((noinline)) static int deep(int depth, int ms, const volatile char *above)
{
    volatile char room[48]; /* so that each call takes some of the stack, and is not made a loop */
    room[0] = *above;
    int rc = depth > 0 ? deep(depth - 1, ms, room) : alpha(ms, 0);
    AFTER();
    return rc + room[0] - room[0];
}

static int signal_ms;

static void on_signal(int number)
{
    (void)number;
    alpha(signal_ms, 0);
}

static void *burn_thread(void *arg)
{
    alpha(*(int *)arg, 0);
    exit(0);
}

static void *sleep_thread(void *arg)
{
    for (;;)
        pause();
    return arg;
}

static int run_threads(int count, int ms)
{
    pthread_attr_t small;
    pthread_t thread;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    for (int i = 1; i <= count; i++)
        if (pthread_create(&thread, &small, i == count ? burn_thread : sleep_thread, &ms) != 0)
            return 1;
    pause();
    return 0;
}

/* Keeps main on the stack. */
__attribute__((noinline)) static int whole(int rc)
{
    AFTER();
    return rc;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int a = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0;
    int b = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 0;
    work = burns;
    if (strcmp(what, "burn") == 0)
        return whole(alpha(a, 0));
    if (strcmp(what, "deep") == 0)
        return whole(deep(a, b, what));
    if (strcmp(what, "threads") == 0)
        return run_threads(a, b);
    if (strcmp(what, "wait") == 0) {
        work = waits;
        return whole(alpha(a, b));
    }
    if (strcmp(what, "signal") == 0) {
        signal_ms = a;
        signal(SIGUSR2, on_signal);
        raise(SIGUSR2);
        return 0;
    }
    if (strcmp(what, "fork") == 0) {
        pid_t pid = fork();
        if (pid == 0) {
            execl("/proc/self/exe", argv[0], "burn", argv[2], (char *)NULL);
            _exit(127);
        }
        return waitpid(pid, NULL, 0) == pid ? 0 : 1;
    }
    return 2;
}
