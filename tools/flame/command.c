/* donmaz flame: where a program's CPU time goes. */
#include "formats.h"
#include "notes.h"

#include "common/format.h"
#include "common/options.h"
#include "common/subject.h"
#include "common/table.h"
#include "common/terminal.h"
#include "tools.h"

#include <base/clock.h>
#include <donmaz/error.h>

#include <errno.h>
#include <stdlib.h>

static const char tool[] = "donmaz flame";

typedef struct flame_options {
    uint64_t pid, frequency, top;
    const char *from, *on_port, *load;
    uint64_t duration;
    dz_flame_outputs outputs;
    const char *diff;
    const char *unwind;
    bool no_native, no_inspect, off_cpu;
} flame_options;

#define AT(member) offsetof(flame_options, member)

static const dz_option table[] = {
    {.kind = DZ_OPT_HEADING, .name = "What to look at"},
    {DZ_OPT_COUNT, 'p', "pid", "PID", AT(pid), 1, 4194304, "a process that runs already"},
    {DZ_OPT_STRING, 'f', "from", "FILE", AT(from), 0, 0,
     "a .cpuprofile, collapsed stacks, or the text of `perf script`; - reads standard input"},
    {DZ_OPT_STRING, 0, "on-port", "CMD", AT(on_port), 0, 0,
     "run this shell command once the program listens, with $PORT set (for a unix socket,\n"
     "$SOCKET), and end when it ends"},
    {DZ_OPT_STRING, 0, "load", "ARGS", AT(load), 0, 0,
     "the same with `donmaz load`: --load '-c100 /path'"},
    {DZ_OPT_DURATION, 'd', "duration", "TIME", AT(duration), 0, 86400,
     "end after this time (default: when the load or the program ends; with --pid 10 s)"},
    {DZ_OPT_COUNT, 'F', "frequency", "HZ", AT(frequency), 1, 20000, "samples a second (999)"},
    {DZ_OPT_FLAG, 0, "off-cpu", NULL, AT(off_cpu), 0, 0,
     "where threads wait, instead of where they use the CPU"},
    {DZ_OPT_STRING, 0, "unwind", "HOW", AT(unwind), 0, 0,
     "how native stacks are followed: auto (by what the program's files say of their code, and by\n"
     "frame pointers where they say nothing), fp (frame pointers alone: costs least), dwarf (as\n"
     "auto, for very deep stacks: copies 56 KiB of each instead of 16, takes what time it needs)"},
    {DZ_OPT_STRING, 0, "diff", "BASE", AT(diff), 0, 0,
     "colour by the difference to this profile, both taken as shares of their time"},
    {DZ_OPT_FLAG, 0, "no-native", NULL, AT(no_native), 0, 0,
     "no perf events: of Node only JavaScript, and nothing of other programs"},
    {DZ_OPT_FLAG, 0, "no-inspect", NULL, AT(no_inspect), 0, 0,
     "leave Node's inspector closed: JavaScript is named by V8's perf map instead,\n"
     "which a program that runs already must have been started to write (--perf-basic-prof)"},
    {.kind = DZ_OPT_HEADING, .name = "What to write"},
    {DZ_OPT_STRING, 'o', "html", "FILE", AT(outputs.html), 0, 0,
     "the page (donmaz-flame-PID.html); - leaves it out"},
    {DZ_OPT_FLAG, 0, "open", NULL, AT(outputs.open), 0, 0, "open the page in a browser"},
    {DZ_OPT_OUTPUT, 0, "collapsed", "FILE", AT(outputs.collapsed), 0, 0,
     "collapsed stacks, in microseconds"},
    {DZ_OPT_OUTPUT, 0, "speedscope", "FILE", AT(outputs.speedscope), 0, 0, "speedscope's JSON"},
    {DZ_OPT_OUTPUT, 0, "pprof", "FILE", AT(outputs.pprof), 0, 0, "pprof's protocol buffer"},
    {DZ_OPT_OUTPUT, 0, "cpuprofile", "FILE", AT(outputs.cpuprofile), 0, 0, "V8's JSON"},
    {DZ_OPT_OUTPUT, 0, "json", "FILE", AT(outputs.json), 0, 0,
     "total, notes and the hottest functions as JSON"},
    {DZ_OPT_COUNT, 'n', "top", "NUM", AT(top), 0, 1000, "functions in the table (10)"},
};

static const dz_option_spec spec = {
    .tool = tool,
    .usage = "[options] -- COMMAND [ARG...]\n"
             "       donmaz flame [options] --pid PID\n"
             "       donmaz flame [options] --from FILE",
    .about = "Shows where a program spends its CPU time, as one self-contained page and a table.",
    .notes =
        "Ctrl-C ends the run and still writes everything; a program that hangs is no hindrance.\n"
        "Exit: 0 done, 1 nothing to show, 2 unusable arguments, 3 the program could not be\n"
        "started or reached.\n",
    .options = table,
    .count = sizeof table / sizeof table[0],
};

/* -1: no such way. */
static int find_unwind(const char *name)
{
    static const char *const names[] = {"auto", "fp", "dwarf"}; /* as dz_unwind_by */
    for (int i = 0; i < 3; i++)
        if (!name || strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

static int read_file(dz_profile *p, const char *path)
{
    FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (!in)
        return dz_fail(DZ_EXIT_TARGET, tool, "%s: %s", path, strerror(errno));
    dz_read_error error = {{0}};
    int rc = dz_read_any(p, in, &error);
    if (in != stdin)
        fclose(in);
    if (rc == 0)
        return DZ_EXIT_OK;
    return dz_fail(DZ_EXIT_TARGET, tool, "%s: %s", path,
                   rc == DZ_E_FORMAT ? error.text : dz_strerror(rc));
}

static int read_base(dz_profile *p, const char *path)
{
    dz_profile base;
    if (dz_profile_init(&base) < 0)
        return dz_fail(DZ_EXIT_FAILED, tool, "out of memory");
    int code = read_file(&base, path);
    if (code == DZ_EXIT_OK)
        dz_profile_merge(p, &base, NULL, true);
    dz_profile_close(&base);
    return code;
}

typedef struct measurement {
    const flame_options *options;
    dz_native *native;
    dz_native_options how;
    int error; /* of perf events */
    dz_profile js;
    dz_collected got;
} measurement;

static void on_held(void *arg, dz_run *run)
{
    measurement *m = arg;
    m->error = dz_native_start_command(m->native, run->target.pid, &m->how);
}

static void on_tick(void *arg, dz_run *run)
{
    measurement *m = arg;
    (void)run;
    dz_native_drain(m->native);
}

/* Of a process that runs already, when measuring begins. */
static void on_load(void *arg, dz_run *run)
{
    measurement *m = arg;
    if (!m->options->pid || m->options->no_native)
        return;
    m->error = dz_native_start_tree(m->native, &run->tree, &m->how);
}

static void on_end(void *arg, dz_run *run)
{
    measurement *m = arg;
    (void)run;
    dz_native_drain(m->native);
}

/* Puts together what inspector and perf events saw. */
static int build(dz_profile *p, measurement *m, const dz_run *run)
{
    int rc = run->node_ready ? dz_collect_node(&m->js, run, &m->got) : 0;
    dz_native_stop(m->native);
    if (rc == 0 && dz_native_samples(m->native) > 0)
        return dz_native_build(m->native, p, &m->js);
    if (rc == 0 && !m->options->off_cpu) /* the inspector knows only what runs */
        dz_profile_merge(p, &m->js, NULL, false);
    return rc;
}

static int run_and_build(dz_profile *p, measurement *m, const dz_operands *operands,
                         dz_flame_report *report)
{
    const flame_options *o = m->options;
    dz_run run;
    dz_run_options ro = {
        .tool = tool,
        .command = operands->command,
        .pid = (pid_t)o->pid,
        .on_port = o->on_port,
        .load = o->load,
        .duration = o->duration                         ? o->duration
                    : o->pid && !o->on_port && !o->load ? 10 * DZ_SEC
                                                        : 0,
        .listen_timeout = 30 * DZ_SEC,
        .node = true,
        .hold = !o->no_native,
        .inside = {.inspect = !o->no_inspect,
                   .from_start = true,
                   .perf_map = !o->no_native,
                   .interval_us = (unsigned)(1000000 / o->frequency)},
        .on_held = on_held,
        .on_tick = on_tick,
        .on_load = on_load,
        .on_end = on_end,
        .arg = m,
    };
    report->pid = (pid_t)o->pid;
    int code = dz_run_start(&run, &ro);
    if (run.target.pid)
        report->pid = run.target.pid;
    if (code == DZ_EXIT_OK || run.interrupted || run.early_exit) {
        int rc = build(p, m, &run);
        if (rc < 0)
            code = dz_fail(DZ_EXIT_FAILED, tool, "%s", dz_strerror(rc));
        else if (dz_profile_total(p) > 0)
            code = DZ_EXIT_OK;
    }
    dz_flame_notes_run(report, &run, &m->got);
    if (!o->no_native)
        dz_flame_notes_native(report, &m->how, m->error, m->native);
    dz_run_close(&run);
    return code;
}

static int measure(dz_profile *p, const flame_options *o, const dz_operands *operands,
                   dz_flame_report *report)
{
    measurement m = {.options = o, .native = dz_native_new()};
    m.how = (dz_native_options){.frequency = (unsigned)o->frequency,
                                .off_cpu = o->off_cpu,
                                .unwind = (dz_unwind_by)find_unwind(o->unwind)};
    p->off_cpu = o->off_cpu;
    if (!m.native || dz_profile_init(&m.js) < 0) {
        dz_native_free(m.native);
        return dz_fail(DZ_EXIT_FAILED, tool, "out of memory");
    }
    m.js.keep_ticks = true;
    int code = run_and_build(p, &m, operands, report);
    dz_profile_close(&m.js);
    dz_native_free(m.native);
    return code;
}

static int check(const flame_options *o, const dz_operands *operands)
{
    int sources = (o->from != NULL) + (o->pid != 0) + (operands->command != NULL);
    int code = dz_subject_check(tool, operands, o->on_port, o->load);
    if (code != DZ_OPTIONS_OK)
        return code;
    if (sources != 1)
        return dz_usage(tool, sources ? "give one of a command after --, --pid or --from"
                                      : "give a command after --, or --pid PID, or --from FILE");
    if (find_unwind(o->unwind) < 0)
        return dz_usage(tool, "--unwind is auto, fp or dwarf, not '%s'", o->unwind);
    if (o->off_cpu && (o->no_native || o->from))
        return dz_usage(tool, "--off-cpu needs a running program and perf events");
    return DZ_OPTIONS_OK;
}

int dz_tool_flame(int argc, char **argv)
{
    flame_options o = {.frequency = 999, .top = 10};
    dz_operands operands;
    dz_flame_report report = {0};
    dz_profile profile;
    int code = dz_options_parse(&spec, &o, argc, argv, &operands);
    if (code == DZ_OPTIONS_OK)
        code = check(&o, &operands);
    if (code != DZ_OPTIONS_OK)
        goto done;
    if (dz_profile_init(&profile) < 0) {
        code = dz_fail(DZ_EXIT_FAILED, tool, "out of memory");
        goto done;
    }
    if (o.from)
        snprintf(report.title, sizeof report.title, "%s", o.from);
    else
        dz_subject_title(report.title, sizeof report.title, o.pid, &operands);
    report.top = (size_t)o.top;
    code = o.from ? read_file(&profile, o.from) : measure(&profile, &o, &operands, &report);
    if (code == DZ_EXIT_OK && o.diff)
        code = read_base(&profile, o.diff);
    if (code == DZ_EXIT_OK)
        code = dz_flame_write(&profile, &report, &o.outputs);
    dz_profile_close(&profile);
done:
    dz_strings_free(&operands.args);
    return code;
}
