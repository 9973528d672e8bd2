#include "load/scenario.h"

#include "load/build.h"
#include "load/scenario_file.h"

#include "common/values.h"
#include "common/yaml.h"

#include <donmaz/error.h>

#include <stdio.h>
#include <stdlib.h>

/* A scenario being turned into plans. */
typedef struct reader {
    const load_cli *cli;
    const scenario_file *file;
    dz_yaml_text text;
    load_scenario *out;
    load_feed_rows *rows;
} reader;

/* "FILE:LINE: ...", where the line is the first that has this value at this key. */
static int wrong(const reader *r, const char *key, const char *value, const char *wanted)
{
    unsigned line = dz_yaml_line(r->text, 1, dz_slice_of(key), value);
    return dz_usage(LOAD_TOOL, "%s:%u: %s: %s, not '%s'", r->cli->scenario, line, key, wanted,
                    value);
}

static int out_of_memory(void)
{
    return dz_usage(LOAD_TOOL, "out of memory");
}

/* Each leaves *out alone when the key is absent. */
static int get_count(const reader *r, const char *key, const char *text, uint64_t min, uint64_t max,
                     uint64_t *out)
{
    uint64_t value;
    if (!text)
        return DZ_OPTIONS_OK;
    if (dz_read_count(dz_slice_of(text), &value) < 0 || value < min || value > max) {
        char wanted[80];
        snprintf(wanted, sizeof wanted, "must be a whole number from %llu to %llu",
                 (unsigned long long)min, (unsigned long long)max);
        return wrong(r, key, text, wanted);
    }
    *out = value;
    return DZ_OPTIONS_OK;
}

static int get_duration(const reader *r, const char *key, const char *text, uint64_t *out)
{
    if (text && dz_read_duration(dz_slice_of(text), out) < 0)
        return wrong(r, key, text, "must be a duration such as 10s, 500ms or 2m");
    return DZ_OPTIONS_OK;
}

static int get_rate(const reader *r, const char *text, double *out)
{
    if (text && (dz_read_number(dz_slice_of(text), out) < 0 || *out <= 0 || *out > 1e7))
        return wrong(r, "rate", text, "must be a number of requests a second up to 10000000");
    return DZ_OPTIONS_OK;
}

/* Endpoints with connections of their own follow those that share the phase's. */
static bool is_own(const scenario_endpoint *e)
{
    return e->connections != NULL;
}

static const char *name_of(const scenario_endpoint *e)
{
    return e->name ? e->name : e->path;
}

static bool in_phase(const scenario_phase *phase, const scenario_endpoint *e)
{
    if (!phase || phase->endpoints_count == 0)
        return true;
    for (unsigned i = 0; i < phase->endpoints_count; i++)
        if (dz_slice_equal(dz_slice_of(phase->endpoints[i]), dz_slice_of(name_of(e))))
            return true;
    return false;
}

static int check_names(const reader *r, const scenario_phase *phase)
{
    for (unsigned i = 0; phase && i < phase->endpoints_count; i++) {
        bool known = false;
        const char *names[64];
        size_t count = 0;
        for (unsigned e = 0; e < r->file->endpoints_count; e++) {
            const char *name = name_of(&r->file->endpoints[e]);
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

static int add_fields(const reader *r, char **lines, unsigned count, load_field *fields,
                      size_t *used)
{
    for (unsigned i = 0; i < count; i++)
        if (!load_field_parse(lines[i], &fields[(*used)++]))
            return wrong(r, "headers", lines[i], "wants 'Name: value'");
    return DZ_OPTIONS_OK;
}

/* The command line's, the file's, then the endpoint's own. *owned: the array, to be freed. */
static int all_fields(const reader *r, const scenario_endpoint *e, load_endpoint_spec *spec,
                      load_field **owned)
{
    size_t most = r->cli->headers.count + r->file->headers_count + e->headers_count;
    load_field *fields = calloc(most + 1, sizeof *fields);
    if (!fields)
        return out_of_memory();
    spec->fields = *owned = fields;
    for (size_t i = 0; i < r->cli->headers.count; i++)
        if (!load_field_parse(r->cli->headers.items[i], &fields[spec->field_count++]))
            return dz_usage(LOAD_TOOL, "-H wants 'Name: value', not '%s'",
                            r->cli->headers.items[i]);
    int rc = add_fields(r, r->file->headers, r->file->headers_count, fields, &spec->field_count);
    return rc == DZ_OPTIONS_OK
               ? add_fields(r, e->headers, e->headers_count, fields, &spec->field_count)
               : rc;
}

static int get_url(const reader *r, const scenario_endpoint *e, char **joined,
                   load_endpoint_spec *spec)
{
    const char *base = r->file->base ? r->file->base : "", *why;
    size_t len = strlen(base);
    bool whole = strstr(e->path, "://") != NULL;
    while (len > 0 && base[len - 1] == '/')
        len--;
    if (asprintf(joined, "%.*s%s%s", whole ? 0 : (int)len, base,
                 whole || e->path[0] == '/' ? "" : "/", e->path) < 0) {
        *joined = NULL;
        return out_of_memory();
    }
    if (load_url_parse(*joined, &spec->url, &why) < 0)
        return wrong(r, "path", e->path, why);
    return load_url_complete(&spec->url, r->cli, *joined);
}

static int get_body(const reader *r, const scenario_endpoint *e, dz_buf *body,
                    load_endpoint_spec *spec)
{
    int rc = 0;
    if (e->body && e->body_file)
        return wrong(r, "body_file", e->body_file, "there is a body already");
    if (e->body)
        rc = dz_buf_copy(body, dz_slice_of(e->body));
    else if (e->body_file && (rc = load_read_file(e->body_file, body)) < 0)
        return wrong(r, "body_file", e->body_file, dz_strerror(rc));
    spec->has_body = e->body || e->body_file;
    spec->body = dz_buf_slice(body);
    return rc < 0 ? out_of_memory() : DZ_OPTIONS_OK;
}

static int add_endpoint(const reader *r, load_plan *plan, const load_cli *cli,
                        const scenario_endpoint *e, bool used)
{
    load_endpoint_spec spec = {.method = e->method ? e->method : cli->method,
                               .strict = true,
                               .expect_body = dz_slice_of(e->expect_body)};
    uint64_t weight = 1, status = 0;
    char *joined = NULL;
    load_field *fields = NULL;
    dz_buf body = {0};
    int rc = get_count(r, "weight", e->weight, 1, 1000000, &weight);
    if (rc == DZ_OPTIONS_OK)
        rc = get_count(r, "expect_status", e->expect_status, 100, 999, &status);
    if (rc == DZ_OPTIONS_OK)
        rc = all_fields(r, e, &spec, &fields);
    if (rc == DZ_OPTIONS_OK)
        rc = get_url(r, e, &joined, &spec);
    if (rc == DZ_OPTIONS_OK)
        rc = get_body(r, e, &body, &spec);
    spec.weight = used ? (unsigned)weight : 0;
    spec.expect_status = (unsigned)status;
    if (rc == DZ_OPTIONS_OK)
        rc = load_plan_add(plan, cli, &spec);
    free(fields);
    free(joined);
    dz_buf_release(&body);
    return rc;
}

/* The endpoints in the order of all plans, and the groups of those the phase uses. */
static int add_endpoints(const reader *r, load_plan *plan, const load_cli *cli,
                         const scenario_phase *phase)
{
    size_t shared = 0, shared_used = 0;
    int rc = DZ_OPTIONS_OK;
    for (unsigned own = 0; own < 2; own++) {
        for (unsigned i = 0; i < r->file->endpoints_count && rc == DZ_OPTIONS_OK; i++) {
            const scenario_endpoint *e = &r->file->endpoints[i];
            bool used = in_phase(phase, e);
            if (is_own(e) != (own == 1))
                continue;
            if (own == 0) {
                shared++;
                shared_used += used;
            } else if (used) {
                load_group *group = &plan->groups[plan->group_count++];
                uint64_t connections = 1;
                *group = (load_group){.first_endpoint = plan->endpoint_count, .endpoint_count = 1};
                rc = get_count(r, "connections", e->connections, 1, 1000000, &connections);
                group->connections = connections;
                if (rc == DZ_OPTIONS_OK)
                    rc = get_rate(r, e->rate, &group->rate);
            }
            if (own == 0 && e->rate && rc == DZ_OPTIONS_OK)
                rc = wrong(r, "rate", e->rate, "needs connections of its own beside it");
            if (rc == DZ_OPTIONS_OK)
                rc = add_endpoint(r, plan, cli, e, used);
        }
        if (own == 0 && shared_used > 0)
            plan->groups[plan->group_count++] =
                (load_group){.endpoint_count = shared, .connections = cli->connections};
    }
    return rc;
}

static int check_origins(const reader *r, const load_plan *plan)
{
    for (size_t g = 0; g < plan->group_count; g++) {
        const load_group *group = &plan->groups[g];
        size_t origin = plan->endpoints[group->first_endpoint].origin;
        for (size_t i = 0; i < group->endpoint_count; i++)
            if (plan->endpoints[group->first_endpoint + i].origin != origin)
                return dz_usage(LOAD_TOOL,
                                "%s: endpoints that share connections must be of one host; give "
                                "%s connections of its own",
                                r->cli->scenario, plan->endpoints[group->first_endpoint + i].url);
    }
    return DZ_OPTIONS_OK;
}

/* What the phase says on top of the command line. */
static int phase_options(const reader *r, const scenario_phase *phase, load_cli *cli)
{
    if (!phase)
        return DZ_OPTIONS_OK;
    int rc = get_duration(r, "duration", phase->duration, &cli->duration);
    if (rc == DZ_OPTIONS_OK && phase->duration) {
        cli->amount = 0; /* the phase's own end, whatever -a says */
        if (cli->duration == 0)
            rc = wrong(r, "duration", phase->duration, "must be more than nothing");
    }
    if (rc == DZ_OPTIONS_OK)
        rc = get_duration(r, "warmup", phase->warmup, &cli->warmup);
    if (rc == DZ_OPTIONS_OK)
        rc = get_duration(r, "timeout", phase->timeout, &cli->timeout);
    if (rc == DZ_OPTIONS_OK)
        rc = get_count(r, "amount", phase->amount, 1, UINT64_C(1000000000000000), &cli->amount);
    if (rc == DZ_OPTIONS_OK)
        rc = get_count(r, "connections", phase->connections, 1, 1000000, &cli->connections);
    if (rc == DZ_OPTIONS_OK)
        rc = get_count(r, "pipelining", phase->pipelining, 1, 65536, &cli->pipelining);
    if (rc == DZ_OPTIONS_OK)
        rc = get_rate(r, phase->rate, &cli->overall_rate);
    cli->open = cli->open || phase->open;
    if (rc == DZ_OPTIONS_OK && cli->open && cli->overall_rate <= 0)
        rc = dz_usage(LOAD_TOOL, "%s: an open phase needs a rate", r->cli->scenario);
    return rc;
}

/* Phases without a name are called by their number. */
static int set_name(const reader *r, load_plan *plan, const scenario_phase *phase)
{
    char number[24];
    snprintf(number, sizeof number, "%zu", r->out->count);
    if (!phase)
        return DZ_OPTIONS_OK;
    plan->name = plan->name_owned = strdup(phase->name ? phase->name : number);
    return plan->name ? DZ_OPTIONS_OK : out_of_memory();
}

static int build_phase(reader *r, const scenario_phase *phase)
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
        rc = add_endpoints(r, plan, &cli, phase);
    if (rc == DZ_OPTIONS_OK)
        rc = check_origins(r, plan);
    if (rc == DZ_OPTIONS_OK)
        rc = load_plan_finish(plan, &cli);
    if (rc != DZ_OPTIONS_OK)
        return rc;
    return set_name(r, plan, phase);
}

static int read_rows(reader *r)
{
    char why[200] = "";
    if (!r->file->data)
        return DZ_OPTIONS_OK;
    if (load_rows_read(&r->out->rows, r->file->data, why, sizeof why) < 0)
        return wrong(r, "data", r->file->data, why);
    r->out->has_rows = true;
    r->rows = &r->out->rows;
    return DZ_OPTIONS_OK;
}

static int build_all(reader *r)
{
    size_t phases = r->file->phases_count > 0 ? r->file->phases_count : 1;
    r->out->plans = calloc(phases, sizeof *r->out->plans);
    if (!r->out->plans)
        return out_of_memory();
    if (r->file->title && !(r->out->title = strdup(r->file->title)))
        return out_of_memory();
    int rc = read_rows(r);
    for (unsigned i = 0; i < phases && rc == DZ_OPTIONS_OK; i++)
        rc = build_phase(r, r->file->phases_count > 0 ? &r->file->phases[i] : NULL);
    return rc;
}

int load_scenario_read(load_scenario *scenario, const load_cli *cli, load_feed_rows *rows)
{
    *scenario = (load_scenario){0};
    reader r = {.cli = cli, .out = scenario, .rows = rows};
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
