#include "text/json_write.h"

#include <math.h>
#include <stdio.h>

typedef struct conversion {
    char kind;    /* the letter that ends it */
    char size[3]; /* hh h l ll z j t, or nothing */
    bool has_precision;
    int precision;
} conversion;

/* The analyzer does not see that a va_list copied by the caller is initialized, and finds branches
 * alike whose types happen to have one size here. */
/* NOLINTBEGIN(clang-analyzer-valist.Uninitialized, bugprone-branch-clone) */

/* Reads what follows a '%'; returns what comes after, NULL when the conversion is not supported. */
static const char *parse_conversion(conversion *conv, const char *at, va_list *args)
{
    *conv = (conversion){0};
    if (*at == '.') {
        conv->has_precision = true;
        at++;
        if (*at == '*') {
            conv->precision = va_arg(*args, int);
            /* As in C: a negative precision counts as none. */
            conv->has_precision = conv->precision >= 0;
            at++;
        }
        for (; *at >= '0' && *at <= '9'; at++) {
            if (conv->precision > 99999999)
                return NULL;
            conv->precision = conv->precision * 10 + (*at - '0');
        }
    }
    for (size_t i = 0; *at != '\0' && strchr("hlzjt", *at); i++) {
        if (i == 2 || (i == 1 && (*at != conv->size[0] || !strchr("hl", *at))))
            return NULL;
        conv->size[i] = *at++;
    }
    conv->kind = *at;
    if (*at == '\0' || !strchr("diufegsc%", *at))
        return NULL;
    if (conv->has_precision && !strchr("fegs", *at))
        return NULL;
    /* %lf is a double like %f; a wide string or character is not supported. */
    bool plain = conv->size[0] == '\0' || (strchr("feg", *at) && strcmp(conv->size, "l") == 0);
    if (strchr("fegsc%", *at) && !plain)
        return NULL;
    return at + 1;
}

static int64_t signed_argument(const conversion *conv, va_list *args)
{
    switch (conv->size[0]) {
    case 'h': {
        int value = va_arg(*args, int);
        return conv->size[1] ? (signed char)value : (short)value;
    }
    case 'l':
        return conv->size[1] ? va_arg(*args, long long) : va_arg(*args, long);
    case 'z':
        return va_arg(*args, ssize_t);
    case 'j':
        return va_arg(*args, intmax_t);
    case 't':
        return va_arg(*args, ptrdiff_t);
    default:
        return va_arg(*args, int);
    }
}

static uint64_t unsigned_argument(const conversion *conv, va_list *args)
{
    switch (conv->size[0]) {
    case 'h': {
        unsigned value = va_arg(*args, unsigned);
        return conv->size[1] ? (unsigned char)value : (unsigned short)value;
    }
    case 'l':
        return conv->size[1] ? va_arg(*args, unsigned long long) : va_arg(*args, unsigned long);
    case 'z':
        return va_arg(*args, size_t);
    case 'j':
        return va_arg(*args, uintmax_t);
    case 't':
        return (uint64_t)va_arg(*args, ptrdiff_t);
    default:
        return va_arg(*args, unsigned);
    }
}

/* Replaces a locale's decimal separator, which may be several bytes, by a point. */
static size_t make_point(char *text, size_t len)
{
    size_t to = 0;
    for (size_t i = 0; i < len; i++) {
        if (strchr("0123456789+-e", text[i]))
            text[to++] = text[i];
        else if (to > 0 && text[to - 1] != '.')
            text[to++] = '.';
    }
    return to;
}

static void append_double(dz_json *json, const conversion *conv, double value)
{
    if (!conv->has_precision || !isfinite(value)) {
        char *to = dz_json_room(json, DZ_JSON_NUMBER);
        if (to)
            json->out->len += dz_json_put_double(to, value);
        return;
    }
    if (conv->precision > 40) {
        dz_json_fail(json, DZ_E_INVALID);
        return;
    }
    char text[400]; /* 309 digits before the point, 40 after */
    int len = 0;
    if (conv->kind == 'f')
        len = snprintf(text, sizeof text, "%.*f", conv->precision, value);
    else if (conv->kind == 'e')
        len = snprintf(text, sizeof text, "%.*e", conv->precision, value);
    else
        len = snprintf(text, sizeof text, "%.*g", conv->precision, value);
    dz_json_append(json, dz_slice_make(text, make_point(text, (size_t)len)));
}

static void append_text(dz_json *json, bool quoted, const char *text, size_t len)
{
    if (!text) {
        if (!quoted)
            dz_json_append(json, DZ_LIT("null"));
        return;
    }
    if (!quoted)
        dz_json_append(json, DZ_LIT("\""));
    dz_json_escape(json, dz_slice_make(text, len));
    if (!quoted)
        dz_json_append(json, DZ_LIT("\""));
}

static void append_string(dz_json *json, const conversion *conv, bool quoted, const char *text)
{
    size_t len = 0;
    if (text)
        len = conv->has_precision ? strnlen(text, (size_t)conv->precision) : strlen(text);
    append_text(json, quoted, text, len);
}

static void append_conversion(dz_json *json, const conversion *conv, bool quoted, va_list *args)
{
    char *to;
    switch (conv->kind) {
    case 'd':
    case 'i':
        to = dz_json_room(json, DZ_JSON_NUMBER);
        if (to)
            json->out->len += dz_json_put_int(to, signed_argument(conv, args));
        break;
    case 'u':
        to = dz_json_room(json, DZ_JSON_NUMBER);
        if (to)
            json->out->len += dz_json_put_uint(to, unsigned_argument(conv, args));
        break;
    case 's':
        append_string(json, conv, quoted, va_arg(*args, const char *));
        break;
    case 'c': {
        char c = (char)va_arg(*args, int);
        append_text(json, quoted, &c, 1);
        break;
    }
    case '%':
        dz_json_append(json, DZ_LIT("%"));
        break;
    default:
        append_double(json, conv, va_arg(*args, double));
    }
}

/* NOLINTEND(clang-analyzer-valist.Uninitialized, bugprone-branch-clone) */

/* Copies the format up to a conversion, following whether it is inside a string. */
static const char *copy_literal(dz_json *json, const char *at, bool *quoted)
{
    const char *start = at;
    for (; *at != '\0' && *at != '%'; at++) {
        if (*at == '"')
            *quoted = !*quoted;
        else if (*at == '\\' && *quoted && at[1] != '\0' && at[1] != '%')
            at++;
    }
    dz_json_append(json, dz_slice_make(start, (size_t)(at - start)));
    return at;
}

void dz_json_vformat(dz_json *json, const char *format, va_list list)
{
    if (!dz_json_begin_value(json))
        return;
    va_list args; /* list itself may be an array's address, which &list would not point to */
    va_copy(args, list);
    bool quoted = false;
    const char *at = copy_literal(json, format, &quoted);
    while (*at == '%' && json->error == 0) {
        conversion conv;
        at = parse_conversion(&conv, at + 1, &args);
        if (!at) {
            dz_json_fail(json, DZ_E_INVALID);
            break;
        }
        append_conversion(json, &conv, quoted, &args);
        at = copy_literal(json, at, &quoted);
    }
    if (quoted)
        dz_json_fail(json, DZ_E_INVALID);
    va_end(args);
}

void dz_json_format(dz_json *json, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    dz_json_vformat(json, format, args);
    va_end(args);
}
