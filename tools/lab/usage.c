#include "usage.h"

#include "target/procfs.h"

#include <base/clock.h>
#include <donmaz/error.h>

#include <string.h>

enum { COMM = 15 }; /* the kernel keeps so much of a process's name */

static bool is_called(pid_t pid, const char *name)
{
    char text[1024];
    dz_procfs_stat stat;
    return dz_procfs_read_pid(pid, "stat", text, sizeof text) > 0 &&
           dz_procfs_parse_stat(text, &stat) && strncmp(stat.name, name, COMM) == 0;
}

static const char *service_of(const dz_lab_stack *stack, pid_t pid)
{
    for (unsigned i = 0; i < stack->services_count; i++)
        if (is_called(pid, stack->services[i]))
            return stack->services[i];
    return NULL;
}

static void take_out(dz_proctree *tree, pid_t pid)
{
    for (size_t i = 0; i < tree->count; i++)
        if (tree->pids[i] == pid) {
            memmove(&tree->pids[i], &tree->pids[i + 1],
                    (tree->count - i - 1) * sizeof tree->pids[0]);
            tree->count--;
            return;
        }
}

/* The name of a service that none of the processes has; NULL: all are there. */
static const char *find_missing(const dz_lab_stack *stack, const dz_proctree *services)
{
    for (unsigned i = 0; i < stack->services_count; i++) {
        bool found = false;
        for (size_t j = 0; !found && j < services->count; j++)
            found = is_called(services->pids[j], stack->services[i]);
        if (!found)
            return stack->services[i];
    }
    return NULL;
}

int dz_lab_usage_find(const dz_lab_stack *stack, const dz_target *target, dz_proctree *server,
                      dz_proctree *services, const char **missing)
{
    *services = (dz_proctree){0};
    *missing = NULL;
    int rc = dz_proctree_read(target->pid, true, server);
    if (rc < 0 || stack->services_count == 0)
        return rc;
    rc = dz_proctree_read(target->guard, false, services);
    if (rc < 0)
        return rc;
    size_t kept = 0;
    for (size_t i = 0; i < services->count; i++)
        if (services->pids[i] != target->pid && service_of(stack, services->pids[i])) {
            take_out(server, services->pids[i]);
            services->pids[kept++] = services->pids[i];
        }
    services->count = kept;
    dz_proctree_refresh(server);
    dz_proctree_refresh(services);
    *missing = find_missing(stack, services);
    return *missing ? DZ_E_NOT_FOUND : 0;
}

void dz_lab_usage_open(dz_lab_usage *u, const dz_lab_stack *stack, uint64_t begin, uint64_t end)
{
    *u = (dz_lab_usage){.begin = begin,
                        .end = end,
                        .stack = stack,
                        .times = json_array(),
                        .cpu = json_array(),
                        .rss = json_array()};
}

void dz_lab_usage_close(dz_lab_usage *u)
{
    dz_proctree_free(&u->server);
    dz_proctree_free(&u->services);
    json_decref(u->times);
    json_decref(u->cpu);
    json_decref(u->rss);
}

/* Searching for new processes is dear: only at both ends, so that it disturbs nothing. */
static bool search(dz_lab_usage *u, const dz_target *target)
{
    dz_proctree_free(&u->server);
    dz_proctree_free(&u->services);
    int rc = dz_lab_usage_find(u->stack, target, &u->server, &u->services, &u->missing);
    return rc == 0 && u->server.count > 0;
}

/* A point of the series: CPU since the last look. */
static void note_point(dz_lab_usage *u, uint64_t now)
{
    double wall = (double)(now - u->last_at), cpu = (double)(u->server.cpu_ns - u->last_cpu);
    json_array_append_new(u->times, json_real((double)(now - u->first_at) / 1e9));
    json_array_append_new(u->cpu, json_real(100 * cpu / wall));
    json_array_append_new(u->rss, json_integer((json_int_t)u->server.rss_kb));
}

void dz_lab_usage_sample(dz_lab_usage *u, const dz_target *target)
{
    uint64_t now = dz_now();
    bool first = u->first_at == 0, last = now >= u->end;
    if (first || last) {
        if (!search(u, target))
            return;
        now = dz_now();
    } else {
        dz_proctree_refresh(&u->server);
    }
    if (first) {
        u->first_at = now;
        u->first_cpu = u->server.cpu_ns;
        u->first_service_cpu = u->services.cpu_ns;
        u->first_ticks = dz_lab_ticks_now();
    }
    if (!first && now > u->last_at)
        note_point(u, now);
    u->last_at = now;
    u->last_cpu = u->server.cpu_ns;
    u->last_service_cpu = u->services.cpu_ns;
    if (last)
        u->last_ticks = dz_lab_ticks_now();
    u->rss_sum += u->server.rss_kb;
    u->samples++;
    if (u->server.rss_kb > u->rss_max)
        u->rss_max = u->server.rss_kb;
}

/* CPU time as a share of a core and for each request. The window looked at may differ from the one
 * that was loaded by a little. */
static void note_cpu(json_t *result, double cpu, double wall, double asked, double requests,
                     const char *percent, const char *each)
{
    json_object_set_new(result, percent, json_real(100 * cpu / wall));
    if (requests > 0)
        json_object_set_new(result, each, json_real(cpu / 1e3 * (asked / wall) / requests));
}

/* How much of all cores went to neither the stack nor the client, nor to idling. */
static void note_others(json_t *result, const dz_lab_usage *u)
{
    static const char *const ours[] = {"cpu_percent", "service_cpu_percent", "client_cpu_percent"};
    double total = (double)(u->last_ticks.total - u->first_ticks.total), known = 0;
    double busy = total - (double)(u->last_ticks.idle - u->first_ticks.idle);
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        known += json_number_value(json_object_get(result, ours[i]));
    if (u->last_ticks.total <= u->first_ticks.total || u->last_at <= u->first_at)
        return;
    double steal = dz_lab_steal_percent(u->first_ticks, u->last_ticks); /* warned of by itself */
    double others = 100 * busy / total - steal - known / (double)dz_lab_cores();
    json_object_set_new(result, "others_cpu_percent", json_real(others > 0 ? others : 0));
}

void dz_lab_usage_results(const dz_lab_usage *u, double requests, double asked, json_t *result)
{
    double wall = (double)(u->last_at - u->first_at);
    if (wall > 0)
        note_cpu(result, (double)(u->last_cpu - u->first_cpu), wall, asked, requests, "cpu_percent",
                 "cpu_us_per_request");
    if (wall > 0 && u->stack->services_count > 0)
        note_cpu(result, (double)(u->last_service_cpu - u->first_service_cpu), wall, asked,
                 requests, "service_cpu_percent", "service_cpu_us_per_request");
    if (u->samples > 0) {
        json_object_set_new(result, "rss_kb", json_integer((json_int_t)(u->rss_sum / u->samples)));
        json_object_set_new(result, "rss_max_kb", json_integer((json_int_t)u->rss_max));
    }
    note_others(result, u);
    json_object_set_new(
        result, "series",
        json_pack("{s:O, s:O, s:O}", "t_s", u->times, "cpu_percent", u->cpu, "rss_kb", u->rss));
}
