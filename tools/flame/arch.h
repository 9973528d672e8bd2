/* arch.h: what unwinding must know of a processor: by which numbers DWARF calls its registers, and
 * which of them lead to the caller. */
#ifndef DZ_FLAME_ARCH_H
#define DZ_FLAME_ARCH_H

#include <stdbool.h>
#include <stdint.h>

enum { DZ_REGS = 33 }; /* as many as the processor with the most has */

typedef struct dz_arch {
    const char *name;
    uint16_t machine; /* ELF's number */
    uint8_t regs;
    uint8_t fp, sp, pc;
    uint8_t ra;                     /* whose rule gives the caller's pc */
    uint64_t asked;                 /* of the kernel: one bit a register, by its numbers */
    const unsigned char *by_kernel; /* DWARF's numbers in the order the kernel hands them over */
    uint64_t pc_bits;               /* of a return address; others may be a signature */
    bool frame_is_top;              /* the caller's stack pointer is right above the frame record */
} dz_arch;

extern const dz_arch dz_arch_x86_64, dz_arch_aarch64;

/* Of the machine this runs on; NULL where only frame pointers are followed, by the kernel. */
const dz_arch *dz_arch_here(void);

#endif
