/* A scenario file becomes one plan a phase. */
#include "load/scenario.h"

#include "load/build.h"
#include "load/scenario_reader.h"

#include "common/values.h"

#include <donmaz/error.h>

#include <stdio.h>
#include <stdlib.h>

static int check_names(const scenario_reader *r, const scenario_phase *phase)
{
    for (unsigned i = 0; phase && i < phase->endpoints_count; i++) {
        bool known = false;
        const char *names[64];
        size_t count = 0;
        for (unsigned e = 0; e < r->file->endpoints_count; e++) {
            const char *name = scenario_name(&r->file->endpoints[e]);
            known = known || dz_slice_equal(dz_slice_of(name), dz_slice_of(phase->endpoints[i]));
            if (count < 64)
                names[count++] = name;
        }
        if (known)
            continue;
        const char *nearest = dz_nearest_name(dz_slice_of(phase->endpoints[i]), names, count);
        unsigned line = dz_yaml_line(r->text, 1, DZ_LIT("endpoints"), phase->endpoints[i]);
        return dz_usage(LOAD_TOOL, "%s:%u: no endpoint is called '%s'%s%s%s", r->cli->scenario,
                        line, phase->endpoints[i], nearest ? "; did you mean '" : "",
                        nearest ? nearest : "", nearest ? "'?" : "");
    }
    return DZ_OPTIONS_OK;
}

/* What the phase says on top of the command line. */
static int phase_options(const scenario_reader *r, const scenario_phase *phase, load_cli *cli)
{
    if (!phase)
        return DZ_OPTIONS_OK;
    int rc = scenario_duration(r, "duration", phase->duration, &cli->duration);
    if (rc == DZ_OPTIONS_OK && phase->duration) {
        cli->amount = 0; /* the phase's own end, whatever -a says */
        if (cli->duration == 0)
            rc = scenario_wrong(r, "duration", phase->duration, "must be more than nothing");
    }
    if (rc == DZ_OPTIONS_OK)
        rc = scenario_duration(r, "warmup", phase->warmup, &cli->warmup);
    if (rc == DZ_OPTIONS_OK)
        rc = scenario_duration(r, "timeout", phase->timeout, &cli->timeout);
    if (rc == DZ_OPTIONS_OK)
        rc =
            scenario_count(r, "amount", phase->amount, 1, UINT64_C(1000000000000000), &cli->amount);
    if (rc == DZ_OPTIONS_OK)
        rc = scenario_count(r, "connections", phase->connections, 1, 1000000, &cli->connections);
    if (rc == DZ_OPTIONS_OK)
        rc = scenario_count(r, "pipelining", phase->pipelining, 1, 65536, &cli->pipelining);
    if (rc == DZ_OPTIONS_OK)
        rc = scenario_rate(r, phase->rate, &cli->overall_rate);
    cli->open = cli->open || phase->open;
    if (rc == DZ_OPTIONS_OK && cli->open && cli->overall_rate <= 0)
        rc = dz_usage(LOAD_TOOL, "%s: an open phase needs a rate", r->cli->scenario);
    return rc;
}

/* Phases without a name are called by their number. */
static int set_name(const scenario_reader *r, load_plan *plan, const scenario_phase *phase)
{
    char number[24];
    snprintf(number, sizeof number, "%zu", r->out->count);
    if (!phase)
        return DZ_OPTIONS_OK;
    plan->name = plan->name_owned = strdup(phase->name ? phase->name : number);
    return plan->name ? DZ_OPTIONS_OK : scenario_out_of_memory();
}

static int build_phase(scenario_reader *r, const scenario_phase *phase)
{
    load_plan *plan = &r->out->plans[r->out->count++];
    load_cli cli = *r->cli;
    int rc = check_names(r, phase);
    if (rc == DZ_OPTIONS_OK)
        rc = phase_options(r, phase, &cli);
    if (rc == DZ_OPTIONS_OK)
        rc = load_plan_begin(plan, &cli, r->file->endpoints_count, r->file->endpoints_count + 1);
    plan->rows = r->rows;
    if (rc == DZ_OPTIONS_OK)
        rc = scenario_add_endpoints(r, plan, &cli, phase);
    if (rc == DZ_OPTIONS_OK)
        rc = load_plan_finish(plan, &cli);
    if (rc != DZ_OPTIONS_OK)
        return rc;
    return set_name(r, plan, phase);
}

static int read_rows(scenario_reader *r)
{
    char why[200] = "";
    if (!r->file->data)
        return DZ_OPTIONS_OK;
    if (load_rows_read(&r->out->rows, r->file->data, why, sizeof why) < 0)
        return scenario_wrong(r, "data", r->file->data, why);
    r->out->has_rows = true;
    r->rows = &r->out->rows;
    return DZ_OPTIONS_OK;
}

static int build_all(scenario_reader *r)
{
    size_t phases = r->file->phases_count > 0 ? r->file->phases_count : 1;
    r->out->plans = calloc(phases, sizeof *r->out->plans);
    if (!r->out->plans)
        return scenario_out_of_memory();
    if (r->file->title && !(r->out->title = strdup(r->file->title)))
        return scenario_out_of_memory();
    int rc = read_rows(r);
    for (unsigned i = 0; i < phases && rc == DZ_OPTIONS_OK; i++)
        rc = build_phase(r, r->file->phases_count > 0 ? &r->file->phases[i] : NULL);
    return rc;
}

int load_scenario_read(load_scenario *scenario, const load_cli *cli, load_feed_rows *rows)
{
    *scenario = (load_scenario){0};
    scenario_reader r = {.cli = cli, .out = scenario, .rows = rows};
    char message[400];
    int rc = dz_yaml_read(cli->scenario, &r.text);
    if (rc < 0)
        return dz_usage(LOAD_TOOL, "can't read '%s': %s", cli->scenario, dz_strerror(rc));
    void *data = NULL;
    rc = dz_yaml_load(cli->scenario, r.text, &load_scenario_schema, &data, message, sizeof message);
    if (rc < 0) {
        free(r.text.data);
        return dz_usage(LOAD_TOOL, "%s", message);
    }
    r.file = data;
    rc = build_all(&r);
    dz_yaml_free(&load_scenario_schema, data);
    free(r.text.data);
    if (rc != DZ_OPTIONS_OK)
        load_scenario_free(scenario);
    return rc;
}

void load_scenario_free(load_scenario *scenario)
{
    for (size_t i = 0; i < scenario->count; i++)
        load_plan_free(&scenario->plans[i]);
    free(scenario->plans);
    free(scenario->title);
    if (scenario->has_rows)
        load_rows_free(&scenario->rows);
    *scenario = (load_scenario){0};
}
