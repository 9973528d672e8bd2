#include "app/app.h"

#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A handler that overflows its stack touches the guard below it. The signal's own stack (see
 * thread.c) is where this runs; only async-signal-safe calls are allowed. */

static size_t append(char *text, size_t at, size_t room, const char *more)
{
    size_t len = strlen(more);
    if (len > room - at)
        len = room - at;
    memcpy(text + at, more, len);
    return at + len;
}

static void report(const dz_fiber *fiber)
{
    char text[512];
    size_t len = append(text, 0, sizeof text, "donmaz: stack overflow in the handler of ");
    len = append(text, len, sizeof text, fiber->label ? fiber->label : "(unknown)");
    len = append(text, len, sizeof text,
                 ": use less stack, or raise --stack-size; this process ends\n");
    ssize_t n = write(STDERR_FILENO, text, len);
    (void)n;
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)context;
    const dz_fiber *fiber = dz_fiber_current();
    const char *at = info->si_addr;
    if (fiber && at < fiber->stack && at >= fiber->stack - DZ_FIBER_GUARD)
        report(fiber);
    /* Again, now with the default action: a core dump at the faulting instruction. */
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigaction(signal, &plain, NULL);
    if (info->si_code <= 0)
        raise(signal); /* sent by a process: no instruction faults again after the return */
}

void dz_fault_install(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}

/* --- where a rescued handler was --- */

static void on_backtrace(int signal)
{
    (void)signal;
    enum { OURS = 2 }; /* this function and the kernel's return from a signal */
    void *frames[DZ_FIBER_TRACE + OURS];
    dz_fiber *fiber = dz_fiber_current();
    if (!fiber)
        return; /* it came back meanwhile */
    int count = backtrace(frames, DZ_FIBER_TRACE + OURS) - OURS;
    if (count <= 0)
        return;
    memcpy(fiber->trace, frames + OURS, (size_t)count * sizeof *frames);
    fiber->trace_count = count;
}

int dz_fault_install_backtrace(void)
{
    /* The first call loads the unwinder, which a signal handler must not do. */
    void *frame;
    (void)backtrace(&frame, 1);
    int signal = SIGRTMIN + 7;
    struct sigaction action = {.sa_handler = on_backtrace, .sa_flags = SA_RESTART | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, NULL);
    return signal;
}
