#include "load/form.h"

#include "common/file.h"

#include "load/build.h"

#include <donmaz/error.h>

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/random.h>

typedef struct form {
    dz_buf *body;
    char boundary[48];
    char *why;
    size_t why_size;
} form;

static int invalid(form *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int invalid(form *f, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(f->why, f->why_size, format, args);
    va_end(args);
    return DZ_E_FORMAT;
}

static int append(form *f, const char *text)
{
    return dz_buf_append(f->body, dz_slice_of(text));
}

/* A name in a quoted parameter: RFC 7578 4.2 leaves escaping to what browsers do. */
static int append_quoted(form *f, const char *text)
{
    int rc = append(f, "\"");
    for (; *text && rc == 0; text++)
        rc = *text == '"'    ? append(f, "%22")
             : *text == '\r' ? append(f, "%0D")
             : *text == '\n' ? append(f, "%0A")
                             : dz_buf_append(f->body, dz_slice_make(text, 1));
    return rc < 0 ? rc : append(f, "\"");
}

static int begin_part(form *f, const char *name)
{
    int rc = append(f, "--");
    if (rc == 0)
        rc = append(f, f->boundary);
    if (rc == 0)
        rc = append(f, "\r\nContent-Disposition: form-data; name=");
    return rc < 0 ? rc : append_quoted(f, name);
}

static int add_text(form *f, const char *name, json_t *field)
{
    json_t *value = json_object_get(field, "value");
    if (!json_is_string(value))
        return invalid(f, "field '%s' of type text needs a string \"value\"", name);
    int rc = begin_part(f, name);
    if (rc == 0)
        rc = append(f, "\r\n\r\n");
    if (rc == 0)
        rc = dz_buf_append(f->body,
                           dz_slice_make(json_string_value(value), json_string_length(value)));
    return rc < 0 ? rc : append(f, "\r\n");
}

static int add_file(form *f, const char *name, json_t *field)
{
    const char *path = json_string_value(json_object_get(field, "path"));
    if (!path)
        return invalid(f, "field '%s' of type file needs a string \"path\"", name);
    json_t *options = json_object_get(field, "options");
    const char *shown = json_string_value(json_object_get(options, "filepath"));
    if (!shown)
        shown = json_string_value(json_object_get(options, "filename"));
    const char *slash = strrchr(path, '/');
    if (!shown)
        shown = slash ? slash + 1 : path;
    int rc = begin_part(f, name);
    if (rc == 0)
        rc = append(f, "; filename=");
    if (rc == 0)
        rc = append_quoted(f, shown);
    if (rc == 0)
        rc = append(f, "\r\nContent-Type: application/octet-stream\r\n\r\n");
    if (rc == 0 && dz_file_read(path, f->body) < 0)
        return invalid(f, "can't read '%s'", path);
    return rc < 0 ? rc : append(f, "\r\n");
}

static int add_field(form *f, const char *name, json_t *field)
{
    const char *type = json_string_value(json_object_get(field, "type"));
    if (type && dz_slice_equal(dz_slice_of(type), DZ_LIT("text")))
        return add_text(f, name, field);
    if (type && dz_slice_equal(dz_slice_of(type), DZ_LIT("file")))
        return add_file(f, name, field);
    return invalid(f, "field '%s' needs a \"type\": \"text\" or \"file\"", name);
}

static int add_fields(form *f, json_t *fields)
{
    const char *name;
    json_t *field;
    int rc = 0;
    json_object_foreach(fields, name, field)
    {
        if (rc == 0)
            rc = add_field(f, name, field);
    }
    if (rc == 0)
        rc = append(f, "--");
    if (rc == 0)
        rc = append(f, f->boundary);
    return rc < 0 ? rc : append(f, "--\r\n");
}

int load_form_build(const char *description, dz_buf *body, char *content_type, size_t type_size,
                    char *why, size_t why_size)
{
    form f = {.body = body, .why = why, .why_size = why_size};
    uint64_t random[2] = {1, 2};
    ssize_t got = getrandom(random, sizeof random, 0);
    (void)got; /* a boundary need only be unlikely in the data */
    snprintf(f.boundary, sizeof f.boundary, "donmaz-%016" PRIx64 "%016" PRIx64, random[0],
             random[1]);
    snprintf(content_type, type_size, "multipart/form-data; boundary=%s", f.boundary);
    json_error_t error;
    json_t *fields = strchr(description, '{') ? json_loads(description, 0, &error)
                                              : json_load_file(description, 0, &error);
    if (!fields)
        return invalid(&f, "%s", error.text);
    int rc = json_is_object(fields) ? add_fields(&f, fields)
                                    : invalid(&f, "'%s' is no JSON object", description);
    json_decref(fields);
    return rc;
}
