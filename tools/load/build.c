#include "load/build.h"

#include "base/clock.h"

#include <donmaz/error.h>

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/un.h>

static int out_of_memory(void)
{
    return dz_fail(DZ_EXIT_USAGE, LOAD_TOOL, "out of memory");
}

static bool is_token(dz_slice text)
{
    if (text.len == 0)
        return false;
    for (size_t i = 0; i < text.len; i++) { /* RFC 9110 5.6.2 */
        char c = text.ptr[i];
        bool alnum = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
        if (!alnum && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c)))
            return false;
    }
    return true;
}

bool load_field_parse(const char *text, load_field *out)
{
    /* The first ':' wins wherever it is: values with '=' are common, names with ':' impossible. */
    const char *cut = strchr(text, ':');
    if (!cut || !is_token(dz_slice_make(text, (size_t)(cut - text))))
        cut = strchr(text, '=');
    if (!cut)
        return false;
    const char *value = cut + 1;
    value += strspn(value, " \t");
    *out = (load_field){.name = dz_slice_make(text, (size_t)(cut - text)),
                        .value = dz_slice_of(value)};
    return is_token(out->name) && !strpbrk(value, "\r\n");
}

static char *copy_text(dz_slice text)
{
    return strndup(text.ptr ? text.ptr : "", text.len);
}

static dz_slice port_of(const load_url *url)
{
    return url->port.len > 0 ? url->port : url->tls ? DZ_LIT("443") : DZ_LIT("80");
}

/* "host", "host:port", "[::1]:port". */
static char *print_authority(dz_slice host, dz_slice port)
{
    char *text = NULL;
    bool v6 = host.len > 0 && memchr(host.ptr, ':', host.len);
    int len =
        asprintf(&text, "%s%.*s%s%s%.*s", v6 ? "[" : "", (int)host.len, host.ptr, v6 ? "]" : "",
                 port.len > 0 ? ":" : "", (int)port.len, port.len > 0 ? port.ptr : "");
    return len < 0 ? NULL : text;
}

static bool same_origin(const load_origin *origin, const load_url *url)
{
    return origin->tls == url->tls && dz_slice_equal(dz_slice_of(origin->host), url->host) &&
           dz_slice_equal(dz_slice_of(origin->port), port_of(url));
}

/* The plan's origin of this URL, added when new. */
static int find_origin(load_plan *plan, const load_cli *cli, const load_url *url, size_t *out)
{
    for (*out = 0; *out < plan->origin_count; ++*out)
        if (same_origin(&plan->origins[*out], url))
            return DZ_OPTIONS_OK;
    load_origin *origin = &plan->origins[plan->origin_count++];
    dz_slice port = port_of(url);
    origin->tls = url->tls;
    origin->unix_path = cli->socket_path;
    origin->servername = cli->servername;
    origin->host = copy_text(url->host);
    origin->port = copy_text(port);
    origin->authority = print_authority(url->host, url->port);
    return origin->host && origin->port && origin->authority ? DZ_OPTIONS_OK : out_of_memory();
}

/* The path as sent: it starts with '/', whatever the URL had ("?q" alone is a query). */
static char *print_path(const load_url *url)
{
    char *text = NULL;
    bool slash = url->path.len > 0 && url->path.ptr[0] == '/';
    int len = asprintf(&text, "%s%.*s", slash ? "" : "/", (int)url->path.len,
                       url->path.ptr ? url->path.ptr : "");
    return len < 0 ? NULL : text;
}

static bool may_have_body(dz_slice method)
{
    return dz_slice_equal(method, DZ_LIT("POST")) || dz_slice_equal(method, DZ_LIT("PUT")) ||
           dz_slice_equal(method, DZ_LIT("PATCH"));
}

static int init_message(load_plan *plan, const load_cli *cli, load_endpoint *endpoint,
                        const load_endpoint_spec *spec)
{
    char why[256] = "";
    load_message_spec message = {
        .method = dz_slice_of(endpoint->method),
        .path = dz_slice_of(endpoint->path),
        .authority = dz_slice_of(plan->origins[endpoint->origin].authority),
        .fields = spec->fields,
        .field_count = spec->field_count,
        .body = spec->body,
        .has_body = spec->has_body || may_have_body(dz_slice_of(endpoint->method)),
        .templates = !cli->no_templates,
        .strict = spec->strict,
        .replace_id = cli->replace_id,
        .close = cli->no_keepalive,
        .rows = plan->rows,
        .copies = plan->pipelining,
    };
    int rc = load_message_init(&endpoint->message, &message, why, sizeof why);
    if (rc == DZ_E_INVALID)
        return dz_usage(LOAD_TOOL, "%s: %s", endpoint->url, why);
    return rc < 0 ? out_of_memory() : DZ_OPTIONS_OK;
}

int load_plan_add(load_plan *plan, const load_cli *cli, const load_endpoint_spec *spec)
{
    load_endpoint *endpoint = &plan->endpoints[plan->endpoint_count++];
    *endpoint = (load_endpoint){.expect_status = spec->expect_status, .weight = spec->weight};
    endpoint->url = load_url_print(&spec->url);
    endpoint->path = print_path(&spec->url);
    endpoint->method = strdup(spec->method);
    if (!endpoint->url || !endpoint->path || !endpoint->method)
        return out_of_memory();
    if (!is_token(dz_slice_of(spec->method)))
        return dz_usage(LOAD_TOOL, "'%s' is no request method", spec->method);
    endpoint->head_only = dz_slice_equal(dz_slice_of(spec->method), DZ_LIT("HEAD"));
    if (spec->expect_body.ptr) {
        endpoint->expect_owned = copy_text(spec->expect_body);
        if (!endpoint->expect_owned)
            return out_of_memory();
        endpoint->expect_body = dz_slice_make(endpoint->expect_owned, spec->expect_body.len);
    }
    int rc = find_origin(plan, cli, &spec->url, &endpoint->origin);
    return rc == DZ_OPTIONS_OK ? init_message(plan, cli, endpoint, spec) : rc;
}

int load_plan_begin(load_plan *plan, const load_cli *cli, size_t endpoints, size_t groups)
{
    *plan = (load_plan){
        .pipelining = cli->pipelining,
        .threads = cli->threads,
        .warmup = cli->warmup,
        .duration = cli->amount > 0 ? UINT64_MAX : cli->duration,
        .timeout = cli->timeout,
        .interval = cli->sample_interval * DZ_MS,
        .shared_schedule = cli->open,
        .skip_errors = cli->exclude_errors,
        .reconnect_after = cli->no_keepalive ? 1 : cli->reconnect_rate,
        .most_per_connection = cli->max_connection_requests,
        .bailout = cli->bailout,
        .tls = {.insecure = cli->insecure, .ca = cli->ca, .cert = cli->cert, .key = cli->key},
        .endpoints = calloc(endpoints, sizeof(load_endpoint)),
        .origins = calloc(endpoints, sizeof(load_origin)),
        .groups = calloc(groups, sizeof(load_group)),
    };
    return plan->endpoints && plan->origins && plan->groups ? DZ_OPTIONS_OK : out_of_memory();
}

/* Every connection and a few descriptors more must fit into the limit, which is raised as far as
 * we may. */
static int check_descriptors(size_t connections)
{
    enum { OTHERS = 64 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return DZ_OPTIONS_OK;
    rlim_t wanted = connections + OTHERS;
    if (limit.rlim_cur < wanted && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
        getrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur >= wanted)
        return DZ_OPTIONS_OK;
    return dz_usage(LOAD_TOOL,
                    "%zu connections need %llu open files, but the limit is %llu: raise it "
                    "(ulimit -n) or lower -c",
                    connections, (unsigned long long)wanted, (unsigned long long)limit.rlim_cur);
}

/* The part of `total` for connections [from, from + n) of `of`. */
static uint64_t part(uint64_t total, size_t from, size_t n, size_t of)
{
    uint64_t each = total / of, more = total % of;
    uint64_t extra = from >= more ? 0 : more - from < n ? more - from : n;
    return each * n + extra;
}

int load_plan_finish(load_plan *plan, const load_cli *cli)
{
    uint64_t amount = cli->amount > 0 ? cli->amount : cli->max_overall_requests;
    plan->connections = 0;
    for (size_t i = 0; i < plan->group_count; i++)
        plan->connections += plan->groups[i].connections;
    if (amount < plan->group_count)
        return dz_usage(LOAD_TOOL, "%llu requests can't be shared among %zu URLs",
                        (unsigned long long)amount, plan->group_count);
    size_t from = 0, all = plan->connections, paced = 0;
    for (size_t i = 0; i < plan->group_count; i++)
        paced += plan->groups[i].rate > 0 ? 0 : plan->groups[i].connections;
    plan->connections = 0;
    for (size_t i = 0; i < plan->group_count; i++) {
        load_group *group = &plan->groups[i];
        group->amount = amount == UINT64_MAX ? amount : part(amount, from, group->connections, all);
        if (group->rate <= 0) /* a scenario's endpoint may have its own */
            group->rate = cli->connection_rate > 0
                              ? cli->connection_rate * (double)group->connections
                              : cli->overall_rate * (double)group->connections / (double)paced;
        from += group->connections;
        if (group->amount < group->connections) /* more could never be used */
            group->connections = group->amount > 0 ? group->amount : 1;
        plan->connections += group->connections;
        plan->scheduled = plan->scheduled || group->rate > 0;
        for (size_t e = 0; e < group->endpoint_count; e++)
            plan->endpoints[group->first_endpoint + e].connections = group->connections;
    }
    if (plan->threads > plan->connections)
        plan->threads = plan->connections;
    return check_descriptors(plan->connections);
}

void load_plan_free(load_plan *plan)
{
    for (size_t i = 0; i < plan->endpoint_count; i++) {
        load_endpoint *endpoint = &plan->endpoints[i];
        load_message_free(&endpoint->message);
        free(endpoint->url);
        free(endpoint->method);
        free(endpoint->path);
        free(endpoint->expect_owned);
    }
    for (size_t i = 0; i < plan->origin_count; i++) {
        free(plan->origins[i].host);
        free(plan->origins[i].port);
        free(plan->origins[i].authority);
    }
    free(plan->name_owned);
    free(plan->endpoints);
    free(plan->origins);
    free(plan->groups);
    *plan = (load_plan){0};
}

static int resolve_unix(load_origin *origin)
{
    struct sockaddr_un *name = (struct sockaddr_un *)&origin->addresses[0].name;
    size_t len = strlen(origin->unix_path);
    if (len >= sizeof name->sun_path)
        return dz_usage(LOAD_TOOL, "socket path '%s' is too long", origin->unix_path);
    name->sun_family = AF_UNIX;
    memcpy(name->sun_path, origin->unix_path, len + 1);
    origin->addresses[0].len = sizeof *name;
    origin->address_count = 1;
    return DZ_OPTIONS_OK;
}

static int resolve(load_origin *origin)
{
    if (origin->unix_path)
        return resolve_unix(origin);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list = NULL;
    int rc = getaddrinfo(origin->host, origin->port, &hints, &list);
    if (rc != 0)
        return dz_fail(DZ_EXIT_TARGET, LOAD_TOOL, "can't resolve host '%s': %s", origin->host,
                       rc == EAI_SYSTEM ? dz_strerror(-errno) : gai_strerror(rc));
    origin->address_count = 0;
    for (const struct addrinfo *a = list; a && origin->address_count < LOAD_ADDRESSES;
         a = a->ai_next) {
        load_address *address = &origin->addresses[origin->address_count++];
        memcpy(&address->name, a->ai_addr, a->ai_addrlen);
        address->len = a->ai_addrlen;
    }
    freeaddrinfo(list);
    return DZ_OPTIONS_OK;
}

int load_plan_resolve(load_plan *plan)
{
    for (size_t i = 0; i < plan->origin_count; i++) {
        int rc = resolve(&plan->origins[i]);
        if (rc != DZ_OPTIONS_OK)
            return rc;
    }
    return DZ_OPTIONS_OK;
}
