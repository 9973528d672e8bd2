#include "cfi.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RULES = 65536, MAX_OPS = 64 };

static void forget(dz_cfi *c)
{
    dz_map_close(&c->known);
    c->count = c->op_count = 0;
}

void dz_cfi_close(dz_cfi *c)
{
    forget(c);
    free(c->rules);
    free(c->ops);
    *c = (dz_cfi){0};
}

static bool reserve(void **array, size_t count, size_t *cap, size_t size)
{
    if (count <= *cap)
        return true;
    size_t want = *cap ? *cap * 2 : 256;
    void *more = reallocarray(*array, want, size);
    if (!more)
        return false;
    *array = more;
    *cap = want;
    return true;
}

static dz_cfi_value expression(dz_cfi *c, const Dwarf_Op *ops, size_t n)
{
    bool value = n > 0 && ops[n - 1].atom == DW_OP_stack_value;
    if (n > MAX_OPS || !reserve((void **)&c->ops, c->op_count + MAX_OPS, &c->op_cap, sizeof *ops))
        return (dz_cfi_value){.kind = DZ_CFI_UNDEFINED};
    memcpy(c->ops + c->op_count, ops, n * sizeof *ops);
    dz_cfi_value v = {
        .kind = value ? DZ_CFI_IS : DZ_CFI_AT, .reg = (uint8_t)n, .offset = (int32_t)c->op_count};
    c->op_count += n;
    return v;
}

/* The frequent form of a rule for the CFA: a register and an offset. */
static bool is_register(const Dwarf_Op *op, dz_cfi_value *out)
{
    uint64_t reg = op->number, offset = op->number2;
    if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
        reg = op->atom - DW_OP_breg0;
        offset = op->number;
    } else if (op->atom != DW_OP_bregx) {
        return false;
    }
    *out = (dz_cfi_value){
        .kind = DZ_CFI_REGISTER, .reg = (uint8_t)reg, .offset = (int32_t)(int64_t)offset};
    return reg < DZ_REGS;
}

static dz_cfi_value cfa_of(dz_cfi *c, Dwarf_Frame *frame)
{
    Dwarf_Op *ops;
    size_t n;
    dz_cfi_value v = {.kind = DZ_CFI_UNDEFINED};
    if (dwarf_frame_cfa(frame, &ops, &n) != 0 || n == 0)
        return v;
    if (n == 1 && is_register(&ops[0], &v))
        return v;
    v = expression(c, ops, n);
    v.kind = DZ_CFI_IS; /* the expression's result is the address itself */
    return v;
}

/* elfutils states every rule as operations; "CFA plus so much" is most of them. */
static dz_cfi_value register_of(dz_cfi *c, Dwarf_Frame *frame, int number)
{
    Dwarf_Op memory[3], *ops;
    size_t n;
    if (dwarf_frame_register(frame, number, memory, &ops, &n) != 0)
        return (dz_cfi_value){.kind = DZ_CFI_UNDEFINED};
    if (n == 0)
        return (dz_cfi_value){.kind = ops ? DZ_CFI_UNDEFINED : DZ_CFI_SAME};
    if (ops[0].atom == DW_OP_regx && n == 1)
        return (dz_cfi_value){.kind = ops[0].number < DZ_REGS ? DZ_CFI_REGISTER : DZ_CFI_UNDEFINED,
                              .reg = (uint8_t)ops[0].number};
    if (ops[0].atom == DW_OP_call_frame_cfa) {
        bool plus = n > 1 && ops[1].atom == DW_OP_plus_uconst;
        bool value = ops[n - 1].atom == DW_OP_stack_value;
        if (n == 1U + plus + value)
            return (dz_cfi_value){.kind = value ? DZ_CFI_VALUE : DZ_CFI_MEMORY,
                                  .offset = plus ? (int32_t)(int64_t)ops[1].number : 0};
    }
    return expression(c, ops, n);
}

static bool look_up(dz_cfi *c, size_t table, Dwarf_Addr address, Dwarf_Frame **frame)
{
    return c->tables[table] &&
           dwarf_cfi_addrframe(c->tables[table], address - c->bias[table], frame) == 0;
}

/* .debug_frame may be in a file of its own, which is looked for: only when there is no other way.
 */
static bool find(dz_cfi *c, Dwfl_Module *module, Dwarf_Addr address, Dwarf_Frame **frame)
{
    if (!c->opened[0])
        c->tables[0] = dwfl_module_eh_cfi(module, &c->bias[0]);
    c->opened[0] = true;
    if (look_up(c, 0, address, frame))
        return true;
    if (!c->opened[1])
        c->tables[1] = dwfl_module_dwarf_cfi(module, &c->bias[1]);
    c->opened[1] = true;
    return look_up(c, 1, address, frame);
}

static const dz_arch *arch_of(Dwfl_Module *module)
{
    static const dz_arch *const all[] = {&dz_arch_x86_64, &dz_arch_aarch64};
    GElf_Addr bias;
    GElf_Ehdr memory, *head = NULL;
    Elf *elf = dwfl_module_getelf(module, &bias);
    if (elf)
        head = gelf_getehdr(elf, &memory);
    for (size_t i = 0; head && i < sizeof all / sizeof all[0]; i++)
        if (all[i]->machine == head->e_machine)
            return all[i];
    return NULL;
}

static bool make(dz_cfi *c, Dwfl_Module *module, Dwarf_Addr address, dz_cfi_rule *rule)
{
    Dwarf_Frame *frame;
    if (!c->asked)
        c->arch = arch_of(module);
    c->asked = true;
    if (!c->arch || !find(c, module, address, &frame))
        return false;
    *rule = (dz_cfi_rule){.cfa = cfa_of(c, frame)};
    for (int i = 0; i < c->arch->regs; i++)
        rule->regs[i] = register_of(c, frame, i);
    dwarf_frame_info(frame, NULL, NULL, &rule->signal);
    free(frame);
    return rule->cfa.kind != DZ_CFI_UNDEFINED;
}

const dz_cfi_rule *dz_cfi_find(dz_cfi *c, Dwfl_Module *module, uint64_t key, Dwarf_Addr address)
{
    uint32_t index;
    size_t at = SIZE_MAX;
    if (dz_map_next(&c->known, key, &at, &index))
        return index ? &c->rules[index] : NULL;
    if (c->count >= MAX_RULES || c->op_count > INT32_MAX - MAX_OPS)
        forget(c);
    if (c->count == 0)
        c->count = 1; /* index 0 stands for none */
    if (!reserve((void **)&c->rules, c->count + 1, &c->cap, sizeof *c->rules))
        return NULL;
    dz_cfi_rule *rule = &c->rules[c->count];
    bool found = make(c, module, address, rule);
    if (dz_map_put(&c->known, key, found ? (uint32_t)c->count : 0) && found)
        c->count++; /* else the next one takes its place */
    return found ? rule : NULL;
}
