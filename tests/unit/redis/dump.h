/* dump.h: a reply as one line of text, for comparing. */
#ifndef DZ_TESTS_REDIS_DUMP_H
#define DZ_TESTS_REDIS_DUMP_H

#include "redis/resp.h"

#include <stdio.h>

static inline void dump_value(FILE *out, const dz_reply *value)
{
    if (value->attributes) {
        fprintf(out, "|");
        dump_value(out, value->attributes);
        fprintf(out, "|");
    }
    static const char marks[] = "N\"+-:,#(*%~>";
    fputc(marks[value->kind], out);
    switch (value->kind) {
    case DZ_REPLY_NULL:
        break;
    case DZ_REPLY_INTEGER:
    case DZ_REPLY_BOOL:
        fprintf(out, "%lld", (long long)value->integer);
        break;
    case DZ_REPLY_DOUBLE:
        fprintf(out, "%g", value->real);
        break;
    case DZ_REPLY_ARRAY:
    case DZ_REPLY_MAP:
    case DZ_REPLY_SET:
    case DZ_REPLY_PUSH: {
        size_t count = 0;
        fputc('[', out);
        for (const dz_reply *child = value->first; child; child = child->next, count++) {
            if (count > 0)
                fputc(' ', out);
            dump_value(out, child);
        }
        fprintf(out, count == value->count ? "]" : "] WRONG COUNT");
        break;
    }
    default:
        if (value->verbatim[0])
            fprintf(out, "%s:", value->verbatim);
        fwrite(value->text.len ? value->text.data : "", 1, value->text.len, out);
    }
}

#endif
