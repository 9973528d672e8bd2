/* words.h: a stack's command as typed in the file: {{names}} filled in, split into words. */
#ifndef DZ_LAB_WORDS_H
#define DZ_LAB_WORDS_H

#include <stddef.h>

typedef struct dz_lab_names {
    const char *host, *port; /* where the stack is to listen */
    const char *build;       /* the folder of the running donmaz command */
    const char *cores;       /* how many cores this process may use */
} dz_lab_names;

/* `text` with {{host}}, {{port}}, {{build}} and {{cores}} filled in; from malloc. NULL out of
 * memory or when a {{name}} is none of these; then *unknown, unless NULL, is the name (static
 * storage until the next call) or NULL. */
char *dz_lab_fill(const char *text, const dz_lab_names *names, const char **unknown);

/* Splits at blanks; 'single' and "double" quotes keep blanks, a backslash takes the next character
 * as it is. No shell: no variables, no globs. A NULL-terminated array from malloc whose strings
 * belong to it (dz_lab_words_free). NULL out of memory or when a quote is not closed. */
char **dz_lab_words(const char *text);
void dz_lab_words_free(char **words);

#endif
