/* Unwinding on synthetic stacks, of this machine's processor and of the other one: a stack copy is
 * only memory, and a file's call frame information only bytes. */
#include "../check.h"

#include <flame/unwind.h>

#include <elf.h>
#include <stdio.h>
#include <unistd.h>

enum {
    BASE = 0x40000000, /* where the file is mapped */
    JIT = 0x50000000,  /* code of which nothing is said */
    STACK = 0x70000000,
    PAGE = 0x1000,
    TEXT = PAGE,
    FRAME = 2 * PAGE, /* .eh_frame */
    NAMES = FRAME + 512,
    SECTIONS = NAMES + 64,
    SIZE = 3 * PAGE,
    /* functions in .text */
    MIDDLE = TEXT,
    LEAF = TEXT + 0x100,
    START = TEXT + 0x200,
};

typedef struct image {
    unsigned char bytes[SIZE];
    size_t at; /* in .eh_frame */
} image;

static void put(image *m, const void *bytes, size_t len)
{
    memcpy(m->bytes + m->at, bytes, len);
    m->at += len;
}

static void put4(image *m, int64_t value)
{
    int32_t four = (int32_t)value;
    put(m, &four, 4);
}

/* DWARF 5, 6.4.1, in the form of .eh_frame; padded with DW_CFA_nop. */
static void record(image *m, const unsigned char *body, size_t len, size_t start, size_t cie)
{
    size_t before = start ? 12 : 4, padded = (before + len + 3) / 4 * 4;
    put4(m, (int64_t)padded);
    put4(m, start ? (int64_t)(m->at - cie) : 0);
    if (start) {
        put4(m, (int64_t)start - (int64_t)m->at);
        put4(m, 0x100);
    }
    put(m, body, len);
    m->at += padded - before - len;
}

typedef struct rules {
    Elf64_Half machine;
    const unsigned char *cie, *middle, *leaf, *start;
    size_t cie_len, middle_len, leaf_len, start_len;
} rules;

#define RULES(member, ...)                                                                         \
    .member = (const unsigned char[]){__VA_ARGS__},                                                \
    .member##_len = sizeof((const unsigned char[]){__VA_ARGS__})

/* The middle function has 32 bytes on the stack, its caller's registers at their bottom (aarch64)
 * or top (x86-64); the leaf uses none; there is nothing above the start. */
static const rules aarch64 = {
    .machine = EM_AARCH64,
    /* version, "zR", factors 4 and -8, return in x30, pointers pcrel sdata4, CFA = sp */
    RULES(cie, 1, 'z', 'R', 0, 4, 0x78, 30, 1, 0x1b, 0x0c, 31, 0),
    /* CFA = sp + 32, x29 at CFA - 32, x30 at CFA - 24 */
    RULES(middle, 0, 0x0e, 32, 0x80 | 29, 4, 0x80 | 30, 3),
    RULES(leaf, 0),
    RULES(start, 0, 0x07, 30), /* x30 undefined */
};

static const rules x86_64 = {
    .machine = EM_X86_64,
    /* the return address (16) at CFA - 8, CFA = rsp + 8 */
    RULES(cie, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x80 | 16, 1),
    /* CFA = rsp + 32, rbp at CFA - 16 */
    RULES(middle, 0, 0x0e, 32, 0x80 | 6, 2),
    RULES(leaf, 0),
    RULES(start, 0, 0x07, 16),
};

static void make_file(const rules *r, const char *path)
{
    static image m;
    static const char names[] = "\0.text\0.eh_frame\0.shstrtab";
    memset(&m, 0, sizeof m);
    Elf64_Ehdr head = {.e_type = ET_DYN,
                       .e_machine = r->machine,
                       .e_version = EV_CURRENT,
                       .e_phoff = sizeof head,
                       .e_shoff = SECTIONS,
                       .e_ehsize = sizeof head,
                       .e_phentsize = sizeof(Elf64_Phdr),
                       .e_phnum = 1,
                       .e_shentsize = sizeof(Elf64_Shdr),
                       .e_shnum = 4,
                       .e_shstrndx = 3};
    memcpy(head.e_ident, ELFMAG, SELFMAG);
    head.e_ident[EI_CLASS] = ELFCLASS64;
    head.e_ident[EI_DATA] = ELFDATA2LSB;
    head.e_ident[EI_VERSION] = EV_CURRENT;
    Elf64_Phdr load = {.p_type = PT_LOAD,
                       .p_flags = PF_R | PF_X,
                       .p_filesz = SIZE,
                       .p_memsz = SIZE,
                       .p_align = PAGE};
    m.at = FRAME;
    record(&m, r->cie, r->cie_len, 0, 0);
    record(&m, r->middle, r->middle_len, MIDDLE, FRAME);
    record(&m, r->leaf, r->leaf_len, LEAF, FRAME);
    record(&m, r->start, r->start_len, START, FRAME);
    put4(&m, 0);
    Elf64_Shdr sections[4] = {
        {0},
        {.sh_name = 1,
         .sh_type = SHT_PROGBITS,
         .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
         .sh_addr = TEXT,
         .sh_offset = TEXT,
         .sh_size = PAGE,
         .sh_addralign = 16},
        {.sh_name = 7,
         .sh_type = SHT_PROGBITS,
         .sh_flags = SHF_ALLOC,
         .sh_addr = FRAME,
         .sh_offset = FRAME,
         .sh_size = m.at - FRAME,
         .sh_addralign = 8},
        {.sh_name = 17, .sh_type = SHT_STRTAB, .sh_offset = NAMES, .sh_size = sizeof names},
    };
    memcpy(m.bytes, &head, sizeof head);
    memcpy(m.bytes + sizeof head, &load, sizeof load);
    memcpy(m.bytes + NAMES, names, sizeof names);
    memcpy(m.bytes + SECTIONS, sections, sizeof sections);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_int_equal(fwrite(m.bytes, SIZE, 1, out), 1);
    assert_int_equal(fclose(out), 0);
}

typedef struct scene {
    const dz_arch *arch;
    dz_profile profile;
    dz_symbols *symbols;
    dz_perf_sample sample;
    uint64_t stack[64];
    uint64_t out[32];
    size_t depth;
} scene;

static scene *open_scene(const dz_arch *arch, const rules *r)
{
    static scene s;
    char path[64] = "/tmp/donmaz-unwind-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    make_file(r, path);
    memset(&s, 0, sizeof s);
    s.arch = arch;
    assert_int_equal(dz_profile_init(&s.profile), 0);
    s.symbols = dz_symbols_new(&s.profile);
    dz_symbols_map(s.symbols,
                   &(dz_mapped){.pid = getpid(), .start = BASE, .length = SIZE, .name = path});
    dz_symbols_map(s.symbols,
                   &(dz_mapped){.pid = getpid(), .start = JIT, .length = PAGE, .name = "//anon"});
    unlink(path); /* it is held open */
    s.sample.at = 1;
    s.sample.registers[arch->sp] = STACK;
    s.sample.stack = (const char *)s.stack;
    s.sample.stack_len = sizeof s.stack;
    return &s;
}

static dz_unwound unwind(scene *s)
{
    uint32_t number = dz_symbols_image(s->symbols, getpid(), 1);
    return dz_unwind(s->arch, s->symbols, number, &s->sample, s->out, 32, &s->depth);
}

static void close_scene(scene *s)
{
    dz_symbols_free(s->symbols);
    dz_profile_close(&s->profile);
}

static void is_chain(const scene *s, const uint64_t *want, size_t count)
{
    assert_int_equal(s->depth, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(s->out[i], want[i]);
}

#define IS_CHAIN(s, ...)                                                                           \
    is_chain(s, (const uint64_t[]){__VA_ARGS__},                                                   \
             sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

/* A leaf's return address is in its register, signed in the bits above the address. */
static void aarch64_follows_call_frame_information(void **state)
{
    (void)state;
    scene *s = open_scene(&dz_arch_aarch64, &aarch64);
    const uint64_t signature = UINT64_C(0x5a2d) << 48;
    s->sample.registers[32] = BASE + LEAF + 8;
    s->sample.registers[30] = signature | (BASE + MIDDLE + 0x40);
    s->stack[0] = 0x1234;                            /* the caller's x29 */
    s->stack[1] = signature | (BASE + START + 0x10); /* and x30 */
    assert_int_equal(unwind(s), DZ_UNWOUND_WHOLE);
    IS_CHAIN(s, BASE + LEAF + 8, BASE + MIDDLE + 0x40, BASE + START + 0x10);
    close_scene(s);
}

/* Code made at run time: [x29] is the caller's x29, [x29 + 8] the return address. Where the stack
 * pointer was then is not known, so what needs it goes by frame pointers as well. */
static void aarch64_follows_frame_pointers(void **state)
{
    (void)state;
    scene *s = open_scene(&dz_arch_aarch64, &aarch64);
    s->sample.registers[32] = JIT + 0x10;
    s->sample.registers[29] = STACK + 16;
    s->stack[2] = STACK + 64;
    s->stack[3] = BASE + MIDDLE + 0x40;
    s->stack[8] = STACK + 96;
    s->stack[9] = BASE + START + 0x10;
    assert_int_equal(unwind(s), DZ_UNWOUND_WHOLE);
    IS_CHAIN(s, JIT + 0x10, BASE + MIDDLE + 0x40, BASE + START + 0x10);
    close_scene(s);
}

static void x86_64_follows_both(void **state)
{
    (void)state;
    scene *s = open_scene(&dz_arch_x86_64, &x86_64);
    s->sample.registers[16] = JIT + 0x10;
    s->sample.registers[6] = STACK + 16; /* rbp */
    s->stack[2] = 0x1234;
    s->stack[3] = BASE + MIDDLE + 0x40; /* the middle one's frame: 32 bytes from STACK + 32 */
    s->stack[6] = 0x5678;
    s->stack[7] = BASE + START + 0x10;
    assert_int_equal(unwind(s), DZ_UNWOUND_WHOLE);
    IS_CHAIN(s, JIT + 0x10, BASE + MIDDLE + 0x40, BASE + START + 0x10);
    close_scene(s);
}

/* A damaged stack ends the walk: upwards only, in the copy only, at code only. */
static void damaged_stacks_end(void **state)
{
    (void)state;
    static const dz_arch *const arches[] = {&dz_arch_x86_64, &dz_arch_aarch64};
    static const rules *const files[] = {&x86_64, &aarch64};
    for (size_t i = 0; i < 2; i++) {
        scene *s = open_scene(arches[i], files[i]);
        const dz_arch *a = arches[i];
        s->sample.registers[a->pc] = JIT + 0x10;
        s->sample.registers[a->fp] = STACK + 16;
        s->stack[2] = STACK + 16; /* leads to itself */
        s->stack[3] = JIT + 0x20;
        assert_int_equal(unwind(s), DZ_UNWOUND_ASTRAY);
        IS_CHAIN(s, JIT + 0x10, JIT + 0x20);
        s->stack[2] = STACK + sizeof s->stack + 64; /* beyond the copy */
        assert_int_equal(unwind(s), DZ_UNWOUND_CUT);
        s->stack[2] = STACK + 33; /* not aligned */
        assert_int_equal(unwind(s), DZ_UNWOUND_ASTRAY);
        s->stack[2] = STACK + 64;
        s->stack[3] = 0x123456; /* no code */
        assert_int_equal(unwind(s), DZ_UNWOUND_ASTRAY);
        s->sample.registers[a->fp] = STACK - 64; /* below the stack */
        assert_int_equal(unwind(s), DZ_UNWOUND_ASTRAY);
        s->sample.registers[a->fp] = UINT64_MAX - 7;
        assert_int_equal(unwind(s), DZ_UNWOUND_CUT);
        close_scene(s);
    }
}

/* A file for another processor than the sample's is no guide. */
static void another_processors_file_is_not_followed(void **state)
{
    (void)state;
    scene *s = open_scene(&dz_arch_aarch64, &x86_64);
    s->sample.registers[32] = BASE + MIDDLE + 8;
    s->sample.registers[29] = STACK + 16;
    s->stack[2] = STACK + 64;
    s->stack[3] = JIT + 0x20;
    assert_int_equal(unwind(s), DZ_UNWOUND_WHOLE); /* to where nothing leads on */
    IS_CHAIN(s, BASE + MIDDLE + 8, JIT + 0x20);
    close_scene(s);
}

/* As the kernel numbers them in uapi/asm/perf_regs.h, by what DWARF calls them. */
static void registers_have_dwarfs_numbers(void **state)
{
    (void)state;
    const dz_arch *x = &dz_arch_x86_64, *a = &dz_arch_aarch64;
    assert_int_equal(__builtin_popcountll(x->asked), x->regs);
    assert_int_equal(__builtin_popcountll(a->asked), a->regs);
    assert_int_equal(x->by_kernel[6], x->fp); /* BP, SP, IP */
    assert_int_equal(x->by_kernel[7], x->sp);
    assert_int_equal(x->by_kernel[8], x->pc);
    assert_int_equal(x->by_kernel[9], 8);      /* R8, bit 16 */
    assert_int_equal(a->by_kernel[29], a->fp); /* X29, LR, SP, PC */
    assert_int_equal(a->by_kernel[30], a->ra);
    assert_int_equal(a->by_kernel[31], a->sp);
    assert_int_equal(a->by_kernel[32], a->pc);
    for (unsigned i = 0; i < 29; i++)
        assert_int_equal(a->by_kernel[i], i);
    uint64_t seen = 0;
    for (unsigned i = 0; i < x->regs; i++)
        seen |= UINT64_C(1) << x->by_kernel[i];
    assert_int_equal(seen, (UINT64_C(1) << x->regs) - 1); /* each once */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aarch64_follows_call_frame_information),
        cmocka_unit_test(aarch64_follows_frame_pointers),
        cmocka_unit_test(x86_64_follows_both),
        cmocka_unit_test(damaged_stacks_end),
        cmocka_unit_test(another_processors_file_is_not_followed),
        cmocka_unit_test(registers_have_dwarfs_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
