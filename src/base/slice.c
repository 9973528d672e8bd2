#include "base/slice.h"

#include <errno.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The first version of the kernel's struct; Debian 12's libc has none. */
typedef struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
} attributes;

int dz_thread_slice(uint64_t ns)
{
    int policy = sched_getscheduler(0);
    if (policy != SCHED_OTHER && policy != SCHED_BATCH)
        return -EINVAL; /* runtime means something else there */
    const attributes wanted = {
        .size = sizeof wanted,
        .policy = (uint32_t)policy,
        .nice = getpriority(PRIO_PROCESS, (id_t)gettid()),
        .runtime = ns,
    };
    return syscall(SYS_sched_setattr, 0, &wanted, 0) == 0 ? 0 : -errno;
}
