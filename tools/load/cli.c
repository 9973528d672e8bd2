#include "load/cli.h"

#include "base/clock.h"

#include <donmaz/slice.h>

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define HEADING(text)                                                                              \
    {                                                                                              \
        DZ_OPT_HEADING, 0, text, NULL, 0, 0, 0, NULL                                               \
    }
#define OPT(kind, letter, name, value, member, min, max, help)                                     \
    {                                                                                              \
        DZ_OPT_##kind, letter, name, value, offsetof(load_cli, member), min, max, help             \
    }
#define FLAG(letter, name, member, help)        OPT(FLAG, letter, name, NULL, member, 0, 0, help)
#define TEXT(letter, name, value, member, help) OPT(STRING, letter, name, value, member, 0, 0, help)

static const dz_option options[] = {
    HEADING("how much"),
    OPT(COUNT, 'c', "connections", "NUM", connections, 1, 1000000,
        "connections in all, shared among the URLs (default 10)"),
    OPT(DURATION, 'd', "duration", "TIME", duration, 0.001, 31536000, "how long (default 10s)"),
    OPT(COUNT, 'a', "amount", "NUM", amount, 1, 1e15,
        "exactly this many requests instead of a duration"),
    OPT(COUNT, 'p', "pipelining", "NUM", pipelining, 1, 65536,
        "requests in flight on each connection (default 1)"),
    OPT(NUMBER, 'R', "overallRate|rate", "NUM", overall_rate, 0.001, 1e7,
        "requests a second, over all connections; latency is then\n"
        "counted from when each request was due"),
    OPT(NUMBER, 'r', "connectionRate", "NUM", connection_rate, 0.001, 1e7,
        "the same for each connection"),
    FLAG(0, "open", open,
         "with -R: any free connection takes the next request due,\n"
         "so a slow one delays no other (open loop)"),
    FLAG('C', "ignoreCoordinatedOmission", ignore_omission,
         "with a rate: count latency from the actual send"),
    OPT(DURATION, 'W', "warmup", "TIME", warmup, 0, 31536000,
        "load first, and count only what comes after"),
    OPT(COUNT, 'w', "workers", "NUM", threads, 0, 256,
        "threads, each with its own loop; connections, rates and\n"
        "amounts are totals and are split exactly (default 1)"),
    OPT(DURATION, 't', "timeout", "TIME", timeout, 0.001, 31536000,
        "a response that takes longer is an error (default 10s)"),
    OPT(COUNT, 'M', "maxConnectionRequests", "NUM", max_connection_requests, 1, 1e15,
        "at most this many requests on each connection"),
    OPT(COUNT, 'O', "maxOverallRequests", "NUM", max_overall_requests, 1, 1e15,
        "at most this many requests in all"),
    OPT(COUNT, 'D', "reconnectRate", "NUM", reconnect_rate, 1, 1e15,
        "open a new connection after this many requests"),
    FLAG(0, "no-keepalive", no_keepalive, "a new connection for each request (Connection: close)"),
    OPT(COUNT, 'B', "bailout", "NUM", bailout, 1, 1e15, "end the run after this many failures"),

    HEADING("what to send"),
    TEXT('m', "method", "METHOD", method, "request method (default GET)"),
    OPT(LIST, 'H', "headers|header", "NAME:VALUE", headers, 0, 0,
        "a header field, also NAME=VALUE; may be repeated"),
    TEXT('b', "body", "TEXT", body, "request body, sent as typed"),
    TEXT('i', "input", "FILE", input, "request body from a file"),
    TEXT('F', "form", "JSON|FILE", form, "multipart/form-data body, as autocannon's -F"),
    FLAG('I', "idReplacement", replace_id, "replace [<id>] in path and body by a random id"),
    TEXT(0, "data", "FILE.csv", data,
         "columns for {{NAME}} in path, headers and body; a row a request"),
    FLAG(0, "no-templates", no_templates, "send {{seq}}, {{uuid}}, {{random 1 100}} as they stand"),
    TEXT(0, "scenario", "FILE.yaml", scenario,
         "phases and endpoints from a file; then no URL is needed"),

    HEADING("what is right"),
    TEXT('E', "expectBody", "TEXT", expect_body, "a response with another body is a mismatch"),
    OPT(COUNT, 0, "expectStatus", "CODE", expect_status, 100, 999,
        "a response with another status is a failure"),
    FLAG('x', "excludeErrorStats", exclude_errors,
         "leave responses other than 2xx out of latency and bytes"),
    OPT(LIST, 0, "fail-if", "EXPR", fail_if, 0, 0,
        "exit with 1 when this holds: 'p99>50ms', 'rps<1000',\n"
        "'errors>0', 'error_rate>1%'; may be repeated"),
    TEXT(0, "compare", "BASE.json", compare,
         "differences from an earlier --json, with confidence intervals"),

    HEADING("where"),
    TEXT('S', "socketPath|socket", "FILE", socket_path, "connect to this unix socket"),
    FLAG('k', "insecure", insecure, "accept any certificate"),
    TEXT('s', "servername", "NAME", servername, "name to ask for and verify in TLS"),
    TEXT(0, "ca", "FILE", ca, "certificates to trust (PEM)"),
    TEXT(0, "cert", "FILE", cert, "our certificate chain (PEM)"),
    TEXT(0, "key", "FILE", key, "its private key (PEM)"),
    FLAG(0, "on-port", on_port,
         "start the command after --, load it once it listens, end it;\n"
         "implied by --; the URL may then be a mere /path"),
    OPT(COUNT, 0, "pid", "PID", pid, 1, 4194304,
        "sample CPU and RSS of this process and its children"),

    HEADING("what to print"),
    OPT(OUTPUT, 'j', "json", "FILE", json, 0, 0,
        "results as JSON (to standard output without a FILE)"),
    TEXT(0, "csv", "FILE", csv, "one line an endpoint as CSV ('-': standard output)"),
    TEXT(0, "html", "FILE", html, "one page with tables, charts and downloads; needs no network"),
    TEXT(0, "latencies", "FILE", latencies,
         "every latency, in nanoseconds (binary; see docs/load.md)"),
    TEXT('T', "title", "TEXT", title, "a title for the results"),
    FLAG('l', "latency|renderLatencyTable", latency_table, "print all percentiles"),
    FLAG(0, "renderStatusCodes|statusCodes", status_codes, "print the count of each status code"),
    OPT(COUNT, 'L', "sampleInt", "MS", sample_interval, 10, 3600000,
        "milliseconds of one req/s sample (default 1000)"),
    FLAG('n', "no-progress", no_table, "no progress line and no tables"),
    FLAG(0, "debug", debug, "name every kind of failure on standard error"),
};

static const dz_option_spec spec = {
    .tool = LOAD_TOOL,
    .usage = "[options] URL[@CONNECTIONS]... [-- COMMAND...]",
    .about = "Loads HTTP servers and measures them: every request is timed to the nanosecond and\n"
             "percentiles are exact. Understands autocannon's everyday flags and writes its JSON.",
    .notes =
        "A TIME is 10 (seconds), 10s, 500ms or 2m. An URL may be a mere /path when $PORT is set.\n"
        "\n"
        "examples:\n"
        "  donmaz load -c 100 -d 10s http://localhost:3000/\n"
        "  donmaz load http://localhost:3000/fast@2 http://localhost:3000/slow@2\n"
        "  donmaz load --open -R 2000 -c 50 --fail-if 'p99>50ms' http://localhost:3000/\n"
        "  donmaz load /path -- node server.js\n"
        "\n"
        "exit status: 0 done; 1 a --fail-if holds, or not one request was answered;\n"
        "2 unusable arguments; 3 the target could not be started or reached",
    .options = options,
    .count = sizeof options / sizeof options[0],
};

/* autocannon writes `--warmup [ -c 1 -d 3 ]`: the time of it is what we can use. Replaces those
 * arguments by the time; returns the new argc. */
static int fold_warmup(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i++) {
        dz_slice text = dz_slice_of(argv[i]);
        if (dz_slice_equal(text, DZ_LIT("--")))
            return argc;
        if ((!dz_slice_equal(text, DZ_LIT("--warmup")) && !dz_slice_equal(text, DZ_LIT("-W"))) ||
            !dz_slice_equal(dz_slice_of(argv[i + 1]), DZ_LIT("[")))
            continue;
        int end = i + 2;
        char *time = NULL;
        for (; end < argc && !dz_slice_equal(dz_slice_of(argv[end]), DZ_LIT("]")); end++)
            if (dz_slice_equal(dz_slice_of(argv[end]), DZ_LIT("-d")) && end + 1 < argc)
                time = argv[end + 1];
        if (end == argc || !time)
            return argc;
        argv[i + 1] = time;
        memmove(&argv[i + 2], &argv[end + 1], (size_t)(argc - end) * sizeof *argv);
        argc -= end - i - 1;
    }
    return argc;
}

static int check(const load_cli *cli)
{
    const dz_operands *operands = &cli->operands;
    if (cli->open && cli->overall_rate <= 0)
        return dz_usage(LOAD_TOOL, "--open needs a rate: -R NUM");
    if (cli->open && cli->connection_rate > 0)
        return dz_usage(LOAD_TOOL, "--open has one schedule for all: -R NUM, not -r");
    if (cli->overall_rate > 0 && cli->connection_rate > 0)
        return dz_usage(LOAD_TOOL, "-R is a rate over all connections, -r one for each: not both");
    if ((cli->body != NULL) + (cli->input != NULL) + (cli->form != NULL) > 1)
        return dz_usage(LOAD_TOOL, "only one of -b, -i and -F can be the body");
    if (cli->on_port && !operands->command)
        return dz_usage(LOAD_TOOL, "--on-port needs the command to start after --");
    if (operands->command && operands->command_count == 0)
        return dz_usage(LOAD_TOOL, "no command after --");
    if (operands->command && cli->pid > 0)
        return dz_usage(LOAD_TOOL, "--pid and a command after -- exclude each other");
    if (cli->scenario && operands->args.count > 0)
        return dz_usage(LOAD_TOOL, "--scenario has its own endpoints; '%s' is one too many",
                        operands->args.items[0]);
    if (!cli->scenario && operands->args.count == 0)
        return dz_usage(LOAD_TOOL, "no URL; 'donmaz load --help' shows how");
    if (cli->no_keepalive && cli->pipelining > 1)
        return dz_usage(LOAD_TOOL, "--no-keepalive leaves nothing to pipeline; drop -p");
    if (cli->cert && !cli->key)
        return dz_usage(LOAD_TOOL, "--cert needs --key");
    return DZ_OPTIONS_OK;
}

int load_cli_parse(load_cli *cli, int argc, char **argv)
{
    *cli = (load_cli){.connections = 10,
                      .pipelining = 1,
                      .duration = 10 * DZ_SEC,
                      .threads = 1,
                      .timeout = 10 * DZ_SEC,
                      .max_connection_requests = UINT64_MAX,
                      .max_overall_requests = UINT64_MAX,
                      .method = "GET",
                      .sample_interval = 1000};
    argc = fold_warmup(argc, argv);
    int rc = dz_options_parse(&spec, cli, argc, argv, &cli->operands);
    if (rc == DZ_OPTIONS_OK)
        rc = check(cli);
    if (cli->threads == 0) /* autocannon's default, meaning: none but the main one */
        cli->threads = 1;
    if (rc != DZ_OPTIONS_OK)
        load_cli_free(cli);
    return rc;
}

void load_cli_free(load_cli *cli)
{
    dz_strings_free(&cli->headers);
    dz_strings_free(&cli->fail_if);
    dz_strings_free(&cli->operands.args);
}
