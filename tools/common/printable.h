/* printable.h: text from outside (a target's answers, function and file names, results read back)
 * on its way to a terminal, where an escape sequence would be obeyed: it could rewrite the verdict
 * above it, set the title, or fill the clipboard.
 *
 * Kept is what is well-formed UTF-8 (RFC 3629) and shows. Line ends and tabs become one space,
 * every other byte of a control character (C0, DEL, C1), of a mark that turns the direction of text
 * around (Unicode's bidirectional controls), and of what is not UTF-8 becomes '?'. */
#ifndef DZ_TOOLS_COMMON_PRINTABLE_H
#define DZ_TOOLS_COMMON_PRINTABLE_H

#include <stddef.h>
#include <stdio.h>

/* Makes the text printable where it is: its length stays. Returns `text`; NULL is left alone. */
char *dz_text_clean(char *text);

/* Writes `len` bytes of `text`, made printable. */
void dz_put_clean(FILE *out, const char *text, size_t len);

/* fprintf whose whole output is made printable, line ends at its end excepted: a line of one
 * message can't be forged by what it quotes. Out of memory it prints nothing. */
void dz_print_clean(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
