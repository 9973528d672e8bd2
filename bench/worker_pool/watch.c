/* GET /watch: runs until /watch/end is asked for: by how much a timer of 1 ms came late at worst;
 * by how much at worst without the time that the loop's thread was ready to run while the kernel
 * let others use the cores; and the most CPU time it used from one timer to the next. */
#include "reference.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static _Atomic bool watching;

/* What the kernel knows of a thread: "CPU-time waited slices", ns (proc(5), schedstat). */
typedef struct account {
    pid_t thread;
    int fd;
    uint64_t now, cpu, waited;
} account;

static void read_account(account *it)
{
    char text[96], *end;
    if (it->thread != gettid()) { /* the loop may have changed threads */
        if (it->fd >= 0)
            close(it->fd);
        it->thread = gettid();
        it->fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    }
    it->now = dz_now();
    it->cpu = dz_thread_cpu();
    it->waited = 0;
    ssize_t n = it->fd < 0 ? -1 : pread(it->fd, text, sizeof text - 1, 0);
    if (n <= 0)
        return; /* nothing is known of others then, so all counts as the loop's own */
    text[n] = '\0';
    strtoull(text, &end, 10);
    it->waited = strtoull(end, NULL, 10);
}

static uint64_t beyond(uint64_t value, uint64_t limit)
{
    return value > limit ? value - limit : 0;
}

static void keep_most(uint64_t *most, uint64_t value)
{
    *most = value > *most ? value : *most;
}

void reference_watch(dz_request *req, dz_response *res)
{
    (void)req;
    uint64_t late = 0, own = 0, cpu = 0;
    account last = {.fd = -1}, now;
    read_account(&last);
    now = last;
    atomic_store(&watching, true);
    while (atomic_load(&watching)) {
        dz_sleep(1);
        read_account(&now);
        uint64_t took = now.now - last.now;
        bool same = now.thread == last.thread;
        keep_most(&late, beyond(took, DZ_MS));
        keep_most(&own, beyond(took, DZ_MS + (same ? now.waited - last.waited : 0)));
        keep_most(&cpu, same ? now.cpu - last.cpu : 0);
        last = now;
    }
    if (now.fd >= 0)
        close(now.fd);
    dz_send_json(res, 200, "{\"longest_stall_ms\":%.3f,\"own_ms\":%.3f,\"cpu_ms\":%.3f}",
                 reference_ms(late), reference_ms(own), reference_ms(cpu));
}

void reference_watch_end(dz_request *req, dz_response *res)
{
    (void)req;
    bool was = atomic_exchange(&watching, false);
    dz_send_json(res, 200, "{\"was\":%s}", was ? "true" : "false");
}
