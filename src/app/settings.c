#include "app/setting.h"

#include "base/clock.h"
#include "base/cpu.h"

#include <donmaz/error.h>

#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(dz_settings, field)

const dz_setting dz_setting_table[] = {
    {"host", DZ_SETTING_TEXT, AT(host), 0, 0, "ADDRESS",
     "address or name to listen on (127.0.0.1)"},
    {"port", DZ_SETTING_COUNT, AT(port), 0, 65535, "N",
     "port to listen on; 0 takes any free one (3000)"},
    {"processes", DZ_SETTING_COUNT, AT(processes), 1, 1024, "N",
     "worker processes; their supervisor restarts\n"
     "those that crash (1)"},
    {"loops", DZ_SETTING_COUNT, AT(loops), 1, 1024, "N",
     "event loops, one thread each, per process (1)"},
    {"workers", DZ_SETTING_COUNT, AT(workers), 1, 1024, "N",
     "threads for medium and as many for heavy routes\n"
     "(the CPUs this process may use)"},
    {"rescue-after", DZ_SETTING_DURATION, AT(rescue_after_ns), 0, UINT64_C(3600) * DZ_SEC, "TIME",
     "a handler that computes longer loses the loop, which\n"
     "goes on elsewhere; 0 switches rescue and learning off (2ms)"},
    {"rescue-max", DZ_SETTING_COUNT, AT(rescue_max), 0, 4096, "N",
     "rescued handlers that may compute at a time (64)"},
    {"demote-after", DZ_SETTING_DURATION, AT(demote_after_ns), 0, UINT64_C(3600) * DZ_SEC, "TIME",
     "CPU time after which a rescued handler gets a lower\npriority (25ms)"},
    {"demote-nice", DZ_SETTING_COUNT, AT(demote_nice), 0, 19, "N",
     "how much lower: added to its nice value; 0 never (3)"},
    {"rescue-backtrace", DZ_SETTING_FLAG, AT(rescue_backtrace), 0, 1, NULL,
     "log where a rescued handler was"},
    {"body-max", DZ_SETTING_SIZE, AT(body_max), 0, DZ_SETTING_FOREVER, "BYTES",
     "largest request body (1M)"},
    {"head-max", DZ_SETTING_SIZE, AT(head_max), 256, 1 << 20, "BYTES",
     "largest request head (16k)"},
    {"connections-max", DZ_SETTING_COUNT, AT(connections_max), 1, 1 << 24, "N",
     "connections per process; more wait to be accepted (100000)"},
    {"stack-size", DZ_SETTING_SIZE, AT(stack_size), 32 << 10, 1 << 30, "BYTES",
     "of a handler (256k)"},
    {"header-timeout", DZ_SETTING_DURATION, AT(header_timeout_ns), DZ_MS, DZ_SETTING_FOREVER,
     "TIME", "for a whole request head (10s)"},
    {"idle-timeout", DZ_SETTING_DURATION, AT(idle_timeout_ns), DZ_MS, DZ_SETTING_FOREVER, "TIME",
     "between requests on a connection (60s)"},
    {"body-timeout", DZ_SETTING_DURATION, AT(body_timeout_ns), DZ_MS, DZ_SETTING_FOREVER, "TIME",
     "for a request body, and a second more for each 500 bytes\nthat came (20s)"},
    {"write-timeout", DZ_SETTING_DURATION, AT(write_timeout_ns), DZ_MS, DZ_SETTING_FOREVER, "TIME",
     "for the client to take a response, and a second more for\neach 500 bytes it took (30s)"},
    {"drain-timeout", DZ_SETTING_DURATION, AT(drain_timeout_ns), 0, DZ_SETTING_FOREVER, "TIME",
     "for running requests when told to stop (10s)"},
    {"shed", DZ_SETTING_TEXT, AT(shed), 0, 0, "MODE",
     "refuse what is too much with 503: adaptive, fixed (the\nthresholds below), or off (off)"},
    {"shed-wait", DZ_SETTING_DURATION, AT(shed_wait_ns), DZ_MS / 10, 60 * DZ_SEC, "TIME",
     "adaptive: the mean wait for a thread to aim at (5ms)"},
    {"shed-in-flight-max", DZ_SETTING_COUNT, AT(shed_in_flight_max), 1, 1 << 20, "N",
     "requests in flight in a process, above which to refuse"},
    {"shed-wait-max", DZ_SETTING_DURATION, AT(shed_wait_max_ns), DZ_MS, UINT64_C(3600) * DZ_SEC,
     "TIME",
     "a request that waited longer for a thread is refused then\n(adaptive: found by itself)"},
    {"shed-lag-max", DZ_SETTING_DURATION, AT(shed_lag_max_ns), DZ_MS, UINT64_C(3600) * DZ_SEC,
     "TIME", "loop lag above which to refuse (adaptive: 500ms)"},
    {"shed-rss-max", DZ_SETTING_SIZE, AT(shed_rss_max), 1 << 20, DZ_SETTING_FOREVER, "BYTES",
     "memory of a process above which to refuse"},
    {"shed-close-every", DZ_SETTING_COUNT, AT(shed_close_every), 0, 1 << 20, "N",
     "under pressure close a connection after every so many\nresponses; 0 never (8)"},
    {"shed-retry-after", DZ_SETTING_DURATION, AT(shed_retry_after_ns), DZ_SEC,
     UINT64_C(86400) * DZ_SEC, "TIME", "what a refused client is told, whole seconds (1s)"},
    {"shed-body", DZ_SETTING_TEXT, AT(shed_body), 0, 0, "TEXT", "body of a refusal"},
    {"log", DZ_SETTING_TEXT, AT(log), 0, 0, "FILE",
     "where log lines go: a file, stdout, stderr or off (stderr)"},
    {"log-level", DZ_SETTING_LEVEL, AT(log_level), 0, 0, "LEVEL",
     "trace, debug, info, warn, error, fatal or off: lines\nbelow are not logged (info)"},
    {"log-redact", DZ_SETTING_TEXT, AT(log_redact), 0, 0, "LIST",
     "fields whose values are hidden, such as *.pin,?ticket;\n"
     "+LIST adds to the usual ones (passwords, tokens, ...)"},
    {"log-block", DZ_SETTING_FLAG, AT(log_block), 0, 1, NULL,
     "wait when the log can't keep up, and drop no line"},
    {"request-log", DZ_SETTING_FLAG, AT(request_log), 0, 1, NULL, "log a line for each request"},
    {"log-query", DZ_SETTING_FLAG, AT(log_query), 0, 1, NULL, "with the query of its URL"},
    {"request-id-header", DZ_SETTING_TEXT, AT(request_id_header), 0, 0, "NAME",
     "the header that may bring a request's id, or off\n(x-request-id)"},
    {"admin", DZ_SETTING_TEXT, AT(admin), 0, 0, "[HOST:]PORT",
     "serve /metrics and the page /donmaz there, on 127.0.0.1\nunless HOST says otherwise (off)"},
    {"hooks-max", DZ_SETTING_COUNT, AT(hooks_max), 0, 1 << 20, "N",
     "hooks of dz_after above which a warning names who adds\nthem; 0 never (10)"},
    {"quiet", DZ_SETTING_FLAG, AT(quiet), 0, 1, NULL, "no line about starting and stopping"},
};

const size_t dz_setting_count = sizeof dz_setting_table / sizeof dz_setting_table[0];

void dz_settings_init(dz_settings *settings)
{
    *settings = (dz_settings){
        .host = "127.0.0.1",
        .port = 3000,
        .loops = 1,
        .processes = 1,
        .workers = dz_cpu_count(),
        .rescue_after_ns = 2 * DZ_MS,
        .rescue_max = 64,
        .demote_after_ns = 25 * DZ_MS,
        .demote_nice = 3,
        .body_max = 1 << 20,
        .head_max = 16 << 10,
        .connections_max = 100000,
        .stack_size = 256 << 10,
        .header_timeout_ns = 10 * DZ_SEC,
        .idle_timeout_ns = 60 * DZ_SEC,
        .body_timeout_ns = 20 * DZ_SEC,
        .write_timeout_ns = 30 * DZ_SEC,
        .drain_timeout_ns = 10 * DZ_SEC,
        .shed_close_every = 8,
        .shed_retry_after_ns = DZ_SEC,
        .log = "stderr",
        .log_level = DZ_LOG_INFO,
        .request_id_header = "x-request-id",
        .admin = "off",
        .hooks_max = 10,
    };
}

const dz_setting *dz_setting_find(const char *name, size_t len)
{
    for (size_t i = 0; i < dz_setting_count; i++)
        if (strlen(dz_setting_table[i].name) == len &&
            memcmp(dz_setting_table[i].name, name, len) == 0)
            return &dz_setting_table[i];
    return NULL;
}

int dz_settings_set(dz_settings *settings, const char *name, const char *value)
{
    const dz_setting *it = dz_setting_find(name, strlen(name));
    return it ? dz_setting_store(settings, it, value) : DZ_E_NOT_FOUND;
}

void dz_app_option(dz_app *app, const char *name, const char *value_name, const char *help,
                   const char **value)
{
    if (!app)
        return;
    if (!name || !value) {
        dz_core_fail_build(app->core, name ? name : "dz_app_option", DZ_E_INVALID);
        return;
    }
    dz_user_option *it = malloc(sizeof *it);
    if (!it) {
        dz_core_fail_build(app->core, name, DZ_E_NOMEM);
        return;
    }
    *it = (dz_user_option){name, value_name, help ? help : "", value, app->core->user_options};
    app->core->user_options = it;
}

const dz_user_option *dz_user_option_find(const dz_core *core, const char *name, size_t len)
{
    for (const dz_user_option *it = core->user_options; it; it = it->next)
        if (strlen(it->name) == len && memcmp(it->name, name, len) == 0)
            return it;
    return NULL;
}
