/* donmaz doctor: why is this server slow? */
#include "doctor.h"

#include "common/options.h"
#include "common/subject.h"
#include "common/terminal.h"
#include "report/page.h"
#include "tools.h"

#include <base/clock.h>
#include <donmaz/error.h>

#include <errno.h>
#include <stdlib.h>

static const char tool[] = "donmaz doctor";

typedef struct doctor_options {
    uint64_t pid, duration, listen_timeout;
    const char *on_port, *load, *html, *json, *fail_if;
    bool open, no_inspect, no_probe;
} doctor_options;

#define AT(member) offsetof(doctor_options, member)

static const dz_option table[] = {
    {.kind = DZ_OPT_HEADING, .name = "What to examine"},
    {DZ_OPT_COUNT, 'p', "pid", "PID", AT(pid), 1, 4194304, "a process that runs already"},
    {DZ_OPT_STRING, 0, "on-port", "CMD", AT(on_port), 0, 0,
     "run this shell command once the program listens, with $PORT set (for a unix socket,\n"
     "$SOCKET), and end when it ends"},
    {DZ_OPT_STRING, 0, "load", "ARGS", AT(load), 0, 0,
     "the same with `donmaz load`: --load '-c100 /path'"},
    {DZ_OPT_DURATION, 'd', "duration", "TIME", AT(duration), 0, 86400,
     "end after this time (default: when the load ends; without a load 10 s)"},
    {DZ_OPT_DURATION, 0, "listen-timeout", "TIME", AT(listen_timeout), 0.1, 3600,
     "how long the program may take until it listens (30)"},
    {DZ_OPT_FLAG, 0, "no-inspect", NULL, AT(no_inspect), 0, 0,
     "leave Node's inspector closed: no function is named, no garbage collected before and\n"
     "after, and nothing seen inside a program that runs already"},
    {DZ_OPT_FLAG, 0, "no-probe", NULL, AT(no_probe), 0, 0,
     "do not ask it 20 times a second how soon it answers (by a line that is no HTTP request,\n"
     "which servers refuse)"},
    {.kind = DZ_OPT_HEADING, .name = "What to write"},
    {DZ_OPT_STRING, 'o', "html", "FILE", AT(html), 0, 0,
     "the page (donmaz-doctor-PID.html); - leaves it out"},
    {DZ_OPT_FLAG, 0, "open", NULL, AT(open), 0, 0, "open the page in a browser"},
    {DZ_OPT_OUTPUT, 0, "json", "FILE", AT(json), 0, 0,
     "verdict, evidence, recommendations and all series as JSON"},
    {DZ_OPT_STRING, 0, "fail-if", "VERDICTS", AT(fail_if), 0, 0,
     "exit 1 on one of these, or on any that is not healthy: --fail-if any,\n"
     "--fail-if blocked-loop,memory-growth"},
};

static const dz_option_spec spec = {
    .tool = tool,
    .usage = "[options] -- COMMAND [ARG...]\n       donmaz doctor [options] --pid PID",
    .about = "Starts a server, loads it once it listens, watches it every 10 ms, and says what "
             "makes it\nslow: which function, which file and line, and what to do.",
    .notes =
        "Verdicts: healthy, blocked-loop, too-few-cores, garbage-collection, memory-growth,\n"
        "waiting-for-io, overloaded, not-enough-data.\n\n"
        "Ctrl-C ends the run and still writes the report.\n"
        "Exit: 0 done, 1 a verdict of --fail-if, 2 unusable arguments, 3 the program could not be\n"
        "started or reached.\n\n"
        "  donmaz doctor --load '-c100 /seed/v1' -- node server.js\n"
        "  donmaz doctor --on-port 'autocannon -c100 localhost:$PORT/seed/v1' -- npm start\n",
    .options = table,
    .count = sizeof table / sizeof table[0],
};

/* Together, however many processes there are: what does not answer is left behind. */
static void collect_garbage(dz_doctor *d)
{
    enum { GARBAGE_MS = 2000 };
    dz_progress(tool, "the heaps are collected (2 s at most)");
    dz_node_collect_garbage(&d->run.node, GARBAGE_MS);
}

/* Gives every loop time to report once after a collection. */
static void let_report(dz_doctor *d)
{
    for (uint64_t end = dz_now() + 50 * DZ_MS, now; (now = dz_now()) < end;)
        dz_node_poll(&d->run.node, (unsigned)((end - now) / DZ_MS) + 1, -1);
}

/* A program that is not Node: perf events tell which function it computes in. */
static void start_native(dz_doctor *d)
{
    enum { HZ = 499 };
    char why[256];
    d->native = dz_native_new();
    if (!d->native)
        return;
    dz_native_options o = {.frequency = HZ};
    int rc = dz_native_start_tree(d->native, &d->run.tree, &o);
    dz_perf_explain(rc, true, why, sizeof why);
    if (why[0])
        dz_doctor_note(d, why);
}

/* A program may listen on several: which one was taken must not be a riddle. */
static void tell_port(const dz_run *run)
{
    if (run->port_count < 2)
        return;
    fprintf(stderr, "%s: it listens on", tool);
    for (int i = 0; i < run->port_count; i++) {
        const dz_port *p = &run->ports[i];
        fprintf(stderr, i ? ", " : " ");
        if (p->kind == DZ_PORT_UNIX)
            fprintf(stderr, "%s", p->address);
        else
            fprintf(stderr, p->kind == DZ_PORT_TCP6 ? "[%s]:%u" : "%s:%u", p->address, p->port);
    }
    fprintf(stderr, "; the first is taken\n");
}

static void on_load(void *arg, dz_run *run)
{
    dz_doctor *d = arg;
    tell_port(run);
    collect_garbage(d);
    d->garbage_before = dz_now();
    let_report(d);
    dz_progress(tool, NULL); /* the load prints on the same terminal */
    if (!d->run.node.profiling)
        dz_node_profile_start(&d->run.node);
    dz_tree_refresh(&d->run.tree);
    if (d->run.node.feed.threads.count == 0 && !d->native)
        start_native(d);
    if (d->run.has_admin && !d->inside)
        d->inside = dz_inside_start(&d->run.admin);
    dz_tree_sample(&d->run.tree);
    dz_outside_mark(&d->outside, &d->run.tree, dz_now());
    if (!d->no_probe && d->run.port && !d->probe)
        d->probe = dz_probe_start(d->run.port);
}

static void on_tick(void *arg, dz_run *run)
{
    dz_doctor *d = arg;
    dz_outside_tick(&d->outside, &run->tree, dz_now());
    if (d->native)
        dz_native_drain(d->native);
}

static void on_end(void *arg, dz_run *run)
{
    dz_doctor *d = arg;
    dz_progress(tool, "the load has ended; the last figures are read (2 s at most)");
    dz_probe_stop(d->probe);
    dz_inside_stop(d->inside);
    d->facts.demand = dz_outside_demand(&d->outside, &run->tree, dz_now(), run->load_cpu_ns);
    d->facts.cores = dz_doctor_cores(&run->tree);
    if (run->early_exit || !run->node_ready)
        return;
    collect_garbage(d);
    d->garbage_after = dz_now();
    let_report(d);
}

static int write_file(const dz_doctor *d, const char *path,
                      int (*write)(const dz_doctor *doctor, FILE *out))
{
    bool standard = strcmp(path, "-") == 0;
    FILE *out = standard ? stdout : fopen(path, "we");
    if (!out)
        return dz_fail(DZ_EXIT_FAILED, tool, "%s: %s", path, strerror(errno));
    int rc = write(d, out);
    if (!standard && fclose(out) != 0 && rc == 0)
        rc = -errno;
    if (rc == 0)
        return DZ_EXIT_OK;
    if (!standard)
        dz_page_discard(path);
    return dz_fail(DZ_EXIT_FAILED, tool, "%s: %s", path, dz_strerror(rc));
}

static int write_all(const dz_doctor *d, const doctor_options *o)
{
    bool json_only = o->json && strcmp(o->json, "-") == 0;
    char name[64];
    const char *page = o->html;
    if (!page) {
        snprintf(name, sizeof name, "donmaz-doctor-%d.html",
                 (int)(o->pid ? (pid_t)o->pid : d->run.target.pid));
        page = name;
    }
    dz_doctor_print(d, json_only ? stderr : stdout);
    int code = o->json ? write_file(d, o->json, dz_doctor_write_json) : DZ_EXIT_OK;
    if (strcmp(page, "-") == 0)
        return code;
    int one = write_file(d, page, dz_doctor_write_html);
    if (one == DZ_EXIT_OK) {
        fprintf(stderr, "%s: wrote %s\n", tool, page);
        if (o->open)
            dz_page_open(page);
    }
    return one ? one : code;
}

/* Whether the verdict is one of the names in "a,b,c"; "any" is every one but healthy. */
static bool listed(const char *list, dz_verdict verdict)
{
    const char *name = dz_verdict_name(verdict);
    for (const char *at = list; *at;) {
        size_t len = strcspn(at, ",");
        dz_slice one = dz_slice_make(at, len);
        if (dz_slice_equal(one, dz_slice_of(name)) ||
            (dz_slice_equal(one, DZ_LIT("any")) && verdict != DZ_VERDICT_HEALTHY))
            return true;
        at += len + (at[len] == ',');
    }
    return false;
}

static int check(const doctor_options *o, const dz_operands *operands)
{
    int code = dz_subject_check(tool, operands, o->on_port, o->load);
    if (code != DZ_OPTIONS_OK)
        return code;
    if ((o->pid != 0) == (operands->command != NULL))
        return dz_usage(tool, "give a command after --, or --pid PID");
    for (const char *at = o->fail_if; at && *at;) {
        size_t len = strcspn(at, ",");
        bool known = dz_slice_equal(dz_slice_make(at, len), DZ_LIT("any"));
        for (int v = 0; v < DZ_VERDICT_COUNT; v++)
            known |=
                dz_slice_equal(dz_slice_make(at, len), dz_slice_of(dz_verdict_name((dz_verdict)v)));
        if (!known)
            return dz_usage(tool, "--fail-if: there is no verdict '%.*s'", (int)len, at);
        at += len + (at[len] == ',');
    }
    return DZ_OPTIONS_OK;
}

static int examine(dz_doctor *d, const doctor_options *o, const dz_operands *operands)
{
    bool load = o->on_port || o->load;
    dz_run_options ro = {
        .tool = tool,
        .command = operands->command,
        .pid = (pid_t)o->pid,
        .on_port = o->on_port,
        .load = o->load,
        .duration = o->duration ? o->duration
                    : load      ? 0
                                : 10 * DZ_SEC,
        .listen_timeout = o->listen_timeout,
        .need_port = load,
        .node = true,
        .admin = true,
        .inside = {.inspect = !o->no_inspect, .interval_us = 1000},
        .on_tick = on_tick,
        .on_load = on_load,
        .on_end = on_end,
        .arg = d,
    };
    dz_subject_title(d->title, sizeof d->title, o->pid, operands);
    d->no_probe = o->no_probe;
    int code = dz_run_start(&d->run, &ro);
    if (code != DZ_EXIT_OK && d->run.load_from == 0 && !d->run.interrupted)
        return code; /* it never came to measuring: the message has said why */
    if (d->run.interrupted)
        dz_doctor_note(d, "the run was ended early by a signal");
    if (d->run.early_exit) {
        char how[96], text[160];
        dz_target_describe(&d->run.target, how, sizeof how);
        snprintf(text, sizeof text, "the program ended by itself before the load did: it %s", how);
        dz_doctor_note(d, text);
    }
    dz_progress(tool, "the figures are judged");
    dz_doctor_examine(d);
    dz_progress(tool, NULL);
    int written = write_all(d, o);
    if (written != DZ_EXIT_OK)
        return written;
    return o->fail_if && listed(o->fail_if, d->diagnosis.verdict) ? DZ_EXIT_FAILED : DZ_EXIT_OK;
}

int dz_tool_doctor(int argc, char **argv)
{
    doctor_options o = {.listen_timeout = 30 * DZ_SEC};
    dz_operands operands;
    int code = dz_options_parse(&spec, &o, argc, argv, &operands);
    if (code == DZ_OPTIONS_OK)
        code = check(&o, &operands);
    if (code == DZ_OPTIONS_OK) {
        dz_doctor *d = calloc(1, sizeof *d);
        code = d ? examine(d, &o, &operands) : dz_fail(DZ_EXIT_FAILED, tool, "out of memory");
        if (d) {
            dz_run_close(&d->run);
            dz_probe_free(d->probe);
            dz_inside_free(d->inside);
            dz_outside_close(&d->outside);
            dz_profile_close(&d->profile);
            dz_native_free(d->native);
        }
        free(d);
    }
    dz_strings_free(&operands.args);
    return code;
}
