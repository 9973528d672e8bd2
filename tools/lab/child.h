/* child.h: a helper program (the load generator, a version command) and what it prints. */
#ifndef DZ_LAB_CHILD_H
#define DZ_LAB_CHILD_H

#include "target/spawn.h"

#include <stddef.h>

typedef struct dz_lab_child {
    dz_target process;
    int out, err; /* what we read of it; -1 once closed */
    char *output; /* all of stdout, NUL-terminated; may be NULL when empty */
    size_t output_len, output_room;
    char last[300]; /* the last line of stderr that was not empty */
    char line[300]; /* of stderr, being read */
    size_t line_len;
    bool too_long;
} dz_lab_child;

/* Starts argv in folder `cwd` (NULL: ours). It can't outlive us. 0 or a negative error. */
int dz_lab_child_start(dz_lab_child *child, char *const *argv, const char *cwd);

/* Reads what comes until the child has ended or `until` (monotonic ns), or a signal came. Returns
 * true once it has ended and all it printed has been read. */
bool dz_lab_child_wait(dz_lab_child *child, uint64_t until);

/* Kills it if it still runs, and frees everything. */
void dz_lab_child_end(dz_lab_child *child);

/* Runs `command` (words as in words.h, nothing filled in) in `cwd` for at most ten seconds. Returns
 * its exit status, or a negative error; the first line it printed to stdout goes to `line`. */
int dz_lab_capture(const char *command, const char *cwd, char *line, size_t size);

#endif
