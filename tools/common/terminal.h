/* terminal.h: colours, only where they are wanted. */
#ifndef DZ_TOOLS_COMMON_TERMINAL_H
#define DZ_TOOLS_COMMON_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

typedef enum dz_style {
    DZ_STYLE_NONE,
    DZ_STYLE_BOLD,
    DZ_STYLE_DIM,
    DZ_STYLE_RED,
    DZ_STYLE_GREEN,
    DZ_STYLE_YELLOW,
    DZ_STYLE_CYAN,
} dz_style;

bool dz_is_terminal(FILE *file);

/* Whether to colour: a terminal, NO_COLOR unset or empty (no-color.org), TERM not "dumb". */
bool dz_wants_colour(FILE *file);

/* The escape sequence that starts a style, or ends all with DZ_STYLE_NONE. */
const char *dz_style_code(dz_style style);

/* On a terminal: says on one line of stderr, which the next call overwrites, what is going on. NULL
 * takes the line away. */
void dz_progress(const char *tool, const char *what);

/* Columns that text takes on a terminal: UTF-8 code points. */
size_t dz_text_width(const char *text);

#endif
