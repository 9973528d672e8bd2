#include "../check.h"

#include "redis/cluster.h"
#include "redis/command.h"

enum { MOST = 12 };

/* A command's words, between blanks. */
static size_t split(const char *text, dz_slice *args)
{
    size_t count = 0;
    while (*text && count < MOST) {
        size_t len = strcspn(text, " ");
        args[count++] = dz_slice_make(text, len);
        text += len + (text[len] == ' ');
    }
    return count;
}

static void the_first_key_says_where_a_command_goes(void **state)
{
    (void)state;
    static const struct {
        const char *command;
        size_t key;
    } cases[] = {{"GET k", 1},
                 {"set k v", 1},
                 {"HSET h f v", 1},
                 {"MSET a 1 b 2", 1},
                 {"RENAME a b", 1},
                 {"PING", 0},
                 {"PING text", 0},
                 {"FLUSHALL", 0},
                 {"SCAN 0", 0},
                 {"PUBLISH c m", 0},
                 {"SPUBLISH c m", 1},
                 {"GET", 0},
                 {"OBJECT ENCODING k", 2},
                 {"MEMORY DOCTOR", 0},
                 {"BITOP AND to a b", 2},
                 {"ZUNION 2 a b", 2},
                 {"XINFO STREAM s", 2},
                 {"EVAL script 2 a b", 3},
                 {"EVAL script 0", 0},
                 {"EVAL script 0 arg", 0},
                 {"fcall f 1 k", 3},
                 {"XREAD COUNT 5 STREAMS s 0", 4},
                 {"XREADGROUP GROUP g c STREAMS s >", 5},
                 {"XREAD COUNT", 1},
                 {"MIGRATE h 1 k 0 5", 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dz_slice args[MOST];
        size_t count = split(cases[i].command, args);
        if (dz_redis_command_key(args, count) != cases[i].key)
            fail_msg("%s: %zu", cases[i].command, dz_redis_command_key(args, count));
    }
}

static void commands_that_would_hold_up_everyone_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *command;
        bool refused;
    } cases[] = {{"BLPOP l 0", true},
                 {"subscribe c", true},
                 {"CLIENT REPLY OFF", true},
                 {"ASKING", true},
                 {"XREAD BLOCK 0 STREAMS s $", true},
                 {"xreadgroup GROUP g c block 0 STREAMS s >", true},
                 {"XREAD STREAMS BLOCK 0", false}, /* a key of that name */
                 {"XREAD COUNT 1 STREAMS s 0", false},
                 {"GET BLPOP", false},
                 {"EVAL s 0", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dz_slice args[MOST];
        size_t count = split(cases[i].command, args);
        if (dz_redis_command_refused(args, count) != cases[i].refused)
            fail_msg("%s", cases[i].command);
    }
}

static void redirections_are_taken_apart(void **state)
{
    (void)state;
    dz_redis_redirect to;
    assert_true(dz_redis_redirect_parse(&to, DZ_LIT("MOVED 3999 127.0.0.1:6381")));
    assert_false(to.ask);
    assert_int_equal(to.slot, 3999);
    assert_int_equal(to.port, 6381);
    assert_slice(to.host, "127.0.0.1");
    assert_true(dz_redis_redirect_parse(&to, DZ_LIT("ASK 0 fe80::1:7000")));
    assert_true(to.ask);
    assert_slice(to.host, "fe80::1");
    assert_int_equal(to.port, 7000);
    assert_true(dz_redis_redirect_parse(&to, DZ_LIT("MOVED 16383 :1")));
    assert_slice(to.host, "");
    assert_true(dz_redis_redirect_parse(&to, DZ_LIT("MOVED 1 ?:1")));
    assert_slice(to.host, "");
    static const char *const wrong[] = {"",
                                        "MOVED",
                                        "MOVED ",
                                        "MOVED 1",
                                        "MOVED 1 ",
                                        "MOVED  1 h:1",
                                        "MOVED 1 h",
                                        "MOVED 1 h:",
                                        "MOVED 1 h:0",
                                        "MOVED 1 h:65536",
                                        "MOVED -1 h:1",
                                        "ASK x h:1",
                                        "MOVEDX 1 h:1",
                                        "MOVED 16384 h:1",
                                        "ERR 1 h:1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (dz_redis_redirect_parse(&to, dz_slice_of(wrong[i])))
            fail_msg("'%s' was taken", wrong[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_key_says_where_a_command_goes),
        cmocka_unit_test(commands_that_would_hold_up_everyone_are_refused),
        cmocka_unit_test(redirections_are_taken_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
