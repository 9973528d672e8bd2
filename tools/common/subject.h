/* subject.h: what doctor and flame are pointed at: a command after --, or a process that runs. */
#ifndef DZ_TOOLS_COMMON_SUBJECT_H
#define DZ_TOOLS_COMMON_SUBJECT_H

#include "options.h"

#include <stdint.h>

/* What both refuse: words that are no option, an empty command, two loads at once. DZ_OPTIONS_OK or
 * the exit code, after a message. */
int dz_subject_check(const char *tool, const dz_operands *operands, const char *on_port,
                     const char *load);

/* The command's words, or "process PID" where there is a pid. Cut where it does not fit. */
void dz_subject_title(char *out, size_t cap, uint64_t pid, const dz_operands *operands);

#endif
