/* unwind.h: a sample's registers and a copy of its stack's top made into the chain of callers.
 *
 * Each step goes by what the file says of the code (cfi.h); code of which nothing is said, as what
 * a JIT makes, is taken to keep a frame pointer. Nothing but the copy is read, and every step must
 * lead up the stack, so a damaged stack ends the walk and nothing else. */
#ifndef DZ_FLAME_UNWIND_H
#define DZ_FLAME_UNWIND_H

#include "arch.h"
#include "perf.h"
#include "symbols.h"

typedef enum dz_unwound {
    DZ_UNWOUND_WHOLE,  /* to the thread's first function */
    DZ_UNWOUND_CUT,    /* to the end of the copy */
    DZ_UNWOUND_ASTRAY, /* to code or memory that can't be a caller's */
} dz_unwound;

/* The sample is of such a processor. Writes at most `cap` addresses, innermost first, to `out`; how
 * many to *depth. */
dz_unwound dz_unwind(const dz_arch *arch, dz_symbols *symbols, uint32_t image,
                     const dz_perf_sample *sample, uint64_t *out, size_t cap, size_t *depth);

#endif
