/* yaml_schema.h: the parts that the schemas of YAML files are made of. Every scalar but a flag is
 * read as text: libcyaml takes "5x" for 5, and a duration has a unit. Who reads the file turns them
 * into numbers and can say which line is wrong. */
#ifndef DZ_TOOLS_YAML_SCHEMA_H
#define DZ_TOOLS_YAML_SCHEMA_H

#include <cyaml/cyaml.h>

#define TEXT(key, type, member)                                                                    \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER, type, member, 1, CYAML_UNLIMITED)
#define OPTIONAL_TEXT(key, type, member)                                                           \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, member, 0,         \
                           CYAML_UNLIMITED)
/* At least `min` entries; with 0 the list may be left out. */
#define LIST(key, type, member, entry, min)                                                        \
    CYAML_FIELD_SEQUENCE(key, CYAML_FLAG_POINTER | ((min) ? 0 : CYAML_FLAG_OPTIONAL), type,        \
                         member, entry, min, CYAML_UNLIMITED)
#define MAP(type, fields)                                                                          \
    {                                                                                              \
        CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, type, fields)                                      \
    }

static const cyaml_schema_value_t text_value = {
    CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 1, CYAML_UNLIMITED)};

#endif
