/* From text to numbers, and the rules that the schema alone can't express. */
#include "experiment.h"

#include "schema.h"
#include "common/yaml.h"
#include "metric.h"

#include "common/printable.h"
#include "common/values.h"

#include <donmaz/error.h>

#include <errno.h>
#include <fnmatch.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const char *path;
    dz_yaml_text text;
    bool failed; /* a message has been printed: the first one only */
} reader;

__attribute__((format(printf, 4, 5))) static void fail(reader *r, const char *key,
                                                       const char *value, const char *format, ...)
{
    if (r->failed)
        return;
    r->failed = true;
    va_list args;
    va_start(args, format);
    char *text = NULL;
    int len = vasprintf(&text, format, args);
    va_end(args);
    if (len < 0)
        text = NULL;
    dz_print_clean(stderr, "donmaz lab: %s:%u: %s\n", r->path,
                   dz_yaml_line(r->text, 1, dz_slice_of(key), value),
                   text ? text : "out of memory");
    free(text);
}

static unsigned count_of(reader *r, const char *key, const char *text, unsigned none, unsigned max)
{
    uint64_t value;
    if (!text)
        return none;
    if (dz_read_count(dz_slice_of(text), &value) < 0 || value < 1 || value > max) {
        fail(r, key, text, "%s is a whole number from 1 to %u, not '%s'", key, max, text);
        return none;
    }
    return (unsigned)value;
}

static uint64_t duration_of(reader *r, const char *key, const char *text, uint64_t none)
{
    uint64_t value;
    if (!text)
        return none;
    if (dz_read_duration(dz_slice_of(text), &value) < 0) {
        fail(r, key, text, "%s is a duration such as 30, 30s, 500ms or 2m, not '%s'", key, text);
        return none;
    }
    return value;
}

static double number_of(reader *r, const char *key, const char *text, double none)
{
    double value;
    if (!text)
        return none;
    if (dz_read_number(dz_slice_of(text), &value) < 0 || value <= 0) {
        fail(r, key, text, "%s is a number above 0, not '%s'", key, text);
        return none;
    }
    return value;
}

static void check_path(reader *r, const char *key, const char *path)
{
    if (path && path[0] != '/')
        fail(r, key, path, "%s starts with '/', unlike '%s'", key, path);
}

static void finish_phase(reader *r, dz_lab_phase *phase)
{
    static const uint64_t second = 1000000000;
    phase->duration = duration_of(r, "duration", phase->duration_text, second);
    if (phase->duration == 0)
        fail(r, "duration", phase->duration_text, "phase '%s' must last longer than 0",
             phase->name);
    phase->warmup = duration_of(r, "warmup", phase->warmup_text, 0);
    phase->quick_duration =
        duration_of(r, "quick_duration", phase->quick_duration_text,
                    phase->duration < 4 * second ? phase->duration : 4 * second);
    phase->quick_warmup = duration_of(r, "quick_warmup", phase->quick_warmup_text,
                                      phase->warmup < second ? phase->warmup : second);
    phase->rate = number_of(r, "rate", phase->rate_text, 0);
    if (phase->rate > 1e7)
        fail(r, "rate", phase->rate_text, "rate is at most 10000000 requests a second, not '%s'",
             phase->rate_text);
    phase->pipelining = count_of(r, "pipelining", phase->pipelining_text, 1, 1000);
    for (unsigned i = 0; i < phase->endpoints_count; i++) {
        dz_lab_endpoint *endpoint = &phase->endpoints[i];
        check_path(r, "path", endpoint->path);
        endpoint->connections = count_of(r, "connections", endpoint->connections_text, 1, 1000000);
        endpoint->work_ms = number_of(r, "work_ms", endpoint->work_text, 0);
        for (unsigned j = 0; j < i; j++)
            if (strcmp(phase->endpoints[j].path, endpoint->path) == 0)
                fail(r, "path", endpoint->path, "phase '%s' loads %s twice: add the connections up",
                     phase->name, endpoint->path);
    }
}

/* A rate that is a multiple of what an earlier phase reached. */
static void finish_rate_of(reader *r, const dz_lab_experiment *x, dz_lab_phase *phase)
{
    phase->rate_times = number_of(r, "rate_times", phase->rate_times_text, 1);
    if (!phase->rate_of) {
        if (phase->rate_times_text)
            fail(r, "rate_times", phase->rate_times_text,
                 "rate_times is a multiple of rate_of, which phase '%s' lacks", phase->name);
        return;
    }
    if (phase->rate > 0)
        fail(r, "rate_of", phase->rate_of, "phase '%s' has either rate or rate_of", phase->name);
    for (const dz_lab_phase *earlier = x->phases; earlier < phase; earlier++)
        if (strcmp(earlier->name, phase->rate_of) == 0)
            return;
    fail(r, "rate_of", phase->rate_of, "no phase before '%s' is named '%s'", phase->name,
         phase->rate_of);
}

static void finish_stack(reader *r, const dz_lab_experiment *x, dz_lab_stack *stack)
{
    check_path(r, "http", stack->ready.http);
    if (stack->ready.http && stack->ready.connect)
        fail(r, "connect", NULL, "stack '%s': ready is either http or connect, not both",
             stack->name);
    stack->ready.within = duration_of(r, "within", stack->ready.within_text, UINT64_C(20000000000));
    stack->port = count_of(r, "port", stack->port_text, 0, 65535);
    if (!stack->port && !strstr(stack->command, "{{port}}")) {
        bool told = false;
        for (unsigned i = 0; i < stack->environment_count; i++)
            told = told || strstr(stack->environment[i], "{{port}}");
        if (!told)
            fail(r, "command", stack->command,
                 "stack '%s' is not told its port: write {{port}} where it belongs, or add port: N",
                 stack->name);
    }
    for (unsigned i = 0; i < stack->environment_count; i++)
        if (!strchr(stack->environment[i], '=') || stack->environment[i][0] == '=')
            fail(r, "environment", NULL, "environment holds NAME=value, not '%s'",
                 stack->environment[i]);
    for (unsigned i = 0; i < stack->needs_count; i++) {
        const dz_lab_need *need = &stack->needs[i];
        if (!!need->executable + !!need->file + !!need->script != 1)
            fail(r, "needs", NULL,
                 "stack '%s': each need is one of executable, file, script (and a hint)",
                 stack->name);
    }
    for (unsigned i = 0; i < stack->versions_count; i++)
        if (!stack->versions[i].command == !stack->versions[i].package)
            fail(r, "name", stack->versions[i].name,
                 "version '%s' comes from either a command or a package", stack->versions[i].name);
    for (const dz_lab_stack *other = x->stacks; other < stack; other++)
        if (strcmp(other->name, stack->name) == 0)
            fail(r, "name", stack->name, "two stacks are named '%s'", stack->name);
}

static void check_metric(reader *r, const dz_lab_experiment *x, const char *metric,
                         const char *phase, const char *path)
{
    const dz_lab_metric *known = dz_lab_metric_find(metric);
    if (!known) {
        const char *nearest = dz_lab_metric_nearest(metric);
        fail(r, "metric", metric, "no metric '%s'%s%s%s", metric, nearest ? "; did you mean '" : "",
             nearest ? nearest : "", nearest ? "'?" : "");
        return;
    }
    if (known->scope != DZ_LAB_OF_STACK && !phase) {
        fail(r, "metric", metric, "metric '%s' needs a phase", metric);
        return;
    }
    if (known->scope == DZ_LAB_OF_ENDPOINT && !path) {
        fail(r, "metric", metric, "metric '%s' needs a path", metric);
        return;
    }
    if (known->scope == DZ_LAB_OF_STACK)
        return;
    bool found = false;
    for (unsigned i = 0; i < x->phases_count; i++) {
        if (strcmp(x->phases[i].name, phase) != 0)
            continue;
        found = known->scope == DZ_LAB_OF_PHASE;
        for (unsigned j = 0; !found && j < x->phases[i].endpoints_count; j++)
            found = strcmp(x->phases[i].endpoints[j].path, path) == 0;
        if (!found)
            fail(r, "path", path, "phase '%s' does not load %s", phase, path);
    }
    if (!found)
        fail(r, "phase", phase, "no phase is named '%s'", phase);
}

static bool names_a_stack(const dz_lab_experiment *x, const char *pattern)
{
    for (unsigned i = 0; i < x->stacks_count; i++)
        if (fnmatch(pattern, x->stacks[i].name, 0) == 0)
            return true;
    return false;
}

static void finish_expect(reader *r, const dz_lab_experiment *x, dz_lab_expect *e)
{
    check_metric(r, x, e->metric, e->phase, e->path);
    e->at_most = number_of(r, "at_most", e->at_most_text, NAN);
    e->at_least = number_of(r, "at_least", e->at_least_text, NAN);
    if (isnan(e->at_most) == isnan(e->at_least))
        fail(r, "stack", e->stack, "an expectation has either at_most or at_least");
    if (!names_a_stack(x, e->stack))
        fail(r, "stack", e->stack, "no stack is named '%s'", e->stack);
    if (e->against_phase) {
        check_metric(r, x, e->metric, e->against_phase, e->path);
        if (e->against)
            fail(r, "against_phase", e->against_phase,
                 "an expectation is against a stack or against_phase, not both");
    }
    if (!e->against)
        return;
    if (strcmp(e->against, "best") == 0 && !x->best.stacks)
        fail(r, "against", "best", "against: best needs a top-level best:");
    else if (strcmp(e->against, "best") != 0 && !names_a_stack(x, e->against))
        fail(r, "against", e->against, "no stack is named '%s'", e->against);
}

static void finish(reader *r, dz_lab_experiment *x)
{
    x->repeats = count_of(r, "repeats", x->repeats_text, 1, 1000);
    x->startups = count_of(r, "startups", x->startups_text, 3, 1000);
    /* A server that is ready may still be loading. */
    x->settle = duration_of(r, "settle", x->settle_text, UINT64_C(500000000));
    for (unsigned i = 0; i < x->phases_count; i++) {
        finish_phase(r, &x->phases[i]);
        finish_rate_of(r, x, &x->phases[i]);
        for (unsigned j = 0; j < i; j++)
            if (strcmp(x->phases[j].name, x->phases[i].name) == 0)
                fail(r, "name", x->phases[i].name, "two phases are named '%s'", x->phases[i].name);
    }
    for (unsigned i = 0; i < x->stacks_count; i++)
        finish_stack(r, x, &x->stacks[i]);
    for (unsigned i = 0; i < x->table_count; i++)
        check_metric(r, x, x->table[i].metric, x->table[i].phase, x->table[i].path);
    for (unsigned i = 0; i < x->checks_count; i++) {
        check_path(r, "path", x->checks[i].path);
        for (unsigned h = 0; h < x->checks[i].headers_count; h++)
            if (!strchr(x->checks[i].headers[h], ':'))
                fail(r, "headers", x->checks[i].headers[h],
                     "a header is 'Name: value', unlike '%s'", x->checks[i].headers[h]);
        x->checks[i].status = count_of(r, "status", x->checks[i].status_text, 200, 599);
    }
    if (x->best.stacks) {
        check_metric(r, x, x->best.metric, x->best.phase, x->best.path);
        if (!names_a_stack(x, x->best.stacks))
            fail(r, "stacks", x->best.stacks, "no stack is named '%s'", x->best.stacks);
    }
    for (unsigned i = 0; i < x->expect_count; i++)
        finish_expect(r, x, &x->expect[i]);
}

/* The names that depend on where the file lies. 0 or a negative error. */
static int locate(dz_lab_experiment *x, const char *path)
{
    char folder[PATH_MAX], joined[PATH_MAX];
    if (snprintf(folder, sizeof folder, "%s", path) >= (int)sizeof folder)
        return -ENAMETOOLONG;
    char *parent = dirname(folder);
    const char *root = x->root ? x->root : ".";
    int len = root[0] == '/' ? snprintf(joined, sizeof joined, "%s", root)
                             : snprintf(joined, sizeof joined, "%s/%s", parent, root);
    if (len >= (int)sizeof joined)
        return -ENAMETOOLONG;
    x->home = realpath(joined, NULL);
    if (!x->home)
        return -errno;
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    const char *dot = strrchr(base, '.');
    x->name = strndup(base, dot && dot > base ? (size_t)(dot - base) : strlen(base));
    x->file = strdup(path);
    return x->name && x->file ? 0 : DZ_E_NOMEM;
}

dz_lab_experiment *dz_lab_experiment_load(const char *path)
{
    reader r = {.path = path};
    char message[600];
    void *data = NULL;
    int rc = dz_yaml_read(path, &r.text);
    if (rc < 0) {
        fprintf(stderr, "donmaz lab: can't read %s: %s\n", path, dz_strerror(rc));
        return NULL;
    }
    if (dz_yaml_load(path, r.text, &dz_lab_schema, &data, message, sizeof message) < 0) {
        dz_print_clean(stderr, "donmaz lab: %s\n", message);
        free(r.text.data);
        return NULL;
    }
    dz_lab_experiment *x = data;
    finish(&r, x);
    if (!r.failed && (rc = locate(x, path)) < 0)
        fail(&r, "root", x->root, "can't enter the folder '%s': %s", x->root ? x->root : ".",
             dz_strerror(rc));
    free(r.text.data);
    if (r.failed) {
        dz_lab_experiment_free(x);
        return NULL;
    }
    return x;
}

void dz_lab_experiment_free(dz_lab_experiment *x)
{
    if (!x)
        return;
    free(x->file);
    free(x->name);
    free(x->home);
    dz_yaml_free(&dz_lab_schema, x);
}
