#include "spool.h"

#include <errno.h>
#include <stdlib.h>

enum { IN_MEMORY = 1 << 19 };

static bool grow(dz_spool *s)
{
    size_t cap = s->cap ? s->cap * 2 : 1024;
    int64_t *more = reallocarray(s->memory, cap, sizeof *more);
    if (!more) {
        s->error = -ENOMEM;
        return false;
    }
    s->memory = more;
    s->cap = cap;
    return true;
}

void dz_spool_put(dz_spool *s, int64_t number)
{
    if (s->error)
        return;
    if (s->count < IN_MEMORY) {
        if (s->count == s->cap && !grow(s))
            return;
        s->memory[s->count++] = number;
    } else {
        if (!s->file)
            s->file = tmpfile();
        if (!s->file || fwrite(&number, sizeof number, 1, s->file) != 1) {
            s->error = errno ? -errno : -EIO;
            return;
        }
    }
    s->total++;
}

int dz_spool_rewind(dz_spool *s)
{
    s->at = 0;
    if (!s->error && s->file && (fflush(s->file) != 0 || fseek(s->file, 0, SEEK_SET) != 0))
        s->error = errno ? -errno : -EIO;
    return s->error;
}

bool dz_spool_next(dz_spool *s, int64_t *number)
{
    if (s->at >= s->total)
        return false;
    if (s->at < s->count)
        *number = s->memory[s->at];
    else if (fread(number, sizeof *number, 1, s->file) != 1)
        return false;
    s->at++;
    return true;
}

void dz_spool_close(dz_spool *s)
{
    free(s->memory);
    if (s->file)
        fclose(s->file);
    *s = (dz_spool){0};
}
