/* outputs.h: what donmaz flame prints and writes. */
#ifndef DZ_FLAME_OUTPUTS_H
#define DZ_FLAME_OUTPUTS_H

#include "profile.h"

typedef struct dz_flame_outputs {
    const char *html, *collapsed, *speedscope, *pprof, *cpuprofile,
        *json; /* "-": standard output */
    bool open;
} dz_flame_outputs;

typedef struct dz_flame_report {
    char title[512];
    pid_t pid;
    char notes[12][400]; /* what could not be seen, and how to allow it */
    size_t note_count;
    size_t top;
} dz_flame_report;

/* The table on the terminal and every file asked for. An exit code, after a message when bad. */
int dz_flame_write(const dz_profile *profile, const dz_flame_report *report,
                   const dz_flame_outputs *outputs);

#endif
