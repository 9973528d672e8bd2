/* build.h: plans from the command line, and the steps a scenario file shares with it. */
#ifndef DZ_LOAD_BUILD_H
#define DZ_LOAD_BUILD_H

#include "load/cli.h"
#include "load/plan.h"
#include "load/url.h"

/* What an endpoint is made from; texts need only live during the call. */
typedef struct load_endpoint_spec {
    load_url url;
    const char *method;
    const load_field *fields;
    size_t field_count;
    dz_slice body;
    bool has_body, strict;
    unsigned expect_status;
    dz_slice expect_body; /* ptr NULL: any */
    unsigned weight;
} load_endpoint_spec;

/* All report unusable input themselves, in one line on stderr, and return the exit code; or
 * DZ_OPTIONS_OK. */

/* The plan of a command line with URLs. */
int load_plan_from_cli(load_plan *plan, const load_cli *cli, load_feed_rows *rows);

/* Settings of the command line that every plan takes over. */
int load_plan_begin(load_plan *plan, const load_cli *cli, size_t endpoints, size_t groups);
/* Adds an endpoint and, when it is new, its origin. */
int load_plan_add(load_plan *plan, const load_cli *cli, const load_endpoint_spec *spec);
/* Deals out amount and rate over the groups, whose connections are set; checks what fits. */
int load_plan_finish(load_plan *plan, const load_cli *cli);
void load_plan_free(load_plan *plan);

/* Finds the addresses of all origins. */
int load_plan_resolve(load_plan *plan);

/* Puts host and port where the URL left them out: from the command after -- or $PORT. `text` is
 * the URL as given, for the message. */
int load_url_complete(load_url *url, const load_cli *cli, const char *text);

/* Splits "Name: value" or "Name=value". False: neither. */
bool load_field_parse(const char *text, load_field *out);

#endif
