#include "unwind.h"

#include <dwarf.h>

typedef struct walk {
    const dz_arch *arch;
    const dz_perf_sample *sample;
    uint64_t value[DZ_REGS];
    uint64_t valid; /* one bit a register */
    uint64_t low;   /* address of the copy's first byte */
    bool beyond;    /* memory was wanted that lies above the copy */
} walk;

static bool has(const walk *w, unsigned reg)
{
    return reg < DZ_REGS && (w->valid & (UINT64_C(1) << reg));
}

static bool read_memory(walk *w, uint64_t at, uint64_t *out)
{
    uint64_t offset = at - w->low;
    if (w->sample->stack_len < sizeof *out || at < w->low ||
        offset > w->sample->stack_len - sizeof *out) {
        w->beyond |= at >= w->low;
        return false;
    }
    memcpy(out, w->sample->stack + offset, sizeof *out);
    return true;
}

/* DWARF 5, 2.5: what occurs in call frame information (signal frames, the linker's jump tables). */
static bool apply(walk *w, const Dwarf_Op *op, uint64_t *stack, size_t *depth)
{
    uint64_t a = *depth > 0 ? stack[*depth - 1] : 0, b = *depth > 1 ? stack[*depth - 2] : 0, top;
    size_t takes = 2;
    if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31) {
        takes = 0;
        top = op->atom - DW_OP_lit0;
    } else if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
        if (!has(w, op->atom - DW_OP_breg0))
            return false;
        takes = 0;
        top = w->value[op->atom - DW_OP_breg0] + op->number;
    } else {
        switch (op->atom) {
        case DW_OP_bregx:
            if (op->number >= DZ_REGS || !has(w, (unsigned)op->number))
                return false;
            takes = 0;
            top = w->value[op->number] + op->number2;
            break;
        case DW_OP_const1u:
        case DW_OP_const1s:
        case DW_OP_const2u:
        case DW_OP_const2s:
        case DW_OP_const4u:
        case DW_OP_const4s:
        case DW_OP_const8u:
        case DW_OP_const8s:
        case DW_OP_constu:
        case DW_OP_consts:
            takes = 0;
            top = op->number;
            break;
        case DW_OP_dup:
            takes = 0;
            top = a;
            break;
        case DW_OP_deref:
            takes = 1;
            if (!read_memory(w, a, &top))
                return false;
            break;
        case DW_OP_plus_uconst:
            takes = 1;
            top = a + op->number;
            break;
        case DW_OP_plus:
            top = b + a;
            break;
        case DW_OP_minus:
            top = b - a;
            break;
        case DW_OP_mul:
            top = b * a;
            break;
        case DW_OP_and:
            top = b & a;
            break;
        case DW_OP_or:
            top = b | a;
            break;
        case DW_OP_shl:
            top = a < 64 ? b << a : 0;
            break;
        case DW_OP_shr:
            top = a < 64 ? b >> a : 0;
            break;
        case DW_OP_ge:
            top = (int64_t)b >= (int64_t)a;
            break;
        case DW_OP_stack_value:
            return true;
        default:
            return false;
        }
    }
    if (*depth < takes || (op->atom == DW_OP_dup && *depth == 0))
        return false;
    *depth -= takes;
    stack[(*depth)++] = top;
    return true;
}

static bool evaluate(walk *w, const Dwarf_Op *ops, size_t count, const uint64_t *cfa, uint64_t *out)
{
    enum { STACK = 16 };
    uint64_t stack[STACK + 1];
    size_t depth = 0;
    for (size_t i = 0; i < count; i++) {
        bool well = true;
        if (ops[i].atom == DW_OP_call_frame_cfa && cfa)
            stack[depth++] = *cfa;
        else
            well = apply(w, &ops[i], stack, &depth);
        if (!well || depth > STACK)
            return false;
    }
    if (depth == 0)
        return false;
    *out = stack[depth - 1];
    return true;
}

/* The value a rule gives; false when it is lost. */
static bool value_of(walk *w, const dz_cfi *cfi, const dz_cfi_value *v, unsigned reg,
                     const uint64_t *cfa, uint64_t *out)
{
    switch ((dz_cfi_kind)v->kind) {
    case DZ_CFI_SAME:
        *out = has(w, reg) ? w->value[reg] : 0;
        return has(w, reg);
    case DZ_CFI_MEMORY: /* the CFA itself is a value: its own rule refers to none */
        return cfa && read_memory(w, *cfa + (uint64_t)(int64_t)v->offset, out);
    case DZ_CFI_VALUE:
        *out = cfa ? *cfa + (uint64_t)(int64_t)v->offset : 0;
        return cfa != NULL;
    case DZ_CFI_REGISTER:
        *out = has(w, v->reg) ? w->value[v->reg] + (uint64_t)(int64_t)v->offset : 0;
        return has(w, v->reg);
    case DZ_CFI_AT:
        return evaluate(w, cfi->ops + v->offset, v->reg, cfa, out) && read_memory(w, *out, out);
    case DZ_CFI_IS:
        return evaluate(w, cfi->ops + v->offset, v->reg, cfa, out);
    default:
        return false;
    }
}

static uint64_t bit(unsigned reg)
{
    return UINT64_C(1) << reg;
}

/* Whether there is a caller, whose registers are then the walk's. */
static bool step_by_rule(walk *w, const dz_cfi *cfi, const dz_cfi_rule *rule)
{
    const dz_arch *a = w->arch;
    uint64_t cfa, value[DZ_REGS] = {0}, valid = 0;
    if (!value_of(w, cfi, &rule->cfa, 0, NULL, &cfa))
        return false;
    for (unsigned i = 0; i < a->regs && i < DZ_REGS; i++)
        if (value_of(w, cfi, &rule->regs[i], i, &cfa, &value[i]))
            valid |= bit(i);
    uint8_t own = rule->regs[a->sp].kind;
    if (own == DZ_CFI_SAME || own == DZ_CFI_UNDEFINED) { /* no rule of its own: what CFA means */
        value[a->sp] = cfa;
        valid |= bit(a->sp);
    }
    if (!(valid & bit(a->ra)))
        return false;
    value[a->pc] = value[a->ra] & a->pc_bits;
    memcpy(w->value, value, sizeof value);
    w->valid = valid | bit(a->pc);
    return true;
}

/* Both processors keep the caller's frame pointer where the frame pointer leads, and the return
 * address above it. */
static bool step_by_pointer(walk *w)
{
    const dz_arch *a = w->arch;
    uint64_t fp = w->value[a->fp], above, pc;
    if (!has(w, a->fp) || fp < w->value[a->sp] || (fp & 7) || !read_memory(w, fp, &above) ||
        !read_memory(w, fp + 8, &pc))
        return false;
    w->value[a->fp] = above;
    w->value[a->sp] = fp + 16; /* at least */
    w->value[a->pc] = pc & a->pc_bits;
    w->valid = bit(a->fp) | bit(a->pc) | (a->frame_is_top ? bit(a->sp) : 0);
    return true;
}

/* Where rules need what frame pointers did not bring, those may still lead on. */
static bool step(walk *w, const dz_found_rule *found)
{
    if (found->rule) {
        if (step_by_rule(w, found->cfi, found->rule))
            return true;
        if (w->arch->frame_is_top || has(w, w->arch->sp))
            return false;
    }
    return step_by_pointer(w);
}

dz_unwound dz_unwind(const dz_arch *arch, dz_symbols *symbols, uint32_t image,
                     const dz_perf_sample *sample, uint64_t *out, size_t cap, size_t *depth)
{
    walk w = {.arch = arch, .sample = sample, .valid = bit(arch->regs) - 1};
    memcpy(w.value, sample->registers, sizeof w.value);
    w.low = w.value[arch->sp];
    bool exact = true; /* the address is where it was interrupted, not behind a call */
    for (*depth = 0; *depth < cap;) {
        uint64_t pc = w.value[arch->pc], sp = w.value[arch->sp];
        dz_found_rule found = dz_symbols_rule(symbols, image, exact ? pc : pc - 1, sample->at);
        if (!found.mapped && *depth > 0)
            return pc == 0 ? DZ_UNWOUND_WHOLE : DZ_UNWOUND_ASTRAY;
        if (found.rule && found.cfi->arch != arch)
            found.rule = NULL;
        /* Whoever names it looks one byte back, as a return address lies behind its call. */
        bool signal = found.rule && found.rule->signal;
        out[*depth] = pc + (*depth > 0 && (exact || signal));
        (*depth)++;
        /* A function that calls none may leave the return address in its register, and the stack
         * as it was. */
        bool leaf = exact && arch->ra != arch->pc;
        exact = signal;
        if (found.rule && found.rule->regs[arch->ra].kind == DZ_CFI_UNDEFINED)
            return DZ_UNWOUND_WHOLE;
        if (!step(&w, &found))
            return w.beyond ? DZ_UNWOUND_CUT : DZ_UNWOUND_ASTRAY;
        /* The signal's stack may be another one; the copy holds one only. */
        if (w.value[arch->sp] < sp + !leaf)
            return DZ_UNWOUND_ASTRAY;
    }
    return DZ_UNWOUND_CUT;
}
