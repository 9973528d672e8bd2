#include <donmaz/metrics.h>
#include <donmaz/redis.h>

#include "../check.h"

#include <stdlib.h>
#include <string.h>

static char *text_of(dz_metrics *metrics)
{
    dz_buf text = {0};
    assert_int_equal(dz_metrics_write(metrics, &text), 0);
    dz_slice slice = dz_buf_slice(&text);
    char *copy = malloc(slice.len + 1);
    assert_non_null(copy);
    memcpy(copy, slice.ptr, slice.len);
    copy[slice.len] = '\0';
    dz_buf_release(&text);
    return copy;
}

static void a_clients_counts_are_shown_by_its_name_until_they_are_forgotten(void **state)
{
    (void)state;
    dz_redis *redis;
    assert_int_equal(dz_redis_open(&redis, "unix:///nowhere/at/all", NULL), 0);
    dz_metrics *metrics = dz_metrics_new();
    assert_non_null(metrics);
    assert_int_equal(dz_redis_register_metrics(redis, metrics, "sessions"), 0);
    assert_int_equal(dz_redis_register_metrics(redis, metrics, "sessions"), DZ_E_EXISTS);

    char *text = text_of(metrics);
    assert_non_null(strstr(text, "donmaz_redis_connected{redis=\"sessions\"} 0\n"));
    assert_non_null(strstr(text, "donmaz_redis_commands_total{redis=\"sessions\"} 0\n"));
    assert_non_null(strstr(text, "# TYPE donmaz_redis_cache_hits_total counter\n"));
    free(text);

    dz_metrics_forget(metrics, redis);
    dz_redis_close(redis);
    text = text_of(metrics);
    assert_null(strstr(text, "sessions"));
    free(text);
    dz_metrics_free(metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clients_counts_are_shown_by_its_name_until_they_are_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
