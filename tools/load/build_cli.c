/* A plan from URLs and options. */
#include "load/build.h"

#include "load/form.h"

#include "common/file.h"
#include "common/values.h"

#include <donmaz/error.h>

#include <stdio.h>
#include <stdlib.h>

/* What every URL of a command line has in common. */
typedef struct common_parts {
    load_field *fields;
    size_t field_count;
    dz_buf body;
    char content_type[96];
} common_parts;

static int read_fields(common_parts *parts, const load_cli *cli)
{
    parts->fields = calloc(cli->headers.count + 1, sizeof *parts->fields);
    if (!parts->fields)
        return dz_usage(LOAD_TOOL, "out of memory");
    for (size_t i = 0; i < cli->headers.count; i++)
        if (!load_field_parse(cli->headers.items[i], &parts->fields[parts->field_count++]))
            return dz_usage(LOAD_TOOL, "-H wants 'Name: value', not '%s'", cli->headers.items[i]);
    return DZ_OPTIONS_OK;
}

static int read_body(common_parts *parts, const load_cli *cli)
{
    char why[200] = "";
    int rc = 0;
    if (cli->body) {
        rc = dz_buf_copy(&parts->body, dz_slice_of(cli->body));
    } else if (cli->input) {
        rc = dz_file_read(cli->input, &parts->body);
        if (rc < 0)
            return dz_usage(LOAD_TOOL, "-i: can't read '%s': %s", cli->input, dz_strerror(rc));
    } else if (cli->form) {
        rc = load_form_build(cli->form, &parts->body, parts->content_type,
                             sizeof parts->content_type, why, sizeof why);
        if (rc < 0)
            return dz_usage(LOAD_TOOL, "-F: %s", why[0] ? why : dz_strerror(rc));
        parts->fields[parts->field_count++] =
            (load_field){.name = DZ_LIT("Content-Type"), .value = dz_slice_of(parts->content_type)};
    }
    return rc < 0 ? dz_usage(LOAD_TOOL, "out of memory") : DZ_OPTIONS_OK;
}

int load_url_complete(load_url *url, const load_cli *cli, const char *text)
{
    const char *port = getenv("PORT");
    uint64_t number;
    if (cli->operands.command || url->host.len > 0)
        port = NULL; /* the started command's port comes later, the given host's is there */
    else if (!port || dz_read_count(dz_slice_of(port), &number) < 0 || number < 1 || number > 65535)
        return dz_usage(LOAD_TOOL, "'%s' needs a host, a usable $PORT, or a command after --",
                        text);
    if (port)
        url->port = dz_slice_of(port);
    if (url->host.len == 0)
        url->host = DZ_LIT("localhost");
    if (cli->started_port[0] != '\0' && url->port.len == 0)
        url->port = dz_slice_of(cli->started_port);
    return DZ_OPTIONS_OK;
}

static int add_url(load_plan *plan, const load_cli *cli, const common_parts *parts,
                   const char *text)
{
    load_endpoint_spec spec = {
        .method = cli->method,
        .fields = parts->fields,
        .field_count = parts->field_count,
        .body = dz_buf_slice(&parts->body),
        .has_body = cli->body || cli->input || cli->form,
        .expect_status = (unsigned)cli->expect_status,
        .expect_body = dz_slice_of(cli->expect_body),
        .weight = 1,
    };
    const char *why;
    if (load_url_parse(text, &spec.url, &why) < 0)
        return dz_usage(LOAD_TOOL, "'%s': %s", text, why);
    int rc = load_url_complete(&spec.url, cli, text);
    if (rc != DZ_OPTIONS_OK)
        return rc;
    plan->groups[plan->group_count++] = (load_group){.first_endpoint = plan->endpoint_count,
                                                     .endpoint_count = 1,
                                                     .connections = spec.url.connections};
    return load_plan_add(plan, cli, &spec);
}

/* -c is dealt out over the URLs that say nothing themselves. */
static int deal_connections(load_plan *plan, const load_cli *cli)
{
    size_t open = 0;
    for (size_t i = 0; i < plan->group_count; i++)
        open += plan->groups[i].connections == 0;
    if (open > cli->connections)
        return dz_usage(LOAD_TOOL, "-c %llu is too few for %zu URLs",
                        (unsigned long long)cli->connections, open);
    for (size_t i = 0, n = 0; i < plan->group_count; i++) {
        load_group *group = &plan->groups[i];
        if (group->connections == 0) {
            group->connections = cli->connections / open + (n < cli->connections % open);
            n++;
        }
    }
    return DZ_OPTIONS_OK;
}

static int build(load_plan *plan, const load_cli *cli, common_parts *parts)
{
    int rc = read_fields(parts, cli);
    if (rc == DZ_OPTIONS_OK)
        rc = read_body(parts, cli);
    for (size_t i = 0; i < cli->operands.args.count && rc == DZ_OPTIONS_OK; i++)
        rc = add_url(plan, cli, parts, cli->operands.args.items[i]);
    if (rc == DZ_OPTIONS_OK)
        rc = deal_connections(plan, cli);
    return rc == DZ_OPTIONS_OK ? load_plan_finish(plan, cli) : rc;
}

int load_plan_from_cli(load_plan *plan, const load_cli *cli, load_feed_rows *rows)
{
    size_t urls = cli->operands.args.count;
    int rc = load_plan_begin(plan, cli, urls, urls);
    plan->rows = rows;
    common_parts parts = {0};
    if (rc == DZ_OPTIONS_OK)
        rc = build(plan, cli, &parts);
    free(parts.fields);
    dz_buf_release(&parts.body);
    if (rc != DZ_OPTIONS_OK)
        load_plan_free(plan);
    return rc;
}
