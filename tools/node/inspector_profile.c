/* Profiles of a process's threads, and their garbage collected. */
#include "inspecting.h"

#include <base/clock.h>

#include <stdio.h>

static void stop_thread(dz_inspector *in, size_t thread)
{
    dz_js_thread *t = &in->threads[thread];
    if (t->gone || (t->state != DZ_JS_RUNNING && t->state != DZ_JS_STARTING))
        return;
    t->state = DZ_JS_STOPPING;
    dz_inspector_call(in, thread, STOP, "Profiler.stop", NULL);
}

void dz_inspector_start_thread(dz_inspector *in, size_t thread)
{
    in->threads[thread].state = DZ_JS_STARTING;
    in->threads[thread].since = dz_now();
    dz_inspector_call(in, thread, OTHER, "Profiler.enable", NULL);
    dz_inspector_call(in, thread, OTHER, "Profiler.setSamplingInterval",
                      json_pack("{s:i}", "interval", (int)in->interval_us));
    dz_inspector_call(in, thread, START, "Profiler.start", NULL);
}

void dz_inspector_profile_start(dz_inspector *in, unsigned interval_us)
{
    in->interval_us = interval_us;
    for (size_t i = 0; i < in->count; i++)
        dz_inspector_start_thread(in, i);
    dz_inspector_call(in, 0, OTHER, "NodeWorker.enable",
                      json_pack("{s:b}", "waitForDebuggerOnStart", 0));
    dz_inspector_pump(in);
}

void dz_inspector_profile_stop(dz_inspector *in)
{
    in->interval_us = 0;
    /* Workers first: the main thread passes their answers on. */
    for (size_t i = in->count; i-- > 0;)
        stop_thread(in, i);
    dz_inspector_pump(in);
}

bool dz_inspector_busy(const dz_inspector *in)
{
    if (in->gone)
        return false;
    for (size_t i = 0; i < in->count; i++) {
        const dz_js_thread *t = &in->threads[i];
        if (!t->gone && (t->state == DZ_JS_STARTING || t->state == DZ_JS_STOPPING))
            return true;
    }
    return false;
}

/* Both requests wait in the worker one behind the other, so next to nothing runs unseen. */
void dz_inspector_save_workers(dz_inspector *in)
{
    uint64_t now = dz_now();
    for (size_t i = 1; i < in->count; i++) {
        dz_js_thread *t = &in->threads[i];
        if (t->gone || t->state != DZ_JS_RUNNING || t->due || now - t->since < DZ_SEC)
            continue;
        t->since = now;
        t->due++;
        dz_inspector_call(in, i, STOP, "Profiler.stop", NULL);
        dz_inspector_call(in, i, START, "Profiler.start", NULL);
    }
}

/* To a file, as a worker may live for hours. */
void dz_inspector_keep_part(dz_js_thread *t, const json_t *profile)
{
    if (!t->parts)
        t->parts = tmpfile();
    if (profile && t->parts && json_dumpf(profile, t->parts, JSON_COMPACT) == 0)
        putc('\n', t->parts);
}

bool dz_inspector_worker_stop(dz_inspector *in, unsigned number)
{
    size_t thread = dz_inspector_worker(in, number);
    if (thread == 0)
        return true;
    stop_thread(in, thread);
    dz_inspector_pump(in);
    return in->threads[thread].state != DZ_JS_STOPPING;
}

void dz_inspector_collect_garbage(dz_inspector *in)
{
    in->collecting = 0;
    for (size_t i = 0; i < in->count; i++)
        if (!in->threads[i].gone) {
            dz_inspector_call(in, i, COLLECT, "HeapProfiler.collectGarbage", NULL);
            in->collecting++;
        }
    dz_inspector_pump(in);
}

bool dz_inspector_collecting(const dz_inspector *in)
{
    return !in->gone && in->collecting > 0;
}
