/* The scenario file's schema. */
#include "common/yaml_schema.h"
#include "load/scenario_file.h"

static const cyaml_schema_field_t endpoint_fields[] = {
    OPTIONAL_TEXT("name", scenario_endpoint, name),
    TEXT("path", scenario_endpoint, path),
    OPTIONAL_TEXT("method", scenario_endpoint, method),
    OPTIONAL_TEXT("body", scenario_endpoint, body),
    OPTIONAL_TEXT("body_file", scenario_endpoint, body_file),
    OPTIONAL_TEXT("weight", scenario_endpoint, weight),
    OPTIONAL_TEXT("connections", scenario_endpoint, connections),
    OPTIONAL_TEXT("rate", scenario_endpoint, rate),
    OPTIONAL_TEXT("expect_status", scenario_endpoint, expect_status),
    OPTIONAL_TEXT("expect_body", scenario_endpoint, expect_body),
    LIST("headers", scenario_endpoint, headers, &text_value, 0),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t endpoint_value = MAP(scenario_endpoint, endpoint_fields);

static const cyaml_schema_field_t phase_fields[] = {
    OPTIONAL_TEXT("name", scenario_phase, name),
    OPTIONAL_TEXT("duration", scenario_phase, duration),
    OPTIONAL_TEXT("warmup", scenario_phase, warmup),
    OPTIONAL_TEXT("amount", scenario_phase, amount),
    OPTIONAL_TEXT("connections", scenario_phase, connections),
    OPTIONAL_TEXT("rate", scenario_phase, rate),
    OPTIONAL_TEXT("pipelining", scenario_phase, pipelining),
    OPTIONAL_TEXT("timeout", scenario_phase, timeout),
    CYAML_FIELD_BOOL("open", CYAML_FLAG_OPTIONAL, scenario_phase, open),
    LIST("endpoints", scenario_phase, endpoints, &text_value, 0),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t phase_value = MAP(scenario_phase, phase_fields);

static const cyaml_schema_field_t file_fields[] = {
    OPTIONAL_TEXT("title", scenario_file, title),
    OPTIONAL_TEXT("base", scenario_file, base),
    OPTIONAL_TEXT("data", scenario_file, data),
    LIST("headers", scenario_file, headers, &text_value, 0),
    LIST("endpoints", scenario_file, endpoints, &endpoint_value, 1),
    LIST("phases", scenario_file, phases, &phase_value, 0),
    CYAML_FIELD_END,
};

const cyaml_schema_value_t load_scenario_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, scenario_file, file_fields)};
