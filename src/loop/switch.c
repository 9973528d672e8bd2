#include "loop/switch.h"

#include <stdint.h>
#include <string.h>

/* A switch saves what the ABI says a function must preserve and nothing else; the rest is dead at a
 * call anyway. */

#if defined(__x86_64__)

/* System V AMD64: rbx, rbp, r12-r15, and the control words of MXCSR and the x87 unit. */
__asm__(".text\n"
        ".globl dz_context_swap\n"
        ".hidden dz_context_swap\n"
        ".type dz_context_swap, @function\n"
        ".p2align 4\n"
        "dz_context_swap:\n"
        "  .cfi_startproc\n"
        "  pushq %rbp\n"
        "  pushq %rbx\n"
        "  pushq %r12\n"
        "  pushq %r13\n"
        "  pushq %r14\n"
        "  pushq %r15\n"
        "  subq $8, %rsp\n"
        "  stmxcsr (%rsp)\n"
        "  fnstcw 4(%rsp)\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  ldmxcsr (%rsp)\n"
        "  fldcw 4(%rsp)\n"
        "  addq $8, %rsp\n"
        "  popq %r15\n"
        "  popq %r14\n"
        "  popq %r13\n"
        "  popq %r12\n"
        "  popq %rbx\n"
        "  popq %rbp\n"
        "  ret\n"
        "  .cfi_endproc\n"
        ".size dz_context_swap, .-dz_context_swap\n"
        /* The first switch returns into this: entry in r12, its argument in r13. Unwinders stop
         * here: there is no caller. */
        ".globl dz_context_enter\n"
        ".hidden dz_context_enter\n"
        ".type dz_context_enter, @function\n"
        ".p2align 4\n"
        "dz_context_enter:\n"
        "  .cfi_startproc\n"
        "  .cfi_undefined rip\n"
        "  xorl %ebp, %ebp\n"
        "  movq %r13, %rdi\n"
        "  callq *%r12\n"
        "  ud2\n"
        "  .cfi_endproc\n"
        ".size dz_context_enter, .-dz_context_enter\n");

void dz_context_swap(void **save, void *to);
void dz_context_enter(void);

void dz_context_make(dz_context *context, void *stack, size_t size, void (*entry)(void *),
                     void *arg)
{
    /* In the order swap pops: control words, r15, r14, r13, r12, rbx, rbp, return address. */
    enum { WORDS = 8 };
    uint64_t *top = (uint64_t *)(((uintptr_t)stack + size) & ~(uintptr_t)15);
    uint64_t *sp = top - WORDS;
    memset(sp, 0, WORDS * sizeof *sp);
    uint32_t mxcsr;
    uint16_t x87;
    __asm__ volatile("stmxcsr %0\n fnstcw %1" : "=m"(mxcsr), "=m"(x87));
    sp[0] = mxcsr | (uint64_t)x87 << 32;
    sp[3] = (uint64_t)(uintptr_t)arg;
    sp[4] = (uint64_t)(uintptr_t)entry;
    sp[7] = (uint64_t)(uintptr_t)dz_context_enter;
    context->sp = sp;
}

void dz_context_switch(dz_context *from, dz_context *to)
{
    dz_context_swap(&from->sp, to->sp);
}

#elif defined(__aarch64__)

/* AAPCS64: x19-x30 and the low halves of v8-v15. */
__asm__(".text\n"
        ".globl dz_context_swap\n"
        ".hidden dz_context_swap\n"
        ".type dz_context_swap, %function\n"
        ".p2align 4\n"
        "dz_context_swap:\n"
        "  sub sp, sp, #160\n"
        "  stp x19, x20, [sp, #0]\n"
        "  stp x21, x22, [sp, #16]\n"
        "  stp x23, x24, [sp, #32]\n"
        "  stp x25, x26, [sp, #48]\n"
        "  stp x27, x28, [sp, #64]\n"
        "  stp x29, x30, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n"
        "  stp d10, d11, [sp, #112]\n"
        "  stp d12, d13, [sp, #128]\n"
        "  stp d14, d15, [sp, #144]\n"
        "  mov x9, sp\n"
        "  str x9, [x0]\n"
        "  mov sp, x1\n"
        "  ldp x19, x20, [sp, #0]\n"
        "  ldp x21, x22, [sp, #16]\n"
        "  ldp x23, x24, [sp, #32]\n"
        "  ldp x25, x26, [sp, #48]\n"
        "  ldp x27, x28, [sp, #64]\n"
        "  ldp x29, x30, [sp, #80]\n"
        "  ldp d8, d9, [sp, #96]\n"
        "  ldp d10, d11, [sp, #112]\n"
        "  ldp d12, d13, [sp, #128]\n"
        "  ldp d14, d15, [sp, #144]\n"
        "  add sp, sp, #160\n"
        "  ret\n"
        ".size dz_context_swap, .-dz_context_swap\n"
        ".globl dz_context_enter\n"
        ".hidden dz_context_enter\n"
        ".type dz_context_enter, %function\n"
        ".p2align 4\n"
        "dz_context_enter:\n"
        "  .cfi_startproc\n"
        "  .cfi_undefined x30\n"
        "  mov x0, x20\n"
        "  blr x19\n"
        "  brk #1\n"
        "  .cfi_endproc\n"
        ".size dz_context_enter, .-dz_context_enter\n");

void dz_context_swap(void **save, void *to);
void dz_context_enter(void);

void dz_context_make(dz_context *context, void *stack, size_t size, void (*entry)(void *),
                     void *arg)
{
    enum { WORDS = 20, LINK = 11 };
    uint64_t *top = (uint64_t *)(((uintptr_t)stack + size) & ~(uintptr_t)15);
    uint64_t *sp = top - WORDS;
    memset(sp, 0, WORDS * sizeof *sp);
    sp[0] = (uint64_t)(uintptr_t)entry;
    sp[1] = (uint64_t)(uintptr_t)arg;
    sp[LINK] = (uint64_t)(uintptr_t)dz_context_enter;
    context->sp = sp;
}

void dz_context_switch(dz_context *from, dz_context *to)
{
    dz_context_swap(&from->sp, to->sp);
}

#else
#error "donmaz runs on x86-64 and AArch64: add the context switch of your processor here"
#endif
