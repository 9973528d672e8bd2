#include "notes.h"

#include <stdarg.h>
#include <stdio.h>

void dz_flame_note(dz_flame_report *r, const char *format, ...)
{
    if (r->note_count == sizeof r->notes / sizeof r->notes[0])
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(r->notes[r->note_count++], sizeof r->notes[0], format, args);
    va_end(args);
}

void dz_flame_notes_run(dz_flame_report *r, const dz_run *run, const dz_collected *got)
{
    if (got->lost)
        dz_flame_note(r, "%zu Node thread(s) ended before their profile could be had", got->lost);
    if (got->clipped)
        dz_flame_note(r,
                      "%zu Node worker thread(s) were ended from outside (worker.terminate): up to "
                      "a second before their end is missing",
                      got->clipped);
    if (run->interrupted)
        dz_flame_note(r, "ended early by a signal: what was seen until then is shown");
}

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100 * (double)part / (double)whole : 0;
}

static void unwinding(dz_flame_report *r, const dz_native_options *o, const dz_native_losses *l)
{
    enum { WORTH = 1 }; /* percent */
    if (percent(l->cut, l->samples) >= WORTH)
        dz_flame_note(r,
                      "%.0f %% of the native stacks are deeper than what was copied of them, so "
                      "their outer part is missing%s",
                      percent(l->cut, l->samples),
                      o->unwind == DZ_UNWIND_DWARF ? "" : ": --unwind dwarf copies more");
    if (percent(l->astray, l->samples) >= WORTH)
        dz_flame_note(r,
                      "%.0f %% of the native stacks could not be followed to their end: code "
                      "without frame pointers that says nothing of its frames (.eh_frame)",
                      percent(l->astray, l->samples));
    if (percent(l->hurried, l->samples) >= WORTH)
        dz_flame_note(r,
                      "%.0f %% of the native stacks were followed by frame pointers alone, as "
                      "there was no time for more: lower --frequency, or --unwind dwarf",
                      percent(l->hurried, l->samples));
}

void dz_flame_notes_native(dz_flame_report *r, const dz_native_options *o, int error, dz_native *n)
{
    dz_native_losses l;
    char text[256];
    dz_native_losses_get(n, &l);
    dz_perf_explain(error, l.kernel || o->off_cpu, text, sizeof text);
    if (text[0])
        dz_flame_note(r, "%s", text);
    if (error < 0)
        return;
    if (o->off_cpu && !l.kernel)
        dz_flame_note(r, "how long threads wait is shown, but not where: switching happens in the "
                         "kernel, which kernel.perf_event_paranoid bars; to see it: "
                         "sudo sysctl kernel.perf_event_paranoid=1");
    if (l.lost)
        dz_flame_note(r, "%llu native samples were lost: lower --frequency, or --unwind fp",
                      (unsigned long long)l.lost);
    if (l.unseen)
        dz_flame_note(r, "%zu threads are not shown, for want of file descriptors: raise ulimit -n",
                      l.unseen);
    unwinding(r, o, &l);
    if (l.nameless)
        dz_flame_note(r, "%.200s %s: its functions are shown as one", l.nameless, l.why);
}
