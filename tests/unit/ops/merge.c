#include "../check.h"

#include "ops/merge.h"

static void check(const char *const *texts, size_t count, const char *expected)
{
    dz_slice slices[8];
    dz_buf out = {0};
    for (size_t i = 0; i < count; i++)
        slices[i] = dz_slice_of(texts[i]);
    assert_int_equal(dz_metrics_merge(&out, slices, count), 0);
    assert_slice(dz_buf_slice(&out), expected);
    dz_buf_release(&out);
}

static void samples_of_one_family_stand_together_with_their_worker(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "# HELP a First.\n# TYPE a counter\na 1\n# HELP b Second.\n# TYPE b gauge\nb{x=\"1\"} 2\n",
        "# HELP a First.\n# TYPE a counter\na 3\n# HELP b Second.\n# TYPE b gauge\nb{x=\"1\"} 4\n"};
    check(
        texts, 2,
        "# HELP a First.\n# TYPE a counter\na{worker=\"1\"} 1\na{worker=\"2\"} 3\n"
        "# HELP b Second.\n# TYPE b gauge\nb{worker=\"1\",x=\"1\"} 2\nb{worker=\"2\",x=\"1\"} 4\n");
}

static void who_did_not_answer_leaves_no_gap_in_the_numbers(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "# HELP a A.\n# TYPE a gauge\na 1\n", ""};
    check(texts, 3, "# HELP a A.\n# TYPE a gauge\na{worker=\"2\"} 1\n");
    check(texts, 1, "");
}

static void families_that_only_some_have_are_there(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "# HELP a A.\n# TYPE a gauge\na 1\n# HELP c C.\n# TYPE c gauge\nc 1\n",
        "# HELP b B.\n# TYPE b gauge\nb 1\n# HELP a A.\n# TYPE a gauge\na 2\n"};
    check(texts, 2,
          "# HELP a A.\n# TYPE a gauge\na{worker=\"1\"} 1\na{worker=\"2\"} 2\n"
          "# HELP c C.\n# TYPE c gauge\nc{worker=\"1\"} 1\n"
          "# HELP b B.\n# TYPE b gauge\nb{worker=\"2\"} 1\n");
}

static void a_name_that_begins_like_another_is_another(void **state)
{
    (void)state;
    static const char *const texts[] = {"# HELP a A.\n# TYPE a gauge\na 1\n",
                                        "# HELP ab B.\n# TYPE ab gauge\nab 1\n"};
    check(texts, 2,
          "# HELP a A.\n# TYPE a gauge\na{worker=\"1\"} 1\n"
          "# HELP ab B.\n# TYPE ab gauge\nab{worker=\"2\"} 1\n");
}

static void label_values_with_anything_in_them_are_kept(void **state)
{
    (void)state;
    static const char *const texts[] = {"# HELP a A # HELP b.\n# TYPE a gauge\na{x=\"} 5\\\"{ # "
                                        "HELP\"} 1\n# HELP e E.\n# TYPE e gauge\n"};
    check(texts, 1,
          "# HELP a A # HELP b.\n# TYPE a gauge\na{worker=\"1\",x=\"} 5\\\"{ # HELP\"} 1\n"
          "# HELP e E.\n# TYPE e gauge\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_of_one_family_stand_together_with_their_worker),
        cmocka_unit_test(who_did_not_answer_leaves_no_gap_in_the_numbers),
        cmocka_unit_test(families_that_only_some_have_are_there),
        cmocka_unit_test(a_name_that_begins_like_another_is_another),
        cmocka_unit_test(label_values_with_anything_in_them_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
