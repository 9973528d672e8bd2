#include "../check.h"

#include "redis/url.h"

#include <donmaz/error.h>

static dz_redis_url parsed(const char *text)
{
    dz_redis_url url;
    if (dz_redis_url_parse(&url, dz_slice_of(text)) != 0)
        fail_msg("%s was refused", text);
    return url;
}

static void hosts_and_ports(void **state)
{
    (void)state;
    dz_redis_url url = parsed("redis://localhost");
    assert_string_equal(url.endpoints[0].host, "localhost");
    assert_int_equal(url.endpoints[0].port, 6379);
    assert_int_equal(url.db, 0);
    assert_false(url.tls);
    url = parsed("REDISS://10.0.0.1:7000/");
    assert_string_equal(url.endpoints[0].host, "10.0.0.1");
    assert_int_equal(url.endpoints[0].port, 7000);
    assert_true(url.tls);
    url = parsed("redis://[::1]:7001/3");
    assert_string_equal(url.endpoints[0].host, "::1");
    assert_int_equal(url.endpoints[0].port, 7001);
    assert_int_equal(url.db, 3);
    url = parsed("redis://[fe80::1]?db=15");
    assert_string_equal(url.endpoints[0].host, "fe80::1");
    assert_int_equal(url.db, 15);
}

static void users_and_passwords(void **state)
{
    (void)state;
    dz_redis_url url = parsed("redis://app:p%40ss%3Aword@h/2");
    assert_string_equal(url.user, "app");
    assert_string_equal(url.password, "p@ss:word");
    assert_string_equal(url.endpoints[0].host, "h");
    url = parsed("redis://:secret@h");
    assert_string_equal(url.user, "");
    assert_string_equal(url.password, "secret");
    url = parsed("redis://u:a@b@h"); /* the last @ ends the credentials */
    assert_string_equal(url.password, "a@b");
}

static void unix_sockets(void **state)
{
    (void)state;
    dz_redis_url url = parsed("unix:///run/redis/redis.sock?db=4");
    assert_string_equal(url.endpoints[0].path, "/run/redis/redis.sock");
    assert_string_equal(url.endpoints[0].host, "");
    assert_int_equal(url.db, 4);
    url = parsed("unix://me:pw@/a%20b");
    assert_string_equal(url.endpoints[0].path, "/a b");
    assert_string_equal(url.user, "me");
    assert_string_equal(url.password, "pw");
}

static void clusters_have_several_hosts(void **state)
{
    (void)state;
    dz_redis_url url = parsed("redis+cluster://u:p@a:7000,[::1]:7001,c");
    assert_true(url.cluster);
    assert_false(url.tls);
    assert_int_equal(url.endpoint_count, 3);
    assert_string_equal(url.endpoints[0].host, "a");
    assert_int_equal(url.endpoints[0].port, 7000);
    assert_string_equal(url.endpoints[1].host, "::1");
    assert_int_equal(url.endpoints[1].port, 7001);
    assert_string_equal(url.endpoints[2].host, "c");
    assert_int_equal(url.endpoints[2].port, 6379);
    assert_string_equal(url.password, "p");
    url = parsed("rediss+cluster://only.example/");
    assert_true(url.cluster && url.tls);
    assert_int_equal(url.endpoint_count, 1);
    assert_false(parsed("redis://a").cluster);
}

static void bad_urls_are_refused(void **state)
{
    (void)state;
    static const char *const urls[] = {"",
                                       "localhost",
                                       "http://h",
                                       "redis://",
                                       "redis://:6379",
                                       "redis://h:",
                                       "redis://h:0",
                                       "redis://h:70000",
                                       "redis://h:6x",
                                       "redis://h/x",
                                       "redis://h/-1",
                                       "redis://h/1/2",
                                       "redis://[::1",
                                       "redis://[::1]x",
                                       "redis://[::1]:",
                                       "redis://a%zz:b@h",
                                       "redis://a%00@h",
                                       "redis://h?db=",
                                       "redis://h?db=x",
                                       "redis://h?timeout=1",
                                       "unix://",
                                       "unix://path",
                                       "unix:///",
                                       "unix://u/path",
                                       "redis://h/99999999999",
                                       "redis://a,b",
                                       "redis+cluster://",
                                       "redis+cluster://a,",
                                       "redis+cluster://a,,b",
                                       "redis+cluster://a/1",
                                       "redis+cluster://a?db=1",
                                       "redis+cluster://1,2,3,4,5,6,7,8,9"};
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        dz_redis_url url;
        if (dz_redis_url_parse(&url, dz_slice_of(urls[i])) != DZ_E_INVALID)
            fail_msg("%s was taken", urls[i]);
    }
    char text[400] = "unix:///";
    memset(text + 8, 'p', 150);
    dz_redis_url url;
    assert_int_equal(dz_redis_url_parse(&url, dz_slice_of(text)), DZ_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_and_ports),      cmocka_unit_test(users_and_passwords),
        cmocka_unit_test(unix_sockets),         cmocka_unit_test(clusters_have_several_hosts),
        cmocka_unit_test(bad_urls_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
