/* GET /watch: runs until /watch/end is asked for. By how much a timer of 1 ms came late at worst,
 * and the most CPU time that the loop used in one turn, from the return of epoll_wait to its next
 * call: what is more than that in a stall is time in which the kernel did not run the loop. */
#include "reference.h"

#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

static _Atomic bool watching;

/* The turn under way. The loop may change threads in the middle of one: then it counts no further.
 */
static _Atomic pid_t turn_thread;
static uint64_t turn_cpu;
static _Atomic uint64_t most_cpu;

/* The linker puts these in front of the loop's. There is one loop that is asked to watch itself. */
int __real_epoll_wait(int fd, struct epoll_event *events, int cap, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int cap, int timeout);
int __real_epoll_pwait2(int fd, struct epoll_event *events, int cap, const struct timespec *timeout,
                        const sigset_t *mask);
int __wrap_epoll_pwait2(int fd, struct epoll_event *events, int cap, const struct timespec *timeout,
                        const sigset_t *mask);

static void end_turn(void)
{
    if (!atomic_load_explicit(&watching, memory_order_relaxed) ||
        atomic_load(&turn_thread) != gettid())
        return;
    uint64_t used = dz_thread_cpu() - turn_cpu;
    if (used > atomic_load(&most_cpu))
        atomic_store(&most_cpu, used);
}

static void begin_turn(void)
{
    if (!atomic_load_explicit(&watching, memory_order_relaxed))
        return;
    turn_cpu = dz_thread_cpu();
    atomic_store(&turn_thread, gettid());
}

int __wrap_epoll_wait(int fd, struct epoll_event *events, int cap, int timeout)
{
    end_turn();
    int count = __real_epoll_wait(fd, events, cap, timeout);
    begin_turn();
    return count;
}

int __wrap_epoll_pwait2(int fd, struct epoll_event *events, int cap, const struct timespec *timeout,
                        const sigset_t *mask)
{
    end_turn();
    int count = __real_epoll_pwait2(fd, events, cap, timeout, mask);
    begin_turn();
    return count;
}

void reference_watch(dz_request *req, dz_response *res)
{
    (void)req;
    uint64_t longest = 0, last = dz_now();
    atomic_store(&turn_thread, 0);
    atomic_store(&most_cpu, 0);
    atomic_store(&watching, true);
    while (atomic_load(&watching)) {
        dz_sleep(1);
        uint64_t now = dz_now();
        longest = now - last > longest ? now - last : longest;
        last = now;
    }
    dz_send_json(res, 200, "{\"longest_stall_ms\":%.3f,\"turn_cpu_ms\":%.3f}",
                 reference_ms(longest) - 1, reference_ms(atomic_load(&most_cpu)));
}

void reference_watch_end(dz_request *req, dz_response *res)
{
    (void)req;
    bool was = atomic_exchange(&watching, false);
    dz_send_json(res, 200, "{\"was\":%s}", was ? "true" : "false");
}
