/* switch.h: leaving one stack for another. */
#ifndef DZ_LOOP_SWITCH_H
#define DZ_LOOP_SWITCH_H

#include <stddef.h>

/* A stack that is not running: where its saved registers lie (x86-64, AArch64) or a ucontext. */
typedef struct dz_context {
    void *sp;
} dz_context;

/* Prepares a context that calls entry(arg) on the given stack when first switched to. entry must
 * not return. */
void dz_context_make(dz_context *context, void *stack, size_t size, void (*entry)(void *),
                     void *arg);

/* Saves the running context in *from and continues *to; returns when something switches back. */
void dz_context_switch(dz_context *from, dz_context *to);

#endif
