#include "http/target.h"

#include "http/chars.h"

static bool port_valid(const char *at, const char *end)
{
    unsigned port = 0;
    for (; at < end; at++) {
        if (!dz_char_digit(*at))
            return false;
        port = port * 10 + (unsigned)(*at - '0');
        if (port > UINT16_MAX)
            return false;
    }
    return true;
}

bool dz_host_valid(dz_slice text, bool port_required)
{
    const char *at = text.ptr, *end = text.ptr + text.len;
    if (at < end && *at == '[') {
        const char *start = ++at;
        while (at < end && dz_char_is(*at, DZ_CHAR_IP))
            at++;
        if (at == start || at == end || *at++ != ']')
            return false;
    } else {
        const char *start = at;
        while (at < end && dz_char_is(*at, DZ_CHAR_HOST))
            at++;
        if (at == start)
            return false;
    }
    if (at == end)
        return !port_required;
    if (*at++ != ':' || (port_required && at == end))
        return false;
    return port_valid(at, end);
}

/* The end of the path at `at`; NULL when it holds a byte or an escape that may not be there. */
static const char *skip_path(const char *at, const char *end)
{
    for (; at < end && *at != '?'; at++) {
        if (!dz_char_is(*at, DZ_CHAR_PATH))
            return NULL;
        if (*at != '%')
            continue;
        if (end - at < 3)
            return NULL;
        int high = dz_char_hex(at[1]), low = dz_char_hex(at[2]);
        if (high < 0 || low < 0 || high + low == 0)
            return NULL;
        at += 2;
    }
    return at;
}

static int split_path(dz_head *head, const char *at, const char *end)
{
    const char *path_end = skip_path(at, end);
    if (!path_end)
        return -400;
    /* `http://host` and `http://host?q` ask for the root (RFC 9110 4.2.3). */
    head->path = path_end == at ? DZ_LIT("/") : dz_slice_make(at, (size_t)(path_end - at));
    if (path_end == end)
        return 0;
    for (at = path_end + 1; at < end; at++)
        if (!dz_char_is(*at, DZ_CHAR_QUERY))
            return -400;
    head->query = dz_slice_make(path_end + 1, (size_t)(end - path_end - 1));
    return 0;
}

static int split_absolute(dz_head *head, const char *at, const char *end)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < 2; i++) {
        dz_slice scheme = dz_slice_of(schemes[i]);
        if ((size_t)(end - at) <= scheme.len ||
            !dz_slice_equal_nocase(dz_slice_make(at, scheme.len), scheme))
            continue;
        at += scheme.len;
        const char *start = at;
        while (at < end && *at != '/' && *at != '?')
            at++;
        head->authority = dz_slice_make(start, (size_t)(at - start));
        if (!dz_host_valid(head->authority, false))
            return -400;
        return split_path(head, at, end);
    }
    return -400;
}

int dz_target_parse(dz_head *head)
{
    dz_slice target = head->target;
    const char *end = target.ptr + target.len;
    if (target.len == 0)
        return -400;
    if (head->method == DZ_CONNECT) {
        head->authority = target;
        return dz_host_valid(target, true) ? 0 : -400;
    }
    if (target.ptr[0] == '/')
        return split_path(head, target.ptr, end);
    if (target.len == 1 && target.ptr[0] == '*') {
        head->path = target;
        return head->method == DZ_OPTIONS ? 0 : -400;
    }
    return split_absolute(head, target.ptr, end);
}
