#include "common/terminal.h"

#include <donmaz/slice.h>

#include <stdlib.h>
#include <unistd.h>

bool dz_is_terminal(FILE *file)
{
    return isatty(fileno(file)) == 1;
}

void dz_progress(const char *tool, const char *what)
{
    if (!dz_is_terminal(stderr))
        return;
    fputs("\r\x1b[K", stderr);
    if (what)
        fprintf(stderr, "%s: %s", tool, what);
    fflush(stderr);
}

bool dz_wants_colour(FILE *file)
{
    const char *no_colour = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    if (no_colour && no_colour[0] != '\0')
        return false;
    if (term && dz_slice_equal(dz_slice_of(term), DZ_LIT("dumb")))
        return false;
    return dz_is_terminal(file);
}

const char *dz_style_code(dz_style style)
{
    static const char *const codes[] = {
        [DZ_STYLE_NONE] = "\x1b[0m",  [DZ_STYLE_BOLD] = "\x1b[1m",   [DZ_STYLE_DIM] = "\x1b[2m",
        [DZ_STYLE_RED] = "\x1b[31m",  [DZ_STYLE_GREEN] = "\x1b[32m", [DZ_STYLE_YELLOW] = "\x1b[33m",
        [DZ_STYLE_CYAN] = "\x1b[36m",
    };
    return codes[style];
}

size_t dz_text_width(const char *text)
{
    size_t width = 0;
    for (; *text; text++)
        if (((unsigned char)*text & 0xC0) != 0x80) /* not a continuation byte */
            width++;
    return width;
}
