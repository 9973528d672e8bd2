#include "lab/check.h"

#include "../check.h"

static char text_plain[] = "Content-Type: text/plain; charset=utf-8",
            eleven[] = "Content-Length: 11", any_date[] = "date: *", path[] = "/";
static char *fields[] = {text_plain, eleven, any_date};
static const dz_lab_check wanted = {
    .path = path, .status = 200, .headers = fields, .headers_count = 3};

static int check_head(const char *head, char *why)
{
    dz_lab_answer answer = {.status = 200, .head = dz_slice_of(head)};
    why[0] = '\0';
    return dz_lab_check_answer(&wanted, &answer, why, 600);
}

static void order_and_case_do_not_matter(void **state)
{
    (void)state;
    char why[600];
    assert_int_equal(0, check_head("HTTP/1.1 200 OK\r\ncontent-length: 11\r\nDATE: today\r\n"
                                   "Content-Type:text/plain; charset=UTF-8 ",
                                   why));
}

static void fields_of_the_connection_do_not_matter(void **state)
{
    (void)state;
    char why[600];
    assert_int_equal(0, check_head("HTTP/1.1 200 OK\r\nContent-Length: 11\r\nDate: today\r\n"
                                   "Content-Type: text/plain; charset=utf-8\r\n"
                                   "Connection: keep-alive\r\nKeep-Alive: timeout=5",
                                   why));
}

static void a_field_too_many_is_named(void **state)
{
    (void)state;
    char why[600];
    assert_int_equal(-1, check_head("HTTP/1.1 200 OK\r\nContent-Length: 11\r\nDate: today\r\n"
                                    "Content-Type: text/plain; charset=utf-8\r\nX-By: me",
                                    why));
    assert_non_null(strstr(why, "'X-By: me'"));
}

static void a_field_too_few_is_named(void **state)
{
    (void)state;
    char why[600];
    assert_int_equal(-1, check_head("HTTP/1.1 200 OK\r\nDate: today\r\n"
                                    "Content-Type: text/plain; charset=utf-8",
                                    why));
    assert_string_equal(why, "GET / lacks 'Content-Length: 11'");
    assert_int_equal(-1, check_head("HTTP/1.1 200 OK", why));
    assert_int_equal(-1, check_head("", why));
}

static void another_value_is_shown_with_the_wanted_one(void **state)
{
    (void)state;
    char why[600];
    assert_int_equal(-1, check_head("HTTP/1.1 200 OK\r\nContent-Length: 12\r\nDate: today", why));
    assert_string_equal(why, "GET / has 'Content-Length: 12' instead of 'Content-Length: 11'");
}

static void what_a_target_sends_cant_command_the_terminal(void **state)
{
    (void)state;
    char why[600];
    dz_lab_check body = {.path = path, .status = 200, .body = any_date};
    dz_lab_answer answer = {.status = 200, .body = DZ_LIT("\x1b[1A\x1b[Kall\ngood\x7F")};
    assert_int_equal(-1, check_head("HTTP/1.1 200 OK\r\nX-Evil: \x1b]0;owned\a", why));
    assert_null(strpbrk(why, "\x1b\a"));
    assert_non_null(strstr(why, "'X-Evil: ?]0;owned?'"));
    assert_int_equal(-1, dz_lab_check_answer(&body, &answer, why, sizeof why));
    assert_string_equal(why, "GET / has the body '?[1A?[Kall good\x3F' instead of 'date: *'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_and_case_do_not_matter),
        cmocka_unit_test(fields_of_the_connection_do_not_matter),
        cmocka_unit_test(a_field_too_many_is_named),
        cmocka_unit_test(a_field_too_few_is_named),
        cmocka_unit_test(another_value_is_shown_with_the_wanted_one),
        cmocka_unit_test(what_a_target_sends_cant_command_the_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
