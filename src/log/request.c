/* The line about an answered request. It is made for each request of a busy service, so the usual
 * one is put together from few ready-made pieces; what is unusual goes the way of every line. */
#include "log/logger.h"

#include "base/clock.h"

#include <errno.h>

static const char COMPLETED[] = "request completed", ABORTED[] = "request aborted";

/* The line without its texts, at most: names, numbers, punctuation. */
enum { FIXED = 512 };

/* Whether the list leaves all fields of such a line as they are, query parameters aside. */
bool dz_redact_spares_requests(const dz_redact *redact)
{
    static const char *const paths[] = {
        "reqId",          "req.method",     "req.url",   "req.route",    "req.remoteAddress",
        "req.remotePort", "res.statusCode", "res.bytes", "responseTime", "rescued",
        "aborted"};
    for (size_t i = 0; i < redact->count; i++) {
        const char *rule = redact->rules[i];
        for (size_t j = 0; j < sizeof paths / sizeof paths[0]; j++) {
            const char *dot = strrchr(paths[j], '.'), *last = dot ? dot + 1 : paths[j];
            if (strcmp(rule, paths[j]) == 0 ||
                (rule[0] == '*' && rule[1] == '.' && strcasecmp(rule + 2, last) == 0))
                return false;
        }
    }
    return true;
}

/* --- the usual line --- */

static char *put_slice(char *at, dz_slice text)
{
    return mempcpy(at, text.ptr, text.len);
}

/* Texts of a request are mostly short: a call for each would cost more than copying it. */
static inline char *put_bytes(char *at, const char *from, size_t len)
{
    if (len > 32)
        return mempcpy(at, from, len);
    char *end = at + len;
    if (len >= 16) { /* both halves, which may overlap */
        memcpy(at, from, 16);
        memcpy(end - 16, from + len - 16, 16);
    } else if (len >= 8) {
        memcpy(at, from, 8);
        memcpy(end - 8, from + len - 8, 8);
    } else {
        while (at < end)
            *at++ = *from++;
    }
    return end;
}

static bool is_special(char c)
{
    return (signed char)c < 0x20 || c == '"' || c == '\\';
}

/* Whether text stands in JSON as it is. The last eight bytes may be looked at twice. */
static inline bool is_plain(dz_slice text)
{
    uint64_t eight, special = 0;
    if (text.len < sizeof eight) {
        for (size_t i = 0; i < text.len; i++)
            special |= is_special(text.ptr[i]);
        return !special;
    }
    size_t last = text.len - sizeof eight;
    for (size_t at = 0; at < last; at += sizeof eight) {
        memcpy(&eight, text.ptr + at, sizeof eight);
        special |= dz_special_bytes(eight);
    }
    memcpy(&eight, text.ptr + last, sizeof eight);
    return !(special | dz_special_bytes(eight));
}

/* Text with its quotes; there is room for six times its length. */
static char *put_text(char *at, dz_slice text)
{
    if (!is_plain(text)) {
        bool cut = false;
        return dz_escape(at, 6 * text.len + 2, text, &cut);
    }
    *at++ = '"';
    at = put_bytes(at, text.ptr, text.len);
    *at++ = '"';
    return at;
}

/* Nanoseconds as milliseconds, to the microsecond. */
static char *put_ms(char *at, uint64_t ns)
{
    uint64_t us = (ns + 500) / 1000;
    at = dz_digits(at, us / 1000);
    unsigned rest = (unsigned)(us % 1000);
    if (rest == 0)
        return at;
    *at++ = '.';
    *at++ = (char)('0' + rest / 100);
    if (rest % 100 == 0)
        return at;
    *at++ = (char)('0' + rest / 10 % 10);
    if (rest % 10 != 0)
        *at++ = (char)('0' + rest % 10);
    return at;
}

static size_t text_bytes(const dz_log_request_info *info)
{
    return info->id.len + info->method.len + info->url.len + info->route.len +
           info->remote_address.len;
}

/* How long such a line is at most. */
static size_t usual_bytes(const dz_log_request_info *info)
{
    return 6 * text_bytes(info) + info->members.len + FIXED + DZ_LOG_HEAD;
}

static bool is_usual(const dz_logger *logger, const dz_log_request_info *info)
{
    if (!logger->spares_requests || text_bytes(info) > logger->line_bytes / 8 ||
        usual_bytes(info) > logger->line_bytes)
        return false;
    return !logger->redact.queries || info->url.len == 0 ||
           !memchr(info->url.ptr, '?', info->url.len);
}

static char *put_request(char *at, const dz_log_request_info *info)
{
    at = put_slice(at, DZ_LIT(",\"req\":{\"method\":"));
    at = put_text(at, info->method);
    at = put_slice(at, DZ_LIT(",\"url\":"));
    at = put_text(at, info->url);
    if (info->route.len > 0) {
        at = put_slice(at, DZ_LIT(",\"route\":"));
        at = put_text(at, info->route);
    }
    if (info->remote_address.len > 0) {
        at = put_slice(at, DZ_LIT(",\"remoteAddress\":"));
        at = put_text(at, info->remote_address);
    }
    if (info->remote_port > 0) {
        at = put_slice(at, DZ_LIT(",\"remotePort\":"));
        at = dz_digits(at, info->remote_port);
    }
    return at;
}

/* Makes the line in to[0..usual_bytes); returns its length. */
static size_t usual_line(char *to, const dz_logger *logger, dz_ring *ring, int level,
                         const dz_log_request_info *info)
{
    dz_line line = {.at = to};
    dz_line_begin(&line, logger, ring, level, info->time_ms);
    char *at = line.at;
    if (info->id.len > 0) {
        at = put_slice(at, DZ_LIT(",\"reqId\":"));
        at = put_text(at, info->id);
    }
    at = put_request(at, info);
    at = put_slice(at, DZ_LIT("},\"res\":{\"statusCode\":"));
    at = dz_digits(at, info->status);
    at = put_slice(at, DZ_LIT(",\"bytes\":"));
    at = dz_digits(at, info->bytes);
    at = put_slice(at, DZ_LIT("},\"responseTime\":"));
    at = put_ms(at, info->duration_ns);
    at = put_slice(at, info->rescued ? DZ_LIT(",\"rescued\":true") : DZ_LIT(",\"rescued\":false"));
    if (info->members.len > 0) {
        *at++ = ',';
        at = put_slice(at, info->members);
    }
    at = put_slice(at, info->aborted ? DZ_LIT(",\"aborted\":true,\"msg\":\"request aborted\"}\n")
                                     : DZ_LIT(",\"msg\":\"request completed\"}\n"));
    return (size_t)(at - to);
}

/* In the ring itself where it has room, which saves a copy. */
static void put_usual(dz_logger *logger, dz_ring *ring, int level, const dz_log_request_info *info)
{
    char *to = dz_ring_reserve(ring, usual_bytes(info));
    size_t len = usual_line(to ? to : ring->line, logger, ring, level, info), used;
    if (!to) {
        dz_logger_put(logger, ring, dz_slice_make(ring->line, len));
        return;
    }
    dz_ring_commit(ring, len, &used);
    dz_logger_added(logger, ring, used);
}

/* --- any line --- */

static void fill_request(dz_line *line, const dz_log_request_info *info)
{
    const dz_field group = dz_field_group("req"), end = dz_field_end();
    dz_line_field(line, &group);
    dz_line_text(line, "method", info->method);
    dz_line_url(line, "url", info->url);
    if (info->route.len > 0)
        dz_line_text(line, "route", info->route);
    if (info->remote_address.len > 0)
        dz_line_text(line, "remoteAddress", info->remote_address);
    if (info->remote_port > 0)
        dz_line_uint(line, "remotePort", info->remote_port);
    dz_line_field(line, &end);
}

static void fill_response(dz_line *line, const dz_log_request_info *info)
{
    const dz_field group = dz_field_group("res"), end = dz_field_end();
    dz_line_field(line, &group);
    dz_line_uint(line, "statusCode", info->status);
    dz_line_uint(line, "bytes", info->bytes);
    dz_line_field(line, &end);
}

static dz_slice unusual_line(dz_logger *logger, dz_ring *ring, int level,
                             const dz_log_request_info *info)
{
    const char *msg = info->aborted ? ABORTED : COMPLETED;
    const dz_field time = dz_field_ms("responseTime", (info->duration_ns + 500) / 1000 * 1000);
    const dz_field rescued = dz_field_bool("rescued", info->rescued);
    const dz_field aborted = dz_field_bool("aborted", true);
    dz_line line;
    dz_line_init(&line, ring->line, logger->line_bytes, msg, &logger->redact);
    dz_line_begin(&line, logger, ring, level, info->time_ms);
    if (info->id.len > 0)
        dz_line_text(&line, "reqId", info->id);
    fill_request(&line, info);
    fill_response(&line, info);
    dz_line_field(&line, &time);
    dz_line_field(&line, &rescued);
    dz_line_members(&line, info->members);
    if (info->aborted)
        dz_line_field(&line, &aborted);
    return dz_line_finish(&line, msg);
}

void dz_log_request(dz_logger *logger, const dz_log_request_info *info)
{
    int level = info->status >= 500 ? DZ_LOG_ERROR : DZ_LOG_INFO;
    if (!dz_log_enabled(logger, level))
        return;
    int before = errno;
    dz_ring *ring = dz_logger_ring(logger);
    if (!ring)
        atomic_fetch_add_explicit(&logger->without_ring, 1, memory_order_relaxed);
    else if (is_usual(logger, info))
        put_usual(logger, ring, level, info);
    else
        dz_logger_put(logger, ring, unusual_line(logger, ring, level, info));
    errno = before;
}
