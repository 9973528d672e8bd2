#include "../check.h"

#include "base/block.h"
#include "dump.h"

static void feed(dz_resp *resp, const char *bytes, size_t len)
{
    struct iovec iov[2];
    int pieces = dz_resp_room(resp, iov);
    size_t done = 0;
    for (int i = 0; i < pieces && done < len; i++) {
        size_t n = len - done < iov[i].iov_len ? len - done : iov[i].iov_len;
        assert_true(iov[i].iov_len > 0);
        memcpy(iov[i].iov_base, bytes + done, n);
        done += n;
    }
    assert_int_equal(done, len);
    dz_resp_filled(resp, done);
}

/* Feeds the input in pieces of `piece` bytes; returns every reply dumped, one a line, then the
 * error's name if there was one. */
static char *replies_of(const char *input, size_t len, size_t piece, const dz_resp_limits *limits)
{
    static dz_resp resp;
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    int rc = 0;
    dz_resp_init(&resp, limits);
    for (size_t at = 0; at < len && rc >= 0;) {
        size_t n = len - at < piece ? len - at : piece;
        feed(&resp, input + at, n);
        at += n;
        dz_reply *reply;
        while ((rc = dz_resp_next(&resp, &reply)) == 1) {
            dump_value(out, reply);
            fputc('\n', out);
            dz_reply_free(reply);
        }
    }
    if (rc < 0) {
        dz_reply *reply;
        fputs(dz_error_name(rc), out);
        assert_int_equal(dz_resp_next(&resp, &reply), rc); /* and stays so */
    } else if (!dz_resp_idle(&resp)) {
        fputs("...", out);
    }
    dz_resp_close(&resp);
    fclose(out);
    return text;
}

static void assert_replies(const char *input, size_t len, const char *expected)
{
    for (size_t piece = 1; piece <= len; piece++) {
        char *got = replies_of(input, len, piece, NULL);
        assert_string_equal(got, expected);
        free(got);
    }
}

#define CHECK(input, expected) assert_replies(input, sizeof(input) - 1, expected)

static void every_type_of_value(void **state)
{
    (void)state;
    CHECK("+OK\r\n", "+OK\n");
    CHECK("+\r\n", "+\n");
    CHECK("-ERR no\r\n", "-ERR no\n");
    CHECK(":0\r\n:-12\r\n:+7\r\n:9223372036854775807\r\n:-9223372036854775808\r\n",
          ":0\n:-12\n:7\n:9223372036854775807\n:-9223372036854775808\n");
    CHECK("$5\r\nhe\r\no\r\n", "\"he\r\no\n");
    CHECK("$0\r\n\r\n", "\"\n");
    CHECK("$-1\r\n*-1\r\n_\r\n", "N\nN\nN\n");
    CHECK("*0\r\n%0\r\n~0\r\n", "*[]\n%[]\n~[]\n");
    CHECK("*3\r\n:1\r\n$1\r\na\r\n*2\r\n+x\r\n$-1\r\n", "*[:1 \"a *[+x N]]\n");
    CHECK("%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n_\r\n", "%[+a :1 +b *[N]]\n");
    CHECK("~2\r\n#t\r\n#f\r\n", "~[#1 #0]\n");
    CHECK(",1.5\r\n,-2e3\r\n,10\r\n,inf\r\n,-inf\r\n,nan\r\n",
          ",1.5\n,-2000\n,10\n,inf\n,-inf\n,nan\n");
    CHECK("(3492890328409238509324850943850943825024385\r\n(-1\r\n",
          "(3492890328409238509324850943850943825024385\n(-1\n");
    CHECK("!5\r\nERR x\r\n", "-ERR x\n");
    CHECK("=8\r\ntxt:text\r\n", "\"txt:text\n");
    CHECK("*1\r\n=7\r\nmkd:# x\r\n", "*[\"mkd:# x]\n");
    CHECK("=4\r\ntxt:\r\n", "\"txt:\n");
    CHECK(">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n+OK\r\n", ">[\"invalidate *[\"k]]\n+OK\n");
}

static void attributes_go_to_the_value_that_follows(void **state)
{
    (void)state;
    CHECK("|1\r\n+ttl\r\n:3600\r\n$1\r\nv\r\n", "|%[+ttl :3600]|\"v\n");
    CHECK("|0\r\n:1\r\n:2\r\n", "|%[]|:1\n:2\n");
    CHECK("*2\r\n|1\r\n+a\r\n*1\r\n:9\r\n*0\r\n:2\r\n", "*[|%[+a *[:9]]|*[] :2]\n");
    CHECK("|1\r\n+a\r\n|1\r\n+b\r\n:1\r\n:2\r\n:3\r\n", "|%[+a |%[+b :1]|:2]|:3\n");
}

static void streamed_strings_and_aggregates(void **state)
{
    (void)state;
    CHECK("$?\r\n;4\r\nHell\r\n;1\r\no\r\n;0\r\n:1\r\n", "\"Hello\n:1\n");
    CHECK("$?\r\n;0\r\n", "\"\n");
    CHECK("*?\r\n:1\r\n*?\r\n.\r\n$?\r\n;2\r\nab\r\n;0\r\n.\r\n", "*[:1 *[] \"ab]\n");
    CHECK("%?\r\n+a\r\n:1\r\n.\r\n~?\r\n:1\r\n.\r\n", "%[+a :1]\n~[:1]\n");
}

static void incomplete_input_waits(void **state)
{
    (void)state;
    CHECK("$5\r\nhel", "...");
    CHECK("$5\r\nhello", "...");
    CHECK("*2\r\n:1\r\n", "...");
    CHECK(":12\r", "...");
    CHECK("|1\r\n+a\r\n$3000\r\nabc", "...");
    CHECK("$?\r\n;4\r\nHell\r\n", "...");
}

static void malformed_input_is_refused(void **state)
{
    (void)state;
    static const char *const inputs[] = {"\r\n",
                                         "\n",
                                         "x\r\n",
                                         "+OK\n",
                                         ":\r\n",
                                         ":1a\r\n",
                                         ":9223372036854775808\r\n",
                                         ":--1\r\n",
                                         ": 1\r\n",
                                         "$\r\n",
                                         "$-2\r\n",
                                         "$+1\r\n",
                                         "$1\r\nabc",
                                         "$1a\r\n",
                                         "*-2\r\n",
                                         "*a\r\n",
                                         "#\r\n",
                                         "#x\r\n",
                                         "#tt\r\n",
                                         "_x\r\n",
                                         ",\r\n",
                                         ",1.5x\r\n",
                                         ",0x1p3\r\n",
                                         ",1,5\r\n",
                                         "(\r\n",
                                         "(1.5\r\n",
                                         "(-\r\n",
                                         "=3\r\ntxt\r\n",
                                         "=5\r\ntextx\r\n",
                                         "!-1\r\n",
                                         "%-1\r\n",
                                         ">0\r\n",
                                         ">?\r\n",
                                         "*1\r\n>1\r\n:1\r\n",
                                         ".\r\n",
                                         "*1\r\n.\r\n",
                                         "*?\r\n.x\r\n",
                                         "%?\r\n+a\r\n.\r\n",
                                         "$?\r\n+x\r\n",
                                         "$?\r\n;-1\r\n",
                                         ";4\r\n",
                                         "|1\r\n+a\r\n:1\r\n|0\r\n",
                                         "*?\r\n|0\r\n.\r\n",
                                         "=?\r\n",
                                         "!?\r\n",
                                         "GET / HTTP/1.1\r\n"};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        for (size_t piece = 1; piece <= strlen(inputs[i]); piece++) {
            char *got = replies_of(inputs[i], strlen(inputs[i]), piece, NULL);
            if (strcmp(got, "DZ_E_PROTOCOL") != 0)
                fail_msg("\"%s\" gave %s", inputs[i], got);
            free(got);
        }
}

static void limits_hold(void **state)
{
    (void)state;
    static const struct {
        const char *input;
        dz_resp_limits limits;
        bool ok;
    } cases[] = {
        {"*1\r\n*1\r\n*0\r\n", {.depth = 3}, true},
        {"*1\r\n*1\r\n*1\r\n*0\r\n", {.depth = 3}, false},
        {"*2\r\n:1\r\n:2\r\n", {.elements = 3}, true},
        {"*3\r\n:1\r\n:2\r\n:3\r\n", {.elements = 3}, false},
        {"*999999999999\r\n", {0}, false},
        {"%600000\r\n+a\r\n", {.elements = 1000}, false},
        {"$99999999999\r\n", {0}, false},
        {"$1000\r\n", {.bytes = 1000}, false},
        {"$?\r\n;650\r\n", {.bytes = 700}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *got = replies_of(cases[i].input, strlen(cases[i].input), 1, &cases[i].limits);
        if ((strcmp(got, "DZ_E_TOO_LARGE") != 0) != cases[i].ok)
            fail_msg("case %zu gave %s", i, got);
        free(got);
    }
    static char deep[4 * 100];
    for (size_t i = 0; i < 100; i++)
        memcpy(deep + 4 * i, "*1\r\n", 4);
    char *got = replies_of(deep, sizeof deep, sizeof deep, NULL);
    assert_string_equal(got, "DZ_E_TOO_LARGE");
    free(got);
    static char line[20000]; /* no end in sight */
    memset(line, '+', sizeof line);
    got = replies_of(line, sizeof line, 1024, NULL);
    assert_string_equal(got, "DZ_E_TOO_LARGE");
    free(got);
}

static void a_long_string_is_read_straight_into_its_own_buffer(void **state)
{
    (void)state;
    enum { SIZE = 102400 };
    static dz_resp resp;
    static char body[SIZE + 2];
    struct iovec iov[2];
    dz_reply *reply = NULL;
    memset(body, 'v', SIZE);
    memcpy(body + SIZE, "\r\n", 2);
    dz_resp_init(&resp, NULL);
    feed(&resp, "$102400\r\nvv", 11);
    assert_int_equal(dz_resp_next(&resp, &reply), 0);
    assert_int_equal(dz_resp_room(&resp, iov), 2);
    assert_int_equal(iov[0].iov_len, SIZE - 2);
    const char *direct = iov[0].iov_base;
    feed(&resp, body + 2, SIZE); /* the rest, the CRLF, and nothing more */
    assert_int_equal(dz_resp_next(&resp, &reply), 1);
    assert_ptr_equal(reply->text.data, direct - 2);
    assert_int_equal(reply->text.len, SIZE);
    assert_int_equal(reply->text.block->cap, SIZE);
    dz_buf taken;
    assert_int_equal(dz_buf_transfer(&taken, &reply->text), 0); /* what a response does */
    dz_reply_free(reply);
    assert_memory_equal(taken.data, body, SIZE);
    dz_buf_release(&taken);
    dz_resp_close(&resp);
}

static void commands_are_arrays_of_strings(void **state)
{
    (void)state;
    dz_buf out = {0};
    const dz_slice set[] = {DZ_LIT("SET"), DZ_LIT("k\r\n"), DZ_LIT("")};
    assert_int_equal(dz_resp_command(&out, set, 3), 0);
    const dz_slice ping[] = {DZ_LIT("PING")};
    assert_int_equal(dz_resp_command(&out, ping, 1), 0);
    assert_slice(dz_buf_slice(&out),
                 "*3\r\n$3\r\nSET\r\n$3\r\nk\r\n\r\n$0\r\n\r\n*1\r\n$4\r\nPING\r\n");
    const dz_slice absurd[] = {{"", SIZE_MAX - 10}};
    assert_int_equal(dz_resp_command(&out, absurd, 1), DZ_E_NOMEM);
    dz_buf_release(&out);
}

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

/* A random value, as the server would write it, and its dump. */
static void write_value(FILE *wire, FILE *dump, uint64_t *seed,
                        int depth) // NOLINT(misc-no-recursion)
{
    uint64_t pick = next_random(seed) % (depth > 4 ? 4 : 7);
    static char text[5000];
    size_t size, count;
    switch (pick) {
    case 0:
        fprintf(wire, ":%d\r\n", (int)pick);
        fprintf(dump, ":%d", (int)pick);
        break;
    case 1:
        fputs("_\r\n", wire);
        fputs("N", dump);
        break;
    case 2:
    case 3:
        size = next_random(seed) % (pick == 2 ? 20 : sizeof text);
        memset(text, 'a' + (int)(size % 26), size);
        fprintf(wire, "$%zu\r\n%.*s\r\n", size, (int)size, text);
        fprintf(dump, "\"%.*s", (int)size, text);
        break;
    default:
        count = next_random(seed) % 5;
        fprintf(wire, "%c%zu\r\n", pick == 4 ? '%' : '*', count);
        fprintf(dump, "%c[", pick == 4 ? '%' : '*');
        for (size_t i = 0; i < (pick == 4 ? 2 * count : count); i++) {
            if (i > 0)
                fputc(' ', dump);
            write_value(wire, dump, seed, depth + 1);
        }
        fputc(']', dump);
    }
}

static void random_replies_survive_any_cutting(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (int round = 0; round < 60; round++) {
        char *wire_text, *dump_text;
        size_t wire_size, dump_size;
        FILE *wire = open_memstream(&wire_text, &wire_size);
        FILE *dump = open_memstream(&dump_text, &dump_size);
        for (int i = 0; i < 4; i++) {
            write_value(wire, dump, &seed, 0);
            fputc('\n', dump);
        }
        fclose(wire);
        fclose(dump);
        static const size_t pieces[] = {1, 2, 3, 7, 64, 1000, 2000};
        for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
            char *got = replies_of(wire_text, wire_size, pieces[i], NULL);
            assert_string_equal(got, dump_text);
            free(got);
        }
        free(wire_text);
        free(dump_text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_of_value),
        cmocka_unit_test(attributes_go_to_the_value_that_follows),
        cmocka_unit_test(streamed_strings_and_aggregates),
        cmocka_unit_test(incomplete_input_waits),
        cmocka_unit_test(malformed_input_is_refused),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(a_long_string_is_read_straight_into_its_own_buffer),
        cmocka_unit_test(commands_are_arrays_of_strings),
        cmocka_unit_test(random_replies_survive_any_cutting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
