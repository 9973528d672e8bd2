#include "../check.h"

#include <flame/formats.h>

#include <donmaz/error.h>

typedef int writer(const dz_profile *profile, FILE *out);

static int read_text(dz_profile *p, dz_profile_reader *reader, const char *text, size_t len)
{
    dz_read_error error = {{0}};
    FILE *in = fmemopen((void *)(uintptr_t)text, len, "r");
    assert_non_null(in);
    int rc = reader(p, in, &error);
    fclose(in);
    return rc;
}

static void load(dz_profile *p, dz_profile_reader *reader, const char *text)
{
    assert_int_equal(dz_profile_init(p), 0);
    p->keep_ticks = true;
    assert_int_equal(read_text(p, reader, text, strlen(text)), 0);
}

static char *written(const dz_profile *p, writer *write, size_t *len)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, len);
    assert_int_equal(write(p, out), 0);
    fclose(out);
    return text;
}

static uint64_t self_of(const dz_profile *p, const char *name)
{
    uint64_t self = 0;
    for (size_t i = 0; i < p->stack_count; i++)
        if (dz_slice_equal(dz_profile_text(p, p->frames[p->stacks[i].frame].name),
                           dz_slice_of(name)))
            self += p->stacks[i].self;
    return self;
}

static const dz_frame *frame_of(const dz_profile *p, const char *name)
{
    for (size_t i = 0; i < p->frame_count; i++)
        if (dz_slice_equal(dz_profile_text(p, p->frames[i].name), dz_slice_of(name)))
            return &p->frames[i];
    return NULL;
}

#define FRAME(name, url, line)                                                                     \
    "\"callFrame\":{\"functionName\":\"" name "\",\"scriptId\":\"1\",\"url\":\"" url               \
    "\",\"lineNumber\":" #line ",\"columnNumber\":0}"

static const char negative[] = "{\"nodes\":[{\"id\":1," FRAME(
    "(root)", "",
    -1) ",\"children\":[2,3,4]},"
        "{\"id\":2," FRAME(
            "a", "file:///srv/app.js",
            9) "},"
               "{\"id\":3," FRAME(
                   "b", "node:internal/x",
                   1) "},"
                      "{\"id\":4," FRAME(
                          "(idle)", "",
                          -1) "}],"
                              "\"startTime\":1000,\"endTime\":2000,"
                              "\"samples\":[2,3,2,4],\"timeDeltas\":[100,300,-200,400]}";

static void time_never_goes_back_and_the_total_is_kept(void **state)
{
    (void)state;
    dz_profile p;
    load(&p, dz_read_cpuprofile, negative);
    /* In order of time: a at 1100, a at 1200, b at 1400, idle at 1600 until the end. */
    assert_int_equal(self_of(&p, "a"), 300 * 1000);
    assert_int_equal(self_of(&p, "b"), 200 * 1000);
    assert_int_equal(self_of(&p, "(idle)"), 400 * 1000);
    assert_int_equal(dz_profile_total(&p), 500 * 1000); /* the CPU's: without the idle part */
    for (size_t i = 1; i < p.tick_count; i++)
        assert_true(p.ticks[i].at >= p.ticks[i - 1].at);
    dz_profile_close(&p);
}

static void places_and_kinds_come_from_the_script_address(void **state)
{
    (void)state;
    dz_profile p;
    load(&p, dz_read_cpuprofile, negative);
    const dz_frame *a = frame_of(&p, "a");
    assert_slice(dz_profile_text(&p, a->file), "/srv/app.js");
    assert_int_equal(a->line, 10); /* V8 counts from 0 */
    assert_int_equal(a->kind, DZ_FRAME_APP);
    assert_int_equal(frame_of(&p, "b")->kind, DZ_FRAME_CORE);
    assert_int_equal(dz_frame_classify(DZ_LIT("f"), DZ_LIT("file:///x/node_modules/y/i.js")),
                     DZ_FRAME_DEPS);
    assert_int_equal(dz_frame_classify(DZ_LIT("f"), DZ_LIT("wasm://wasm/1234")), DZ_FRAME_WASM);
    assert_int_equal(dz_frame_classify(DZ_LIT("(garbage collector)"), DZ_LIT("")), DZ_FRAME_GC);
    dz_profile_close(&p);
}

static const char strange[] = "{\"nodes\":[{\"id\":1," FRAME(
    "(root)", "",
    -1) ",\"children\":[2]},"
        "{\"id\":2," FRAME("C:\\\\dir\\\\\\\"x\\\"<\\/script>\\u0001;\\ud83d\\ude00\\ud800",
                           "wasm://wasm/9", 0) ",\"hitCount\":3}],"
                                               "\"startTime\":0,\"endTime\":3000}";

static void any_name_is_read_and_written(void **state)
{
    (void)state;
    dz_profile p;
    load(&p, dz_read_cpuprofile, strange);
    const char *name = "C:\\dir\\\"x\"</script>\x01;\xf0\x9f\x98\x80\xef\xbf\xbd";
    const dz_frame *f = frame_of(&p, name);
    assert_non_null(f);
    assert_int_equal(f->kind, DZ_FRAME_WASM);
    assert_int_equal(self_of(&p, name), 3000 * 1000); /* shared out by hits: no samples in it */
    size_t len;
    char *page = written(&p, dz_write_page_data, &len);
    assert_null(strchr(page, '<')); /* nothing may end the page's script */
    free(page);
    char *collapsed = written(&p, dz_write_collapsed, &len);
    dz_profile again;
    load(&again, dz_read_collapsed, collapsed); /* the separator and the control byte replaced */
    assert_int_equal(dz_profile_total(&again), dz_profile_total(&p));
    free(collapsed);
    dz_profile_close(&again);
    dz_profile_close(&p);
}

static void cpuprofile_survives_a_round_trip(void **state)
{
    (void)state;
    dz_profile p, again;
    load(&p, dz_read_cpuprofile, negative);
    size_t len;
    char *text = written(&p, dz_write_cpuprofile, &len);
    load(&again, dz_read_cpuprofile, text);
    assert_int_equal(self_of(&again, "a"), self_of(&p, "a"));
    assert_int_equal(self_of(&again, "b"), self_of(&p, "b"));
    assert_int_equal(frame_of(&again, "a")->line, 10);
    free(text);
    dz_profile_close(&again);
    dz_profile_close(&p);
}

static void collapsed_keeps_places_marks_and_kernel_frames(void **state)
{
    (void)state;
    dz_profile p;
    load(&p, dz_read_collapsed, "main;*hot fn /srv/a.js:12;read_[k] 7\nmain 3\n# comment\n\n");
    assert_int_equal(dz_profile_total(&p), 10 * 1000);
    const dz_frame *f = frame_of(&p, "hot fn");
    assert_int_equal(f->mark, '*');
    assert_int_equal(f->line, 12);
    assert_int_equal(frame_of(&p, "read")->kind, DZ_FRAME_KERNEL);
    size_t len;
    char *text = written(&p, dz_write_collapsed, &len);
    assert_non_null(strstr(text, "main;*hot fn /srv/a.js:12;read_[k] 7\n"));
    free(text);
    dz_profile_close(&p);
}

static void perf_script_is_read(void **state)
{
    (void)state;
    dz_profile p;
    load(&p, dz_read_perf_script,
         "my prog 12/34 [001] 77.500000:    1010101 cpu-clock:u: \n"
         "\t    7f0001 std::map<int, (anonymous)>::find(int)+0x1f (/usr/lib/x (copy).so)\n"
         "\t    7f0002 JS:*work /srv/a.js:5:3 (/tmp/perf-12.map)\n"
         "\tffffffff81000000 [unknown] ([kernel.kallsyms])\n"
         "\n"
         "other 9 78.000000: cycles:\n"
         "\t    aa main (/bin/x)\n");
    assert_int_equal(dz_profile_total(&p), 1010101 + 1000000);
    assert_non_null(frame_of(&p, "my prog"));
    assert_int_equal(self_of(&p, "std::map<int, (anonymous)>::find(int)"), 1010101);
    const dz_frame *f = frame_of(&p, "work");
    assert_int_equal(f->mark, '*');
    assert_int_equal(f->line, 5);
    assert_int_equal(f->kind, DZ_FRAME_APP);
    assert_int_equal(frame_of(&p, "[unknown]")->kind, DZ_FRAME_KERNEL);
    assert_int_equal(p.ticks[0].tid, 34);
    dz_profile_close(&p);
}

static void formats_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t total;
    } rows[] = {{negative, 500000}, {"a;b 5\n", 5000}, {"x 1 2.5: cycles:\n\t1 f (m)\n", 1000000}};
    for (size_t i = 0; i < 3; i++) {
        dz_profile p;
        load(&p, dz_read_any, rows[i].text);
        assert_int_equal(dz_profile_total(&p), rows[i].total);
        dz_profile_close(&p);
    }
}

static void damaged_files_are_errors_at_any_length(void **state)
{
    (void)state;
    for (size_t len = 1; len < sizeof negative - 1; len++) {
        dz_profile p;
        assert_int_equal(dz_profile_init(&p), 0);
        assert_int_equal(read_text(&p, dz_read_cpuprofile, negative, len), DZ_E_FORMAT);
        dz_profile_close(&p);
    }
    static const char *const bad[] = {"a;b", "a;b x", "[1]", "{\"nodes\":[]}", "{\"nodes\":7}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        dz_profile p;
        assert_int_equal(dz_profile_init(&p), 0);
        assert_int_equal(
            read_text(&p, i < 2 ? dz_read_collapsed : dz_read_cpuprofile, bad[i], strlen(bad[i])),
            DZ_E_FORMAT);
        dz_profile_close(&p);
    }
}

static void a_circle_of_parents_ends(void **state)
{
    (void)state;
    dz_profile p;
    load(&p, dz_read_cpuprofile,
         "{\"nodes\":[{\"id\":1,\"parent\":2," FRAME(
             "a", "",
             0) "},"
                "{\"id\":2,\"parent\":1," FRAME(
                    "b", "",
                    0) "}],"
                       "\"samples\":[1,2],\"timeDeltas\":[1,1],\"startTime\":0,\"endTime\":9}");
    assert_int_equal(dz_profile_total(&p), 8000);
    dz_profile_close(&p);
}

static void recursion_counts_once_and_marks_are_one_function(void **state)
{
    (void)state;
    dz_profile p;
    load(&p, dz_read_collapsed, "m;*f /a.js:1;~f /a.js:1;g 4\nm;*f /a.js:1 2\n");
    dz_hot hot[8];
    long n = dz_profile_hottest(&p, hot, 8, NULL, NULL);
    assert_int_equal(n, 3);
    for (long i = 0; i < n; i++) {
        dz_slice name = dz_profile_text(&p, p.frames[hot[i].frame].name);
        uint64_t total = dz_slice_equal(name, DZ_LIT("g")) ? 4000 : 6000;
        assert_int_equal(hot[i].total, total);
    }
    assert_int_equal(hot[0].self, 4000);
    assert_int_equal(hot[1].self, 2000);
    dz_profile_close(&p);
}

static void a_base_profile_is_kept_beside(void **state)
{
    (void)state;
    dz_profile p, base;
    load(&p, dz_read_collapsed, "a;b 6\na;c 4\n");
    load(&base, dz_read_collapsed, "a;b 1\nd 9\n");
    dz_profile_merge(&p, &base, NULL, true);
    assert_int_equal(dz_profile_total(&p), 10000);
    uint64_t total = 0;
    for (size_t i = 0; i < p.stack_count; i++)
        total += p.stacks[i].base;
    assert_int_equal(total, 10000);
    dz_profile_close(&p);
    dz_profile_close(&base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_never_goes_back_and_the_total_is_kept),
        cmocka_unit_test(places_and_kinds_come_from_the_script_address),
        cmocka_unit_test(any_name_is_read_and_written),
        cmocka_unit_test(cpuprofile_survives_a_round_trip),
        cmocka_unit_test(collapsed_keeps_places_marks_and_kernel_frames),
        cmocka_unit_test(perf_script_is_read),
        cmocka_unit_test(formats_are_told_apart),
        cmocka_unit_test(damaged_files_are_errors_at_any_length),
        cmocka_unit_test(a_circle_of_parents_ends),
        cmocka_unit_test(recursion_counts_once_and_marks_are_one_function),
        cmocka_unit_test(a_base_profile_is_kept_beside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
