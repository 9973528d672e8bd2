#include "arch.h"

#include <elf.h>
#include <stddef.h>

/* The kernel's order (uapi/asm/perf_regs.h): AX BX CX DX SI DI BP SP IP, and from bit 16 on R8 to
 * R15. DWARF's numbers: x86-64 psABI, figure 3.36. A call pushes the return address, which is not
 * kept in a register: 16 stands for it and for the instruction pointer. */
static const unsigned char x86_64_by_kernel[] = {0, 3, 2,  1,  4,  5,  6,  7, 16,
                                                 8, 9, 10, 11, 12, 13, 14, 15};

const dz_arch dz_arch_x86_64 = {
    .name = "x86-64",
    .machine = EM_X86_64,
    .regs = sizeof x86_64_by_kernel,
    .fp = 6,
    .sp = 7,
    .pc = 16,
    .ra = 16,
    .asked = UINT64_C(0xff01ff),
    .by_kernel = x86_64_by_kernel,
    .pc_bits = UINT64_MAX,
    .frame_is_top = true,
};

/* X0 to X29, LR, SP and PC, in which DWARF (AADWARF64, 4.1) and the kernel agree; PC has no number
 * of DWARF's here, as the caller's comes by way of LR. A return address may be signed in the bits
 * above those of addresses (AAPCS64, pointer authentication). */
static const unsigned char aarch64_by_kernel[] = {
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
    17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32,
};

const dz_arch dz_arch_aarch64 = {
    .name = "aarch64",
    .machine = EM_AARCH64,
    .regs = sizeof aarch64_by_kernel,
    .fp = 29,
    .sp = 31,
    .pc = 32,
    .ra = 30,
    .asked = (UINT64_C(1) << 33) - 1,
    .by_kernel = aarch64_by_kernel,
    .pc_bits = (UINT64_C(1) << 48) - 1,
    .frame_is_top = false, /* compilers put the record at the bottom of the frame */
};

_Static_assert(sizeof x86_64_by_kernel <= DZ_REGS && sizeof aarch64_by_kernel <= DZ_REGS,
               "room for all registers");

const dz_arch *dz_arch_here(void)
{
#if defined(__x86_64__)
    return &dz_arch_x86_64;
#elif defined(__aarch64__)
    return &dz_arch_aarch64;
#else
    return NULL;
#endif
}
