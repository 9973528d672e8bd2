/* setting.h: the settings of a service: one table for the command line, the environment and --help.
 */
#ifndef DZ_APP_SETTING_H
#define DZ_APP_SETTING_H

#include "app/app.h"

#include <stddef.h>
#include <stdint.h>

typedef enum dz_setting_kind {
    DZ_SETTING_TEXT,
    DZ_SETTING_COUNT,
    DZ_SETTING_SIZE,
    DZ_SETTING_DURATION,
    DZ_SETTING_LEVEL,
    DZ_SETTING_FLAG,
} dz_setting_kind;

typedef struct dz_setting {
    const char *name;
    dz_setting_kind kind;
    size_t offset;     /* in dz_settings */
    uint64_t min, max; /* in the unit stored */
    const char *value_name, *help;
} dz_setting;

#define DZ_SETTING_FOREVER (UINT64_C(1) << 62) /* the most a number can be */

/* --- settings.c --- */

extern const dz_setting dz_setting_table[];
extern const size_t dz_setting_count;

/* NULL: there is none of that name. */
const dz_setting *dz_setting_find(const char *name, size_t len);
const dz_user_option *dz_user_option_find(const dz_core *core, const char *name, size_t len);

/* --- setting_value.c --- */

/* Reads `text` into the setting's place; a text is kept as it is, not copied. DZ_E_INVALID. */
int dz_setting_store(dz_settings *settings, const dz_setting *it, const char *text);
/* 1 or 0 of a word that says yes or no; false: it is neither. */
bool dz_setting_parse_flag(const char *text, uint64_t *out);

/* --- settings_help.c --- */

/* Prints --help. */
void dz_settings_help(const dz_core *core, const char *program);
/* On stderr: no such option, and which one it may have meant. */
void dz_settings_complain_unknown(const dz_core *core, const char *program, const char *name,
                                  size_t len);
/* On stderr: not a value of `what`. Returns 2. */
int dz_settings_complain_value(const char *program, const char *what, const char *value);

#endif
