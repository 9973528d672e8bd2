#include "app/app.h"

#include "base/clock.h"
#include "base/cpu.h"

#include <donmaz/error.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

/* The settings of a service: one table for the command line, the environment and --help. */

typedef enum kind { TEXT, COUNT, SIZE, DURATION, LEVEL, FLAG } kind;

typedef struct setting {
    const char *name;
    kind kind;
    size_t offset;
    uint64_t min, max; /* in the unit stored */
    const char *value_name, *help;
} setting;

#define AT(field) offsetof(dz_settings, field)
static const uint64_t FOREVER = UINT64_C(1) << 62;

static const setting table[] = {
    {"host", TEXT, AT(host), 0, 0, "ADDRESS", "address or name to listen on (127.0.0.1)"},
    {"port", COUNT, AT(port), 0, 65535, "N", "port to listen on; 0 takes any free one (3000)"},
    {"processes", COUNT, AT(processes), 1, 1024, "N",
     "worker processes; their supervisor restarts\n"
     "those that crash (1)"},
    {"loops", COUNT, AT(loops), 1, 1024, "N", "event loops, one thread each, per process (1)"},
    {"workers", COUNT, AT(workers), 1, 1024, "N",
     "threads for medium and as many for heavy routes\n"
     "(the CPUs this process may use)"},
    {"rescue-after", DURATION, AT(rescue_after_ns), 0, UINT64_C(3600) * DZ_SEC, "TIME",
     "a handler that computes longer loses the loop, which\n"
     "goes on elsewhere; 0 switches rescue and learning off (2ms)"},
    {"rescue-max", COUNT, AT(rescue_max), 0, 4096, "N",
     "rescued handlers that may compute at a time (64)"},
    {"demote-after", DURATION, AT(demote_after_ns), 0, UINT64_C(3600) * DZ_SEC, "TIME",
     "CPU time after which a rescued handler gets a lower\npriority (25ms)"},
    {"demote-nice", COUNT, AT(demote_nice), 0, 19, "N",
     "how much lower: added to its nice value; 0 never (3)"},
    {"rescue-backtrace", FLAG, AT(rescue_backtrace), 0, 1, NULL, "log where a rescued handler was"},
    {"body-max", SIZE, AT(body_max), 0, FOREVER, "BYTES", "largest request body (1M)"},
    {"head-max", SIZE, AT(head_max), 256, 1 << 20, "BYTES", "largest request head (16k)"},
    {"connections-max", COUNT, AT(connections_max), 1, 1 << 24, "N",
     "connections per process; more wait to be accepted (100000)"},
    {"stack-size", SIZE, AT(stack_size), 32 << 10, 1 << 30, "BYTES", "of a handler (256k)"},
    {"header-timeout", DURATION, AT(header_timeout_ns), DZ_MS, FOREVER, "TIME",
     "for a whole request head (10s)"},
    {"idle-timeout", DURATION, AT(idle_timeout_ns), DZ_MS, FOREVER, "TIME",
     "between requests on a connection (60s)"},
    {"body-timeout", DURATION, AT(body_timeout_ns), DZ_MS, FOREVER, "TIME",
     "for a request body, and a second more for each 500 bytes\nthat came (20s)"},
    {"write-timeout", DURATION, AT(write_timeout_ns), DZ_MS, FOREVER, "TIME",
     "for the client to take anything of a response (30s)"},
    {"drain-timeout", DURATION, AT(drain_timeout_ns), 0, FOREVER, "TIME",
     "for running requests when told to stop (10s)"},
    {"shed", TEXT, AT(shed), 0, 0, "MODE",
     "refuse what is too much with 503: adaptive, fixed (the\nthresholds below), or off (off)"},
    {"shed-wait", DURATION, AT(shed_wait_ns), DZ_MS / 10, 60 * DZ_SEC, "TIME",
     "adaptive: the mean wait for a thread to aim at (5ms)"},
    {"shed-in-flight-max", COUNT, AT(shed_in_flight_max), 1, 1 << 20, "N",
     "requests in flight in a process, above which to refuse"},
    {"shed-wait-max", DURATION, AT(shed_wait_max_ns), DZ_MS, UINT64_C(3600) * DZ_SEC, "TIME",
     "a request that waited longer for a thread is refused then\n(adaptive: found by itself)"},
    {"shed-lag-max", DURATION, AT(shed_lag_max_ns), DZ_MS, UINT64_C(3600) * DZ_SEC, "TIME",
     "loop lag above which to refuse (adaptive: 500ms)"},
    {"shed-rss-max", SIZE, AT(shed_rss_max), 1 << 20, FOREVER, "BYTES",
     "memory of a process above which to refuse"},
    {"shed-close-every", COUNT, AT(shed_close_every), 0, 1 << 20, "N",
     "under pressure close a connection after every so many\nresponses; 0 never (8)"},
    {"shed-retry-after", DURATION, AT(shed_retry_after_ns), DZ_SEC, UINT64_C(86400) * DZ_SEC,
     "TIME", "what a refused client is told, whole seconds (1s)"},
    {"shed-body", TEXT, AT(shed_body), 0, 0, "TEXT", "body of a refusal"},
    {"log", TEXT, AT(log), 0, 0, "FILE",
     "where log lines go: a file, stdout, stderr or off (stderr)"},
    {"log-level", LEVEL, AT(log_level), 0, 0, "LEVEL",
     "trace, debug, info, warn, error, fatal or off: lines\nbelow are not logged (info)"},
    {"log-redact", TEXT, AT(log_redact), 0, 0, "LIST",
     "fields whose values are hidden, such as *.pin,?ticket;\n"
     "+LIST adds to the usual ones (passwords, tokens, ...)"},
    {"log-block", FLAG, AT(log_block), 0, 1, NULL,
     "wait when the log can't keep up, and drop no line"},
    {"request-log", FLAG, AT(request_log), 0, 1, NULL, "log a line for each request"},
    {"log-query", FLAG, AT(log_query), 0, 1, NULL, "with the query of its URL"},
    {"request-id-header", TEXT, AT(request_id_header), 0, 0, "NAME",
     "the header that may bring a request's id, or off\n(x-request-id)"},
    {"admin", TEXT, AT(admin), 0, 0, "[HOST:]PORT",
     "serve /metrics and the page /donmaz there, on 127.0.0.1\nunless HOST says otherwise (off)"},
    {"hooks-max", COUNT, AT(hooks_max), 0, 1 << 20, "N",
     "hooks of dz_after above which a warning names who adds\nthem; 0 never (10)"},
    {"quiet", FLAG, AT(quiet), 0, 1, NULL, "no line about starting and stopping"},
};

enum { SETTINGS = sizeof table / sizeof table[0] };

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

/* --- values --- */

typedef struct unit {
    const char *name;
    uint64_t factor;
} unit;

static const unit sizes[] = {
    {"", 1}, {"k", 1 << 10}, {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}};
static const unit durations[] = {{"", DZ_SEC},        {"ns", 1},     {"us", 1000},
                                 {"ms", DZ_MS},       {"s", DZ_SEC}, {"m", 60 * DZ_SEC},
                                 {"h", 3600 * DZ_SEC}};
static const unit plain[] = {{"", 1}};

static const unit *find_unit(const unit *units, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(units[i].name, name) == 0)
            return &units[i];
    return NULL;
}

/* Digits, an optional fraction, and a unit. Not strtod: it also takes exponents, hexadecimal and
 * what the locale makes of a comma. */
static bool parse_number(const char *text, const unit *units, size_t count, uint64_t *out)
{
    static const char digits[] = "0123456789";
    size_t whole_len = strspn(text, digits);
    if (whole_len == 0 || whole_len > 19)
        return false;
    uint64_t whole = strtoull(text, NULL, 10), place = 1, fraction = 0;
    text += whole_len;
    if (*text == '.') {
        size_t len = strspn(++text, digits);
        if (len == 0)
            return false;
        for (size_t i = 0; i < len && i < 9; i++) {
            fraction = fraction * 10 + (uint64_t)(text[i] - '0');
            place *= 10;
        }
        text += len;
    }
    const unit *found = find_unit(units, count, text);
    if (!found || whole > FOREVER / found->factor)
        return false;
    *out = whole * found->factor +
           (uint64_t)((double)fraction / (double)place * (double)found->factor + 0.5);
    return true;
}

static bool parse_flag(const char *text, uint64_t *out)
{
    static const char *const yes[] = {"1", "true", "yes", "on"};
    static const char *const no[] = {"0", "false", "no", "off"};
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        *out = strcmp(text, yes[i]) == 0;
        if (*out || strcmp(text, no[i]) == 0)
            return true;
    }
    return false;
}

static bool parse_level(const char *text, uint64_t *out)
{
    static const struct {
        const char *name;
        int level;
    } levels[] = {{"trace", DZ_LOG_TRACE}, {"debug", DZ_LOG_DEBUG}, {"info", DZ_LOG_INFO},
                  {"warn", DZ_LOG_WARN},   {"error", DZ_LOG_ERROR}, {"fatal", DZ_LOG_FATAL},
                  {"off", DZ_LOG_SILENT}};
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        *out = (uint64_t)levels[i].level;
        if (strcmp(levels[i].name, text) == 0)
            return true;
    }
    return false;
}

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

static bool parse_value(kind what, const char *text, uint64_t *out)
{
    switch (what) {
    case COUNT:
        return !strchr(text, '.') && parse_number(text, plain, COUNT_OF(plain), out);
    case SIZE:
        return parse_number(text, sizes, COUNT_OF(sizes), out);
    case DURATION:
        return parse_number(text, durations, COUNT_OF(durations), out);
    case LEVEL:
        return parse_level(text, out);
    case FLAG:
        return parse_flag(text, out);
    case TEXT:
        break;
    }
    return false;
}

static int store(dz_settings *settings, const setting *it, const char *text)
{
    char *at = (char *)settings + it->offset;
    if (it->kind == TEXT) {
        memcpy(at, &text, sizeof text);
        return 0;
    }
    uint64_t value;
    if (!parse_value(it->kind, text, &value) ||
        (it->max > 0 && (value < it->min || value > it->max)))
        return DZ_E_INVALID;
    if (it->kind == FLAG)
        *(bool *)(void *)at = value != 0;
    else
        memcpy(at, &value, sizeof value);
    return 0;
}

static const setting *find(const char *name, size_t len)
{
    for (size_t i = 0; i < SETTINGS; i++)
        if (strlen(table[i].name) == len && memcmp(table[i].name, name, len) == 0)
            return &table[i];
    return NULL;
}

int dz_settings_set(dz_settings *settings, const char *name, const char *value)
{
    const setting *it = find(name, strlen(name));
    return it ? store(settings, it, value) : DZ_E_NOT_FOUND;
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

static const dz_user_option *find_user(const dz_core *core, const char *name, size_t len)
{
    for (const dz_user_option *it = core->user_options; it; it = it->next)
        if (strlen(it->name) == len && memcmp(it->name, name, len) == 0)
            return it;
    return NULL;
}

/* --- help and errors --- */

static void print_option(const char *name, const char *value_name, const char *help)
{
    char left[64];
    snprintf(left, sizeof left, "--%s%s%s", name, value_name ? " " : "",
             value_name ? value_name : "");
    printf("  %-24s ", left);
    for (const char *at = help; *at; at++) {
        putchar(*at);
        if (*at == '\n')
            printf("  %-24s ", "");
    }
    putchar('\n');
}

static void print_user_options(const dz_user_option *it)
{
    if (!it)
        return;
    print_user_options(it->next); /* in the order they were added */
    print_option(it->name, it->value_name, it->help);
}

static void print_help(const dz_core *core, const char *program)
{
    printf("usage: %s [options]\n\n", program);
    if (core->user_options) {
        printf("options of this program:\n");
        print_user_options(core->user_options);
        putchar('\n');
    }
    printf("options of every donmaz service:\n");
    for (size_t i = 0; i < SETTINGS; i++)
        print_option(table[i].name, table[i].value_name, table[i].help);
    print_option("help", NULL, "print this and exit");
    printf(
        "\nTIME is a number with ms, s, m or h (seconds without a unit); BYTES takes k, M or G.\n"
        "Each option can also be set by an environment variable, such as DONMAZ_RESCUE_AFTER for\n"
        "--rescue-after; the command line goes before it.\n");
}

/* How many letters must change to turn a into b (Levenshtein), for short names. */
static size_t distance(const char *a, size_t a_len, const char *b)
{
    enum { LONGEST = 32 };
    size_t b_len = strlen(b), row[LONGEST + 1];
    if (a_len > LONGEST || b_len > LONGEST)
        return LONGEST;
    for (size_t j = 0; j <= b_len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[b_len];
}

static void complain_unknown(const dz_core *core, const char *program, const char *name, size_t len)
{
    const char *nearest = NULL;
    size_t least = 4;
    for (size_t i = 0; i < SETTINGS; i++) {
        size_t d = distance(name, len, table[i].name);
        if (d < least)
            least = d, nearest = table[i].name;
    }
    for (const dz_user_option *it = core->user_options; it; it = it->next) {
        size_t d = distance(name, len, it->name);
        if (d < least)
            least = d, nearest = it->name;
    }
    fprintf(stderr, "%s: unknown option --%.*s", program, (int)len, name);
    if (nearest)
        fprintf(stderr, "; did you mean --%s?\n", nearest);
    else
        fprintf(stderr, "; --help lists the options\n");
}

static int complain_value(const char *program, const char *what, const char *value)
{
    fprintf(stderr, "%s: %s can't be '%s'; --help tells what it takes\n", program, what, value);
    return 2;
}

/* --- environment and command line --- */

static const char *from_environment(const char *name)
{
    char variable[64] = "DONMAZ_";
    size_t len = strlen(variable);
    for (; *name && len < sizeof variable - 1; name++)
        variable[len++] = (char)(*name == '-' ? '_' : toupper((unsigned char)*name));
    variable[len] = '\0';
    const char *value = getenv(variable);
    return value && *value ? value : NULL; /* empty, as composition files leave it: not set */
}

static int read_environment(dz_core *core, const char *program)
{
    for (size_t i = 0; i < SETTINGS; i++) {
        const char *value = from_environment(table[i].name);
        if (!value || store(&core->settings, &table[i], value) == 0)
            continue;
        char what[64];
        snprintf(what, sizeof what, "the environment's DONMAZ_ setting for --%s", table[i].name);
        return complain_value(program, what, value);
    }
    for (const dz_user_option *it = core->user_options; it; it = it->next) {
        const char *value = from_environment(it->name);
        if (value)
            *it->value = value;
    }
    return -1;
}

/* One argument of the form --name[=value]; *used tells how many arguments it took. */
static int read_option(dz_core *core, const char *program, int argc, char **argv, int *used)
{
    const char *name = argv[0] + 2, *equals = strchr(name, '=');
    size_t len = equals ? (size_t)(equals - name) : strlen(name);
    const setting *it = find(name, len);
    const dz_user_option *user = it ? NULL : find_user(core, name, len);
    if (!it && !user) {
        complain_unknown(core, program, name, len);
        return 2;
    }
    const char *value = equals ? equals + 1 : NULL;
    bool flag = it ? it->kind == FLAG : !user->value_name;
    if (!value && flag)
        value = "1";
    if (!value && argc > 1) {
        value = argv[1];
        *used = 2;
    }
    char what[64];
    snprintf(what, sizeof what, "--%.*s", (int)len, name);
    if (!value) {
        fprintf(stderr, "%s: %s needs a value; --help tells which\n", program, what);
        return 2;
    }
    if (it && store(&core->settings, it, value) < 0)
        return complain_value(program, what, value);
    if (user)
        *user->value = value;
    return -1;
}

int dz_settings_parse(dz_app *app, int argc, char **argv)
{
    dz_core *core = app->core;
    const char *program = argc > 0 ? argv[0] : "service";
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0) {
            print_help(core, program);
            return 0;
        }
    int rc = read_environment(core, program);
    for (int i = 1; i < argc && rc < 0;) {
        int used = 1;
        if (strncmp(argv[i], "--", 2) != 0 || argv[i][2] == '\0') {
            fprintf(stderr, "%s: unexpected argument '%s'; --help lists the options\n", program,
                    argv[i]);
            return 2;
        }
        rc = read_option(core, program, argc - i, argv + i, &used);
        i += used;
    }
    return rc;
}
