/* The order is stack A, B, C, then A, B, C again: drift of the machine hits all alike. Each repeat
 * starts with the next stack, so that none always follows the same one. */
#include "run.h"

#include "bootstrap.h"
#include "interrupt.h"
#include "loadrun.h"
#include "machine.h"
#include "metric.h"
#include "result.h"
#include "usage.h"

#include "common/printable.h"
#include "common/terminal.h"

#include <base/clock.h>
#include <donmaz/error.h>

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHATTER    1000000 /* bytes printed while measured that are worth a warning */
#define STEAL_MAX  1.0     /* percent of the machine's time taken by its host */
#define OTHERS_MAX 5.0     /* percent of the machine's time taken by other programs */

typedef struct session {
    const dz_lab_bench *bench;
    const dz_lab_run_options *options;
    json_t *document;
    unsigned done, total; /* stack runs, for the progress line */
    bool failed;
} session;

bool dz_lab_selected(const char *only, const char *name)
{
    if (!only)
        return true;
    while (*only) {
        char pattern[200];
        size_t len = strcspn(only, ",");
        snprintf(pattern, sizeof pattern, "%.*s", (int)len, only);
        if (fnmatch(pattern, name, 0) == 0)
            return true;
        only += len + (only[len] == ',');
    }
    return false;
}

__attribute__((format(printf, 3, 4))) static void progress(const session *s, const char *stack,
                                                           const char *format, ...)
{
    if (!dz_is_terminal(stderr))
        return;
    va_list args;
    va_start(args, format);
    fprintf(stderr, "\r\033[K[%u/%u] %s: ", s->done + 1, s->total, stack);
    vfprintf(stderr, format, args);
    va_end(args);
    fflush(stderr);
}

static void end_progress(void)
{
    if (dz_is_terminal(stderr))
        fputs("\r\033[K", stderr);
}

static void note(const char *stack, const char *what, const char *why)
{
    end_progress();
    dz_print_clean(stderr, "donmaz lab: %s: %s%s%s\n", stack, what, why ? ": " : "",
                   why ? why : "");
}

static void warn(session *s, const char *text)
{
    json_t *warnings = json_object_get(s->document, "warnings");
    end_progress();
    dz_print_clean(stderr, "donmaz lab: warning: %s\n", text);
    json_array_append_new(warnings, json_string(text));
}

static void pause_until(uint64_t until)
{
    while (!dz_lab_interrupted() && dz_now() < until) {
        uint64_t left = until - dz_now();
        nanosleep(&(struct timespec){.tv_nsec = (long)(left > 50 * DZ_MS ? 50 * DZ_MS : left)},
                  NULL);
    }
}

/* Starts the stack a few more times only to see how long that takes. 0 or -1 with the reason. */
static int measure_startups(session *s, const dz_lab_stack *stack, json_t *startups, char *why)
{
    for (unsigned i = 1; i < s->bench->experiment->startups; i++) {
        dz_lab_running running;
        if (dz_lab_interrupted())
            return snprintf(why, DZ_LAB_WHY, "interrupted"), -1;
        progress(s, stack->name, "start %u", i);
        if (dz_lab_stack_start(s->bench, stack, &running, why) < 0)
            return -1;
        json_array_append_new(startups, json_real(running.startup_ms));
        dz_lab_stack_stop(&running);
    }
    return 0;
}

static double median_of(json_t *numbers)
{
    double values[1000];
    size_t i, count = 0;
    json_t *number;
    json_array_foreach(numbers, i, number) if (count < 1000) values[count++] =
        json_number_value(number);
    return dz_lab_median(values, count);
}

/* What the phase is to be offered; 0: closed loop. Negative: what it is a multiple of is nothing.
 */
static double rate_of(const dz_lab_phase *phase, json_t *phases)
{
    if (!phase->rate_of)
        return phase->rate;
    json_t *earlier = dz_lab_find_named(phases, "name", phase->rate_of), *endpoint;
    double reached = 0;
    size_t i;
    json_array_foreach(json_object_get(earlier, "endpoints"), i, endpoint) reached +=
        json_number_value(json_object_get(endpoint, "good_rps"));
    return reached > 0 ? reached * phase->rate_times : -1;
}

static int measure_phases(session *s, const dz_lab_stack *stack, dz_lab_running *running,
                          json_t *phases, char *why)
{
    const dz_lab_experiment *x = s->bench->experiment;
    for (unsigned i = 0; i < x->phases_count; i++) {
        const dz_lab_phase *phase = &x->phases[i];
        bool quick = s->options->quick;
        dz_lab_load load = {.program = s->options->load_program,
                            .host = s->bench->host,
                            .port = running->port,
                            .stack = stack,
                            .phase = phase,
                            .quick = quick,
                            .rate = rate_of(phase, phases),
                            .target = &running->target};
        uint64_t whole =
            quick ? phase->quick_duration + phase->quick_warmup : phase->duration + phase->warmup;
        char problem[DZ_LAB_WHY - 120];
        if (load.rate < 0) {
            snprintf(why, DZ_LAB_WHY, "phase %s: phase %s had no 2xx to be a multiple of",
                     phase->name, phase->rate_of);
            return -1;
        }
        progress(s, stack->name, "%s, %.0f s", phase->name, (double)whole / 1e9);
        json_t *result = dz_lab_load_run(&load, problem, sizeof problem);
        if (!result && strcmp(problem, "died") == 0)
            dz_lab_stack_obituary(&running->target, problem, sizeof problem);
        if (!result) {
            snprintf(why, DZ_LAB_WHY, "phase %s: %s", phase->name, problem);
            return -1;
        }
        json_array_append_new(phases, result);
    }
    return 0;
}

static json_int_t idle_rss(const dz_lab_stack *stack, const dz_lab_running *running)
{
    dz_proctree server, services;
    const char *missing;
    (void)dz_lab_usage_find(stack, &running->target, &server, &services, &missing);
    json_int_t rss = (json_int_t)server.rss_kb;
    dz_proctree_free(&server);
    dz_proctree_free(&services);
    return rss;
}

static void note_steal(session *s, const char *stack, dz_lab_ticks before)
{
    char text[300];
    double steal = dz_lab_steal_percent(before, dz_lab_ticks_now());
    if (steal <= STEAL_MAX)
        return;
    snprintf(text, sizeof text,
             "while %s was measured the host took %.1f%% of the machine's time (steal): repeat it "
             "when the host is quieter",
             stack, steal);
    warn(s, text);
}

static void note_others(session *s, const char *stack, json_t *run)
{
    char text[300];
    double most = 0;
    size_t i;
    json_t *phase;
    json_array_foreach(json_object_get(run, "phases"), i, phase)
    {
        double others = json_number_value(json_object_get(phase, "others_cpu_percent"));
        most = others > most ? others : most;
    }
    if (most <= OTHERS_MAX)
        return;
    snprintf(text, sizeof text,
             "while %s was measured other programs took %.0f%% of the machine: end them and repeat",
             stack, most);
    warn(s, text);
}

static void note_chatter(session *s, const char *stack, const dz_target *target)
{
    char text[300];
    if (target->printed < CHATTER)
        return;
    snprintf(text, sizeof text,
             "%s printed %.1f MB while it was measured, which costs it time: turn its request log "
             "off",
             stack, (double)target->printed / 1e6);
    warn(s, text);
}

/* Fills in `run`. 0 or -1 with the reason. */
static int measure_running(session *s, const dz_lab_stack *stack, dz_lab_running *running,
                           json_t *run, char *why)
{
    json_t *phases = json_object_get(run, "phases");
    if (dz_lab_stack_check(s->bench, running, why) < 0)
        return -1;
    progress(s, stack->name, "idle");
    pause_until(dz_now() + s->bench->experiment->settle);
    json_object_set_new(run, "rss_idle_kb", json_integer(idle_rss(stack, running)));
    return measure_phases(s, stack, running, phases, why);
}

static int measure(session *s, const dz_lab_stack *stack, json_t *run, char *why)
{
    dz_lab_running running;
    json_t *startups = json_object_get(run, "startups_ms");
    dz_lab_ticks before = dz_lab_ticks_now();
    if (measure_startups(s, stack, startups, why) < 0)
        return -1;
    progress(s, stack->name, "starting");
    if (dz_lab_stack_start(s->bench, stack, &running, why) < 0)
        return -1;
    json_array_append_new(startups, json_real(running.startup_ms));
    json_object_set_new(run, "startup_ms", json_real(median_of(startups)));
    int rc = measure_running(s, stack, &running, run, why);
    dz_lab_stack_stop(&running);
    note_chatter(s, stack->name, &running.target);
    note_steal(s, stack->name, before);
    note_others(s, stack->name, run);
    return rc;
}

static void save(session *s)
{
    if (!s->options->save)
        return;
    dz_lab_result_summarise(s->document);
    int rc = dz_lab_result_save(s->document, s->options->save);
    if (rc < 0)
        note(s->options->save, "can't be written", dz_strerror(rc));
}

static void run_stack(session *s, const dz_lab_stack *stack, unsigned repeat)
{
    char why[DZ_LAB_WHY];
    json_t *entry = dz_lab_result_stack(s->document, stack->name);
    json_t *run = json_pack("{s:[], s:[]}", "startups_ms", "phases");
    int rc = measure(s, stack, run, why);
    json_object_set_new(run, "complete", json_boolean(rc == 0));
    if (rc < 0 && !dz_lab_interrupted()) {
        note(stack->name, "failed", why);
        json_object_set_new(entry, "failed", json_string(why));
        s->failed = true;
    }
    /* What an interrupted or failed run has measured is kept; resuming measures it anew. */
    if (rc == 0 || json_array_size(json_object_get(run, "phases")) > 0)
        dz_lab_result_store(s->document, stack->name, repeat, run);
    else
        json_decref(run);
    if (rc == 0)
        save(s);
}

/* Skips what can't run here, with the reason, and describes the others. */
static void prepare(session *s)
{
    const dz_lab_experiment *x = s->bench->experiment;
    for (unsigned i = 0; i < x->stacks_count; i++) {
        const dz_lab_stack *stack = &x->stacks[i];
        char why[DZ_LAB_WHY];
        if (!dz_lab_selected(s->options->only, stack->name))
            continue;
        json_t *entry = dz_lab_result_stack(s->document, stack->name);
        json_object_set_new(entry, "failed", json_null());
        if (dz_lab_stack_missing(s->bench, stack, why)) {
            note(stack->name, "skipped", why);
            json_object_set_new(entry, "skipped", json_string(why));
            continue;
        }
        json_object_set_new(entry, "skipped", json_null());
        char *command = dz_lab_stack_command(s->bench, stack);
        json_object_set_new(entry, "command", json_string(command ? command : stack->command));
        free(command);
        json_object_set_new(entry, "versions", dz_lab_stack_versions(s->bench, stack));
    }
}

static bool wanted(const session *s, const dz_lab_stack *stack, unsigned repeat)
{
    if (!dz_lab_selected(s->options->only, stack->name) ||
        dz_lab_result_run(s->document, stack->name, repeat))
        return false;
    json_t *entry = dz_lab_result_stack(s->document, stack->name);
    return json_is_null(json_object_get(entry, "skipped")) &&
           json_is_null(json_object_get(entry, "failed"));
}

bool dz_lab_run(const dz_lab_bench *bench, const dz_lab_run_options *options, json_t *document)
{
    session s = {.bench = bench, .options = options, .document = document};
    const dz_lab_experiment *x = bench->experiment;
    prepare(&s);
    for (unsigned r = 0; r < options->repeats; r++)
        for (unsigned i = 0; i < x->stacks_count; i++)
            s.total += wanted(&s, &x->stacks[i], r);
    for (unsigned r = 0; r < options->repeats; r++)
        for (unsigned i = 0; i < x->stacks_count && !dz_lab_interrupted(); i++) {
            const dz_lab_stack *stack = &x->stacks[(i + r) % x->stacks_count];
            if (!wanted(&s, stack, r))
                continue;
            run_stack(&s, stack, r);
            s.done++;
        }
    end_progress();
    bool complete = !dz_lab_interrupted() && !s.failed;
    json_object_set_new(document, "complete", json_boolean(complete));
    dz_lab_result_summarise(document);
    return complete;
}
