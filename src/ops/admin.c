#include "ops/admin.h"

#include "base/bound.h"
#include "ops/page.h"

#include <donmaz/error.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct dz_admin {
    dz_app *app; /* our own */
    dz_core *service;
    dz_admin_text *write;
    void *context;
    bool loopback;
};

/* --- the address --- */

typedef struct address {
    char host[256];
    const char *port;
} address;

bool dz_admin_wanted(const dz_core *core)
{
    const char *admin = core->settings.admin;
    return *admin && strcmp(admin, "off") != 0;
}

/* "[HOST:]PORT", HOST perhaps an IPv6 address in brackets. */
static bool read_address(const char *text, address *it)
{
    *it = (address){.host = "127.0.0.1", .port = text};
    const char *colon = strrchr(text, ':');
    if (!colon)
        return *text != '\0';
    size_t len = (size_t)(colon - text);
    if (len > 1 && text[0] == '[' && text[len - 1] == ']') {
        text++;
        len -= 2;
    }
    if (len == 0 || len >= sizeof it->host)
        return false;
    memcpy(it->host, text, len);
    it->host[len] = '\0';
    it->port = colon + 1;
    return *it->port != '\0';
}

int dz_admin_listen(const dz_core *core, unsigned *port, char *text, size_t size)
{
    address at;
    dz_core probe = {.settings = core->settings};
    bool good = read_address(core->settings.admin, &at) &&
                dz_settings_set(&probe.settings, "port", at.port) == 0;
    if (!good) {
        snprintf(text, size, "--admin can't be '%s': it takes [HOST:]PORT or off",
                 core->settings.admin);
        return DZ_E_INVALID;
    }
    probe.settings.host = at.host;
    int fd = dz_core_listen(&probe, port);
    if (fd < 0)
        snprintf(text, size, "can't listen on %s port %s for --admin: %s", at.host, at.port,
                 dz_strerror(fd));
    return fd;
}

void dz_admin_log_listening(dz_core *core, unsigned port)
{
    address at;
    if (!read_address(core->settings.admin, &at))
        return;
    bool v6 = strchr(at.host, ':') != NULL; /* RFC 3986, 3.2.2 */
    dz_core_log(core, 30, "metrics on http://%s%s%s:%u/metrics, live page on /donmaz",
                v6 ? "[" : "", at.host, v6 ? "]" : "", port);
}

/* --- what it answers --- */

static bool is_local_name(dz_slice host)
{
    const char *colon = memrchr(host.ptr, ':', host.len);
    if (colon && host.ptr[host.len - 1] != ']')
        host.len = (size_t)(colon - host.ptr);
    if (dz_slice_equal_nocase(host, DZ_LIT("localhost")) || dz_slice_equal(host, DZ_LIT("[::1]")))
        return true;
    if (host.len < 4 || memcmp(host.ptr, "127.", 4) != 0)
        return false;
    for (size_t i = 0; i < host.len; i++) /* not 127.example.com */
        if (host.ptr[i] != '.' && (host.ptr[i] < '0' || host.ptr[i] > '9'))
            return false;
    return true;
}

/* A page of another site may let its own name point to 127.0.0.1 and have the browser read from
 * there (DNS rebinding); the Host header tells. */
static void check_host(dz_request *req, dz_response *res)
{
    const dz_admin *admin = dz_req_data(req);
    dz_slice host = dz_req_header(req, "Host");
    if (admin->loopback && host.len > 0 && !is_local_name(host)) {
        dz_send_text(res, 403, "ask by the name localhost or by address\n");
        return;
    }
    dz_res_header(res, "Cache-Control", "no-store");
    dz_res_header(res, "X-Content-Type-Options", "nosniff");
    dz_next(req, res);
}

static void serve_metrics(dz_request *req, dz_response *res)
{
    const dz_admin *admin = dz_req_data(req);
    dz_buf text = {0};
    int rc = admin->write(admin->context, &text);
    if (rc < 0)
        dz_send_error(res, 500, rc);
    else
        dz_send_buf(res, 200, DZ_METRICS_CONTENT_TYPE, &text);
    dz_buf_release(&text);
}

static void serve_page(dz_request *req, dz_response *res)
{
    (void)req;
    dz_res_header(res, "Content-Security-Policy",
                  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
                  "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    dz_send_borrowed(res, 200, "text/html; charset=utf-8",
                     dz_slice_make(dz_live_html, dz_live_html_len));
}

static void serve_script(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_borrowed(res, 200, "text/javascript; charset=utf-8",
                     dz_slice_make(dz_live_js, dz_live_js_len));
}

static void serve_style(dz_request *req, dz_response *res)
{
    (void)req;
    dz_send_borrowed(res, 200, "text/css; charset=utf-8",
                     dz_slice_make(dz_live_css, dz_live_css_len));
}

static void to_page(dz_request *req, dz_response *res)
{
    (void)req;
    dz_redirect(res, 302, "/donmaz");
}

/* --- starting and stopping --- */

static int write_app(void *context, dz_buf *text)
{
    const dz_core *service = context;
    return dz_metrics_write(service->metrics, text);
}

static dz_app *make_app(dz_admin *admin)
{
    dz_app *app = dz_app_new();
    if (!app)
        return NULL;
    /* Nothing here computes; a scrape may wait a moment for the other processes. */
    dz_app_set(app, "rescue-after", "0");
    dz_app_set(app, "drain-timeout", "0");
    dz_app_set(app, "connections-max", "64");
    dz_app_set(app, "body-max", "0");
    dz_app_set_data(app, admin);
    dz_use(app, check_host);
    dz_get(app, "/metrics", serve_metrics);
    dz_get(app, "/donmaz", serve_page);
    dz_get(app, "/donmaz/live.js", serve_script);
    dz_get(app, "/donmaz/live.css", serve_style);
    dz_get(app, "/", to_page);
    return app;
}

int dz_admin_start(dz_admin **out, dz_app *app, int listener, dz_admin_text *write, void *context)
{
    dz_admin *admin = calloc(1, sizeof *admin);
    if (!admin)
        return DZ_E_NOMEM;
    int rc = DZ_E_NOMEM;
    *admin = (dz_admin){.service = app->core,
                        .write = write ? write : write_app,
                        .context = write ? context : app->core,
                        .loopback = dz_bound_to_loopback(listener)};
    admin->app = make_app(admin);
    if (!admin->app)
        goto fail;
    admin->app->core->listen_fd = fcntl(listener, F_DUPFD_CLOEXEC, 3);
    if (admin->app->core->listen_fd < 0) {
        rc = -errno;
        goto fail;
    }
    unsigned port;
    rc = dz_app_start(admin->app, &port);
    if (rc < 0)
        goto fail;
    *out = admin;
    return 0;
fail:
    dz_app_free(admin->app);
    free(admin);
    return rc;
}

void dz_admin_stop(dz_admin *admin)
{
    if (!admin)
        return;
    dz_app_stop(admin->app);
    if (dz_app_wait(admin->app) < 0)
        return; /* a handler hangs: what it uses must stay */
    dz_app_free(admin->app);
    free(admin);
}
