#include "tasks.h"

#include "catalogue.h"

#include <donmaz/json.h>

#include <inttypes.h>
#include <stdio.h>

static void post_rows(void *context, uint64_t rows)
{
    char text[48];
    int len = snprintf(text, sizeof text, "{\"rows\":%" PRIu64 "}", rows);
    /* When the owner is behind, a later report tells as much. */
    (void)dz_task_post(context, dz_slice_make(text, (size_t)len));
}

static bool is_cancelled(void *context)
{
    return dz_task_cancelled(context);
}

static int write_summary(const catalogue_result *result, dz_buf *out)
{
    dz_json json;
    dz_json_init(&json, out, 0);
    dz_json_object_open(&json);
    dz_json_key(&json, "ok");
    dz_json_bool(&json, true);
    dz_json_key(&json, "imported");
    dz_json_uint(&json, result->imported);
    dz_json_key(&json, "skipped");
    dz_json_uint(&json, result->skipped);
    dz_json_key(&json, "errors");
    dz_json_array_open(&json);
    for (size_t i = 0; i < result->error_count; i++)
        dz_json_format(&json, "{\"line\":%" PRIu64 ",\"column\":%" PRIu64 ",\"reason\":%s}",
                       result->errors[i].line, result->errors[i].column, result->errors[i].reason);
    dz_json_array_close(&json);
    dz_json_key(&json, "parseMs");
    dz_json_format(&json, "%.3f", result->parse_ms);
    dz_json_object_close(&json);
    return dz_json_finish(&json);
}

static int write_reason(const char *reason, dz_buf *out)
{
    dz_json json;
    dz_json_init(&json, out, 0);
    dz_json_format(&json, "{\"ok\":false,\"reason\":%s}", reason);
    int rc = dz_json_finish(&json);
    return rc < 0 ? rc : BAD_CATALOGUE;
}

int task_validate(dz_task *task, dz_buf *in, dz_buf *out)
{
    catalogue_result result;
    const catalogue_options options = {
        .progress = post_rows, .cancelled = is_cancelled, .context = task};
    int rc = catalogue_validate(dz_buf_slice(in), &options, &result);
    if (rc == DZ_E_FORMAT)
        return write_reason(result.reason, out);
    return rc < 0 ? rc : write_summary(&result, out);
}

int task_records(dz_task *task, dz_buf *in, dz_buf *out)
{
    catalogue_result result;
    const catalogue_options options = {.cancelled = is_cancelled, .context = task, .records = out};
    int rc = catalogue_validate(dz_buf_slice(in), &options, &result);
    return rc == DZ_E_FORMAT ? write_reason(result.reason, out) : rc;
}
