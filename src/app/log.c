#include "app/app.h"

#include "base/clock.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>

void dz_core_log(dz_core *core, int level, const char *fmt, ...)
{
    if (!core->on_log && !dz_log_enabled(core->logger, level))
        return;
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (core->on_log)
        core->on_log(core->log_context, level, text);
    else
        dz_log_write(core->logger, level, text, NULL, 0);
}

/* " at program+0x1234 ...": for addr2line -e program. */
static void describe_trace(const dz_fiber *fiber, char *text, size_t room)
{
    size_t len = 0;
    for (int i = 0; i < fiber->trace_count && len < room; i++) {
        Dl_info info;
        if (!dladdr(fiber->trace[i], &info) || !info.dli_fname)
            continue;
        const char *slash = strrchr(info.dli_fname, '/');
        uintptr_t offset = (uintptr_t)fiber->trace[i] - (uintptr_t)info.dli_fbase;
        len += (size_t)snprintf(text + len, room - len, "%s%s+0x%llx", len ? " " : "; it was at ",
                                slash ? slash + 1 : info.dli_fname, (unsigned long long)offset);
    }
}

/* At most one line a second; the next one says how many were held back. */
void dz_core_warn_rescue(dz_core *core, const dz_route *route, const dz_fiber *fiber)
{
    uint64_t now = dz_now(), next = atomic_load(&core->next_warning);
    if (now < next || !atomic_compare_exchange_strong(&core->next_warning, &next, now + DZ_SEC)) {
        atomic_fetch_add(&core->warnings_held, 1);
        return;
    }
    uint64_t held = atomic_exchange(&core->warnings_held, 0);
    char more[80] = "";
    if (held > 0)
        snprintf(more, sizeof more, " (and %llu more rescues since the last such line)",
                 (unsigned long long)held);
    char trace[640] = "";
    describe_trace(fiber, trace, sizeof trace);
    dz_core_log(core, 40, "%s computed %llu ms on the loop, which went on without it%s%s",
                route->label, (unsigned long long)((fiber->wall_ns + DZ_MS / 2) / DZ_MS), more,
                trace);
}
