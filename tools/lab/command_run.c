/* donmaz lab run */
#include "lab.h"

#include "interrupt.h"
#include "judge.h"
#include "result.h"
#include "run.h"
#include "view.h"

#include "report/report.h"

#include "common/options.h"
#include "common/terminal.h"
#include "tools.h"

#include <donmaz/error.h>

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define TOOL "donmaz lab run"

typedef struct options {
    bool quick, judge;
    uint64_t repeats;
    const char *only, *host, *json, *markdown, *csv, *html, *resume, *load_program;
} options;

#define AT(member) offsetof(options, member)

static const dz_option table[] = {
    {DZ_OPT_HEADING, 0, "What to measure", NULL, 0, 0, 0, NULL},
    {DZ_OPT_FLAG, 'q', "quick", NULL, AT(quick), 0, 0, "short phases: a first look, not a result"},
    {DZ_OPT_STRING, 'o', "only", "STACK,…", AT(only), 0, 0,
     "these stacks only; * matches anything: --only 'node *'"},
    {DZ_OPT_COUNT, 'r', "repeat|repeats", "N", AT(repeats), 1, 1000,
     "measure everything N times, interleaved (3 or more give\nconfidence intervals)"},
    {DZ_OPT_STRING, 0, "host", "ADDRESS", AT(host), 0, 0,
     "the IPv4 address the stacks listen on (127.0.0.1)"},
    {DZ_OPT_STRING, 0, "resume", "FILE.json", AT(resume), 0, 0,
     "go on with an interrupted run: what FILE holds is kept, the\nrest is measured and added to "
     "it"},
    {DZ_OPT_STRING, 0, "load-program", "FILE", AT(load_program), 0, 0,
     "run this instead of donmaz as the load generator: it takes the\noptions of 'donmaz load' and "
     "prints the same JSON"},
    {DZ_OPT_HEADING, 0, "Output (FILE may be - for standard output)", NULL, 0, 0, 0, NULL},
    {DZ_OPT_OUTPUT, 'j', "json", "FILE", AT(json), 0, 0,
     "everything measured, run by run; written after every stack"},
    {DZ_OPT_OUTPUT, 0, "md|markdown", "FILE", AT(markdown), 0, 0, "the table as Markdown"},
    {DZ_OPT_OUTPUT, 0, "csv", "FILE", AT(csv), 0, 0, "every figure, one a line"},
    {DZ_OPT_OUTPUT, 0, "html", "FILE", AT(html), 0, 0,
     "one page with tables, charts and downloads; needs no network"},
    {DZ_OPT_FLAG, 0, "judge", NULL, AT(judge), 0, 0,
     "exit with 1 when one of the file's expectations does not hold"},
};

static const dz_option_spec spec = {
    .tool = TOOL,
    .usage = "FILE.yaml [options]",
    .about = "Measures the stacks of an experiment one at a time under the same load and prints a\n"
             "table. Ctrl-C ends it early; what was measured is printed and written.",
    .notes = "Exit status: 0 done, 1 an expectation does not hold (--judge), 2 unusable arguments\n"
             "or file, 3 a stack failed or the run was interrupted.",
    .options = table,
    .count = sizeof table / sizeof table[0],
};

static size_t width_of(FILE *out)
{
    struct winsize size;
    if (dz_is_terminal(out) && ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col >= 60)
        return size.ws_col;
    return 140;
}

typedef int (*printer)(json_t *document, FILE *out);

/* Writes one kind of output to a file or stdout. false: it could not, and that has been said. */
static bool output(json_t *document, const char *path, printer print)
{
    if (!path)
        return true;
    bool to_stdout = strcmp(path, "-") == 0;
    FILE *file = to_stdout ? stdout : fopen(path, "we");
    int rc = file ? print(document, file) : -errno;
    if (file && !to_stdout && fclose(file) != 0 && rc == 0)
        rc = -errno;
    if (rc < 0)
        dz_fail(0, TOOL, "can't write %s: %s", path, dz_strerror(rc));
    return rc >= 0;
}

static bool write_outputs(json_t *document, const options *o, const char *json)
{
    bool ok = true;
    int rc = json ? dz_lab_result_save(document, json) : 0;
    if (rc < 0) {
        dz_fail(0, TOOL, "can't write %s: %s", json, dz_strerror(rc));
        ok = false;
    }
    ok = output(document, o->markdown, dz_lab_print_markdown) && ok;
    ok = output(document, o->csv, dz_lab_print_csv) && ok;
    rc = o->html ? dz_report_write(o->html, "lab",
                                   json_string_value(json_object_get(document, "title")), document)
                 : 0;
    if (rc < 0)
        dz_fail(0, TOOL, "can't write %s: %s", o->html, dz_strerror(rc));
    return rc == 0 && ok;
}

static bool is_stdout(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

/* NULL after saying why. */
static json_t *open_document(const dz_lab_bench *bench, options *o)
{
    const char *name = bench->experiment->name;
    if (!o->resume)
        return dz_lab_result_new(bench, o->quick, (unsigned)o->repeats);
    json_t *document = dz_lab_result_load(o->resume);
    if (!document)
        return NULL;
    json_t *fresh = dz_lab_result_new(bench, o->quick, (unsigned)o->repeats);
    const char *theirs = json_string_value(json_object_get(document, "experiment"));
    if (strcmp(theirs, name) != 0 ||
        !json_equal(json_object_get(document, "phases"), json_object_get(fresh, "phases"))) {
        dz_fail(0, TOOL, "can't resume %s: it is a run of '%s' with other phases%s", o->resume,
                theirs, o->quick ? "; was it made without --quick?" : "");
        json_decref(document);
        document = NULL;
    } else {
        json_object_set_new(document, "repeats", json_integer((json_int_t)o->repeats));
    }
    json_decref(fresh);
    return document;
}

static bool find_self(dz_lab_bench *bench, char *self, size_t size)
{
    ssize_t len = readlink("/proc/self/exe", self, size - 1);
    if (len <= 0)
        return false;
    self[len] = '\0';
    snprintf(bench->build, sizeof bench->build, "%s", self);
    char *slash = strrchr(bench->build, '/');
    if (slash)
        *slash = '\0';
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    snprintf(bench->cores, sizeof bench->cores, "%d", cores);
    return true;
}

/* Where results go when nothing was asked for and the run was cut short: nothing measured is lost.
 */
static const char *rescue_file(const dz_lab_experiment *x, char *path, size_t size)
{
    snprintf(path, size, "%s.partial.json", x->name);
    return path;
}

static int conclude(const dz_lab_bench *bench, json_t *document, const options *o, bool complete)
{
    char partial[PATH_MAX];
    const dz_lab_experiment *x = bench->experiment;
    const char *json = o->json ? o->json : o->resume;
    bool quiet =
        is_stdout(o->json) || is_stdout(o->markdown) || is_stdout(o->csv) || is_stdout(o->html);
    FILE *out = quiet ? stderr : stdout;
    if (!complete && !json && json_array_size(json_object_get(document, "runs")) > 0)
        json = rescue_file(x, partial, sizeof partial);
    dz_lab_print_tables(document, out, width_of(out));
    unsigned broken = dz_lab_judge(x, document, out);
    bool written = write_outputs(document, o, json);
    fflush(stdout); /* so that what follows stands behind the tables */
    if (!complete && json && !is_stdout(json))
        fprintf(stderr, "%s: not complete; go on with: donmaz lab run %s%s --resume %s\n", TOOL,
                x->file, o->quick ? " --quick" : "", json);
    if (!written || !complete)
        return DZ_EXIT_TARGET;
    return o->judge && broken > 0 ? DZ_EXIT_FAILED : DZ_EXIT_OK;
}

/* A mistyped folder should not be found out after twenty minutes. */
static bool can_write(const char *path)
{
    if (!path || is_stdout(path))
        return true;
    bool existed = access(path, F_OK) == 0;
    FILE *file = fopen(path, "ae");
    if (!file) {
        dz_fail(0, TOOL, "can't write %s: %s", path, strerror(errno));
        return false;
    }
    fclose(file);
    if (!existed)
        unlink(path);
    return true;
}

/* Every pattern of --only must name something: a typing error must not look like a skip. */
static bool only_is_known(const dz_lab_experiment *x, const char *only)
{
    while (only && *only) {
        char pattern[200];
        size_t len = strcspn(only, ",");
        bool known = false;
        snprintf(pattern, sizeof pattern, "%.*s", (int)len, only);
        for (unsigned i = 0; i < x->stacks_count; i++)
            known = known || dz_lab_selected(pattern, x->stacks[i].name);
        if (!known) {
            dz_fail(0, TOOL, "no stack of %s is named '%s'; 'donmaz lab list %s' shows them",
                    x->file, pattern, x->file);
            return false;
        }
        only += len + (only[len] == ',');
    }
    return true;
}

static int run_experiment(const dz_lab_experiment *x, options *o)
{
    dz_lab_bench bench = {.experiment = x, .host = o->host};
    char self[PATH_MAX];
    if (!only_is_known(x, o->only))
        return DZ_EXIT_USAGE;
    if (!can_write(o->json) || !can_write(o->markdown) || !can_write(o->csv) || !can_write(o->html))
        return DZ_EXIT_USAGE;
    if (!find_self(&bench, self, sizeof self))
        return dz_fail(DZ_EXIT_TARGET, TOOL, "can't find my own program: %s", strerror(errno));
    /* Not by its path: a donmaz that is built anew meanwhile must not join in half-way. */
    snprintf(self, sizeof self, "/proc/%d/exe", getpid());
    if (o->repeats == 0)
        o->repeats = x->repeats;
    json_t *document = open_document(&bench, o);
    if (!document)
        return DZ_EXIT_USAGE;
    dz_lab_run_options run = {.only = o->only,
                              .load_program = o->load_program ? o->load_program : self,
                              .save = is_stdout(o->json) ? NULL
                                      : o->json          ? o->json
                                                         : o->resume,
                              .repeats = (unsigned)o->repeats,
                              .quick = o->quick};
    dz_lab_interrupt_watch();
    bool complete = dz_lab_run(&bench, &run, document);
    int code = conclude(&bench, document, o, complete);
    json_decref(document);
    return code;
}

int dz_lab_command_run(int argc, char **argv)
{
    options o = {.host = "127.0.0.1"};
    dz_operands operands = {0};
    int code = dz_options_parse(&spec, &o, argc, argv, &operands);
    if (code != DZ_OPTIONS_OK)
        return code;
    if (operands.args.count != 1 || operands.command) {
        dz_strings_free(&operands.args);
        return dz_usage(TOOL, "needs one experiment file, such as experiments/concurrency.yaml");
    }
    dz_lab_experiment *x = dz_lab_experiment_load(operands.args.items[0]);
    dz_strings_free(&operands.args);
    if (!x)
        return DZ_EXIT_USAGE;
    code = run_experiment(x, &o);
    dz_lab_experiment_free(x);
    return code;
}
