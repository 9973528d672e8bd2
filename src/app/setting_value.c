#include "app/setting.h"

#include "base/clock.h"

#include <donmaz/error.h>
#include <donmaz/log.h>

#include <stdlib.h>
#include <string.h>

/* What a setting's text means. */

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
    if (!found || whole > DZ_SETTING_FOREVER / found->factor)
        return false;
    *out = whole * found->factor +
           (uint64_t)((double)fraction / (double)place * (double)found->factor + 0.5);
    return true;
}

bool dz_setting_parse_flag(const char *text, uint64_t *out)
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

static bool parse_value(dz_setting_kind what, const char *text, uint64_t *out)
{
    switch (what) {
    case DZ_SETTING_COUNT:
        return !strchr(text, '.') && parse_number(text, plain, COUNT_OF(plain), out);
    case DZ_SETTING_SIZE:
        return parse_number(text, sizes, COUNT_OF(sizes), out);
    case DZ_SETTING_DURATION:
        return parse_number(text, durations, COUNT_OF(durations), out);
    case DZ_SETTING_LEVEL:
        return parse_level(text, out);
    case DZ_SETTING_FLAG:
        return dz_setting_parse_flag(text, out);
    case DZ_SETTING_TEXT:
        break;
    }
    return false;
}

int dz_setting_store(dz_settings *settings, const dz_setting *it, const char *text)
{
    char *at = (char *)settings + it->offset;
    if (it->kind == DZ_SETTING_TEXT) {
        memcpy(at, &text, sizeof text);
        return 0;
    }
    uint64_t value;
    if (!parse_value(it->kind, text, &value) ||
        (it->max > 0 && (value < it->min || value > it->max)))
        return DZ_E_INVALID;
    if (it->kind == DZ_SETTING_FLAG)
        *(bool *)(void *)at = value != 0;
    else
        memcpy(at, &value, sizeof value);
    return 0;
}
