/* yaml.h: libcyaml with messages a person can act on: file, line, the nearest known key. */
#ifndef DZ_TOOLS_COMMON_YAML_H
#define DZ_TOOLS_COMMON_YAML_H

#include <cyaml/cyaml.h>
#include <donmaz/slice.h>

#include <stdbool.h>
#include <stddef.h>

typedef struct dz_yaml_text {
    char *data; /* the whole file, NUL-terminated; from malloc */
    size_t len;
} dz_yaml_text;

/* Reads the file at `path`. 0 or a negative error; release with free(text->data). */
int dz_yaml_read(const char *path, dz_yaml_text *text);

/* Loads `text` by `schema` into *data (dz_yaml_free frees it). On failure returns a negative error
 * and writes one line "FILE:LINE: what is wrong" (no newline) to `message`. */
int dz_yaml_load(const char *path, dz_yaml_text text, const cyaml_schema_value_t *schema,
                 void **data, char *message, size_t size);

/* Whether the text, with its aliases replaced, stays within what a file for people may be: 256 Ki
 * values, 64 MiB, 64 levels. True for what is no YAML. (yaml_size.c) */
bool dz_yaml_fits(dz_yaml_text text);

void dz_yaml_free(const cyaml_schema_value_t *schema, void *data);

/* The number of the first line at or after `from` (1-based) that holds `key:` as a key and, unless
 * NULL, `value` after it; `from` when there is none. */
unsigned dz_yaml_line(dz_yaml_text text, unsigned from, dz_slice key, const char *value);

#endif
