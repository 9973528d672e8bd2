/* donmaz load: from arguments to results. */
#include "load/build.h"
#include "load/report.h"
#include "load/run.h"

#include "report/report.h"
#include "load/scenario.h"
#include "load/start.h"

#include <donmaz/error.h>

#include <errno.h>
#include <stdlib.h>

/* Opens FILE or "-". NULL after one line on stderr. */
static FILE *open_output(const char *path, const char *option)
{
    if (dz_slice_equal(dz_slice_of(path), DZ_LIT("-")))
        return stdout;
    FILE *out = fopen(path, "we");
    if (!out)
        dz_fail(0, LOAD_TOOL, "%s: can't write '%s': %s", option, path, dz_strerror(-errno));
    return out;
}

/* 0, or -errno of what could not be written. */
static int close_output(FILE *out)
{
    errno = 0;
    int failed = out == stdout ? fflush(out) : fclose(out);
    return failed ? (errno ? -errno : -EIO) : 0;
}

static int write_json(const load_session *session, FILE *out)
{
    json_t *json = load_result_json(session);
    if (!json)
        return DZ_E_NOMEM;
    int rc = json_dumpf(json, out, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(12));
    fputc('\n', out);
    json_decref(json);
    return rc < 0 ? -EIO : 0;
}

static int write_html(const load_session *session, FILE *out)
{
    json_t *json = load_result_json(session);
    if (!json)
        return DZ_E_NOMEM;
    const char *title = session->cli->title;
    int rc = dz_report_print(out, "load", title ? title : "results", json);
    json_decref(json);
    return rc;
}

typedef struct output {
    const char *option, *path;
    int (*write)(const load_session *session, FILE *out);
} output;

/* Tries that each file can be written before minutes are spent on what to put there. */
static int check_output(const output *o)
{
    if (!o->path || dz_slice_equal(dz_slice_of(o->path), DZ_LIT("-")))
        return DZ_OPTIONS_OK;
    FILE *out = fopen(o->path, "ae");
    if (!out)
        return dz_usage(LOAD_TOOL, "%s: can't write '%s': %s", o->option, o->path,
                        dz_strerror(-errno));
    fclose(out);
    return DZ_OPTIONS_OK;
}

static int write_output(const output *o, const load_session *session)
{
    if (!o->path)
        return DZ_OPTIONS_OK;
    FILE *out = open_output(o->path, o->option);
    if (!out)
        return DZ_EXIT_USAGE;
    int rc = o->write(session, out);
    int closed = close_output(out);
    rc = rc < 0 ? rc : closed;
    if (rc < 0)
        return dz_usage(LOAD_TOOL, "%s: can't write '%s': %s", o->option, o->path, dz_strerror(rc));
    return DZ_OPTIONS_OK;
}

enum { OUTPUTS = 4 };

static void list_outputs(const load_cli *cli, output *out)
{
    out[0] = (output){"--json", cli->json, write_json};
    out[1] = (output){"--csv", cli->csv, load_write_csv};
    out[2] = (output){"--latencies", cli->latencies, load_write_latencies};
    out[3] = (output){"--html", cli->html, write_html};
}

static bool to_stdout(const char *path)
{
    return path && dz_slice_equal(dz_slice_of(path), DZ_LIT("-"));
}

static bool prints_tables(const load_cli *cli)
{
    return !cli->no_table && !to_stdout(cli->json) && !to_stdout(cli->csv) &&
           !to_stdout(cli->latencies) && !to_stdout(cli->html);
}

/* --debug: what failed, also where no table is printed. */
static void print_failures(const load_totals *totals)
{
    for (size_t i = 0; i < totals->class_count; i++) {
        const load_error *e = &totals->classes[i];
        dz_fail(0, LOAD_TOOL, "%s, %llu times: %s", load_failure_key(e->failure, e->error),
                (unsigned long long)e->count, load_failure_text(e->failure, e->error));
    }
}

static int report(const load_session *session)
{
    const load_cli *cli = session->cli;
    output outputs[OUTPUTS];
    list_outputs(cli, outputs);
    int rc = DZ_OPTIONS_OK;
    if (prints_tables(cli)) {
        for (size_t i = 0; i < session->phase_count && session->phase_count > 1; i++) {
            load_print_plan(session->phases[i].plan, cli, stdout);
            load_print_result(session, &session->phases[i], stdout);
            fputc('\n', stdout);
        }
        if (load_print_result(session, session->total, stdout) < 0)
            rc = dz_fail(DZ_EXIT_USAGE, LOAD_TOOL, "out of memory while printing");
    }
    if (cli->debug)
        print_failures(&session->total->totals);
    for (size_t i = 0; i < OUTPUTS; i++) {
        int written = write_output(&outputs[i], session);
        rc = rc == DZ_OPTIONS_OK ? written : rc;
    }
    if (cli->compare && rc == DZ_OPTIONS_OK)
        rc = load_print_comparison(session, cli->compare, prints_tables(cli) ? stdout : stderr);
    return rc;
}

/* The exit code of a run that could be reported. */
static int verdict(const load_session *session)
{
    const load_totals *t = &session->total->totals;
    int rc = load_judge(session, &session->cli->fail_if);
    if (rc != DZ_OPTIONS_OK)
        return rc;
    if (t->completed == 0 && (t->errors > 0 || !session->total->interrupted))
        return dz_fail(DZ_EXIT_FAILED, LOAD_TOOL, "not one request was answered%s%s",
                       t->class_count > 0 ? ": " : "",
                       t->class_count > 0
                           ? load_failure_text(t->classes[0].failure, t->classes[0].error)
                           : "");
    return DZ_OPTIONS_OK;
}

static int check_outputs(const load_cli *cli)
{
    output outputs[OUTPUTS];
    list_outputs(cli, outputs);
    int rc = load_check_conditions(&cli->fail_if);
    for (size_t i = 0; i < OUTPUTS && rc == DZ_OPTIONS_OK; i++)
        rc = check_output(&outputs[i]);
    return rc == DZ_OPTIONS_OK && cli->compare ? load_check_comparison(cli->compare) : rc;
}

static int run_session(load_session *session, load_plan *plans, size_t count, int pid)
{
    int rc = DZ_OPTIONS_OK;
    for (size_t i = 0; i < count && rc == DZ_OPTIONS_OK; i++)
        rc = load_plan_resolve(&plans[i]);
    for (size_t i = 0; i < count && rc == DZ_OPTIONS_OK && !load_was_interrupted(); i++) {
        if (prints_tables(session->cli))
            load_print_plan(&plans[i], session->cli, stderr);
        rc = load_run(&plans[i], session->cli, pid, &session->phases[i]);
        session->phase_count += rc == DZ_OPTIONS_OK;
    }
    return rc;
}

/* The sum of all phases. */
static int add_up(load_session *session, load_result *sum)
{
    if (session->phase_count == 1) {
        session->total = &session->phases[0];
        return DZ_OPTIONS_OK;
    }
    session->total = sum;
    sum->plan = session->phases[0].plan;
    for (size_t i = 0; i < session->phase_count; i++)
        if (load_result_add(sum, &session->phases[i]) < 0)
            return dz_usage(LOAD_TOOL, "out of memory while adding up the phases");
    return DZ_OPTIONS_OK;
}

static int run_plans(const load_cli *cli, load_plan *plans, size_t count, int pid)
{
    load_result sum = {0};
    load_session session = {.cli = cli, .phases = calloc(count, sizeof(load_result))};
    if (!session.phases)
        return dz_usage(LOAD_TOOL, "out of memory");
    int rc = run_session(&session, plans, count, pid);
    /* A target that died between phases: what was measured before is still worth reporting. */
    if (session.phase_count > 0) {
        int reported = add_up(&session, &sum);
        if (reported == DZ_OPTIONS_OK)
            reported = report(&session);
        if (reported == DZ_OPTIONS_OK)
            reported = verdict(&session);
        rc = rc == DZ_OPTIONS_OK ? reported : rc;
    }
    for (size_t i = 0; i < count; i++)
        if (session.phases[i].plan)
            load_result_free(&session.phases[i]);
    if (sum.plan)
        load_result_free(&sum);
    free(session.phases);
    return rc;
}

static int run_urls(const load_cli *cli, load_feed_rows *rows, int pid)
{
    load_plan plan;
    int rc = load_plan_from_cli(&plan, cli, rows);
    if (rc != DZ_OPTIONS_OK)
        return rc;
    rc = pid < 0 ? DZ_OPTIONS_OK : run_plans(cli, &plan, 1, pid);
    load_plan_free(&plan);
    return rc;
}

static int run_scenario(load_cli *cli, load_feed_rows *rows, int pid)
{
    load_scenario scenario;
    int rc = load_scenario_read(&scenario, cli, rows);
    if (rc != DZ_OPTIONS_OK)
        return rc;
    cli->title = cli->title ? cli->title : scenario.title;
    rc = pid < 0 ? DZ_OPTIONS_OK : run_plans(cli, scenario.plans, scenario.count, pid);
    cli->title = cli->title == scenario.title ? NULL : cli->title;
    load_scenario_free(&scenario);
    return rc;
}

/* pid < 0: only checks that everything can be understood. */
static int run(load_cli *cli, load_feed_rows *rows, int pid)
{
    return cli->scenario ? run_scenario(cli, rows, pid) : run_urls(cli, rows, pid);
}

static int run_with_target(load_cli *cli, load_feed_rows *rows)
{
    load_started started;
    int rc = run(cli, rows, -1); /* a typing error must not start anything */
    if (rc == DZ_OPTIONS_OK)
        rc = load_start_target(&started, cli);
    if (rc != DZ_OPTIONS_OK)
        return rc;
    rc = run(cli, rows, started.target.pid);
    load_stop_target(&started);
    return rc;
}

static int load_main(load_cli *cli)
{
    load_feed_rows rows = {0};
    char why[200] = "";
    if (cli->data && load_rows_read(&rows, cli->data, why, sizeof why) < 0)
        return dz_usage(LOAD_TOOL, "--data '%s': %s", cli->data, why);
    load_feed_rows *given = cli->data ? &rows : NULL;
    int rc = check_outputs(cli);
    if (rc == DZ_OPTIONS_OK)
        rc = cli->operands.command ? run_with_target(cli, given) : run(cli, given, (int)cli->pid);
    if (cli->data)
        load_rows_free(&rows);
    return rc == DZ_OPTIONS_OK ? DZ_EXIT_OK : rc;
}

int dz_tool_load(int argc, char **argv)
{
    load_cli cli;
    int rc = load_cli_parse(&cli, argc, argv);
    if (rc != DZ_OPTIONS_OK)
        return rc;
    load_catch_signals();
    rc = load_main(&cli);
    load_cli_free(&cli);
    return rc;
}
