/* cli.h: the command line of donmaz load. */
#ifndef DZ_LOAD_CLI_H
#define DZ_LOAD_CLI_H

#include "common/options.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct load_cli {
    /* How much */
    uint64_t connections, pipelining, duration, amount, warmup, threads, timeout;
    uint64_t max_connection_requests, max_overall_requests, reconnect_rate, bailout;
    double connection_rate, overall_rate;
    bool open, ignore_omission;
    /* What */
    const char *method, *body, *input, *form, *data, *scenario, *expect_body;
    uint64_t expect_status;
    dz_strings headers;
    bool replace_id, no_templates, no_keepalive;
    /* Where */
    const char *socket_path, *servername, *ca, *cert, *key;
    bool insecure, on_port;
    uint64_t pid;
    /* What comes out */
    const char *title, *json, *csv, *html, *latencies, *compare;
    dz_strings fail_if;
    uint64_t sample_interval; /* ms */
    bool latency_table, status_codes, exclude_errors, no_table, debug;
    dz_operands operands;
    char started_port[8]; /* where the command after -- listens, once it does; else empty */
} load_cli;

#define LOAD_TOOL "donmaz load"

/* DZ_OPTIONS_OK, or the exit code to end with. */
int load_cli_parse(load_cli *cli, int argc, char **argv);
void load_cli_free(load_cli *cli);

#endif
