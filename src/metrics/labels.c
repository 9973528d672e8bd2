#include "metrics/registry.h"

#include <donmaz/utf8.h>

#include <stdlib.h>

enum { MAX_LABELS = 16 };

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool name_valid(const char *name, bool colons)
{
    if (!name || !(is_letter(*name) || (colons && *name == ':')))
        return false;
    for (const char *c = name; *c; c++)
        if (!is_letter(*c) && !(*c >= '0' && *c <= '9') && !(colons && *c == ':'))
            return false;
    return true;
}

bool dz_metric_name_valid(const char *name)
{
    return name_valid(name, true);
}

static bool label_valid(const dz_label *label, bool is_histogram)
{
    return name_valid(label->name, false) && strncmp(label->name, "__", 2) != 0 &&
           strcmp(label->name, "worker") != 0 && label->value &&
           !(is_histogram && strcmp(label->name, "le") == 0) &&
           dz_utf8_valid(dz_slice_of(label->value));
}

/* Sorts by name; false when a label is bad or given twice. */
static bool sort_labels(const dz_metric *metric, bool is_histogram, dz_label *sorted)
{
    if (metric->label_count > MAX_LABELS)
        return false;
    for (size_t i = 0; i < metric->label_count; i++) {
        if (!label_valid(&metric->labels[i], is_histogram))
            return false;
        size_t at = i;
        for (; at > 0; at--) {
            int order = strcmp(sorted[at - 1].name, metric->labels[i].name);
            if (order == 0)
                return false;
            if (order < 0)
                break;
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = metric->labels[i];
    }
    return true;
}

static char *put_escaped(char *to, const char *value)
{
    for (; *value; value++) {
        char c = *value;
        if (c == '\\' || c == '"' || c == '\n')
            *to++ = '\\';
        if (c == '\n')
            c = 'n';
        *to++ = c;
    }
    return to;
}

int dz_labels_render(const dz_metric *metric, bool is_histogram, char **out)
{
    dz_label sorted[MAX_LABELS];
    if (!sort_labels(metric, is_histogram, sorted))
        return DZ_E_INVALID;
    size_t size = 1;
    for (size_t i = 0; i < metric->label_count; i++) /* each value byte may become two */
        size += strlen(sorted[i].name) + 2 * strlen(sorted[i].value) + strlen("=\"\",");
    char *text = malloc(size);
    if (!text)
        return DZ_E_NOMEM;
    char *end = text;
    for (size_t i = 0; i < metric->label_count; i++) {
        size_t len = strlen(sorted[i].name);
        if (i > 0)
            *end++ = ',';
        memcpy(end, sorted[i].name, len);
        end += len;
        *end++ = '=';
        *end++ = '"';
        end = put_escaped(end, sorted[i].value);
        *end++ = '"';
    }
    *end = '\0';
    *out = text;
    return 0;
}
