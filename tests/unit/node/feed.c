#include "../check.h"

#include <node/feed.h>

static const char lines[] = "H\t10\t10\tmain\tv22.1.0\t0\n"
                            "I\t10\t10\tws://127.0.0.1:1/x\n"
                            "S\t10\t1000\t12000\t9000\t100\t200\t30\t4\t5\t6\t7000\t8000\n"
                            "G\t10\t2000\t1500\t4\n"
                            "R\t10\t12000\t3\t900\t600\t120000\t400\tGET /a\n"
                            "X\t10\t13000\n";

static void check(const dz_feed *feed)
{
    assert_int_equal(feed->threads.count, 1);
    const dz_js_series *s = &feed->threads.at[0];
    assert_string_equal(s->version, "v22.1.0");
    assert_string_equal(s->url, "ws://127.0.0.1:1/x");
    assert_int_equal(s->samples.count, 1);
    assert_int_equal(s->samples.at[0].to, 12000000);
    assert_int_equal(s->samples.at[0].work, 8000000);
    assert_int_equal(s->gcs.at[0].duration, 1500000);
    assert_int_equal(s->requests.at[0].sync_max, 400000);
    assert_string_equal(s->routes.at[0], "GET /a");
    assert_true(s->exiting);
    assert_int_equal(feed->malformed, 0);
}

static void lines_may_be_cut_anywhere(void **state)
{
    (void)state;
    for (size_t cut = 0; cut < sizeof lines - 1; cut++) {
        dz_feed feed;
        dz_feed_init(&feed);
        dz_feed_take(&feed, dz_slice_make(lines, cut));
        dz_feed_take(&feed, dz_slice_make(lines + cut, sizeof lines - 1 - cut));
        check(&feed);
        dz_feed_close(&feed);
    }
}

static void what_is_not_ours_is_counted_and_skipped(void **state)
{
    (void)state;
    static char longest[20000];
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = '\n';
    dz_feed feed;
    dz_feed_init(&feed);
    dz_feed_take(&feed, DZ_LIT("S\t99\t1\t2\nS\t\nQ\t1\n\n\t\t\nH\t1\n"));
    assert_int_equal(feed.malformed, 6);
    dz_feed_take(&feed, dz_slice_make(longest, sizeof longest));
    assert_true(feed.malformed > 6);
    dz_feed_take(&feed, dz_slice_make(lines, sizeof lines - 1));
    assert_int_equal(feed.threads.count, 1);
    dz_feed_take(&feed,
                 DZ_LIT("S\t10\t5\t4\t0\t0\t0\t0\t0\t0\t0\t0\t0\n")); /* ends before it begins */
    assert_int_equal(feed.threads.at[0].samples.count, 1);
    dz_feed_close(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_may_be_cut_anywhere),
        cmocka_unit_test(what_is_not_ours_is_counted_and_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
