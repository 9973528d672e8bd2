#include "../../check.h"
#include "../../printed.h"

#include "common/options.h"

#include <donmaz/slice.h>

#include <stdio.h>
#include <unistd.h>

typedef struct settings {
    uint64_t connections, duration, limit;
    double rate;
    const char *title, *json;
    dz_strings headers;
    bool quiet, progress;
} settings;

static const dz_option table[] = {
    {DZ_OPT_HEADING, 0, "load", NULL, 0, 0, 0, NULL},
    {DZ_OPT_COUNT, 'c', "connections", "NUM", offsetof(settings, connections), 1, 1000,
     "how many connections"},
    {DZ_OPT_DURATION, 'd', "duration", "TIME", offsetof(settings, duration), 0.001, 0, "how long"},
    {DZ_OPT_BYTES, 0, "limit", "SIZE", offsetof(settings, limit), 0, 0, "how much"},
    {DZ_OPT_NUMBER, 'R', "rate|overallRate", "NUM", offsetof(settings, rate), 0, 0, "how often"},
    {DZ_OPT_STRING, 'T', "title", "TEXT", offsetof(settings, title), 0, 0, "a title\nof two lines"},
    {DZ_OPT_LIST, 'H', "header|headers", "NAME: VALUE", offsetof(settings, headers), 0, 0, "more"},
    {DZ_OPT_OUTPUT, 'j', "json", "FILE", offsetof(settings, json), 0, 0, "JSON"},
    {DZ_OPT_FLAG, 'q', "quiet", NULL, offsetof(settings, quiet), 0, 0, "say less"},
    {DZ_OPT_FLAG_OFF, 'n', "no-progress", NULL, offsetof(settings, progress), 0, 0, "no progress"},
};

static const dz_option_spec spec = {.tool = "donmaz test",
                                    .usage = "[options] URL...",
                                    .about = "Tests.",
                                    .options = table,
                                    .count = sizeof table / sizeof table[0]};

typedef struct outcome {
    settings set;
    dz_operands operands;
    int rc;
    const char *out, *err; /* until the next */
} outcome;

static outcome parse(const char *const *args)
{
    static char *argv[16]; /* operands->command points into it */
    outcome o;
    o = (outcome){.set = {.progress = true}};
    int argc = 0;
    for (; args[argc]; argc++)
        memcpy(&argv[argc], &args[argc], sizeof argv[0]); /* main's argv is not const */
    argv[argc] = NULL;
    with_printed(o.rc = dz_options_parse(&spec, &o.set, argc, argv, &o.operands));
    o.out = printed_out;
    o.err = printed_err;
    return o;
}

#define PARSE(...) parse((const char *const[]){"test", __VA_ARGS__, NULL})

static void drop(outcome *o)
{
    dz_strings_free(&o->set.headers);
    dz_strings_free(&o->operands.args);
}

static void takes_every_form_of_an_option(void **state)
{
    (void)state;
    outcome o = PARSE("-c", "10", "http://a", "--duration=500ms", "-R2.5", "--limit", "64k", "-T=x",
                      "-qn", "http://b");
    assert_int_equal(o.rc, DZ_OPTIONS_OK);
    assert_int_equal(o.set.connections, 10);
    assert_int_equal(o.set.duration, 500000000);
    assert_true(o.set.rate == 2.5);
    assert_int_equal(o.set.limit, 65536);
    assert_string_equal(o.set.title, "x");
    assert_true(o.set.quiet);
    assert_false(o.set.progress);
    assert_int_equal(o.operands.args.count, 2);
    assert_string_equal(o.operands.args.items[1], "http://b");
    assert_null(o.operands.command);
    drop(&o);
}

static void keeps_repeated_options_in_order_and_accepts_other_names(void **state)
{
    (void)state;
    outcome o = PARSE("-H", "a: 1", "--headers", "b=2", "--header=c: =3", "--overallRate", "7");
    assert_int_equal(o.rc, DZ_OPTIONS_OK);
    assert_int_equal(o.set.headers.count, 3);
    assert_string_equal(o.set.headers.items[0], "a: 1");
    assert_string_equal(o.set.headers.items[1], "b=2");
    assert_string_equal(o.set.headers.items[2], "c: =3");
    assert_true(o.set.rate == 7);
    drop(&o);
}

static void leaves_what_follows_two_dashes_alone(void **state)
{
    (void)state;
    outcome o = PARSE("/path", "--", "node", "-c", "server.js", "--help");
    assert_int_equal(o.rc, DZ_OPTIONS_OK);
    assert_int_equal(o.operands.args.count, 1);
    assert_int_equal(o.operands.command_count, 4);
    assert_string_equal(o.operands.command[0], "node");
    assert_null(o.operands.command[4]);
    drop(&o);
    o = PARSE("/path", "--");
    assert_non_null(o.operands.command);
    assert_int_equal(o.operands.command_count, 0);
    drop(&o);
}

static void an_output_is_standard_output_unless_a_file_follows(void **state)
{
    (void)state;
    outcome o = PARSE("--json", "http://a");
    assert_string_equal(o.set.json, "-");
    assert_int_equal(o.operands.args.count, 1);
    drop(&o);
    o = PARSE("--json", "file.json", "http://a");
    assert_string_equal(o.set.json, "file.json");
    drop(&o);
    o = PARSE("-j", "localhost:80");
    assert_string_equal(o.set.json, "-");
    assert_int_equal(o.operands.args.count, 1);
    drop(&o);
    o = PARSE("-jn");
    assert_string_equal(o.set.json, "-");
    assert_false(o.set.progress);
    drop(&o);
    o = PARSE("--json", "-", "http://a");
    assert_string_equal(o.set.json, "-");
    assert_int_equal(o.operands.args.count, 1);
    drop(&o);
}

static void unusable_arguments_end_with_2_and_one_line(void **state)
{
    (void)state;
    struct {
        const char *args[4];
        const char *says;
    } cases[] = {
        {{"-c", "x"}, "donmaz test: -c wants a whole number, not 'x'\n"},
        {{"-c"}, "donmaz test: -c wants a whole number\n"},
        {{"-c", "0"}, "donmaz test: -c must be between 1 and 1000, not '0'\n"},
        {{"-c", "1001"}, "donmaz test: -c must be between 1 and 1000, not '1001'\n"},
        {{"-c", "99999999999999999999"},
         "donmaz test: -c must be between 1 and 1000, not '99999999999999999999'\n"},
        {{"-c", "-5"}, "donmaz test: -c wants a whole number, not '-5'\n"},
        {{"-d", "5x"}, "donmaz test: -d wants a duration such as 10, 10s, 500ms or 2m, not '5x'\n"},
        {{"-d", "0"}, "donmaz test: -d must be at least 0.001 seconds, not '0'\n"},
        {{"-R", "nan"}, "donmaz test: -R wants a number, not 'nan'\n"},
        {{"--limit=1q"}, "donmaz test: --limit wants a size such as 4096, 64k or 1M, not '1q'\n"},
        {{"--quiet=yes"}, "donmaz test: --quiet takes no value\n"},
        {{"--conections", "5"},
         "donmaz test: no option --conections; did you mean --connections?\n"},
        {{"--headrs=x"}, "donmaz test: no option --headrs; did you mean --headers?\n"},
        {{"--xyzzy"}, "donmaz test: no option --xyzzy; 'donmaz test --help' lists them\n"},
        {{"-Z"}, "donmaz test: no option -Z; 'donmaz test --help' lists them\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *argv[6] = {"test", cases[i].args[0], cases[i].args[1], NULL};
        outcome o = parse(argv);
        assert_int_equal(o.rc, 2);
        assert_string_equal(o.err, cases[i].says);
        assert_string_equal(o.out, "");
        drop(&o);
    }
}

static void help_lists_every_option_on_standard_output(void **state)
{
    (void)state;
    outcome o = PARSE("--help");
    assert_int_equal(o.rc, 0);
    assert_string_equal(o.err, "");
    assert_non_null(strstr(o.out, "usage: donmaz test [options] URL...\n\nTests.\n"));
    assert_non_null(strstr(o.out, "\nload:\n"));
    assert_non_null(strstr(o.out, "  -c, --connections NUM       how many connections\n"));
    assert_non_null(strstr(o.out, "      --limit SIZE            how much\n"));
    assert_non_null(strstr(o.out, "  -T, --title TEXT            a title\n"
                                  "                              of two lines\n"));
    assert_non_null(strstr(o.out, "  -j, --json [FILE]           JSON\n"));
    assert_non_null(strstr(o.out, "      --help                  print this help\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_every_form_of_an_option),
        cmocka_unit_test(keeps_repeated_options_in_order_and_accepts_other_names),
        cmocka_unit_test(leaves_what_follows_two_dashes_alone),
        cmocka_unit_test(an_output_is_standard_output_unless_a_file_follows),
        cmocka_unit_test(unusable_arguments_end_with_2_and_one_line),
        cmocka_unit_test(help_lists_every_option_on_standard_output)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
