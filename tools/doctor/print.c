/* The verdict for people. */
#include "doctor.h"

#include "common/terminal.h"

/* Wraps at words; `first` leads the first line, the others are indented alike. */
static void wrapped(FILE *out, const char *first, const char *text)
{
    enum { WIDTH = 96 };
    size_t indent = dz_text_width(first), column = indent;
    fputs(first, out);
    while (*text) {
        size_t len = 0;
        while (text[len] && text[len] != ' ')
            len++;
        if (column > indent && column + len > WIDTH) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
        }
        fwrite(text, 1, len, out);
        column += len;
        text += len;
        if (*text == ' ') {
            putc(' ', out);
            column++;
            text++;
        }
    }
    putc('\n', out);
}

static const char *style(FILE *out, dz_style code)
{
    return dz_wants_colour(out) ? dz_style_code(code) : "";
}

void dz_doctor_print(const dz_doctor *d, FILE *out)
{
    const dz_diagnosis *g = &d->diagnosis;
    bool good = g->verdict == DZ_VERDICT_HEALTHY;
    fprintf(out, "\n%s%s%s", style(out, good ? DZ_STYLE_GREEN : DZ_STYLE_RED),
            dz_verdict_words(g->verdict), style(out, DZ_STYLE_NONE));
    for (size_t i = 0; i < g->also_count; i++)
        fprintf(out, "%s %s", i ? "," : "; also:", dz_verdict_words(g->also[i]));
    fprintf(out, "\n\nevidence (%.1f s under load)\n", d->facts.seconds);
    for (size_t i = 0; i < g->evidence_count; i++)
        wrapped(out, "  - ", g->evidence[i]);
    fputs("\nwhat to do\n", out);
    for (size_t i = 0; i < g->advice_count; i++)
        wrapped(out, "  - ", g->advice[i]);
    if (d->note_count)
        fputs("\nnot seen\n", out);
    for (size_t i = 0; i < d->note_count; i++)
        wrapped(out, "  - ", d->notes[i]);
    putc('\n', out);
}
