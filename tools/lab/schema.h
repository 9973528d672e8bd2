/* schema.h: the experiment file's schema for libcyaml. */
#ifndef DZ_LAB_SCHEMA_H
#define DZ_LAB_SCHEMA_H

#include <cyaml/cyaml.h>

extern const cyaml_schema_value_t dz_lab_schema;

#endif
