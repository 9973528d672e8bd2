/* notes.h: what a graph does not show, said with what would help. */
#ifndef DZ_FLAME_NOTES_H
#define DZ_FLAME_NOTES_H

#include "native.h"
#include "outputs.h"

/* Adds a note; what does not fit is left out. */
void dz_flame_note(dz_flame_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Of the inspectors and of Ctrl-C. */
void dz_flame_notes_run(dz_flame_report *report, const dz_run *run, const dz_collected *got);

/* Of perf events; `error` is what starting them returned. */
void dz_flame_notes_native(dz_flame_report *report, const dz_native_options *options, int error,
                           dz_native *native);

#endif
