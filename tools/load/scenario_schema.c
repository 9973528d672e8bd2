/* The scenario file's schema. Numbers are read as text: libcyaml takes "5x" for 5, and durations
 * have units; scenario.c turns them into numbers and can say which line is wrong. */
#include "load/scenario_file.h"

#define TEXT(key, type, member)                                                                    \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER, type, member, 1, CYAML_UNLIMITED)
#define OPTIONAL(key, type, member)                                                                \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, member, 0,         \
                           CYAML_UNLIMITED)
#define LIST(key, flags, type, member, entry, min)                                                 \
    CYAML_FIELD_SEQUENCE(key, CYAML_FLAG_POINTER | (flags), type, member, entry, min,              \
                         CYAML_UNLIMITED)

static const cyaml_schema_value_t text_value = {
    CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 1, CYAML_UNLIMITED)};

static const cyaml_schema_field_t endpoint_fields[] = {
    OPTIONAL("name", scenario_endpoint, name),
    TEXT("path", scenario_endpoint, path),
    OPTIONAL("method", scenario_endpoint, method),
    OPTIONAL("body", scenario_endpoint, body),
    OPTIONAL("body_file", scenario_endpoint, body_file),
    OPTIONAL("weight", scenario_endpoint, weight),
    OPTIONAL("connections", scenario_endpoint, connections),
    OPTIONAL("rate", scenario_endpoint, rate),
    OPTIONAL("expect_status", scenario_endpoint, expect_status),
    OPTIONAL("expect_body", scenario_endpoint, expect_body),
    LIST("headers", CYAML_FLAG_OPTIONAL, scenario_endpoint, headers, &text_value, 0),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t endpoint_value = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, scenario_endpoint, endpoint_fields)};

static const cyaml_schema_field_t phase_fields[] = {
    OPTIONAL("name", scenario_phase, name),
    OPTIONAL("duration", scenario_phase, duration),
    OPTIONAL("warmup", scenario_phase, warmup),
    OPTIONAL("amount", scenario_phase, amount),
    OPTIONAL("connections", scenario_phase, connections),
    OPTIONAL("rate", scenario_phase, rate),
    OPTIONAL("pipelining", scenario_phase, pipelining),
    OPTIONAL("timeout", scenario_phase, timeout),
    CYAML_FIELD_BOOL("open", CYAML_FLAG_OPTIONAL, scenario_phase, open),
    LIST("endpoints", CYAML_FLAG_OPTIONAL, scenario_phase, endpoints, &text_value, 0),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t phase_value = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, scenario_phase, phase_fields)};

static const cyaml_schema_field_t file_fields[] = {
    OPTIONAL("title", scenario_file, title),
    OPTIONAL("base", scenario_file, base),
    OPTIONAL("data", scenario_file, data),
    LIST("headers", CYAML_FLAG_OPTIONAL, scenario_file, headers, &text_value, 0),
    LIST("endpoints", 0, scenario_file, endpoints, &endpoint_value, 1),
    LIST("phases", CYAML_FLAG_OPTIONAL, scenario_file, phases, &phase_value, 0),
    CYAML_FIELD_END,
};

const cyaml_schema_value_t load_scenario_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, scenario_file, file_fields)};
