/* scenario_file.h: what stands in a scenario file, as text. Private to scenario*.c. */
#ifndef DZ_LOAD_SCENARIO_FILE_H
#define DZ_LOAD_SCENARIO_FILE_H

#include <cyaml/cyaml.h>
#include <stdbool.h>

typedef struct scenario_endpoint {
    char *name, *path, *method, *body, *body_file;
    char *weight, *connections, *rate;
    char *expect_status, *expect_body;
    char **headers;
    unsigned headers_count;
} scenario_endpoint;

typedef struct scenario_phase {
    char *name, *duration, *warmup, *amount, *connections, *rate, *pipelining, *timeout;
    bool open;
    char **endpoints; /* names; none: all */
    unsigned endpoints_count;
} scenario_phase;

typedef struct scenario_file {
    char *title, *base, *data;
    char **headers;
    unsigned headers_count;
    scenario_endpoint *endpoints;
    unsigned endpoints_count;
    scenario_phase *phases;
    unsigned phases_count;
} scenario_file;

extern const cyaml_schema_value_t load_scenario_schema;

#endif
