/* cfi.h: how a function's caller is found: DWARF call frame information through elfutils, from
 * .eh_frame (which nearly every 64-bit program has) or .debug_frame, kept as small tables.
 *
 * Working a row of the table out takes microseconds, applying it nanoseconds; so each is kept by
 * its place in the file, up to a bound. */
#ifndef DZ_FLAME_CFI_H
#define DZ_FLAME_CFI_H

#include "arch.h"
#include "map.h"

#include <elfutils/libdwfl.h>

typedef enum dz_cfi_kind {
    DZ_CFI_SAME,      /* the caller's is the callee's */
    DZ_CFI_UNDEFINED, /* lost; of the return address: there is no caller */
    DZ_CFI_MEMORY,    /* stored at CFA + offset */
    DZ_CFI_VALUE,     /* is CFA + offset */
    DZ_CFI_REGISTER,  /* is register + offset */
    DZ_CFI_AT,        /* stored where the expression says */
    DZ_CFI_IS,        /* what the expression says */
} dz_cfi_kind;

typedef struct dz_cfi_value {
    uint8_t kind;
    uint8_t reg;    /* register; of an expression: how many operations */
    int32_t offset; /* of an expression: index of the first operation */
} dz_cfi_value;

typedef struct dz_cfi_rule {
    dz_cfi_value cfa;           /* canonical frame address: the stack pointer before the call */
    dz_cfi_value regs[DZ_REGS]; /* by DWARF's numbers */
    bool signal;                /* called by the kernel in the middle of another function */
} dz_cfi_rule;

typedef struct dz_cfi {
    const dz_arch *arch; /* what the file is for; NULL: none that is known */
    bool asked;
    Dwarf_CFI *tables[2]; /* .eh_frame, .debug_frame */
    Dwarf_Addr bias[2];
    bool opened[2];
    dz_map known; /* place to index into rules; 0: has none */
    dz_cfi_rule *rules;
    size_t count, cap;
    Dwarf_Op *ops;
    size_t op_count, op_cap;
} dz_cfi;

void dz_cfi_close(dz_cfi *cfi);

/* The rule at an address of the module, kept under `key`; NULL when the file tells nothing of it.
 * Valid until the next call. */
const dz_cfi_rule *dz_cfi_find(dz_cfi *cfi, Dwfl_Module *module, uint64_t key, Dwarf_Addr address);

#endif
