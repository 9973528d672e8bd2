/* libcyaml reports through a log function: a line that says what is wrong, then a backtrace from
 * the innermost value out. This file gathers both and says the same in one line. */
#include "common/yaml.h"

#include "common/values.h"

#include <donmaz/error.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEPTH = 8, LONGEST_FILE = 1 << 20 };

typedef struct diagnosis {
    char problem[200];    /* the first message */
    unsigned line;        /* of the innermost entry of the backtrace; 0 unknown */
    char path[DEPTH][64]; /* keys of the mappings around it, innermost first */
    size_t depth;
} diagnosis;

int dz_yaml_read(const char *path, dz_yaml_text *text)
{
    *text = (dz_yaml_text){0};
    FILE *file = fopen(path, "re");
    if (!file)
        return -errno;
    char *data = malloc(LONGEST_FILE + 1);
    if (!data) {
        fclose(file);
        return DZ_E_NOMEM;
    }
    size_t len = fread(data, 1, LONGEST_FILE, file);
    int rc = ferror(file) ? (errno ? -errno : -EIO) : fgetc(file) != EOF ? DZ_E_TOO_LARGE : 0;
    fclose(file);
    if (rc < 0) {
        free(data);
        return rc;
    }
    data[len] = '\0';
    char *fitted = realloc(data, len + 1);
    *text = (dz_yaml_text){fitted ? fitted : data, len};
    return 0;
}

static void note_frame(diagnosis *d, const char *line)
{
    static const char field[] = "in mapping field '";
    const char *at = strstr(line, "(line: ");
    if (at && d->line == 0)
        d->line = (unsigned)strtoul(at + 7, NULL, 10);
    const char *key = strstr(line, field);
    if (!key || d->depth == DEPTH)
        return;
    key += sizeof field - 1;
    size_t len = strcspn(key, "'");
    if (len < sizeof d->path[0]) {
        memcpy(d->path[d->depth], key, len);
        d->path[d->depth++][len] = '\0';
    }
}

__attribute__((format(printf, 3, 0))) static void collect(cyaml_log_t level, void *context,
                                                          const char *format, va_list args)
{
    diagnosis *d = context;
    char line[400];
    (void)level;
    vsnprintf(line, sizeof line, format, args);
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "  in ", 5) == 0)
        note_frame(d, line);
    else if (d->problem[0] == '\0' && !strstr(line, "Backtrace"))
        snprintf(d->problem, sizeof d->problem, "%.199s",
                 strncmp(line, "Load: ", 6) == 0 ? line + 6 : line);
}

/* The fields of the mapping in which the problem lies: `path` followed from the top. */
static const cyaml_schema_field_t *fields_at(const cyaml_schema_value_t *value, const diagnosis *d)
{
    for (size_t i = d->depth;; i--) {
        while (value && (value->type == CYAML_SEQUENCE || value->type == CYAML_SEQUENCE_FIXED))
            value = value->sequence.entry;
        if (!value || value->type != CYAML_MAPPING)
            return NULL;
        if (i == 0)
            return value->mapping.fields;
        const cyaml_schema_field_t *field = value->mapping.fields;
        while (field->key && strcmp(field->key, d->path[i - 1]) != 0)
            field++;
        if (!field->key)
            return NULL;
        value = &field->value;
    }
}

static void suggest(const cyaml_schema_field_t *fields, const char *key, char *out, size_t size)
{
    const char *names[32];
    size_t count = 0;
    out[0] = '\0';
    for (; fields && fields->key && count < 32; fields++)
        names[count++] = fields->key;
    const char *nearest = dz_nearest_name(dz_slice_of(key), names, count);
    if (nearest) {
        snprintf(out, size, "; did you mean '%s'?", nearest);
        return;
    }
    int used = snprintf(out, size, "; known here:");
    for (size_t i = 0; i < count && used > 0 && (size_t)used < size; i++)
        used += snprintf(out + used, size - (size_t)used, "%s %s", i ? "," : "", names[i]);
}

unsigned dz_yaml_line(dz_yaml_text text, unsigned from, dz_slice key, const char *value)
{
    unsigned number = 1;
    for (const char *line = text.data; line && *line; number++) {
        const char *end = strchr(line, '\n');
        size_t len = end ? (size_t)(end - line) : strlen(line);
        const char *at = number >= from ? memmem(line, len, key.ptr, key.len) : NULL;
        const char *comment = memchr(line, '#', len);
        if (at && !(comment && comment < at) && at[key.len] == ':' &&
            (at == line || strchr(" -{,\"'", at[-1])) &&
            (!value || memmem(at, len - (size_t)(at - line), value, strlen(value))))
            return number;
        line = end ? end + 1 : NULL;
    }
    return from;
}

static void explain(const char *path, dz_yaml_text text, const cyaml_schema_value_t *schema,
                    cyaml_err_t error, const diagnosis *d, char *message, size_t size)
{
    static const char unexpected[] = "Unexpected key: ";
    static const char missing[] = "Missing required mapping field: ";
    char hint[300] = "";
    if (strncmp(d->problem, unexpected, sizeof unexpected - 1) == 0) {
        const char *key = d->problem + sizeof unexpected - 1;
        suggest(fields_at(schema, d), key, hint, sizeof hint);
        /* libcyaml's line is where the value before the key ended. */
        unsigned line = dz_yaml_line(text, d->line ? d->line : 1, dz_slice_of(key), NULL);
        snprintf(message, size, "%s:%u: unknown key '%s'%s", path, line, key, hint);
    } else if (strncmp(d->problem, missing, sizeof missing - 1) == 0) {
        snprintf(message, size, "%s:%u: key '%s' is missing here", path, d->line,
                 d->problem + sizeof missing - 1);
    } else {
        snprintf(message, size, "%s:%u: %s", path, d->line ? d->line : 1,
                 d->problem[0] ? d->problem : cyaml_strerror(error));
    }
}

static cyaml_config_t config_for(diagnosis *d)
{
    return (cyaml_config_t){
        .log_fn = collect, .log_ctx = d, .mem_fn = cyaml_mem, .log_level = CYAML_LOG_WARNING};
}

int dz_yaml_load(const char *path, dz_yaml_text text, const cyaml_schema_value_t *schema,
                 void **data, char *message, size_t size)
{
    diagnosis d = {0};
    cyaml_config_t config = config_for(&d);
    *data = NULL;
    if (!dz_yaml_fits(text)) {
        snprintf(message, size, "%s:1: too deep, or too large once its aliases are replaced", path);
        return DZ_E_TOO_LARGE;
    }
    cyaml_err_t error =
        cyaml_load_data((const uint8_t *)text.data, text.len, &config, schema, data, NULL);
    if (error == CYAML_ERR_OOM)
        d.problem[0] = '\0';
    if (error != CYAML_OK) {
        explain(path, text, schema, error, &d, message, size);
        return error == CYAML_ERR_OOM ? DZ_E_NOMEM : DZ_E_FORMAT;
    }
    if (!*data) { /* an empty document */
        snprintf(message, size, "%s:1: the file is empty", path);
        return DZ_E_FORMAT;
    }
    return 0;
}

void dz_yaml_free(const cyaml_schema_value_t *schema, void *data)
{
    diagnosis d = {0};
    cyaml_config_t config = config_for(&d);
    (void)cyaml_free(&config, schema, data, 0);
}
