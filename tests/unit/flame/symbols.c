#include "../check.h"

#include <flame/symbols.h>

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static void demangled(const char *name, const char *want)
{
    char out[256];
    assert_string_equal(dz_demangle(name, out, sizeof out), want);
}

static void rust_and_go_names_read_as_written(void **state)
{
    (void)state;
    demangled("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt");
    demangled(
        "_ZN58_$LT$alloc..string..String$u20$as$u20$core..fmt..Write$GT$3put17h0123456789abcdefE",
        "<alloc::string::String as core::fmt::Write>::put");
    demangled("_RNvNtCs1234_7mycrate3mod3foo", "mycrate::mod::foo");
    demangled("gopkg.in/yaml%2ev3.(*parser).parse", "gopkg.in/yaml.v3.(*parser).parse");
    demangled("main.handler", "main.handler");
    demangled("burn.constprop.0", "burn");
    demangled("plain", "plain");
}

static void damaged_names_are_left_alone(void **state)
{
    (void)state;
    demangled("_ZN99short17h0123456789abcdefE", "_ZN99short17h0123456789abcdefE");
    demangled("_R", "_R");
    demangled("", "");
    char small[4];
    assert_string_equal(dz_demangle("a long name", small, sizeof small), "a l");
}

static void jit_names_carry_place_and_mark(void **state)
{
    (void)state;
    dz_profile p;
    dz_frame f;
    assert_int_equal(dz_profile_init(&p), 0);
    dz_frame_of_symbol(&p, DZ_LIT("JS:~get user file:///srv/a b.js:3:9"), DZ_LIT(""), &f);
    assert_int_equal(f.mark, '~');
    assert_int_equal(f.line, 3);
    dz_frame_of_symbol(&p, DZ_LIT("LazyCompile:+f /x.js:7:1"), DZ_LIT(""), &f);
    assert_int_equal(f.mark, '*');
    dz_frame_of_symbol(&p, DZ_LIT("wasm-function[3]"), DZ_LIT(""), &f);
    assert_int_equal(f.kind, DZ_FRAME_WASM);
    dz_frame_of_symbol(&p, DZ_LIT("JS:"), DZ_LIT(""), &f);
    assert_slice(dz_profile_text(&p, f.name), "(anonymous)");
    dz_profile_close(&p);
}

__attribute__((noinline)) static void a_function_of_this_test(void)
{
    __asm__ volatile("");
}

static void our_own_code_is_found_in_memory(void **state)
{
    (void)state;
    dz_profile p;
    assert_int_equal(dz_profile_init(&p), 0);
    dz_symbols *s = dz_symbols_new(&p);
    dz_symbols_read_maps(s, getpid());
    a_function_of_this_test();
    uint32_t image = dz_symbols_image(s, getpid(), 1);
    dz_place at = dz_symbols_find(s, image, (uint64_t)(uintptr_t)a_function_of_this_test, 1);
    assert_true(at.known);
    assert_slice(dz_profile_text(&p, p.frames[at.frame].name), "a_function_of_this_test");
    assert_false(dz_symbols_find(s, image, 16, 1).known);
    dz_symbols_free(s);
    dz_profile_close(&p);
}

static void the_newest_code_at_an_address_names_it(void **state)
{
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(path, "w");
    assert_non_null(map);
    fputs("1000 100 JS:~f /x.js:1:1\nnonsense\n1000 80 JS:*f /x.js:1:1\n", map);
    fclose(map);
    dz_profile p;
    assert_int_equal(dz_profile_init(&p), 0);
    dz_symbols *s = dz_symbols_new(&p);
    dz_symbols_map(s, getpid(), 0, 0x1000, 0x1000, 0, "//anon");
    dz_symbols_read_jit(s, getpid(), true);
    assert_int_equal(access(path, F_OK), -1); /* removed */
    dz_place at = dz_symbols_find(s, dz_symbols_image(s, getpid(), 1), 0x1010, 1);
    assert_true(at.jit);
    assert_int_equal(p.frames[at.frame].mark, '*');
    assert_false(dz_symbols_find(s, dz_symbols_image(s, getpid(), 1), 0x1fff, 1).known);
    dz_symbols_free(s);
    dz_profile_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rust_and_go_names_read_as_written),
        cmocka_unit_test(damaged_names_are_left_alone),
        cmocka_unit_test(jit_names_carry_place_and_mark),
        cmocka_unit_test(our_own_code_is_found_in_memory),
        cmocka_unit_test(the_newest_code_at_an_address_names_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
