/* The figures of this process, under the names that all Prometheus clients use. */
#include "app/app.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* The whole of a small file of /proc; false when it can't be read. */
static bool read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t len = read(fd, text, size - 1);
    close(fd);
    text[len > 0 ? len : 0] = '\0';
    return len > 0;
}

/* proc(5): field `number` of /proc/self/stat, counted from 1; 0 when it can't be had. */
static uint64_t stat_field(int number)
{
    char text[1024];
    if (!read_text("/proc/self/stat", text, sizeof text))
        return 0;
    const char *at = strrchr(text, ')'); /* the name before it may hold anything */
    for (int field = 2; at && field < number; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

static double read_cpu(void *data)
{
    (void)data;
    return (double)dz_clock(CLOCK_PROCESS_CPUTIME_ID) / 1e9;
}

static double read_virtual(void *data)
{
    (void)data;
    return (double)stat_field(23);
}

static double read_resident(void *data)
{
    (void)data;
    return (double)stat_field(24) * (double)sysconf(_SC_PAGESIZE);
}

static double read_threads(void *data)
{
    (void)data;
    return (double)stat_field(20);
}

static double read_start(void *data)
{
    (void)data;
    double since_boot = (double)stat_field(22) / (double)sysconf(_SC_CLK_TCK);
    double boot = (double)dz_clock(CLOCK_REALTIME) / 1e9 - (double)dz_clock(CLOCK_BOOTTIME) / 1e9;
    return boot + since_boot;
}

static double read_descriptors(void *data)
{
    (void)data;
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        return 0;
    unsigned count = 0;
    for (const struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count - 1; /* not the folder's own */
}

static double read_descriptors_max(void *data)
{
    (void)data;
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) < 0 ? 0 : (double)limit.rlim_cur;
}

int dz_metrics_add_process(dz_metrics *metrics)
{
    static const struct {
        const char *name, *help;
        dz_metric_fn read;
    } gauges[] = {
        {"process_resident_memory_bytes", "Resident memory size in bytes.", read_resident},
        {"process_virtual_memory_bytes", "Virtual memory size in bytes.", read_virtual},
        {"process_open_fds", "Number of open file descriptors.", read_descriptors},
        {"process_max_fds", "Maximum number of open file descriptors.", read_descriptors_max},
        {"process_start_time_seconds", "Start time of the process since unix epoch in seconds.",
         read_start},
        {"process_threads", "Number of threads.", read_threads},
    };
    const dz_metric cpu = {"process_cpu_seconds_total",
                           "Total user and system CPU time spent in seconds.", NULL, 0};
    int rc = dz_metrics_counter_fn(metrics, &cpu, read_cpu, metrics);
    for (size_t i = 0; i < sizeof gauges / sizeof gauges[0] && rc == 0; i++) {
        const dz_metric metric = {gauges[i].name, gauges[i].help, NULL, 0};
        rc = dz_metrics_gauge_fn(metrics, &metric, gauges[i].read, metrics);
    }
    return rc;
}
