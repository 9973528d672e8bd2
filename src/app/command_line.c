#include "app/setting.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Settings from the environment and the command line. */

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

/* False: not a value of it. */
static bool store_user(const dz_user_option *it, const char *value)
{
    uint64_t on;
    if (it->value_name)
        *it->value = value;
    else if (dz_setting_parse_flag(value, &on))
        *it->value = on ? "1" : NULL;
    else
        return false;
    return true;
}

static int complain_of_environment(const char *program, const char *name, const char *value)
{
    char what[64];
    snprintf(what, sizeof what, "the environment's DONMAZ_ setting for --%s", name);
    return dz_settings_complain_value(program, what, value);
}

static int read_environment(dz_core *core, const char *program)
{
    for (size_t i = 0; i < dz_setting_count; i++) {
        const char *value = from_environment(dz_setting_table[i].name);
        if (value && dz_setting_store(&core->settings, &dz_setting_table[i], value) < 0)
            return complain_of_environment(program, dz_setting_table[i].name, value);
    }
    for (const dz_user_option *it = core->user_options; it; it = it->next) {
        const char *value = from_environment(it->name);
        if (value && !store_user(it, value))
            return complain_of_environment(program, it->name, value);
    }
    return -1;
}

/* One argument of the form --name[=value]; *used tells how many arguments it took. */
static int read_option(dz_core *core, const char *program, int argc, char **argv, int *used)
{
    const char *name = argv[0] + 2, *equals = strchr(name, '=');
    size_t len = equals ? (size_t)(equals - name) : strlen(name);
    const dz_setting *it = dz_setting_find(name, len);
    const dz_user_option *user = it ? NULL : dz_user_option_find(core, name, len);
    if (!it && !user) {
        dz_settings_complain_unknown(core, program, name, len);
        return 2;
    }
    const char *value = equals ? equals + 1 : NULL;
    bool flag = it ? it->kind == DZ_SETTING_FLAG : !user->value_name;
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
    bool good = it ? dz_setting_store(&core->settings, it, value) == 0 : store_user(user, value);
    return good ? -1 : dz_settings_complain_value(program, what, value);
}

int dz_settings_parse(dz_app *app, int argc, char **argv)
{
    dz_core *core = app->core;
    const char *program = argc > 0 ? argv[0] : "service";
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0) {
            dz_settings_help(core, program);
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
