#include "load/url.h"

#include "common/values.h"

#include <donmaz/error.h>

#include <stdio.h>

static bool take_prefix(dz_slice *text, dz_slice prefix)
{
    if (text->len < prefix.len ||
        !dz_slice_equal_nocase(dz_slice_make(text->ptr, prefix.len), prefix))
        return false;
    *text = dz_slice_make(text->ptr + prefix.len, text->len - prefix.len);
    return true;
}

/* Cuts "@N" off the end. False: N is a number, but none of connections. */
static bool take_connections(dz_slice *text, uint64_t *out)
{
    const char *at = text->len > 0 ? memrchr(text->ptr, '@', text->len) : NULL;
    size_t before = at ? (size_t)(at - text->ptr) : text->len;
    dz_slice number = at ? dz_slice_make(at + 1, text->len - before - 1) : (dz_slice){0};
    for (size_t i = 0; i < number.len; i++)
        if (number.ptr[i] < '0' || number.ptr[i] > '9')
            return true; /* part of the path */
    if (number.len == 0)
        return true;
    text->len = before;
    return dz_read_count(number, out) == 0 && *out > 0 && *out <= 1000000;
}

static bool is_port(dz_slice text)
{
    uint64_t port;
    return dz_read_count(text, &port) == 0 && port > 0 && port < 65536;
}

/* "host", "host:port", "[v6]", "[v6]:port" */
static int read_authority(dz_slice text, load_url *out, const char **why)
{
    dz_slice rest = {0};
    if (text.len > 0 && text.ptr[0] == '[') {
        const char *close = memchr(text.ptr, ']', text.len);
        if (!close) {
            *why = "an IPv6 address needs its closing ']'";
            return DZ_E_INVALID;
        }
        size_t end = (size_t)(close - text.ptr);
        out->host = dz_slice_make(text.ptr + 1, end - 1);
        rest = dz_slice_make(close + 1, text.len - end - 1);
    } else {
        const char *colon = text.len > 0 ? memchr(text.ptr, ':', text.len) : NULL;
        size_t end = colon ? (size_t)(colon - text.ptr) : text.len;
        out->host = dz_slice_make(text.ptr, end);
        rest = dz_slice_make(text.ptr + end, text.len - end);
    }
    if (out->host.len == 0) {
        *why = "no host";
        return DZ_E_INVALID;
    }
    if (rest.len == 0)
        return 0;
    out->port = dz_slice_make(rest.ptr + 1, rest.len - 1);
    if (rest.ptr[0] != ':' || !is_port(out->port)) {
        *why = "the port must be a number from 1 to 65535";
        return DZ_E_INVALID;
    }
    return 0;
}

static bool has_blank_or_control(dz_slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.ptr[i] <= ' ' || text.ptr[i] == 0x7f)
            return true;
    return false;
}

int load_url_parse(const char *string, load_url *out, const char **why)
{
    *out = (load_url){0};
    dz_slice text = dz_slice_of(string);
    if (!take_connections(&text, &out->connections)) {
        *why = "after @ there must be 1 to 1000000 connections";
        return DZ_E_INVALID;
    }
    out->tls = take_prefix(&text, DZ_LIT("https://"));
    bool schemed = out->tls || take_prefix(&text, DZ_LIT("http://"));
    size_t end = 0;
    while (end < text.len && !strchr("/?#", text.ptr[end]))
        end++;
    if (!schemed && end > 0 && end + 2 < text.len && memcmp(text.ptr + end - 1, "://", 3) == 0) {
        *why = "only http:// and https:// are spoken";
        return DZ_E_INVALID;
    }
    dz_slice authority = dz_slice_make(text.ptr, end);
    out->path = dz_slice_make(text.ptr + end, text.len - end);
    const char *fragment = out->path.len > 0 ? memchr(out->path.ptr, '#', out->path.len) : NULL;
    if (fragment)
        out->path.len = (size_t)(fragment - out->path.ptr);
    /* Blanks are allowed inside {{...}}, and a path with others would break the request line. */
    if (has_blank_or_control(out->path) && !memmem(out->path.ptr, out->path.len, "{{", 2)) {
        *why = "blanks must be written as %20";
        return DZ_E_INVALID;
    }
    if (!schemed && end == 0 && text.len > 0 && text.ptr[0] == '/')
        return 0;
    if (authority.len > 0 && memchr(authority.ptr, '@', authority.len)) {
        *why = "a user name in the URL is not sent; give -H 'Authorization: ...' instead";
        return DZ_E_INVALID;
    }
    return read_authority(authority, out, why);
}

char *load_url_print(const load_url *url)
{
    char *text = NULL;
    bool v6 = url->host.len > 0 && memchr(url->host.ptr, ':', url->host.len);
    const char *slash = url->path.len > 0 && url->path.ptr[0] == '/' ? "" : "/";
    int len = asprintf(&text, "%s://%s%.*s%s%s%.*s%s%.*s", url->tls ? "https" : "http",
                       v6 ? "[" : "", (int)url->host.len, url->host.ptr ? url->host.ptr : "",
                       v6 ? "]" : "", url->port.len > 0 ? ":" : "", (int)url->port.len,
                       url->port.ptr ? url->port.ptr : "", slash, (int)url->path.len,
                       url->path.ptr ? url->path.ptr : "");
    return len < 0 ? NULL : text;
}
