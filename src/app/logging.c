/* The app's logger. */
#include "app/app.h"

#include <donmaz/error.h>

#include <stdlib.h>
#include <unistd.h>

/* Names under which secrets travel, as fields at any depth and as query parameters. */
static const char *const secrets[] = {
    "*.password",
    "*.passwd",
    "*.secret",
    "*.token",
    "*.access_token",
    "*.refresh_token",
    "*.id_token",
    "*.api_key",
    "*.apikey",
    "*.client_secret",
    "*.authorization",
    "*.cookie",
    "*.set-cookie",
    "*.proxy-authorization",
    "*.x-api-key",
    "?password",
    "?passwd",
    "?secret",
    "?token",
    "?access_token",
    "?refresh_token",
    "?id_token",
    "?api_key",
    "?apikey",
    "?client_secret",
    "?key",
    "?code",
    "?signature",
    "?sig",
    "?auth",
    "?jwt",
    "?session",
    "?sid",
};

enum { SECRETS = sizeof secrets / sizeof secrets[0], RULES = 256 };

/* "a,b" replaces the list, "+a,b" adds to it. `text` is cut up in place. Returns the rules' number,
 * or DZ_E_INVALID. */
static int read_rules(char *text, const char **rules)
{
    size_t count = 0;
    if (!text || *text == '+') {
        for (; count < SECRETS; count++)
            rules[count] = secrets[count];
        if (!text)
            return (int)count;
        text++;
    }
    for (char *rule; (rule = strsep(&text, ","));) {
        if (*rule == '\0')
            continue;
        if (count == RULES)
            return DZ_E_INVALID;
        rules[count++] = rule;
    }
    return (int)count;
}

int dz_core_open_log(dz_core *core)
{
    const dz_settings *settings = &core->settings;
    const char *path = settings->log;
    if (core->logger || strcmp(path, "off") == 0)
        return 0;
    const char *rules[RULES];
    char *text = settings->log_redact ? strdup(settings->log_redact) : NULL;
    if (settings->log_redact && !text)
        return DZ_E_NOMEM;
    int count = read_rules(text, rules);
    dz_log_options options = {.level = (int)settings->log_level,
                              .block = settings->log_block,
                              .redact = rules,
                              .redact_count = count > 0 ? (size_t)count : 0};
    if (strcmp(path, "stderr") == 0)
        options.fd = STDERR_FILENO;
    else if (strcmp(path, "stdout") == 0)
        options.fd = STDOUT_FILENO;
    else
        options.path = path;
    int rc = count < 0 ? count : dz_logger_open(&core->logger, &options);
    free(text);
    core->owns_logger = rc == 0;
    return rc;
}

void dz_core_flush_log(const dz_core *core, unsigned timeout_ms)
{
    dz_logger_flush(core->logger, timeout_ms);
}

void dz_app_set_logger(dz_app *app, dz_logger *logger)
{
    if (!app)
        return;
    if (app->core->owns_logger)
        dz_logger_close(app->core->logger);
    app->core->owns_logger = false;
    app->core->logger = logger;
}

dz_logger *dz_app_logger(const dz_app *app)
{
    return app ? app->core->logger : NULL;
}
