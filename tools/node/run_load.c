/* The load: `donmaz load`, or the user's command. */
#include "running.h"

#include "common/options.h"

#include <base/clock.h>
#include <donmaz/error.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The words of --load: split at spaces, quotes keep them; "/path" becomes the whole address. */
static int split_words(char *text, char **words, size_t cap)
{
    size_t n = 0;
    for (char *at = text; *at;) {
        while (*at == ' ')
            at++;
        if (!*at)
            break;
        char quote = ' ';
        if (*at == '\'' || *at == '"')
            quote = *at++;
        char *start = at;
        while (*at && *at != quote)
            at++;
        if (*at)
            *at++ = 0;
        if (n == cap)
            return DZ_E_TOO_LARGE;
        words[n++] = start;
    }
    return (int)n;
}

static int start_own_load(dz_run *run, const dz_target_options *base)
{
    enum { WORDS = 60 };
    char *words[WORDS + 8], exe[512], url[512], base_url[160], load[] = "load", json[] = "--json";
    char *text = strdup(run->options.load);
    if (!text)
        return DZ_E_NOMEM;
    ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
    int n = split_words(text, words + 4, WORDS), rc = n < 0 ? n : 0;
    if (len < 0)
        rc = -errno;
    if (rc == 0) {
        exe[len] = 0;
        bool six = run->port->kind == DZ_PORT_TCP6 && strcmp(run->port->address, "::") != 0;
        snprintf(base_url, sizeof base_url, six ? "http://[::1]:%u" : "http://127.0.0.1:%u",
                 run->port->port);
        bool addressed = false;
        for (int i = 4; i < n + 4; i++)
            if (words[i][0] == '/' && !addressed) {
                snprintf(url, sizeof url, "%s%s", base_url, words[i]);
                words[i] = url;
                addressed = true;
            }
        words[0] = exe;
        words[1] = load;
        words[2] = json;
        snprintf(run->load_json, sizeof run->load_json, "%s/load.json", run->node.dir);
        words[3] = run->load_json;
        if (!addressed) {
            snprintf(url, sizeof url, "%s/", base_url);
            words[4 + n++] = url;
        }
        words[4 + n] = NULL;
        dz_target_options o = *base;
        o.argv = words;
        rc = dz_target_start(&run->load, &o);
    }
    free(text);
    return rc;
}

int dz_run_start_load(dz_run *run)
{
    char port[32], socket[128];
    snprintf(port, sizeof port, "PORT=%u", run->port ? run->port->port : 0);
    snprintf(socket, sizeof socket, "SOCKET=%s",
             run->port && run->port->kind == DZ_PORT_UNIX ? run->port->address : "");
    const char *env[] = {port, socket, NULL};
    dz_target_options o = {.env = env, .output = DZ_TARGET_TO_STDERR};
    if (run->options.on_load)
        run->options.on_load(run->options.arg, run);
    if (run->options.load && !run->port)
        return dz_run_fail(run, DZ_EXIT_TARGET, "the process listens on no TCP port%s", "");
    int rc = run->options.load      ? start_own_load(run, &o)
             : run->options.on_port ? dz_target_start_shell(&run->load, run->options.on_port, &o)
                                    : 0;
    if (rc < 0)
        return dz_run_fail(run, DZ_EXIT_TARGET, "the load could not be started: %s",
                           dz_strerror(rc));
    run->load_from = dz_now();
    return 0;
}
