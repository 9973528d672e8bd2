#include "text/json_write.h"

static int grow_buffer(dz_buf *out, size_t cap, void *context)
{
    (void)context;
    return dz_buf_reserve(out, cap);
}

void dz_json_init(dz_json *json, dz_buf *out, unsigned options)
{
    dz_json_init_grow(json, out, options, grow_buffer, NULL);
}

void dz_json_init_grow(dz_json *json, dz_buf *out, unsigned options, dz_json_grow *grow,
                       void *context)
{
    *json = (dz_json){.out = out, .grow = grow, .context = context, .options = options};
}

int dz_json_finish(dz_json *json)
{
    if (json->depth != 0 || json->after_key || !json->comma)
        dz_json_fail(json, DZ_E_STATE);
    return json->error;
}

char *dz_json_room(dz_json *json, size_t len)
{
    if (json->error != 0)
        return NULL;
    dz_buf *out = json->out;
    if (len > SIZE_MAX - out->len) {
        dz_json_fail(json, DZ_E_NOMEM);
        return NULL;
    }
    if (out->len + len > out->cap) {
        int rc = json->grow(out, out->len + len, json->context);
        if (rc < 0) {
            dz_json_fail(json, rc);
            return NULL;
        }
    }
    return out->data + out->len;
}

void dz_json_append(dz_json *json, dz_slice bytes)
{
    if (bytes.len == 0)
        return;
    char *to = dz_json_room(json, bytes.len);
    if (!to)
        return;
    memcpy(to, bytes.ptr, bytes.len);
    json->out->len += bytes.len;
}

static bool in_object(const dz_json *json)
{
    return json->depth > 0 && json->objects >> (json->depth - 1) & 1;
}

bool dz_json_begin_value(dz_json *json)
{
    if (json->error != 0)
        return false;
    bool one_too_many = json->depth == 0 && json->comma;
    if (one_too_many || in_object(json) != json->after_key) {
        dz_json_fail(json, DZ_E_STATE);
        return false;
    }
    if (json->comma && !json->after_key)
        dz_json_append(json, DZ_LIT(","));
    json->after_key = false;
    json->comma = true;
    return json->error == 0;
}

static void open_structure(dz_json *json, bool object)
{
    if (!dz_json_begin_value(json))
        return;
    if (json->depth == DZ_JSON_DEPTH) {
        dz_json_fail(json, DZ_E_TOO_LARGE);
        return;
    }
    uint64_t bit = UINT64_C(1) << json->depth++;
    json->objects = object ? json->objects | bit : json->objects & ~bit;
    json->comma = false;
    dz_json_append(json, object ? DZ_LIT("{") : DZ_LIT("["));
}

static void close_structure(dz_json *json, bool object)
{
    if (json->depth == 0 || in_object(json) != object || json->after_key) {
        dz_json_fail(json, DZ_E_STATE);
        return;
    }
    json->depth--;
    json->comma = true;
    dz_json_append(json, object ? DZ_LIT("}") : DZ_LIT("]"));
}

void dz_json_object_open(dz_json *json)
{
    open_structure(json, true);
}

void dz_json_object_close(dz_json *json)
{
    close_structure(json, true);
}

void dz_json_array_open(dz_json *json)
{
    open_structure(json, false);
}

void dz_json_array_close(dz_json *json)
{
    close_structure(json, false);
}

static void append_quoted(dz_json *json, dz_slice text)
{
    dz_json_append(json, DZ_LIT("\""));
    dz_json_escape(json, text);
    dz_json_append(json, DZ_LIT("\""));
}

void dz_json_key(dz_json *json, const char *name)
{
    dz_json_key_slice(json, dz_slice_of(name));
}

void dz_json_key_slice(dz_json *json, dz_slice name)
{
    if (json->error != 0)
        return;
    if (!in_object(json) || json->after_key) {
        dz_json_fail(json, DZ_E_STATE);
        return;
    }
    if (json->comma)
        dz_json_append(json, DZ_LIT(","));
    append_quoted(json, name);
    dz_json_append(json, DZ_LIT(":"));
    json->after_key = true;
}

void dz_json_string(dz_json *json, dz_slice text)
{
    if (dz_json_begin_value(json))
        append_quoted(json, text);
}

void dz_json_raw(dz_json *json, dz_slice text)
{
    if (dz_json_begin_value(json))
        dz_json_append(json, text);
}

void dz_json_bool(dz_json *json, bool value)
{
    dz_json_raw(json, value ? DZ_LIT("true") : DZ_LIT("false"));
}

void dz_json_null(dz_json *json)
{
    dz_json_raw(json, DZ_LIT("null"));
}

void dz_json_int(dz_json *json, int64_t value)
{
    char *to = dz_json_begin_value(json) ? dz_json_room(json, DZ_JSON_NUMBER) : NULL;
    if (to)
        json->out->len += dz_json_put_int(to, value);
}

void dz_json_uint(dz_json *json, uint64_t value)
{
    char *to = dz_json_begin_value(json) ? dz_json_room(json, DZ_JSON_NUMBER) : NULL;
    if (to)
        json->out->len += dz_json_put_uint(to, value);
}

void dz_json_double(dz_json *json, double value)
{
    char *to = dz_json_begin_value(json) ? dz_json_room(json, DZ_JSON_NUMBER) : NULL;
    if (to)
        json->out->len += dz_json_put_double(to, value);
}
