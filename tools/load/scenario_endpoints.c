/* The endpoints of a scenario. */
#include "load/scenario_reader.h"

#include "common/file.h"

#include "load/build.h"

#include <donmaz/error.h>

#include <stdio.h>
#include <stdlib.h>

/* Endpoints with connections of their own follow those that share the phase's. */
static bool is_own(const scenario_endpoint *e)
{
    return e->connections != NULL;
}

const char *scenario_name(const scenario_endpoint *e)
{
    return e->name ? e->name : e->path;
}

static bool in_phase(const scenario_phase *phase, const scenario_endpoint *e)
{
    if (!phase || phase->endpoints_count == 0)
        return true;
    for (unsigned i = 0; i < phase->endpoints_count; i++)
        if (dz_slice_equal(dz_slice_of(phase->endpoints[i]), dz_slice_of(scenario_name(e))))
            return true;
    return false;
}

static int add_fields(const scenario_reader *r, char **lines, unsigned count, load_field *fields,
                      size_t *used)
{
    for (unsigned i = 0; i < count; i++)
        if (!load_field_parse(lines[i], &fields[(*used)++]))
            return scenario_wrong(r, "headers", lines[i], "wants 'Name: value'");
    return DZ_OPTIONS_OK;
}

/* The command line's, the file's, then the endpoint's own. *owned: the array, to be freed. */
static int all_fields(const scenario_reader *r, const scenario_endpoint *e,
                      load_endpoint_spec *spec, load_field **owned)
{
    size_t most = r->cli->headers.count + r->file->headers_count + e->headers_count;
    load_field *fields = calloc(most + 1, sizeof *fields);
    if (!fields)
        return scenario_out_of_memory();
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

static int get_url(const scenario_reader *r, const scenario_endpoint *e, char **joined,
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
        return scenario_out_of_memory();
    }
    if (load_url_parse(*joined, &spec->url, &why) < 0)
        return scenario_wrong(r, "path", e->path, why);
    return load_url_complete(&spec->url, r->cli, *joined);
}

static int get_body(const scenario_reader *r, const scenario_endpoint *e, dz_buf *body,
                    load_endpoint_spec *spec)
{
    int rc = 0;
    if (e->body && e->body_file)
        return scenario_wrong(r, "body_file", e->body_file, "there is a body already");
    if (e->body)
        rc = dz_buf_copy(body, dz_slice_of(e->body));
    else if (e->body_file && (rc = dz_file_read(e->body_file, body)) < 0)
        return scenario_wrong(r, "body_file", e->body_file, dz_strerror(rc));
    spec->has_body = e->body || e->body_file;
    spec->body = dz_buf_slice(body);
    return rc < 0 ? scenario_out_of_memory() : DZ_OPTIONS_OK;
}

static int add_endpoint(const scenario_reader *r, load_plan *plan, const load_cli *cli,
                        const scenario_endpoint *e, bool used)
{
    load_endpoint_spec spec = {.method = e->method ? e->method : cli->method,
                               .strict = true,
                               .expect_body = dz_slice_of(e->expect_body)};
    uint64_t weight = 1, status = 0;
    char *joined = NULL;
    load_field *fields = NULL;
    dz_buf body = {0};
    int rc = scenario_count(r, "weight", e->weight, 1, 1000000, &weight);
    if (rc == DZ_OPTIONS_OK)
        rc = scenario_count(r, "expect_status", e->expect_status, 100, 999, &status);
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

static int check_origins(const scenario_reader *r, const load_plan *plan)
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

int scenario_add_endpoints(const scenario_reader *r, load_plan *plan, const load_cli *cli,
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
                rc = scenario_count(r, "connections", e->connections, 1, 1000000, &connections);
                group->connections = connections;
                if (rc == DZ_OPTIONS_OK)
                    rc = scenario_rate(r, e->rate, &group->rate);
            }
            if (own == 0 && e->rate && rc == DZ_OPTIONS_OK)
                rc = scenario_wrong(r, "rate", e->rate, "needs connections of its own beside it");
            if (rc == DZ_OPTIONS_OK)
                rc = add_endpoint(r, plan, cli, e, used);
        }
        if (own == 0 && shared_used > 0)
            plan->groups[plan->group_count++] =
                (load_group){.endpoint_count = shared, .connections = cli->connections};
    }
    return rc == DZ_OPTIONS_OK ? check_origins(r, plan) : rc;
}
