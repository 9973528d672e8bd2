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

/* The grammar of RFC 2603, one production after the other; the longer ones are rustc's. */
static void rust_v0_names_are_unpacked_in_full(void **state)
{
    (void)state;
    demangled("_RNvC1a4mainC1b", "a::main");
    demangled("_RNvC1a1f.llvm.123", "a::f");
    demangled("_RNvCs6GmmlP4bgsG_1ru9gre_6ka8i", "r::gr\xc3\xb6\xc3\x9f"
                                                 "e");
    demangled("_RNvMCs6GmmlP4bgsG_1rINtB2_3NegKln5_E1nB2_", "<r::Neg<-5>>::n");
    demangled("_RNvMNtNtCs6GmmlP4bgsG_1r4deep2erINtB2_1SKj7_Kb1_Kc27_E2goB6_",
              "<r::deep::er::S<7, true, '\\''>>::go");
    demangled("_RNvXs_NtNtCs6GmmlP4bgsG_1r4deep2erAhj4_INtB4_1TINtNtCsgEmfK2I1SDS_4core6option6"
              "OptionReEE1tB8_",
              "<[u8; 4] as r::deep::er::T<core::option::Option<&str>>>::t");
    demangled("_RNvMs3_NtCslNYArtu3iFV_5alloc7raw_vecINtB5_6RawVecTOhFUKCBN_EuENtNtCsjrHSEGnQ3l9_"
              "3std5alloc6SystemE8grow_oneB13_",
              "<alloc::raw_vec::RawVec<(*mut u8, unsafe extern \"C\" fn(*mut u8)), "
              "std::alloc::System>>::grow_one");
    demangled("_RINvCs6GmmlP4bgsG_1r3genThRecENCNvB2_4mains_0EB2_",
              "r::gen::<(u8, &str, char), r::main::{closure#1}>");
    demangled("_RNCNCNCNvNtCsjrHSEGnQ3l9_3std2rt19lang_start_internal00s_0B9_",
              "std::rt::lang_start_internal::{closure#0}::{closure#0}::{closure#1}");
    demangled("_RNSNvYNCINvNtCsjrHSEGnQ3l9_3std2rt10lang_startuE0INtNtNtCsgEmfK2I1SDS_4core3ops8"
              "function6FnOnceuE9call_once6vtableCs6GmmlP4bgsG_1r",
              "<std::rt::lang_start<()>::{closure#0} as "
              "core::ops::function::FnOnce<()>>::call_once::{shim:vtable#0}");
    demangled("_RINvC1a1fKc41_Kb1_Kan5_Ko123456789abcdef01_E",
              "a::f::<'A', true, -5, 0x123456789abcdef01>");
    demangled("_RINvC1a1fKRe616263_E", "a::f::<\"abc\">");
    demangled("_RINvC1a1fKVNtC1a1SS1xh5_EE", "a::f::<a::S { x: 5 }>");
    demangled("_RINvC1a1fKVNtC1a1STh5_h6_EE", "a::f::<a::S(5, 6)>");
    demangled("_RINvC1a1fKAh1_h2_EE", "a::f::<[1, 2]>");
    demangled("_RINvC1a1fKTh1_EE", "a::f::<(1,)>");
    demangled("_RINvC1a1fOhPhRhQhShAhj3_TEThETahEzE",
              "a::f::<*mut u8, *const u8, &u8, &mut u8, [u8], [u8; 3], (), (u8,), (i8, u8), !>");
    demangled("_RINvC1a1fDNtC1a1Tp4ItemhEL_E", "a::f::<dyn a::T<Item = u8>>");
    demangled("_RINvC1a1fFG_RL0_hEuE", "a::f::<for<'a> fn(&'a u8)>");
}

static void damaged_rust_names_end(void **state)
{
    (void)state;
    demangled("_RINvC1a1fB_E", "_RINvC1a1fB_E"); /* goes back to itself */
    demangled("_RNvC1a", "_RNvC1a");
    demangled("_RNvC1a99999999999f", "_RNvC1a99999999999f");
    static const char whole[] = "_RNvMNtNtCs6GmmlP4bgsG_1r4deep2erINtB2_1SKj7_Kb1_Kc27_E2goB6_";
    char cut[sizeof whole], out[64];
    for (size_t len = 2; len < sizeof whole; len++)
        for (int c = '0'; c <= 'z'; c += 7) { /* cut short, and with one letter wrong */
            memcpy(cut, whole, len);
            cut[len] = 0;
            cut[len - 1] = (char)c;
            assert_true(strlen(dz_demangle(cut, out, sizeof out)) < sizeof out);
        }
    char deep[1024], copy[1024]; /* types in types without end */
    memset(deep, 'R', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    memcpy(deep, "_RINvC1a1f", 10);
    assert_string_equal(dz_demangle(deep, copy, sizeof copy), deep);
}

static void cpp_names_read_as_written(void **state)
{
    (void)state;
    char out[256];
    if (strcmp(dz_demangle("_ZN1a1fEi", out, sizeof out), "_ZN1a1fEi") == 0)
        skip(); /* no C++ runtime on this machine */
    demangled("_ZN1a1fEi", "a::f(int)");
    demangled("_ZNSt6vectorIiSaIiEE9push_backERKi.cold",
              "std::vector<int, std::allocator<int> >::push_back(int const&)");
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

__attribute__((noinline)) static uint64_t caller(void)
{
    return (uint64_t)(uintptr_t)__builtin_return_address(0) - 1;
}

static inline __attribute__((always_inline)) uint64_t built_in(void)
{
    uint64_t here = caller();
    __asm__ volatile("");
    return here;
}

__attribute__((noinline)) static uint64_t place_in_what_is_built_in(void)
{
    return built_in();
}
enum { LINE_OF_PLACE = __LINE__ - 4 };

/* One function is one frame, whatever was built into it; and with a compiler that writes no
 * .debug_aranges as well. */
static void code_built_in_has_the_line_of_the_function_it_lies_in(void **state)
{
    (void)state;
    dz_profile p;
    assert_int_equal(dz_profile_init(&p), 0);
    dz_symbols *s = dz_symbols_new(&p);
    dz_symbols_read_maps(s, getpid());
    uint32_t image = dz_symbols_image(s, getpid(), 1);
    dz_place inner = dz_symbols_find(s, image, place_in_what_is_built_in(), 1);
    dz_place outer = dz_symbols_find(s, image, (uint64_t)(uintptr_t)place_in_what_is_built_in, 1);
    const dz_frame *f = &p.frames[inner.frame];
    assert_slice(dz_profile_text(&p, f->name), "place_in_what_is_built_in");
    assert_int_equal(f->line, LINE_OF_PLACE);
    dz_slice file = dz_profile_text(&p, f->file);
    assert_true(file.len > 9 && memcmp(file.ptr + file.len - 9, "symbols.c", 9) == 0);
    assert_int_equal(inner.frame, outer.frame);
    dz_symbols_free(s);
    dz_profile_close(&p);
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
    dz_symbols_map(
        s, &(dz_mapped){.pid = getpid(), .start = 0x1000, .length = 0x1000, .name = "//anon"});
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
        cmocka_unit_test(rust_v0_names_are_unpacked_in_full),
        cmocka_unit_test(damaged_rust_names_end),
        cmocka_unit_test(cpp_names_read_as_written),
        cmocka_unit_test(damaged_names_are_left_alone),
        cmocka_unit_test(jit_names_carry_place_and_mark),
        cmocka_unit_test(our_own_code_is_found_in_memory),
        cmocka_unit_test(code_built_in_has_the_line_of_the_function_it_lies_in),
        cmocka_unit_test(the_newest_code_at_an_address_names_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
