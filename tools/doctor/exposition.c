#include "exposition.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LABELS = 8, VALUE = 96 };

typedef struct sample {
    dz_slice name;
    struct {
        dz_slice name;
        char value[VALUE]; /* unescaped, perhaps cut */
    } labels[LABELS];
    size_t label_count;
    double value;
} sample;

static char take(dz_slice *text)
{
    char c = *text->ptr;
    text->ptr++;
    text->len--;
    return c;
}

static dz_slice take_until(dz_slice *text, const char *stop)
{
    size_t len = 0;
    while (len < text->len && !strchr(stop, text->ptr[len]))
        len++;
    dz_slice word = dz_slice_make(text->ptr, len);
    text->ptr += len;
    text->len -= len;
    return word;
}

/* From behind the opening quote to behind the closing one. */
static bool take_value(dz_slice *text, char *out)
{
    size_t n = 0;
    while (text->len > 0) {
        char c = take(text);
        if (c == '"') {
            out[n] = '\0';
            return true;
        }
        if (c == '\\' && text->len > 0) {
            c = take(text);
            if (c == 'n')
                c = '\n';
        }
        if (n + 1 < VALUE)
            out[n++] = c;
    }
    return false;
}

static bool take_labels(dz_slice *text, sample *s)
{
    while (text->len > 0 && text->ptr[0] != '}') {
        dz_slice name = take_until(text, "=");
        if (text->len < 2 || text->ptr[1] != '"')
            return false;
        text->ptr += 2;
        text->len -= 2;
        char rest[VALUE];
        bool room = s->label_count < LABELS;
        if (!take_value(text, room ? s->labels[s->label_count].value : rest))
            return false;
        if (room)
            s->labels[s->label_count++].name = name;
        if (text->len > 0 && text->ptr[0] == ',')
            take(text);
    }
    if (text->len == 0)
        return false;
    take(text);
    return true;
}

/* name{a="b"} 1 */
static bool parse(dz_slice line, sample *s)
{
    s->label_count = 0;
    s->name = take_until(&line, "{ ");
    if (line.len > 0 && line.ptr[0] == '{') {
        take(&line);
        if (!take_labels(&line, s))
            return false;
    }
    char number[40], *end;
    if (line.len < 2 || line.len >= sizeof number)
        return false;
    memcpy(number, line.ptr, line.len);
    number[line.len] = '\0';
    s->value = strtod(number, &end);
    return end != number && isfinite(s->value) && s->value >= 0;
}

static const char *label(const sample *s, const char *name)
{
    for (size_t i = 0; i < s->label_count; i++)
        if (dz_slice_equal(s->labels[i].name, dz_slice_of(name)))
            return s->labels[i].value;
    return "";
}

static unsigned number_of(const sample *s, const char *name)
{
    return (unsigned)strtoul(label(s, name), NULL, 10);
}

static dz_expo_loop *loop_of(dz_exposition *out, const sample *s)
{
    unsigned worker = number_of(s, "worker"), loop = number_of(s, "loop");
    for (size_t i = 0; i < out->loop_count; i++)
        if (out->loops[i].worker == worker && out->loops[i].loop == loop)
            return &out->loops[i];
    if (out->loop_count == DZ_EXPO_LOOPS)
        return NULL;
    dz_expo_loop *l = &out->loops[out->loop_count++];
    *l = (dz_expo_loop){.worker = worker, .loop = loop};
    return l;
}

static dz_expo_route *route_of(dz_exposition *out, const sample *s)
{
    const char *route = label(s, "route"), *method = label(s, "method");
    char name[DZ_EXPO_NAME];
    snprintf(name, sizeof name, "%s %s", method, route);
    for (size_t i = 0; i < out->route_count; i++)
        if (strcmp(out->routes[i].name, name) == 0)
            return &out->routes[i];
    if (out->route_count == DZ_EXPO_ROUTES)
        return NULL;
    dz_expo_route *r = &out->routes[out->route_count++];
    *r = (dz_expo_route){0};
    memcpy(r->name, name, sizeof name);
    return r;
}

static void add_to_loop(dz_exposition *out, const sample *s, dz_slice what)
{
    dz_expo_loop *l = loop_of(out, s);
    if (!l)
        return;
    if (dz_slice_equal(what, DZ_LIT("delay_seconds")))
        l->delay_ms = s->value * 1e3;
    else if (dz_slice_equal(what, DZ_LIT("lag_seconds_count")))
        l->lags = s->value;
    else if (dz_slice_equal(what, DZ_LIT("lag_seconds_sum")))
        l->lag_ms = s->value * 1e3;
    else if (dz_slice_equal(what, DZ_LIT("stall_seconds_count")))
        l->stalls = s->value;
    else if (dz_slice_equal(what, DZ_LIT("stall_seconds_sum")))
        l->stall_ms = s->value * 1e3;
    else if (dz_slice_equal(what, DZ_LIT("rescues_total")))
        l->rescues = s->value;
    else if (dz_slice_equal(what, DZ_LIT("stall_seconds_bucket")) &&
             fabs(strtod(label(s, "le"), NULL) * 1e3 - DZ_EXPO_STALL_MS) < 0.01)
        l->short_stalls = s->value;
}

static void add_to_route(dz_exposition *out, const sample *s, dz_slice what)
{
    dz_expo_route *r = route_of(out, s);
    if (!r)
        return;
    if (dz_slice_equal(what, DZ_LIT("handler_seconds_total")))
        r->handler_ms += s->value * 1e3;
    else if (dz_slice_equal(what, DZ_LIT("cpu_seconds_total")))
        r->cpu_ms += s->value * 1e3;
    else if (dz_slice_equal(what, DZ_LIT("cpu_squared_seconds_total")))
        r->cpu_ms_squared += s->value * 1e6;
    else if (dz_slice_equal(what, DZ_LIT("rescues_total")))
        r->rescues += s->value;
    else if (dz_slice_equal(what, DZ_LIT("class")))
        r->klass = (int)s->value > r->klass ? (int)s->value : r->klass;
    else if (dz_slice_equal(what, DZ_LIT("request_duration_seconds_sum")))
        r->duration_ms += s->value * 1e3;
    else if (dz_slice_equal(what, DZ_LIT("request_duration_seconds_count")))
        r->requests += s->value;
}

static bool begins(dz_slice *name, dz_slice with)
{
    if (name->len < with.len || memcmp(name->ptr, with.ptr, with.len) != 0)
        return false;
    name->ptr += with.len;
    name->len -= with.len;
    return true;
}

static void add(dz_exposition *out, const sample *s)
{
    dz_slice name = s->name;
    if (!begins(&name, DZ_LIT("donmaz_")))
        return;
    if (dz_slice_equal(name, DZ_LIT("shed_refused_total")))
        out->refused += s->value;
    else if (dz_slice_equal(name, DZ_LIT("pool_queued")))
        out->queued += s->value;
    else if (dz_slice_equal(name, DZ_LIT("http_requests_in_flight")))
        out->in_flight += s->value;
    else if (begins(&name, DZ_LIT("loop_")))
        add_to_loop(out, s, name);
    else if (begins(&name, DZ_LIT("route_")) || begins(&name, DZ_LIT("http_")))
        if (label(s, "route")[0] && label(s, "method")[0])
            add_to_route(out, s, name);
}

void dz_exposition_read(dz_exposition *out, dz_slice text)
{
    out->loop_count = out->route_count = 0;
    out->refused = out->queued = out->in_flight = 0;
    while (text.len > 0) {
        dz_slice line = take_until(&text, "\n");
        if (text.len > 0)
            take(&text);
        sample s;
        if (line.len > 0 && line.ptr[0] != '#' && parse(line, &s))
            add(out, &s);
    }
    size_t kept = 0; /* every route is shown, asked for or not */
    for (size_t i = 0; i < out->route_count; i++)
        if (out->routes[i].requests > 0 || out->routes[i].cpu_ms > 0)
            out->routes[kept++] = out->routes[i];
    out->route_count = kept;
}
