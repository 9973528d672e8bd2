#include "log/line.h"

#include <donmaz/error.h>

#include <stdlib.h>

int dz_redact_init(dz_redact *redact, const char *const *rules, size_t count)
{
    *redact = (dz_redact){0};
    if (count == 0)
        return 0;
    redact->rules = calloc(count, sizeof *redact->rules);
    if (!redact->rules)
        return DZ_E_NOMEM;
    redact->count = count;
    for (size_t i = 0; i < count; i++) {
        redact->rules[i] = strdup(rules[i]);
        if (!redact->rules[i]) {
            dz_redact_close(redact);
            return DZ_E_NOMEM;
        }
        redact->queries |= rules[i][0] == '?';
    }
    return 0;
}

void dz_redact_close(dz_redact *redact)
{
    for (size_t i = 0; i < redact->count; i++)
        free(redact->rules[i]);
    free(redact->rules);
    *redact = (dz_redact){0};
}
