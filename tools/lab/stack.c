#include "stack.h"

#include "check.h"
#include "child.h"
#include "interrupt.h"
#include "probe.h"

#include "common/printable.h"

#include <base/clock.h>
#include <donmaz/error.h>

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { GRACE_MS = 2000 };

__attribute__((format(printf, 2, 3))) static int fail(char *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, DZ_LAB_WHY, format, args);
    dz_text_clean(why);
    va_end(args);
    return -1;
}

static char *fill(const dz_lab_bench *bench, const char *text, const char *port, char *why)
{
    const char *unknown;
    dz_lab_names names = {bench->host, port, bench->build, bench->cores};
    char *filled = dz_lab_fill(text, &names, &unknown);
    if (!filled && unknown)
        fail(why, "'%s' holds {{%s}}, which is unknown: there are host, port, build, cores", text,
             unknown);
    else if (!filled)
        fail(why, "out of memory");
    return filled;
}

/* `path` as seen from the folder the stacks run in. */
static void from_home(const dz_lab_bench *bench, const char *path, char *out, size_t size)
{
    if (path[0] == '/')
        snprintf(out, size, "%s", path);
    else
        snprintf(out, size, "%s/%s", bench->experiment->home, path);
}

/* What is under the experiment's root is named from there. */
static const char *shortened(const dz_lab_bench *bench, const char *path)
{
    size_t len = strlen(bench->experiment->home);
    bool inside = strncmp(path, bench->experiment->home, len) == 0 && path[len] == '/';
    return inside ? path + len + 1 : path;
}

static bool executable_exists(const dz_lab_bench *bench, const char *name)
{
    char path[PATH_MAX];
    if (strchr(name, '/')) {
        from_home(bench, name, path, sizeof path);
        return access(path, X_OK) == 0;
    }
    const char *folders = getenv("PATH");
    while (folders && *folders) {
        size_t len = strcspn(folders, ":");
        snprintf(path, sizeof path, "%.*s/%s", (int)len, folders, name);
        if (access(path, X_OK) == 0)
            return true;
        folders += len + (folders[len] == ':');
    }
    return false;
}

static bool need_met(const dz_lab_bench *bench, const dz_lab_need *need, const char *what)
{
    char path[PATH_MAX];
    if (need->executable)
        return executable_exists(bench, what);
    if (need->script)
        return dz_lab_capture(what, bench->experiment->home, path, sizeof path) == 0;
    from_home(bench, what, path, sizeof path);
    return access(path, F_OK) == 0;
}

int dz_lab_stack_missing(const dz_lab_bench *bench, const dz_lab_stack *stack, char *why)
{
    for (unsigned i = 0; i < stack->needs_count; i++) {
        const dz_lab_need *need = &stack->needs[i];
        const char *text = need->executable ? need->executable
                           : need->file     ? need->file
                                            : need->script;
        char *what = fill(bench, text, "0", why);
        if (!what)
            return 1;
        bool met = need_met(bench, need, what);
        if (!met)
            fail(why, need->script ? "'%s' fails%s%s" : "%s is missing%s%s", shortened(bench, what),
                 need->hint ? ": " : "", need->hint ? need->hint : "");
        free(what);
        if (!met)
            return 1;
    }
    return 0;
}

static json_t *package_version(const dz_lab_bench *bench, const char *file)
{
    char path[PATH_MAX];
    json_error_t error;
    from_home(bench, file, path, sizeof path);
    json_t *package = json_load_file(path, 0, &error);
    json_t *version = json_incref(json_object_get(package, "version"));
    json_decref(package);
    return version ? version : json_null();
}

json_t *dz_lab_stack_versions(const dz_lab_bench *bench, const dz_lab_stack *stack)
{
    char why[DZ_LAB_WHY];
    json_t *versions = json_object();
    for (unsigned i = 0; i < stack->versions_count; i++) {
        const dz_lab_version *v = &stack->versions[i];
        char line[200];
        json_t *value = NULL;
        char *filled = fill(bench, v->command ? v->command : v->package, "0", why);
        if (filled && v->package)
            value = package_version(bench, filled);
        else if (filled && dz_lab_capture(filled, bench->experiment->home, line, sizeof line) == 0)
            value = json_string(line);
        free(filled);
        json_object_set_new(versions, v->name, value ? value : json_null());
    }
    return versions;
}

char *dz_lab_stack_command(const dz_lab_bench *bench, const dz_lab_stack *stack)
{
    char *text = NULL;
    size_t len = 0;
    FILE *stream = open_memstream(&text, &len);
    if (!stream)
        return NULL;
    /* The build folder as given, not where it happens to lie on this machine. */
    dz_lab_names names = {bench->host, "PORT", "build", bench->cores};
    for (unsigned i = 0; i < stack->environment_count; i++) {
        char *filled = dz_lab_fill(stack->environment[i], &names, NULL);
        fprintf(stream, "%s ", filled ? filled : stack->environment[i]);
        free(filled);
    }
    char *filled = dz_lab_fill(stack->command, &names, NULL);
    fputs(filled ? filled : stack->command, stream);
    free(filled);
    if (fclose(stream) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* The last line that is not empty, without its end. */
static void last_line(const char *text, char *out, size_t size)
{
    size_t end = strlen(text);
    while (end > 0 && strchr(" \t\r\n", text[end - 1]))
        end--;
    size_t start = end;
    while (start > 0 && text[start - 1] != '\n')
        start--;
    snprintf(out, size, "%.*s", (int)(end - start), text + start);
}

void dz_lab_stack_obituary(const dz_target *target, char *why, size_t size)
{
    char line[300], how[96];
    dz_target_describe(target, how, sizeof how);
    last_line(target->tail, line, sizeof line);
    snprintf(why, size, "it %s; %s%s", how,
             line[0] ? "it said last: " : "it said nothing: run its command by hand to see why",
             line);
    dz_text_clean(why);
}

static int make_ready(const dz_lab_bench *bench, const dz_lab_stack *stack, dz_lab_running *running,
                      char *why)
{
    const char *path =
        stack->ready.http ? stack->ready.http : bench->experiment->phases[0].endpoints[0].path;
    uint64_t start = running->target.started, deadline = start + stack->ready.within;
    int rc, status = 0;
    for (;;) {
        if (stack->ready.connect) {
            rc = dz_lab_connect(bench->host, running->port, deadline);
            status = 200;
        } else {
            dz_lab_answer answer;
            rc = dz_lab_get(bench->host, running->port, path, deadline, &answer);
            status = rc == 0 ? answer.status : 0;
            free(answer.data);
        }
        uint64_t now = dz_now();
        if (rc == 0 && status == 200) {
            running->startup_ms = (double)(now - start) / 1e6;
            return 0;
        }
        if (dz_lab_interrupted())
            return fail(why, "interrupted");
        if (dz_target_poll(&running->target)) {
            char end[DZ_LAB_WHY - 100];
            dz_lab_stack_obituary(&running->target, end, sizeof end);
            return fail(why, "could not be started: %s", end);
        }
        if (now >= deadline)
            break;
        /* Often at first, so that a start of a few milliseconds is measured well; seldom later, so
         * that looking does not slow a long one down. */
        nanosleep(&(struct timespec){.tv_nsec = now - start < 50 * DZ_MS ? 200000 : 1000000}, NULL);
    }
    if (status)
        return fail(why, "was not ready within %.1f s: %s answers %d instead of 200",
                    (double)stack->ready.within / 1e9, path, status);
    return fail(why, "was not ready within %.1f s: port %u: %s", (double)stack->ready.within / 1e9,
                running->port, dz_strerror(rc));
}

static char **environment_of(const dz_lab_bench *bench, const dz_lab_stack *stack, const char *port,
                             char *why)
{
    char **list = calloc(stack->environment_count + 1, sizeof *list);
    for (unsigned i = 0; list && i < stack->environment_count; i++) {
        list[i] = fill(bench, stack->environment[i], port, why);
        if (!list[i]) {
            while (i > 0)
                free(list[--i]);
            free(list);
            return NULL;
        }
    }
    if (!list)
        fail(why, "out of memory");
    return list;
}

static int launch(const dz_lab_bench *bench, const dz_lab_stack *stack, dz_lab_running *running,
                  char *why)
{
    char port[16], cwd[PATH_MAX];
    snprintf(port, sizeof port, "%u", running->port);
    from_home(bench, stack->cwd ? stack->cwd : ".", cwd, sizeof cwd);
    char *command = fill(bench, stack->command, port, why);
    char **words = command ? dz_lab_words(command) : NULL;
    char **environment = words ? environment_of(bench, stack, port, why) : NULL;
    int rc = -1;
    if (command && !words)
        fail(why, "its command has a quote that is not closed: %s", stack->command);
    else if (words && !words[0])
        fail(why, "its command is empty");
    else if (environment) {
        dz_target_options options = {.argv = words,
                                     .cwd = cwd,
                                     .env = (const char *const *)environment,
                                     .output = DZ_TARGET_KEPT};
        rc = dz_target_start(&running->target, &options);
        if (rc < 0)
            rc = fail(why, "'%s' can't be run in %s: %s", words[0], stack->cwd ? stack->cwd : ".",
                      dz_strerror(rc));
    }
    for (unsigned i = 0; environment && environment[i]; i++)
        free(environment[i]);
    free(environment);
    dz_lab_words_free(words);
    free(command);
    return rc;
}

int dz_lab_stack_start(const dz_lab_bench *bench, const dz_lab_stack *stack,
                       dz_lab_running *running, char *why)
{
    *running = (dz_lab_running){0};
    running->port = stack->port ? stack->port : dz_lab_free_port(bench->host);
    if (running->port == 0)
        return fail(why, "no free port on %s", bench->host);
    if (stack->port && dz_lab_port_taken(bench->host, stack->port))
        return fail(why,
                    "port %u is in use by another program: stop that one, or use {{port}} in the "
                    "command instead of port: %u",
                    stack->port, stack->port);
    if (launch(bench, stack, running, why) < 0)
        return -1;
    if (make_ready(bench, stack, running, why) < 0) {
        dz_lab_stack_stop(running);
        return -1;
    }
    return 0;
}

static int check_one(const dz_lab_bench *bench, const dz_lab_running *running,
                     const dz_lab_check *check, char *why)
{
    dz_lab_answer answer;
    int rc = dz_lab_get(bench->host, running->port, check->path, dz_now() + 5 * DZ_SEC, &answer);
    if (rc < 0)
        return fail(why, "GET %s: %s", check->path, dz_strerror(rc));
    rc = dz_lab_check_answer(check, &answer, why, DZ_LAB_WHY);
    free(answer.data);
    return rc;
}

int dz_lab_stack_check(const dz_lab_bench *bench, const dz_lab_running *running, char *why)
{
    const dz_lab_experiment *x = bench->experiment;
    for (unsigned i = 0; i < x->checks_count; i++)
        if (check_one(bench, running, &x->checks[i], why) < 0)
            return -1;
    return 0;
}

void dz_lab_stack_stop(dz_lab_running *running)
{
    dz_target_stop(&running->target, SIGTERM, GRACE_MS);
}
