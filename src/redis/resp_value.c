#include "redis/resp_value.h"

#include "base/list.h"
#include "redis/blocks.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

static bool have_root(dz_resp *resp)
{
    if (resp->root)
        return true;
    resp->root = malloc(sizeof *resp->root);
    if (!resp->root)
        return false;
    resp->root->owners = NULL;
    dz_arena_init(&resp->root->arena, resp->root->first, sizeof resp->root->first);
    return true;
}

dz_reply *dz_resp_new_value(dz_resp *resp, dz_reply_kind kind, bool is_top)
{
    if (++resp->elements > resp->limits.elements ||
        sizeof(dz_reply) > resp->limits.bytes - resp->bytes) {
        resp->error = DZ_E_TOO_LARGE;
        return NULL;
    }
    resp->bytes += sizeof(dz_reply);
    dz_reply *value = NULL;
    if (have_root(resp))
        value = is_top ? &resp->root->top : dz_arena_alloc(&resp->root->arena, sizeof *value);
    if (!value) {
        resp->error = DZ_E_NOMEM;
        return NULL;
    }
    *value = (dz_reply){.kind = kind};
    return value;
}

int dz_resp_own_text(dz_resp *resp, dz_reply *value, size_t len)
{
    if (len > resp->limits.bytes - resp->bytes)
        return DZ_E_TOO_LARGE;
    resp->bytes += len;
    int rc = dz_blocks_alloc(&value->text, len);
    if (rc < 0)
        return rc;
    value->next_owner = resp->root->owners;
    resp->root->owners = value;
    return 0;
}

/* The top value's text always gets a buffer of its own: it is what a service keeps or sends. */
int dz_resp_text_room(dz_resp *resp, dz_reply *value, size_t len)
{
    if (len >= DZ_RESP_OWN || value == &resp->root->top)
        return dz_resp_own_text(resp, value, len);
    if (len > resp->limits.bytes - resp->bytes)
        return DZ_E_TOO_LARGE;
    resp->bytes += len;
    char *memory = dz_arena_alloc(&resp->root->arena, len);
    if (!memory)
        return DZ_E_NOMEM;
    value->text = dz_buf_borrow(dz_slice_make(memory, 0));
    return 0;
}

static int copy_text(dz_resp *resp, dz_reply *value, dz_slice text)
{
    int rc = dz_resp_text_room(resp, value, text.len);
    if (rc < 0)
        return rc;
    if (text.len > 0)
        memcpy(value->text.data, text.ptr, text.len);
    value->text.len = text.len;
    return 0;
}

bool dz_resp_integer(dz_slice text, int64_t *number)
{
    size_t at = text.len > 0 && (text.ptr[0] == '-' || text.ptr[0] == '+');
    bool negative = at == 1 && text.ptr[0] == '-';
    if (at == text.len)
        return false;
    int64_t value = 0;
    for (; at < text.len; at++) {
        char c = text.ptr[at];
        if (c < '0' || c > '9' || __builtin_mul_overflow(value, 10, &value))
            return false;
        int digit = c - '0';
        if (negative ? __builtin_sub_overflow(value, digit, &value)
                     : __builtin_add_overflow(value, digit, &value))
            return false;
    }
    *number = value;
    return true;
}

static locale_t c_locale;

static void make_c_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static bool parse_double(dz_slice text, double *number)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char copy[64], *end;
    if (text.len == 0 || text.len >= sizeof copy)
        return false;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    static const struct {
        const char *name;
        double value;
    } words[] = {{"inf", INFINITY}, {"-inf", -INFINITY}, {"nan", NAN}, {"-nan", NAN}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(copy, words[i].name) == 0) {
            *number = words[i].value;
            return true;
        }
    if (strspn(copy, "0123456789+-.eE") != text.len)
        return false;
    pthread_once(&once, make_c_locale);
    *number = c_locale ? strtod_l(copy, &end, c_locale) : strtod(copy, &end);
    return *end == '\0';
}

static bool is_big_number(dz_slice text)
{
    size_t at = text.len > 0 && (text.ptr[0] == '-' || text.ptr[0] == '+');
    if (at == text.len)
        return false;
    for (; at < text.len; at++)
        if (text.ptr[at] < '0' || text.ptr[at] > '9')
            return false;
    return true;
}

int dz_resp_line_value(dz_resp *resp, dz_reply *value, char type, dz_slice line)
{
    bool good = true;
    switch (type) {
    case '+':
    case '-':
        return copy_text(resp, value, line);
    case '(':
        return is_big_number(line) ? copy_text(resp, value, line) : DZ_E_PROTOCOL;
    case ':':
        good = dz_resp_integer(line, &value->integer);
        break;
    case ',':
        good = parse_double(line, &value->real);
        break;
    case '#':
        good = line.len == 1 && (line.ptr[0] == 't' || line.ptr[0] == 'f');
        value->integer = good && line.ptr[0] == 't';
        break;
    default: /* '_' */
        good = line.len == 0;
        break;
    }
    return good ? 0 : DZ_E_PROTOCOL;
}

void dz_reply_free(dz_reply *reply)
{
    if (!reply)
        return;
    dz_resp_root *root = DZ_CONTAINER(reply, dz_resp_root, top);
    for (dz_reply *owner = root->owners; owner; owner = owner->next_owner)
        dz_buf_release(&owner->text);
    dz_arena_reset(&root->arena);
    free(root);
}

size_t dz_resp_encode(char *to, const dz_slice *args, size_t count)
{
    char *at = to;
    for (size_t i = 0; i <= count; i++) { /* the array's head, then each argument */
        size_t number = i == 0 ? count : args[i - 1].len;
        char digits[20], *digit = digits + sizeof digits;
        do
            *--digit = (char)('0' + number % 10);
        while (number /= 10);
        *at++ = i == 0 ? '*' : '$';
        at = mempcpy(at, digit, (size_t)(digits + sizeof digits - digit));
        at = mempcpy(at, "\r\n", 2);
        if (i == 0)
            continue;
        if (args[i - 1].len > 0)
            at = mempcpy(at, args[i - 1].ptr, args[i - 1].len);
        at = mempcpy(at, "\r\n", 2);
    }
    return (size_t)(at - to);
}

int dz_resp_command(dz_buf *out, const dz_slice *args, size_t count)
{
    size_t size = 32;
    for (size_t i = 0; i < count; i++)
        if (__builtin_add_overflow(size, args[i].len, &size) ||
            __builtin_add_overflow(size, 32, &size))
            return DZ_E_NOMEM;
    if (__builtin_add_overflow(size, out->len, &size))
        return DZ_E_NOMEM;
    int rc = dz_buf_reserve(out, size);
    if (rc == 0)
        out->len += dz_resp_encode(out->data + out->len, args, count);
    return rc;
}
