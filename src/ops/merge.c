#include "ops/merge.h"

#include <donmaz/error.h>

#include <stdio.h>
#include <stdlib.h>

/* A family of one text: from its "# HELP name " line to the next one. */
typedef struct block {
    dz_slice name, head, samples;
    size_t text;
    bool done;
} block;

typedef struct blocks {
    block *list;
    size_t count, cap;
} blocks;

static const char HELP[] = "# HELP ";

static dz_slice take_line(dz_slice *text)
{
    const char *end = memchr(text->ptr, '\n', text->len);
    size_t len = end ? (size_t)(end - text->ptr) + 1 : text->len;
    dz_slice line = dz_slice_make(text->ptr, len);
    text->ptr += len;
    text->len -= len;
    return line;
}

static bool starts_with(dz_slice text, const char *start)
{
    size_t len = strlen(start);
    return text.len >= len && memcmp(text.ptr, start, len) == 0;
}

static block *add_block(blocks *all)
{
    if (all->count == all->cap) {
        size_t cap = all->cap ? 2 * all->cap : 128;
        block *more = realloc(all->list, cap * sizeof *more);
        if (!more)
            return NULL;
        all->list = more;
        all->cap = cap;
    }
    all->list[all->count] = (block){0};
    return &all->list[all->count++];
}

static int split(blocks *all, dz_slice text, size_t number)
{
    block *now = NULL;
    while (text.len > 0) {
        dz_slice line = take_line(&text);
        if (starts_with(line, HELP)) {
            now = add_block(all);
            if (!now)
                return DZ_E_NOMEM;
            const char *name = line.ptr + sizeof HELP - 1;
            size_t room = line.len - (sizeof HELP - 1);
            const char *end = memchr(name, ' ', room);
            now->text = number;
            now->name = dz_slice_make(name, end ? (size_t)(end - name) : room);
            now->head = line;
        } else if (now && line.ptr[0] == '#') {
            now->head.len += line.len; /* its TYPE, which follows */
        } else if (now) {
            if (now->samples.len == 0)
                now->samples.ptr = line.ptr;
            now->samples.len += line.len;
        }
    }
    return 0;
}

/* name{a="b"} 1 -> name{worker="2",a="b"} 1; name 1 -> name{worker="2"} 1 */
static int put_sample(dz_buf *out, dz_slice line, dz_slice label)
{
    size_t name = 0;
    while (name < line.len && line.ptr[name] != '{' && line.ptr[name] != ' ')
        name++;
    bool labelled = name < line.len && line.ptr[name] == '{';
    int rc = dz_buf_append(out, dz_slice_make(line.ptr, name));
    if (rc == 0)
        rc = dz_buf_append(out, label);
    if (rc == 0)
        rc = dz_buf_append(out, labelled ? DZ_LIT(",") : DZ_LIT("}"));
    size_t rest = name + labelled;
    return rc < 0 ? rc : dz_buf_append(out, dz_slice_make(line.ptr + rest, line.len - rest));
}

static int put_samples(dz_buf *out, const block *from)
{
    char text[40];
    int len = snprintf(text, sizeof text, "{worker=\"%zu\"", from->text + 1);
    dz_slice label = dz_slice_make(text, (size_t)len), samples = from->samples;
    while (samples.len > 0) {
        int rc = put_sample(out, take_line(&samples), label);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int dz_metrics_merge(dz_buf *out, const dz_slice *texts, size_t count)
{
    blocks all = {0};
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = split(&all, texts[i], i);
    for (size_t i = 0; i < all.count && rc == 0; i++) {
        if (all.list[i].done)
            continue;
        rc = dz_buf_append(out, all.list[i].head);
        for (size_t j = i; j < all.count && rc == 0; j++) {
            if (!dz_slice_equal(all.list[j].name, all.list[i].name))
                continue;
            all.list[j].done = true;
            rc = put_samples(out, &all.list[j]);
        }
    }
    free(all.list);
    return rc;
}
