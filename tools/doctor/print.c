/* The verdict for people. */
#include "doctor.h"

#include "common/printable.h"
#include "common/table.h"
#include "common/terminal.h"

/* Wraps at words; `first` leads the first line, the others are indented alike. */
static void wrapped(FILE *out, const char *first, const char *text)
{
    enum { WIDTH = 96 };
    size_t indent = dz_text_width(first), column = indent;
    fputs(first, out);
    while (*text) {
        size_t len = strcspn(text, " ");
        bool begins = column == indent;
        if (!begins && column + 1 + len > WIDTH) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
            begins = true;
        }
        if (!begins)
            putc(' ', out);
        dz_put_clean(out, text, len);
        column += len + !begins;
        text += len + (text[len] == ' ');
    }
    putc('\n', out);
}

static const char *style(FILE *out, dz_style code)
{
    return dz_wants_colour(out) ? dz_style_code(code) : "";
}

static void estimates(const dz_doctor *d, FILE *out)
{
    fputs("\nwhat each way of running it would give\n", out);
    dz_table *t = dz_table_new(5);
    dz_table_head(t, "", DZ_LEFT);
    dz_table_head(t, "route", DZ_LEFT);
    dz_table_head(t, "req/s", DZ_RIGHT);
    dz_table_head(t, "p50 ms", DZ_RIGHT);
    dz_table_head(t, "p99 ms", DZ_RIGHT);
    for (size_t m = 0; m < d->estimate_count; m++)
        for (size_t i = 0; i < d->work_count; i++) {
            const dz_queue_latency *r = &d->estimates[m].result.routes[i];
            dz_table_cell(t, "%s%s", i ? "" : dz_queue_mode_name(d->estimates[m].mode),
                          i || d->estimates[m].deal == DZ_QUEUE_EVEN ? "" : ", dealt unevenly");
            dz_table_cell(t, "%s", d->work[i].name);
            dz_table_cell(t, r->rps < 100 ? "%.1f" : "%.0f", r->rps);
            dz_table_cell(t, "%.1f", r->p50_ms);
            dz_table_cell(t, "%.1f", r->p99_ms);
        }
    dz_table_print(t, out);
    dz_table_free(t);
    wrapped(out, "  ", d->basis);
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
    if (d->basis[0])
        estimates(d, out);
    if (d->note_count)
        fputs("\nnot seen\n", out);
    for (size_t i = 0; i < d->note_count; i++)
        wrapped(out, "  - ", d->notes[i]);
    putc('\n', out);
}
