#include "../check.h"

#include "base/block.h"
#include "redis/cache.h"

#include <stdio.h>

static dz_buf value_of(const char *text)
{
    dz_buf value;
    assert_int_equal(dz_buf_copy(&value, dz_slice_of(text)), 0);
    return value;
}

static bool fill(dz_cache *cache, const char *key, uint64_t ticket, const char *text)
{
    dz_buf value = value_of(text);
    bool kept = dz_cache_fill(cache, dz_slice_of(key), ticket, &value);
    dz_buf_release(&value);
    return kept;
}

static void put(dz_cache *cache, const char *key, const char *text)
{
    assert_true(fill(cache, key, dz_cache_begin(cache, dz_slice_of(key)), text));
}

/* "value", "(absent)" or "(miss)"; static storage. */
static const char *got(dz_cache *cache, const char *key)
{
    static char text[256];
    dz_buf value;
    switch (dz_cache_get(cache, dz_slice_of(key), &value)) {
    case DZ_CACHE_MISS:
        return "(miss)";
    case DZ_CACHE_ABSENT:
        return "(absent)";
    default:
        snprintf(text, sizeof text, "%.*s", (int)value.len, value.data);
        dz_buf_release(&value);
        return text;
    }
}

static dz_cache_stats stats_of(dz_cache *cache)
{
    dz_cache_stats stats;
    dz_cache_get_stats(cache, &stats);
    return stats;
}

static void a_value_is_kept_and_served_without_a_copy(void **state)
{
    (void)state;
    dz_cache *cache = dz_cache_new(1 << 20);
    dz_buf value = value_of("hello"), served;
    uint64_t ticket = dz_cache_begin(cache, DZ_LIT("k"));
    assert_true(dz_cache_fill(cache, DZ_LIT("k"), ticket, &value));
    assert_int_equal(dz_cache_get(cache, DZ_LIT("k"), &served), DZ_CACHE_VALUE);
    assert_ptr_equal(served.data, value.data);
    dz_buf_release(&value);
    dz_cache_free(cache); /* the served reference outlives the cache */
    assert_slice(dz_buf_slice(&served), "hello");
    dz_buf_release(&served);
}

static void an_absent_key_and_an_empty_value_are_kept_too(void **state)
{
    (void)state;
    dz_cache *cache = dz_cache_new(1 << 20);
    assert_true(dz_cache_fill(cache, DZ_LIT("no"), dz_cache_begin(cache, DZ_LIT("no")), NULL));
    put(cache, "empty", "");
    put(cache, "", "the empty key");
    assert_string_equal(got(cache, "no"), "(absent)");
    assert_string_equal(got(cache, "empty"), "");
    assert_string_equal(got(cache, ""), "the empty key");
    assert_string_equal(got(cache, "other"), "(miss)");
    assert_int_equal(stats_of(cache).hits, 3);
    assert_int_equal(stats_of(cache).misses, 1);
    dz_cache_free(cache);
}

/* A GET in flight, then the invalidation, then the old reply. */
static void a_reply_older_than_an_invalidation_is_not_kept(void **state)
{
    (void)state;
    dz_cache *cache = dz_cache_new(1 << 20);
    uint64_t ticket = dz_cache_begin(cache, DZ_LIT("k"));
    dz_cache_invalidate(cache, DZ_LIT("k"));
    assert_false(fill(cache, "k", ticket, "old"));
    assert_string_equal(got(cache, "k"), "(miss)");
    assert_int_equal(stats_of(cache).late, 1);
    put(cache, "k", "new");
    assert_string_equal(got(cache, "k"), "new");
    dz_cache_free(cache);
}

static void an_old_reply_does_not_fill_the_mark_of_a_later_read(void **state)
{
    (void)state;
    dz_cache *cache = dz_cache_new(1 << 20);
    uint64_t first = dz_cache_begin(cache, DZ_LIT("k"));
    dz_cache_invalidate(cache, DZ_LIT("k"));
    uint64_t second = dz_cache_begin(cache, DZ_LIT("k"));
    assert_int_not_equal(first, second);
    assert_false(fill(cache, "k", first, "old"));
    assert_string_equal(got(cache, "k"), "(miss)");
    assert_true(fill(cache, "k", second, "new"));
    dz_cache_abandon(cache, DZ_LIT("k"), second); /* too late: it is a value now */
    assert_string_equal(got(cache, "k"), "new");
    dz_cache_free(cache);
}

static void own_writes_failed_reads_and_flushes_take_marks_away(void **state)
{
    (void)state;
    dz_cache *cache = dz_cache_new(1 << 20);
    uint64_t ticket = dz_cache_begin(cache, DZ_LIT("k"));
    dz_cache_drop(cache, DZ_LIT("k"));
    assert_false(fill(cache, "k", ticket, "old"));
    ticket = dz_cache_begin(cache, DZ_LIT("k"));
    dz_cache_abandon(cache, DZ_LIT("k"), ticket);
    assert_false(fill(cache, "k", ticket, "old"));
    put(cache, "other", "x");
    ticket = dz_cache_begin(cache, DZ_LIT("k"));
    dz_cache_flush(cache);
    assert_false(fill(cache, "k", ticket, "old"));
    assert_string_equal(got(cache, "other"), "(miss)");
    assert_int_equal(stats_of(cache).bytes, 0);
    assert_int_equal(stats_of(cache).values, 0);
    dz_cache_free(cache);
}

static void one_read_of_a_key_at_a_time_fills(void **state)
{
    (void)state;
    dz_cache *cache = dz_cache_new(1 << 20);
    uint64_t ticket = dz_cache_begin(cache, DZ_LIT("k"));
    assert_int_equal(dz_cache_begin(cache, DZ_LIT("k")), 0);
    assert_false(fill(cache, "k", 0, "second"));
    assert_true(fill(cache, "k", ticket, "first"));
    assert_int_equal(dz_cache_begin(cache, DZ_LIT("k")), 0); /* there is a value */
    dz_cache_free(cache);
}

static void memory_stays_within_its_bound(void **state)
{
    (void)state;
    enum { LIMIT = 200000 };
    dz_cache *cache = dz_cache_new(LIMIT);
    char text[1001];
    memset(text, 'v', 1000);
    text[1000] = '\0';
    for (int i = 0; i < 5000; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        put(cache, key, text);
        assert_true(stats_of(cache).bytes <= LIMIT);
    }
    assert_true(stats_of(cache).values > 100);
    assert_int_equal(stats_of(cache).values + stats_of(cache).evictions, 5000);
    static char huge[LIMIT / 2];
    dz_buf value;
    assert_int_equal(dz_buf_copy(&value, dz_slice_make(huge, sizeof huge)), 0);
    uint64_t ticket = dz_cache_begin(cache, DZ_LIT("huge"));
    assert_false(dz_cache_fill(cache, DZ_LIT("huge"), ticket, &value));
    dz_buf_release(&value);
    assert_true(stats_of(cache).values > 100); /* it did not push the others out */
    assert_int_not_equal(dz_cache_begin(cache, DZ_LIT("huge")), 0); /* nor left its mark */
    dz_cache_free(cache);
}

/* Serves `key` as a service would; returns whether it was there. */
static bool use(dz_cache *cache, const char *key)
{
    if (strcmp(got(cache, key), "(miss)") != 0)
        return true;
    put(cache, key, "0123456789012345678901234567890123456789");
    return false;
}

static void a_scan_leaves_often_used_values_alone(void **state)
{
    (void)state;
    dz_cache *cache = dz_cache_new(40000); /* some 200 values */
    char key[16];
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 50; i++) {
            snprintf(key, sizeof key, "hot%d", i);
            use(cache, key);
        }
    for (int i = 0; i < 10000; i++) { /* each key once */
        snprintf(key, sizeof key, "cold%d", i);
        use(cache, key);
    }
    int found = 0;
    for (int i = 0; i < 50; i++) {
        snprintf(key, sizeof key, "hot%d", i);
        found += use(cache, key);
    }
    assert_int_equal(found, 50);
    dz_cache_free(cache);
}

static void skewed_use_is_mostly_hits(void **state)
{
    (void)state;
    dz_cache *cache = dz_cache_new(40000);
    uint64_t seed = 5, hits = 0;
    enum { USES = 60000, KEYS = 2000 };
    for (int i = 0; i < USES; i++) { /* key n is asked for about 1/n as often as key 1 */
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        double u = (double)(seed >> 11) / 9007199254740992.0;
        int n = (int)__builtin_pow(KEYS, u);
        char key[16];
        snprintf(key, sizeof key, "k%d", n);
        hits += use(cache, key);
    }
    /* A tenth of the keys fits; holding just the most used would give about 0.69. */
    assert_true((double)hits / USES > 0.6);
    dz_cache_free(cache);
}

/* Against a model: a value served is always the newest, whatever the order of events. */
static void no_order_of_events_serves_an_outdated_value(void **state)
{
    (void)state;
    enum { KEYS = 8, STEPS = 200000 };
    dz_cache *cache = dz_cache_new(2000); /* so small that it also evicts */
    struct {
        int version;      /* Redis' */
        uint64_t ticket;  /* of the read in flight; 0: none */
        int read_version; /* what that read saw */
        int untold;       /* invalidations under way */
    } keys[KEYS] = {0};
    uint64_t seed = 3;
    for (int i = 0; i < STEPS; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        size_t k = (seed >> 33) % KEYS;
        char key[8], text[16];
        snprintf(key, sizeof key, "k%zu", k);
        snprintf(text, sizeof text, "v%d", keys[k].read_version);
        switch ((seed >> 40) % 5) {
        case 0: /* a read is sent and executed */
            if (keys[k].ticket == 0 && (keys[k].ticket = dz_cache_begin(cache, dz_slice_of(key))))
                keys[k].read_version = keys[k].version;
            break;
        case 1: /* its reply comes, before or after the invalidations */
            if (keys[k].ticket != 0)
                fill(cache, key, keys[k].ticket, text);
            keys[k].ticket = 0;
            break;
        case 2: /* someone writes */
            keys[k].version++;
            keys[k].untold++;
            break;
        case 3: /* an invalidation arrives */
            if (keys[k].untold > 0) {
                dz_cache_invalidate(cache, dz_slice_of(key));
                keys[k].untold--;
            }
            break;
        default:
            snprintf(text, sizeof text, "v%d", keys[k].version);
            if (keys[k].untold == 0 && strcmp(got(cache, key), "(miss)") != 0)
                assert_string_equal(got(cache, key), text);
        }
    }
    dz_cache_free(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_is_kept_and_served_without_a_copy),
        cmocka_unit_test(an_absent_key_and_an_empty_value_are_kept_too),
        cmocka_unit_test(a_reply_older_than_an_invalidation_is_not_kept),
        cmocka_unit_test(an_old_reply_does_not_fill_the_mark_of_a_later_read),
        cmocka_unit_test(own_writes_failed_reads_and_flushes_take_marks_away),
        cmocka_unit_test(one_read_of_a_key_at_a_time_fills),
        cmocka_unit_test(memory_stays_within_its_bound),
        cmocka_unit_test(a_scan_leaves_often_used_values_alone),
        cmocka_unit_test(skewed_use_is_mostly_hits),
        cmocka_unit_test(no_order_of_events_serves_an_outdated_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
