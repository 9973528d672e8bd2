#include "load/usage.h"

#include <stdlib.h>

static uint64_t cpu_of(const dz_tree *tree)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < tree->count; i++)
        sum += tree->procs[i].cpu_ns;
    return sum;
}

static uint64_t rss_kb_of(const dz_tree *tree)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < tree->count; i++)
        if (!tree->procs[i].gone)
            sum += tree->procs[i].rss;
    return sum / 1024;
}

int load_watch_start(load_watch *watch, load_target_usage *usage, int pid)
{
    *watch = (load_watch){.usage = usage};
    dz_tree_init(&watch->tree, pid);
    int rc = dz_tree_refresh(&watch->tree);
    if (rc < 0) {
        dz_tree_close(&watch->tree);
        return rc;
    }
    usage->pid = pid;
    return 0;
}

static void keep(load_target_usage *usage, load_target_sample sample)
{
    if (usage->count == usage->cap) {
        size_t cap = usage->cap ? usage->cap * 2 : 128;
        load_target_sample *samples = realloc(usage->samples, cap * sizeof *samples);
        if (!samples)
            return; /* a gap in the series is better than no results */
        usage->samples = samples;
        usage->cap = cap;
    }
    usage->samples[usage->count++] = sample;
}

static void begin(load_watch *watch, uint64_t now, uint64_t cpu, uint64_t rss_kb)
{
    watch->begun = true;
    watch->counting = watch->last_at = now;
    watch->last_cpu = watch->first_cpu = cpu;
    watch->usage->rss_kb_start = watch->usage->rss_kb_max = rss_kb;
}

void load_watch_sample(load_watch *watch, uint64_t now, uint64_t counting)
{
    load_target_usage *usage = watch->usage;
    if (usage->pid == 0)
        return;
    if (dz_tree_refresh(&watch->tree) < 0)
        usage->ended = true;
    dz_tree_sample(&watch->tree);
    uint64_t cpu = cpu_of(&watch->tree), rss_kb = rss_kb_of(&watch->tree);
    if (now < counting)
        return;
    if (!watch->begun) {
        begin(watch, now, cpu, rss_kb);
        return;
    }
    if (now == watch->last_at)
        return;
    if (rss_kb > usage->rss_kb_max)
        usage->rss_kb_max = rss_kb;
    watch->rss_sum += (double)rss_kb;
    double used = cpu > watch->last_cpu ? (double)(cpu - watch->last_cpu) : 0;
    keep(usage, (load_target_sample){.at = now - watch->counting,
                                     .cpu_percent = 100 * used / (double)(now - watch->last_at),
                                     .rss_kb = rss_kb});
    watch->last_at = now;
    watch->last_cpu = cpu;
}

void load_watch_stop(load_watch *watch, uint64_t now)
{
    load_target_usage *usage = watch->usage;
    if (usage->pid == 0)
        return;
    load_watch_sample(watch, now, watch->begun ? watch->counting : now);
    uint64_t time = watch->last_at - watch->counting;
    usage->cpu_seconds = (double)(watch->last_cpu - watch->first_cpu) / 1e9;
    usage->cpu_percent = time > 0 ? 100 * usage->cpu_seconds / ((double)time / 1e9) : 0;
    usage->rss_kb_mean =
        usage->count > 0 ? watch->rss_sum / (double)usage->count : (double)usage->rss_kb_start;
    dz_tree_close(&watch->tree);
}
