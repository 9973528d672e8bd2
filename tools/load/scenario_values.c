/* Values of a scenario file: read as text, turned into numbers here, where the line is known. */
#include "load/scenario_reader.h"

#include "common/values.h"

#include <stdio.h>

int scenario_wrong(const scenario_reader *r, const char *key, const char *value, const char *wanted)
{
    unsigned line = dz_yaml_line(r->text, 1, dz_slice_of(key), value);
    return dz_usage(LOAD_TOOL, "%s:%u: %s: %s, not '%s'", r->cli->scenario, line, key, wanted,
                    value);
}

int scenario_out_of_memory(void)
{
    return dz_usage(LOAD_TOOL, "out of memory");
}

int scenario_count(const scenario_reader *r, const char *key, const char *text, uint64_t min,
                   uint64_t max, uint64_t *out)
{
    uint64_t value;
    if (!text)
        return DZ_OPTIONS_OK;
    if (dz_read_count(dz_slice_of(text), &value) < 0 || value < min || value > max) {
        char wanted[80];
        snprintf(wanted, sizeof wanted, "must be a whole number from %llu to %llu",
                 (unsigned long long)min, (unsigned long long)max);
        return scenario_wrong(r, key, text, wanted);
    }
    *out = value;
    return DZ_OPTIONS_OK;
}

int scenario_duration(const scenario_reader *r, const char *key, const char *text, uint64_t *out)
{
    if (text && dz_read_duration(dz_slice_of(text), out) < 0)
        return scenario_wrong(r, key, text, "must be a duration such as 10s, 500ms or 2m");
    return DZ_OPTIONS_OK;
}

int scenario_rate(const scenario_reader *r, const char *text, double *out)
{
    if (text && (dz_read_number(dz_slice_of(text), out) < 0 || *out <= 0 || *out > 1e7))
        return scenario_wrong(r, "rate", text,
                              "must be a number of requests a second up to 10000000");
    return DZ_OPTIONS_OK;
}
