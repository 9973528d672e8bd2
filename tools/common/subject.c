#include "subject.h"

#include "tools.h"

#include <stdio.h>

int dz_subject_check(const char *tool, const dz_operands *operands, const char *on_port,
                     const char *load)
{
    if (operands->args.count)
        return dz_usage(tool, "'%s' is no option; the command comes after --",
                        operands->args.items[0]);
    if (operands->command && operands->command_count == 0)
        return dz_usage(tool, "no command after --");
    if (on_port && load)
        return dz_usage(tool, "give --on-port or --load, not both");
    return DZ_OPTIONS_OK;
}

void dz_subject_title(char *out, size_t cap, uint64_t pid, const dz_operands *operands)
{
    size_t at = 0;
    if (pid) {
        snprintf(out, cap, "process %d", (int)pid);
        return;
    }
    for (int i = 0; i < operands->command_count && at < cap; i++) {
        int n = snprintf(out + at, cap - at, i ? " %s" : "%s", operands->command[i]);
        at += n > 0 ? (size_t)n : 0;
    }
}
