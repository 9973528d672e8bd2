#include "redis/url.h"

#include <donmaz/error.h>

enum { DEFAULT_PORT = 6379 };

/* Cuts text at the first (or last) `mark`: *head is what is before it, *text what is after. */
static bool cut(dz_slice *text, char mark, bool last, dz_slice *head)
{
    const char *at = NULL;
    if (text->len > 0)
        at = last ? memrchr(text->ptr, mark, text->len) : memchr(text->ptr, mark, text->len);
    if (!at)
        return false;
    *head = dz_slice_make(text->ptr, (size_t)(at - text->ptr));
    *text = dz_slice_make(at + 1, text->len - head->len - 1);
    return true;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Percent-decodes into to[0..size), NUL-terminated. False: too long, a bad escape, or a NUL. */
static bool decode(char *to, size_t size, dz_slice from)
{
    size_t len = 0;
    for (size_t i = 0; i < from.len; i++) {
        int c = (unsigned char)from.ptr[i];
        if (c == '%') {
            if (from.len - i < 3)
                return false;
            int high = hex(from.ptr[i + 1]), low = hex(from.ptr[i + 2]);
            if (high < 0 || low < 0)
                return false;
            c = high << 4 | low;
            i += 2;
        }
        if (c == 0 || len + 1 >= size)
            return false;
        to[len++] = (char)c;
    }
    to[len] = '\0';
    return true;
}

static bool parse_number(dz_slice text, unsigned most, unsigned *number)
{
    unsigned value = 0;
    if (text.len == 0 || text.len > 9)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        value = value * 10 + (unsigned)(text.ptr[i] - '0');
    }
    *number = value;
    return value <= most;
}

static bool parse_credentials(dz_redis_url *url, dz_slice text)
{
    dz_slice user;
    if (!cut(&text, ':', false, &user))
        return decode(url->user, sizeof url->user, text);
    return decode(url->user, sizeof url->user, user) &&
           decode(url->password, sizeof url->password, text);
}

static bool parse_query(dz_redis_url *url, dz_slice query)
{
    const dz_slice db = DZ_LIT("db=");
    return query.len > db.len && dz_slice_equal(dz_slice_make(query.ptr, db.len), db) &&
           parse_number(dz_slice_make(query.ptr + db.len, query.len - db.len), 1 << 20, &url->db);
}

static bool parse_host(dz_redis_url *url, dz_slice text)
{
    if (url->endpoint_count == DZ_REDIS_SEEDS)
        return false;
    dz_redis_endpoint *at = &url->endpoints[url->endpoint_count++];
    dz_slice host = text, port = {NULL, 0};
    if (text.len > 0 && text.ptr[0] == '[') { /* [::1]:6379 */
        text = dz_slice_make(text.ptr + 1, text.len - 1);
        if (!cut(&text, ']', false, &host) || (text.len > 0 && text.ptr[0] != ':'))
            return false;
        if (text.len > 0)
            port = dz_slice_make(text.ptr + 1, text.len - 1);
        if (text.len == 1)
            return false;
    } else if (cut(&text, ':', false, &host)) {
        port = text;
        if (port.len == 0)
            return false;
    }
    unsigned number = DEFAULT_PORT;
    if (port.len > 0 && (!parse_number(port, UINT16_MAX, &number) || number == 0))
        return false;
    at->port = (uint16_t)number;
    return host.len > 0 && decode(at->host, sizeof at->host, host);
}

/* One host, or for a cluster several between commas. */
static bool parse_hosts(dz_redis_url *url, dz_slice text)
{
    dz_slice host;
    while (url->cluster && cut(&text, ',', false, &host))
        if (!parse_host(url, host))
            return false;
    return (!text.len || !memchr(text.ptr, ',', text.len)) && parse_host(url, text);
}

static bool take_prefix(dz_slice *text, dz_slice prefix)
{
    if (text->len < prefix.len ||
        !dz_slice_equal_nocase(dz_slice_make(text->ptr, prefix.len), prefix))
        return false;
    *text = dz_slice_make(text->ptr + prefix.len, text->len - prefix.len);
    return true;
}

static bool parse_network(dz_redis_url *url, dz_slice text)
{
    dz_slice part;
    if (cut(&text, '@', true, &part) && !parse_credentials(url, part))
        return false;
    dz_slice host = text;
    if (cut(&text, '/', false, &host) && text.len > 0 && !parse_number(text, 1 << 20, &url->db))
        return false;
    return parse_hosts(url, host) && !(url->cluster && url->db != 0); /* a cluster has only 0 */
}

static bool parse_unix(dz_redis_url *url, dz_slice text)
{
    /* The path begins at the first slash; credentials have none, or it is escaped. */
    const char *slash = text.len > 0 ? memchr(text.ptr, '/', text.len) : NULL;
    if (!slash)
        return false;
    dz_slice before = dz_slice_make(text.ptr, (size_t)(slash - text.ptr));
    text = dz_slice_make(slash, text.len - before.len);
    if (before.len > 0 && (before.ptr[before.len - 1] != '@' ||
                           !parse_credentials(url, dz_slice_make(before.ptr, before.len - 1))))
        return false;
    url->endpoint_count = 1;
    return text.len > 1 && decode(url->endpoints[0].path, sizeof url->endpoints[0].path, text);
}

int dz_redis_url_parse(dz_redis_url *url, dz_slice text)
{
    *url = (dz_redis_url){0};
    bool is_unix = false;
    if (take_prefix(&text, DZ_LIT("unix://")))
        is_unix = true;
    else if (take_prefix(&text, DZ_LIT("rediss://")))
        url->tls = true;
    else if (take_prefix(&text, DZ_LIT("redis+cluster://")))
        url->cluster = true;
    else if (take_prefix(&text, DZ_LIT("rediss+cluster://")))
        url->tls = url->cluster = true;
    else if (!take_prefix(&text, DZ_LIT("redis://")))
        return DZ_E_INVALID;
    dz_slice head, rest = text;
    if (cut(&rest, '?', true, &head)) {
        if (!parse_query(url, rest))
            return DZ_E_INVALID;
        text = head;
    }
    return (is_unix ? parse_unix(url, text) : parse_network(url, text)) ? 0 : DZ_E_INVALID;
}
