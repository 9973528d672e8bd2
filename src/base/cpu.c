#include "base/cpu.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned allowed_processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return (unsigned)CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN); /* more processors than cpu_set_t holds */
    return online > 0 ? (unsigned)online : 1;
}

/* Reads a small file; false when it is not there. */
static int read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t len = read(fd, text, size - 1);
    close(fd);
    text[len > 0 ? len : 0] = '\0';
    return len > 0;
}

static unsigned round_up(long long quota, long long period)
{
    return quota > 0 && period > 0 ? (unsigned)((quota + period - 1) / period) : 0;
}

/* "MAX PERIOD" in microseconds, MAX perhaps "max". 0: no quota. */
static unsigned quota_v2(const char *folder)
{
    char path[4200], text[64];
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (!read_text(path, text, sizeof text))
        return 0;
    char *end;
    long long quota = strtoll(text, &end, 10);
    return end == text ? 0 : round_up(quota, strtoll(end, NULL, 10));
}

static unsigned quota_v1(const char *folder)
{
    char path[4200], quota[64], period[64];
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (!read_text(path, quota, sizeof quota))
        return 0;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (!read_text(path, period, sizeof period))
        return 0;
    return round_up(strtoll(quota, NULL, 10), strtoll(period, NULL, 10));
}

/* The least quota of a group and those above it: each one limits. */
static unsigned least_quota(const char *root, const char *group, unsigned (*quota)(const char *))
{
    char path[4096];
    unsigned least = 0;
    int len = snprintf(path, sizeof path, "%s%s", root, group);
    if (len < 0 || (size_t)len >= sizeof path)
        return 0;
    for (;;) {
        unsigned here = quota(path);
        if (here && (!least || here < least))
            least = here;
        char *slash = strrchr(path, '/');
        if (!slash || (size_t)(slash - path) < strlen(root))
            return least;
        *slash = '\0';
    }
}

/* Lines of /proc/self/cgroup: "0::/group" (version 2), "4:cpu,cpuacct:/group" (version 1). */
static unsigned cgroup_quota(void)
{
    char text[4096];
    if (!read_text("/proc/self/cgroup", text, sizeof text))
        return 0;
    unsigned least = 0;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));) {
        const char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        unsigned here = 0;
        if (controllers[1] == '\0')
            here = least_quota("/sys/fs/cgroup", group, quota_v2);
        else if (strstr(controllers, "cpu,") || strcmp(controllers, ":cpu") == 0)
            here = least_quota("/sys/fs/cgroup/cpu", group, quota_v1);
        if (here && (!least || here < least))
            least = here;
    }
    return least;
}

unsigned dz_cpu_count(void)
{
    unsigned processors = allowed_processors(), quota = cgroup_quota();
    unsigned count = quota && quota < processors ? quota : processors;
    return count ? count : 1;
}
