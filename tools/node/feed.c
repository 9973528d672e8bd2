#include "feed.h"

#include <base/clock.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void dz_feed_init(dz_feed *feed)
{
    memset(feed, 0, sizeof *feed);
}

void dz_feed_close(dz_feed *feed)
{
    for (size_t i = 0; i < feed->threads.count; i++) {
        dz_js_series *s = &feed->threads.at[i];
        for (size_t r = 0; r < s->routes.count; r++)
            free(s->routes.at[r]);
        free(s->routes.at);
        free(s->requests.at);
        free(s->samples.at);
        free(s->gcs.at);
    }
    free(feed->threads.at);
    memset(feed, 0, sizeof *feed);
}

/* Room for one more element of `size` bytes; false out of memory. */
static bool reserve(dz_feed *feed, void *vector, size_t size)
{
    DZ_VECTOR(void) *v = vector; /* all vectors are laid out alike */
    if (v->count < v->cap)
        return true;
    size_t cap = v->cap ? v->cap * 2 : 16;
    void *more = reallocarray(v->at, cap, size);
    if (!more) {
        feed->out_of_memory = true;
        return false;
    }
    v->at = more;
    v->cap = cap;
    return true;
}

#define PUSH(feed, vector, ...)                                                                    \
    do {                                                                                           \
        if (reserve((feed), &(vector), sizeof *(vector).at))                                       \
            (vector).at[(vector).count++] = __VA_ARGS__;                                           \
    } while (0)

dz_js_series *dz_feed_find(dz_feed *feed, pid_t tid)
{
    for (size_t i = feed->threads.count; i-- > 0;) /* the newest, should a tid come again */
        if (feed->threads.at[i].tid == tid)
            return &feed->threads.at[i];
    return NULL;
}

enum { MAX_FIELDS = 16, MAX_THREADS = 4096 };

typedef struct fields {
    char *text[MAX_FIELDS];
    uint64_t number[MAX_FIELDS]; /* of fields that are numbers */
    size_t count;
} fields;

static void split(char *line, fields *f)
{
    f->count = 0;
    for (char *at = line; at && f->count < MAX_FIELDS;) {
        char *end = strchr(at, '\t'), *rest;
        if (end)
            *end++ = 0;
        f->text[f->count] = at;
        f->number[f->count] = strtoull(at, &rest, 10);
        f->count++;
        at = end;
    }
}

static bool hello(dz_feed *feed, const fields *f)
{
    if (f->count < 6 || feed->threads.count >= MAX_THREADS)
        return false;
    dz_js_series s = {.tid = (pid_t)f->number[1],
                      .pid = (pid_t)f->number[2],
                      .started = dz_now(),
                      .number = (unsigned)f->number[5]};
    snprintf(s.role, sizeof s.role, "%s", f->text[3]);
    snprintf(s.version, sizeof s.version, "%s", f->text[4]);
    PUSH(feed, feed->threads, s);
    return true;
}

static bool sample(dz_feed *feed, dz_js_series *s, const fields *f)
{
    if (f->count < 13 || f->number[3] < f->number[2])
        return false;
    PUSH(feed, s->samples,
         (dz_js_sample){.from = f->number[2] * 1000,
                        .to = f->number[3] * 1000,
                        .active = f->number[4] * 1000,
                        .heap_used = f->number[5],
                        .heap_total = f->number[6],
                        .external = f->number[7],
                        .handles = (uint32_t)f->number[8],
                        .inflight = (uint32_t)f->number[9],
                        .begun = (uint32_t)f->number[10],
                        .longest = f->number[11] * 1000,
                        .work = f->number[12] * 1000});
    return true;
}

/* The index of a route's name, new or known; -1 out of memory. */
static int64_t route_index(dz_feed *feed, dz_js_series *s, const char *name)
{
    for (size_t i = 0; i < s->routes.count; i++)
        if (strcmp(s->routes.at[i], name) == 0)
            return (int64_t)i;
    char *copy = s->routes.count < 1000 ? strdup(name) : NULL;
    if (!copy || !reserve(feed, &s->routes, sizeof *s->routes.at)) {
        free(copy);
        return -1;
    }
    s->routes.at[s->routes.count++] = copy;
    return (int64_t)s->routes.count - 1;
}

static bool requests(dz_feed *feed, dz_js_series *s, const fields *f)
{
    if (f->count < 9)
        return false;
    int64_t route = route_index(feed, s, f->text[8]);
    if (route < 0)
        return true;
    PUSH(feed, s->requests,
         (dz_js_route_sample){.at = f->number[2] * 1000,
                              .route = (uint32_t)route,
                              .count = f->number[3],
                              .total = f->number[4] * 1000,
                              .sync = f->number[5] * 1000,
                              .sync_squared = (double)f->number[6] / 1e6,
                              .sync_max = f->number[7] * 1000});
    return true;
}

static bool take_line(dz_feed *feed, char *line)
{
    fields f;
    split(line, &f);
    if (f.count < 2 || f.text[0][0] == 0 || f.text[0][1] != 0)
        return false;
    if (f.text[0][0] == 'H')
        return hello(feed, &f);
    dz_js_series *s = dz_feed_find(feed, (pid_t)f.number[1]);
    if (!s)
        return false;
    switch (f.text[0][0]) {
    case 'I':
        if (f.count < 4)
            return false;
        snprintf(s->url, sizeof s->url, "%s", f.text[3]);
        return true;
    case 'S':
        return sample(feed, s, &f);
    case 'G':
        if (f.count < 5)
            return false;
        PUSH(feed, s->gcs,
             (dz_js_gc){.at = f.number[2] * 1000,
                        .duration = f.number[3] * 1000,
                        .kind = (unsigned)f.number[4]});
        return true;
    case 'R':
        return requests(feed, s, &f);
    case 'X':
        s->exiting = true;
        return true;
    default:
        return false;
    }
}

void dz_feed_take(dz_feed *feed, dz_slice bytes)
{
    while (bytes.len > 0) {
        const char *end = memchr(bytes.ptr, '\n', bytes.len);
        size_t n = end ? (size_t)(end - bytes.ptr) : bytes.len;
        if (feed->partial_len + n >= sizeof feed->partial) {
            feed->malformed++; /* longer than any line of ours: drop what there is of it */
            feed->partial_len = 0;
        } else {
            memcpy(feed->partial + feed->partial_len, bytes.ptr, n);
            feed->partial_len += n;
        }
        if (end) {
            feed->partial[feed->partial_len] = 0;
            if (!take_line(feed, feed->partial))
                feed->malformed++;
            feed->partial_len = 0;
            n++;
        }
        bytes.ptr += n;
        bytes.len -= n;
    }
}
