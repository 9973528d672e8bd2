#include "cluster/start.h"

#include <donmaz/error.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

void dz_explain_listen(const dz_core *core, int error, char *text, size_t size)
{
    const dz_settings *settings = &core->settings;
    const char *advice = "see --host and --port";
    if (error == -EADDRINUSE)
        advice = "another program listens there: stop it, or choose another --port";
    else if (error == -EACCES)
        advice = "ports below 1024 need root or CAP_NET_BIND_SERVICE: choose a higher --port";
    else if (error == -EADDRNOTAVAIL)
        advice = "no interface of this machine has that address: check --host";
    else if (error == DZ_E_NO_THREAD) {
        snprintf(text, size,
                 "could not start: %s; raise the limit of processes (ulimit -u, or "
                 "pids.max of the container)",
                 dz_strerror(error));
        return;
    }
    snprintf(text, size, "can't listen on %s port %u: %s; %s", settings->host,
             (unsigned)settings->port, dz_strerror(error), advice);
}

int dz_explain_build(const dz_core *core, char *text, size_t size)
{
    if (!core->build_error)
        return 0;
    snprintf(text, size, "route or middleware '%s': %s", core->build_error,
             dz_strerror(core->build_error_code));
    return core->build_error_code;
}

int dz_start_service(dz_app *app, unsigned *port, char *text, size_t size)
{
    dz_core *core = app->core;
    int rc = core->on_start ? core->on_start(app, core->data) : 0;
    if (rc < 0) {
        snprintf(text, size, "could not start: %s", dz_strerror(rc));
        return rc;
    }
    rc = dz_explain_build(core, text, size); /* on_start may add routes */
    if (rc < 0)
        return rc;
    const char *complaint = dz_shed_complain(core);
    if (complaint) {
        snprintf(text, size, "%s", complaint);
        return DZ_E_INVALID;
    }
    rc = dz_app_start(app, port);
    if (rc < 0 && core->adopt_fd >= 0)
        snprintf(text, size, "could not start: %s", dz_strerror(rc));
    else if (rc < 0)
        dz_explain_listen(core, rc, text, size);
    return rc;
}

void dz_log_listening(dz_core *core, unsigned port)
{
    const char *host = core->settings.host;
    bool v6 = strchr(host, ':') != NULL; /* RFC 3986, 3.2.2 */
    dz_core_log(core, 30, "listening on http://%s%s%s:%u", v6 ? "[" : "", host, v6 ? "]" : "",
                port);
}
