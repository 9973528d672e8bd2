#include "machine.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The value of the first line of `path` that starts with `key`, from after `separator` to the end
 * of the line, without quotes; the whole line when key is "". false: no such line. */
static bool value_in_file(const char *path, const char *key, char separator, char *out, size_t size)
{
    char line[512];
    bool found = false;
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    while (!found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        const char *value = key[0] ? strchr(line, separator) : line;
        if (!value)
            continue;
        value += key[0] ? 1 : 0;
        value += strspn(value, " \t\"");
        snprintf(out, size, "%.*s", (int)strcspn(value, "\""), value);
        found = true;
    }
    fclose(file);
    return found;
}

static json_t *text_or_null(const char *path, const char *key, char separator)
{
    char value[256];
    return value_in_file(path, key, separator, value, sizeof value) ? json_string(value)
                                                                    : json_null();
}

static long usable_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : -1;
}

long dz_lab_cores(void)
{
    return sysconf(_SC_NPROCESSORS_ONLN);
}

json_t *dz_lab_machine(void)
{
    struct utsname name;
    char kernel[256] = "", memory[64];
    double load = 0;
    if (uname(&name) == 0)
        snprintf(kernel, sizeof kernel, "%s %s %s", name.sysname, name.release, name.machine);
    json_t *machine = json_object();
    json_object_set_new(machine, "cpu", text_or_null("/proc/cpuinfo", "model name", ':'));
    json_object_set_new(machine, "cores", json_integer(dz_lab_cores()));
    json_object_set_new(machine, "usable_cores", json_integer(usable_cores()));
    if (value_in_file("/proc/meminfo", "MemTotal", ':', memory, sizeof memory))
        json_object_set_new(machine, "memory_mb", json_integer(strtol(memory, NULL, 10) / 1024));
    json_object_set_new(machine, "kernel", json_string(kernel));
    json_object_set_new(machine, "os", text_or_null("/etc/os-release", "PRETTY_NAME", '='));
    /* The hypervisor bit is the only sign of a virtual machine that needs no rights to read. */
    char flags[8192];
    FILE *cpuinfo = fopen("/proc/cpuinfo", "re");
    bool virtual = false;
    while (cpuinfo && fgets(flags, sizeof flags, cpuinfo))
        virtual = virtual || (strncmp(flags, "flags", 5) == 0 && strstr(flags, " hypervisor"));
    if (cpuinfo)
        fclose(cpuinfo);
    json_object_set_new(machine, "virtual", json_boolean(virtual));
    json_object_set_new(
        machine, "governor",
        text_or_null("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "", 0));
    if (getloadavg(&load, 1) == 1)
        json_object_set_new(machine, "host_load", json_real(load));
    json_object_set_new(machine, "donmaz", json_string(DZ_VERSION));
    return machine;
}

dz_lab_ticks dz_lab_ticks_now(void)
{
    char line[512];
    unsigned long long v[8] = {0};
    dz_lab_ticks ticks = {0};
    if (!value_in_file("/proc/stat", "cpu ", ' ', line, sizeof line))
        return ticks;
    char *at = line;
    for (int i = 0; i < 8; i++) {
        v[i] = strtoull(at, &at, 10);
        ticks.total += v[i];
    }
    ticks.idle = v[3] + v[4];
    ticks.steal = v[7];
    return ticks;
}

double dz_lab_steal_percent(dz_lab_ticks before, dz_lab_ticks after)
{
    if (after.total <= before.total || after.steal < before.steal)
        return 0;
    return 100 * (double)(after.steal - before.steal) / (double)(after.total - before.total);
}

__attribute__((format(printf, 2, 3))) static void warn(json_t *list, const char *format, ...)
{
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    json_array_append_new(list, json_string(text));
}

json_t *dz_lab_machine_warnings(json_t *machine)
{
    json_t *list = json_array();
    const char *governor = json_string_value(json_object_get(machine, "governor"));
    double load = json_number_value(json_object_get(machine, "host_load"));
    long cores = (long)json_integer_value(json_object_get(machine, "usable_cores"));
    if (governor && strcmp(governor, "performance") != 0)
        warn(list,
             "CPU frequency governor is '%s': clock speed changes while measuring; set it to "
             "performance",
             governor);
    if (load > 0.5)
        warn(list,
             "the machine was busy before the run (load average %.1f on %ld cores): other work "
             "takes part of the cores from every stack",
             load, cores);
    if (cores == 1)
        warn(list, "one core only: client and server share it, and cluster modes can't help");
    return list;
}
