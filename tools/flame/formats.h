/* formats.h: profiles from and to files. Readers add to a profile; writers print the whole of it,
 * idle stacks left out. Returns 0 or a negative code; a reader's *error names the place. */
#ifndef DZ_FLAME_FORMATS_H
#define DZ_FLAME_FORMATS_H

#include "profile.h"

#include <stdio.h>

typedef struct dz_read_error {
    char text[160]; /* "line 12: expected a number" */
} dz_read_error;

typedef int dz_profile_reader(dz_profile *profile, FILE *in, dz_read_error *error);

/* V8's JSON. Time deltas may be negative: samples are put in order of time, the total is kept. */
int dz_read_cpuprofile(dz_profile *profile, FILE *in, dz_read_error *error);

/* `perf script` text. */
int dz_read_perf_script(dz_profile *profile, FILE *in, dz_read_error *error);

/* "a;b;c 12" a line; a sample counts as one millisecond. */
int dz_read_collapsed(dz_profile *profile, FILE *in, dz_read_error *error);

/* Tells the format by its first bytes. */
int dz_read_any(dz_profile *profile, FILE *in, dz_read_error *error);

/* Reads one profile of a thread; its samples belong to `tid` on the time line. */
int dz_read_cpuprofile_of(dz_profile *profile, FILE *in, pid_t tid, dz_read_error *error);

/* Collapsed stacks count microseconds. */
int dz_write_collapsed(const dz_profile *profile, FILE *out);
int dz_write_cpuprofile(const dz_profile *profile, FILE *out);
int dz_write_speedscope(const dz_profile *profile, FILE *out, const char *title);
int dz_write_pprof(const dz_profile *profile, FILE *out);

/* The tree as the page wants it: [strings], [frames], [stacks]. */
int dz_write_page_data(const dz_profile *profile, FILE *out);

#endif
