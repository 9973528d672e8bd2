/* From a run's series to facts. */
#include "doctor.h"
#include "window.h"

#include "flame/collect.h"

#include <base/clock.h>
#include <base/cpu.h>

#include <sched.h>
#include <stdio.h>

void dz_doctor_note(dz_doctor *d, const char *text)
{
    if (d->note_count < sizeof d->notes / sizeof d->notes[0])
        snprintf(d->notes[d->note_count++], sizeof d->notes[0], "%s", text);
}

static void read_load(dz_load_facts *load, const char *path)
{
    json_t *j = path[0] ? json_load_file(path, 0, NULL) : NULL;
    json_t *latency = json_object_get(j, "latency"), *requests = json_object_get(j, "requests");
    if (latency && requests) {
        load->known = true;
        load->requests = json_number_value(json_object_get(requests, "total"));
        load->rps = json_number_value(json_object_get(requests, "average"));
        load->p50_ms = json_number_value(json_object_get(latency, "p50"));
        load->p99_ms = json_number_value(json_object_get(latency, "p99"));
        load->max_ms = json_number_value(json_object_get(latency, "max"));
        load->errors = json_number_value(json_object_get(j, "errors"));
        load->non2xx = json_number_value(json_object_get(j, "non2xx"));
        load->connections = json_number_value(json_object_get(j, "connections"));
    }
    json_decref(j);
}

/* A server that gets slower costs more towards the end than on average. */
static void second_half(dz_doctor *d)
{
    const dz_run *run = &d->run;
    json_t *j = run->load_json[0] ? json_load_file(run->load_json, 0, NULL) : NULL;
    json_t *intervals = json_object_get(j, "intervals");
    double every = json_number_value(json_object_get(j, "sampleInt"));
    size_t n = json_array_size(intervals), half = n / 2;
    if (half > 0 && every > 0 && run->load_to > run->load_from) {
        uint64_t from = run->load_from + (uint64_t)((double)half * every * 1e6);
        for (size_t i = half; i < n; i++)
            d->facts.load.late_requests +=
                json_number_value(json_object_get(json_array_get(intervals, i), "requests"));
        d->facts.load.late_cpu = dz_outside_cpu_ms(&d->outside, from, run->load_to);
    }
    json_decref(j);
}

unsigned dz_doctor_cores(const dz_tree *tree)
{
    unsigned cores = dz_cpu_count(), widest = 0;
    for (size_t i = 0; i < tree->count; i++) {
        cpu_set_t set;
        if (tree->procs[i].gone || sched_getaffinity(tree->procs[i].pid, sizeof set, &set) < 0)
            continue;
        unsigned n = (unsigned)CPU_COUNT(&set);
        widest = n > widest ? n : widest;
    }
    return widest && widest < cores ? widest : cores;
}

static const dz_out_series *outside_of(const dz_doctor *d, pid_t pid)
{
    for (size_t i = 0; i < d->outside.processes.count; i++)
        if (d->outside.processes.at[i].pid == pid)
            return &d->outside.processes.at[i];
    return NULL;
}

static void loop_facts(dz_doctor *d)
{
    dz_facts *f = &d->facts;
    const dz_feed *feed = &d->run.node.feed;
    for (size_t i = 0; i < feed->threads.count && f->loop_count < DZ_MAX_LOOPS; i++) {
        const dz_js_series *s = &feed->threads.at[i];
        dz_loop_facts *l = &f->loops[f->loop_count];
        dz_facts_loop(l, s, outside_of(d, s->pid), f->from, f->to, d->garbage_before,
                      d->garbage_after);
        if (l->samples == 0)
            continue; /* it was not there in the window */
        f->loop_count++;
        if (!d->profile_ready)
            continue;
        dz_facts_culprit(&l->culprit, &d->profile, s, f->from, f->to, l->stalls > 0);
        double gc = dz_facts_garbage(&d->profile, s, f->from, f->to, false);
        double stall_gc = dz_facts_garbage(&d->profile, s, f->from, f->to, true);
        /* As if no other program had taken the cores: a short collection mostly waits for helper
         * threads then. Full ones of a large heap are work. */
        double own = l->gcs_major * 4 >= l->gcs ? 1 : 1 - l->starved;
        l->gc = gc >= 0 ? gc * l->utilisation * own : l->gc;
        l->stall_gc = l->stalls && stall_gc >= 0 ? stall_gc : l->stall_gc;
    }
}

static bool is_node(const dz_facts *f, pid_t pid)
{
    for (size_t i = 0; i < f->loop_count; i++)
        if (f->loops[i].pid == pid)
            return true;
    return false;
}

/* The function of a program that is not Node. */
static void native_culprit(dz_doctor *d)
{
    dz_native_stop(d->native);
    if (dz_native_build(d->native, &d->profile, NULL) == 0)
        dz_facts_culprit(&d->facts.native, &d->profile, NULL, d->facts.from, d->facts.to, false);
}

void dz_doctor_examine(dz_doctor *d)
{
    dz_facts *f = &d->facts;
    dz_run *run = &d->run;
    enum { SETTLE_MS = 300 };
    f->from = run->load_from ? run->load_from : run->started;
    f->to = run->load_to ? run->load_to : run->ended;
    if (f->to > f->from + SETTLE_MS * DZ_MS * 5)
        f->from += SETTLE_MS * DZ_MS; /* connecting and compiling */
    dz_window_trim(run->node_ready ? &run->node.feed : NULL, run->options.load ? NULL : &d->outside,
                   &f->from, &f->to);
    f->seconds = (double)(f->to - f->from) / 1e9;
    read_load(&f->load, run->load_json);
    second_half(d);
    dz_collected got = {0};
    if (dz_profile_init(&d->profile) == 0) {
        d->profile.keep_ticks = true;
        d->profile_ready =
            run->node_ready && dz_collect_node(&d->profile, run, &got) == 0 && got.threads > 0;
        f->profiled = d->profile_ready;
    }
    loop_facts(d);
    if (d->native && d->profile.stack_count)
        native_culprit(d);
    for (size_t i = 0; i < d->outside.processes.count && f->process_count < DZ_MAX_PROCESSES; i++) {
        dz_process_facts *p = &f->processes[f->process_count];
        dz_facts_process(p, &d->outside.processes.at[i], f->from, f->to);
        if (p->seconds <= 0)
            continue;
        p->node = is_node(f, p->pid);
        f->process_count++;
    }
    double busy = f->demand.running + f->demand.others;
    dz_facts_probe(&f->probe, dz_probe_seen(d->probe), &d->outside,
                   busy > 0 ? f->demand.others / busy : 0, f->from, f->to);
    dz_facts_inside(&f->inside, dz_inside_look(d->inside), f->from, f->to);
    if (got.lost)
        dz_doctor_note(d, "some Node threads ended before their profile could be had");
    if (run->node.feed.malformed)
        dz_doctor_note(d, "some of what the program reported could not be read");
    dz_judge(&d->diagnosis, f);
    dz_doctor_prescribe(d);
}
