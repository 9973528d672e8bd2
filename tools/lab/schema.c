#include "schema.h"

#include "common/yaml_schema.h"
#include "experiment.h"

static const cyaml_schema_field_t endpoint_fields[] = {
    TEXT("path", dz_lab_endpoint, path),
    OPTIONAL_TEXT("connections", dz_lab_endpoint, connections_text),
    OPTIONAL_TEXT("work_ms", dz_lab_endpoint, work_text),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t endpoint_value = MAP(dz_lab_endpoint, endpoint_fields);

static const cyaml_schema_field_t phase_fields[] = {
    TEXT("name", dz_lab_phase, name),
    TEXT("duration", dz_lab_phase, duration_text),
    OPTIONAL_TEXT("warmup", dz_lab_phase, warmup_text),
    OPTIONAL_TEXT("quick_duration", dz_lab_phase, quick_duration_text),
    OPTIONAL_TEXT("quick_warmup", dz_lab_phase, quick_warmup_text),
    OPTIONAL_TEXT("rate", dz_lab_phase, rate_text),
    OPTIONAL_TEXT("rate_of", dz_lab_phase, rate_of),
    OPTIONAL_TEXT("rate_times", dz_lab_phase, rate_times_text),
    CYAML_FIELD_BOOL("success_only", CYAML_FLAG_OPTIONAL, dz_lab_phase, success_only),
    OPTIONAL_TEXT("pipelining", dz_lab_phase, pipelining_text),
    LIST("endpoints", dz_lab_phase, endpoints, &endpoint_value, 1),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t phase_value = MAP(dz_lab_phase, phase_fields);

static const cyaml_schema_field_t need_fields[] = {
    OPTIONAL_TEXT("executable", dz_lab_need, executable),
    OPTIONAL_TEXT("file", dz_lab_need, file),
    OPTIONAL_TEXT("script", dz_lab_need, script),
    OPTIONAL_TEXT("hint", dz_lab_need, hint),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t need_value = MAP(dz_lab_need, need_fields);

static const cyaml_schema_field_t version_fields[] = {
    TEXT("name", dz_lab_version, name),
    OPTIONAL_TEXT("command", dz_lab_version, command),
    OPTIONAL_TEXT("package", dz_lab_version, package),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t version_value = MAP(dz_lab_version, version_fields);

static const cyaml_schema_field_t ready_fields[] = {
    OPTIONAL_TEXT("http", dz_lab_ready, http),
    CYAML_FIELD_BOOL("connect", CYAML_FLAG_OPTIONAL, dz_lab_ready, connect),
    OPTIONAL_TEXT("within", dz_lab_ready, within_text),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t stack_fields[] = {
    TEXT("name", dz_lab_stack, name),
    TEXT("command", dz_lab_stack, command),
    OPTIONAL_TEXT("cwd", dz_lab_stack, cwd),
    LIST("environment", dz_lab_stack, environment, &text_value, 0),
    CYAML_FIELD_MAPPING("ready", CYAML_FLAG_OPTIONAL, dz_lab_stack, ready, ready_fields),
    LIST("needs", dz_lab_stack, needs, &need_value, 0),
    LIST("versions", dz_lab_stack, versions, &version_value, 0),
    LIST("services", dz_lab_stack, services, &text_value, 0),
    OPTIONAL_TEXT("port", dz_lab_stack, port_text),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t stack_value = MAP(dz_lab_stack, stack_fields);

static const cyaml_schema_field_t row_fields[] = {
    TEXT("metric", dz_lab_row, metric),
    OPTIONAL_TEXT("phase", dz_lab_row, phase),
    OPTIONAL_TEXT("path", dz_lab_row, path),
    OPTIONAL_TEXT("label", dz_lab_row, label),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t row_value = MAP(dz_lab_row, row_fields);

static const cyaml_schema_field_t check_fields[] = {
    TEXT("path", dz_lab_check, path),
    OPTIONAL_TEXT("body", dz_lab_check, body),
    OPTIONAL_TEXT("type", dz_lab_check, type),
    LIST("headers", dz_lab_check, headers, &text_value, 0),
    OPTIONAL_TEXT("status", dz_lab_check, status_text),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t check_value = MAP(dz_lab_check, check_fields);

static const cyaml_schema_field_t best_fields[] = {
    TEXT("stacks", dz_lab_best, stacks),
    TEXT("metric", dz_lab_best, metric),
    OPTIONAL_TEXT("phase", dz_lab_best, phase),
    OPTIONAL_TEXT("path", dz_lab_best, path),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t expect_fields[] = {
    TEXT("stack", dz_lab_expect, stack),
    TEXT("metric", dz_lab_expect, metric),
    OPTIONAL_TEXT("phase", dz_lab_expect, phase),
    OPTIONAL_TEXT("path", dz_lab_expect, path),
    OPTIONAL_TEXT("against", dz_lab_expect, against),
    OPTIONAL_TEXT("against_phase", dz_lab_expect, against_phase),
    OPTIONAL_TEXT("at_most", dz_lab_expect, at_most_text),
    OPTIONAL_TEXT("at_least", dz_lab_expect, at_least_text),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t expect_value = MAP(dz_lab_expect, expect_fields);

static const cyaml_schema_field_t experiment_fields[] = {
    TEXT("title", dz_lab_experiment, title),
    OPTIONAL_TEXT("description", dz_lab_experiment, description),
    OPTIONAL_TEXT("root", dz_lab_experiment, root),
    OPTIONAL_TEXT("repeats", dz_lab_experiment, repeats_text),
    OPTIONAL_TEXT("startups", dz_lab_experiment, startups_text),
    OPTIONAL_TEXT("settle", dz_lab_experiment, settle_text),
    LIST("phases", dz_lab_experiment, phases, &phase_value, 1),
    LIST("stacks", dz_lab_experiment, stacks, &stack_value, 1),
    LIST("table", dz_lab_experiment, table, &row_value, 0),
    LIST("checks", dz_lab_experiment, checks, &check_value, 0),
    CYAML_FIELD_MAPPING("best", CYAML_FLAG_OPTIONAL, dz_lab_experiment, best, best_fields),
    LIST("expect", dz_lab_experiment, expect, &expect_value, 0),
    CYAML_FIELD_END,
};

const cyaml_schema_value_t dz_lab_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, dz_lab_experiment, experiment_fields)};
