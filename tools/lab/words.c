#include "words.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *value_of(const dz_lab_names *names, const char *name, size_t len)
{
    const struct {
        const char *name, *value;
    } known[] = {{"host", names->host},
                 {"port", names->port},
                 {"build", names->build},
                 {"cores", names->cores}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strlen(known[i].name) == len && memcmp(known[i].name, name, len) == 0)
            return known[i].value;
    return NULL;
}

char *dz_lab_fill(const char *text, const dz_lab_names *names, const char **unknown)
{
    static char bad[64];
    char *out = NULL;
    size_t len = 0;
    if (unknown)
        *unknown = NULL;
    FILE *stream = open_memstream(&out, &len);
    if (!stream)
        return NULL;
    while (*text) {
        const char *end = strncmp(text, "{{", 2) == 0 ? strstr(text, "}}") : NULL;
        if (!end) {
            fputc(*text++, stream);
            continue;
        }
        const char *value = value_of(names, text + 2, (size_t)(end - text - 2));
        if (!value) {
            snprintf(bad, sizeof bad, "%.*s", (int)(end - text - 2), text + 2);
            if (unknown)
                *unknown = bad;
            fclose(stream);
            free(out);
            return NULL;
        }
        fputs(value, stream);
        text = end + 2;
    }
    bool failed = ferror(stream) != 0;
    if (fclose(stream) != 0 || failed) {
        free(out);
        return NULL;
    }
    return out;
}

/* Copies one word from *from to *to, unquoted and terminated. false: a quote is not closed. */
static bool take_word(const char **from, char **to)
{
    char quote = '\0';
    const char *in = *from;
    char *out = *to;
    for (; *in && (quote || !strchr(" \t\n", *in)); in++) {
        if (quote && *in == quote)
            quote = '\0';
        else if (!quote && (*in == '\'' || *in == '"'))
            quote = *in;
        else if (*in == '\\' && quote != '\'' && in[1])
            *out++ = *++in;
        else
            *out++ = *in;
    }
    *out++ = '\0';
    *from = in;
    *to = out;
    return quote == '\0';
}

char **dz_lab_words(const char *text)
{
    /* Pointers for the most words there can be, then the characters, in one allocation. */
    size_t len = strlen(text), most = len / 2 + 2;
    char **words = malloc(most * sizeof *words + len + 1 + most);
    if (!words)
        return NULL;
    char *out = (char *)(words + most);
    size_t count = 0;
    for (;;) {
        text += strspn(text, " \t\n");
        if (!*text)
            break;
        words[count++] = out;
        if (!take_word(&text, &out)) {
            free(words);
            return NULL;
        }
    }
    words[count] = NULL;
    return words;
}

void dz_lab_words_free(char **words)
{
    free(words);
}
