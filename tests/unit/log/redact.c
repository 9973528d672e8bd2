/* The list of fields whose values are hidden. */
#include "../check.h"

#include "log/line.h"

#include <donmaz/error.h>

/* --- memory that runs out --- */

static int copies_left = -1;
static bool no_table;

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
    if (copies_left == 0)
        return NULL;
    copies_left -= copies_left > 0;
    return __real_strdup(text);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return no_table ? NULL : __real_calloc(count, size);
}

/* A line with `value` under `name`, in the groups of `path` ("a.b"; "" for none). */
static const char *line_with(const dz_redact *redact, const char *path, const char *name,
                             const char *value)
{
    static char memory[4096];
    dz_line line;
    dz_line_init(&line, memory, sizeof memory, NULL, redact);
    dz_line_raw(&line, DZ_LIT("{"));
    char groups[64];
    strncpy(groups, path, sizeof groups - 1);
    groups[sizeof groups - 1] = '\0';
    char *rest = groups;
    for (char *group; *path && (group = strsep(&rest, "."));)
        dz_line_field(&line, &(dz_field){.name = group, .kind = DZ_FIELD_GROUP});
    dz_line_text(&line, name, dz_slice_of(value));
    dz_slice text = dz_line_finish(&line, NULL);
    memory[text.len - 1] = '\0';
    return text.ptr;
}

#define assert_hidden(redact, path, name, hidden)                                                  \
    do {                                                                                           \
        const char *text_ = line_with(redact, path, name, "geheim");                               \
        assert_int_equal(strstr(text_, "geheim") == NULL, hidden);                                 \
        assert_int_equal(strstr(text_, "[Redacted]") != NULL, hidden);                             \
    } while (0)

static void rules_name_a_field_at_its_place_or_at_any(void **state)
{
    (void)state;
    static const char *const rules[] = {"password", "req.headers.cookie", "*.token"};
    dz_redact redact;
    assert_int_equal(dz_redact_init(&redact, rules, 3), 0);
    assert_false(redact.queries);
    assert_hidden(&redact, "", "password", true);
    assert_hidden(&redact, "", "passwords", false);
    assert_hidden(&redact, "user", "password", false);
    assert_hidden(&redact, "req.headers", "cookie", true);
    assert_hidden(&redact, "headers", "cookie", false);
    assert_hidden(&redact, "", "token", true);
    assert_hidden(&redact, "a.b.c", "token", true);
    assert_hidden(&redact, "a", "Token", true);
    assert_hidden(&redact, "a", "tokens", false);
    dz_redact_close(&redact);
}

static void the_rules_are_copied(void **state)
{
    (void)state;
    char rule[] = "pin";
    const char *rules[] = {rule};
    dz_redact redact;
    assert_int_equal(dz_redact_init(&redact, rules, 1), 0);
    memcpy(rule, "xyz", 3);
    rules[0] = NULL;
    assert_hidden(&redact, "", "pin", true);
    assert_hidden(&redact, "", "xyz", false);
    dz_redact_close(&redact);
}

static void no_rules_hide_nothing_and_need_no_memory(void **state)
{
    (void)state;
    dz_redact redact;
    no_table = true;
    int rc = dz_redact_init(&redact, NULL, 0);
    no_table = false;
    assert_int_equal(rc, 0);
    assert_hidden(&redact, "", "password", false);
    dz_redact_close(&redact);
}

static void a_rule_for_queries_is_noted(void **state)
{
    (void)state;
    static const char *const rules[] = {"a", "?ticket"};
    dz_redact redact;
    assert_int_equal(dz_redact_init(&redact, rules, 2), 0);
    assert_true(redact.queries);
    char memory[2048];
    dz_line line;
    dz_line_init(&line, memory, sizeof memory, NULL, &redact);
    dz_line_raw(&line, DZ_LIT("{"));
    dz_line_url(&line, "url", DZ_LIT("/x?a=1&Ticket=geheim&b=2"));
    dz_slice text = dz_line_finish(&line, NULL);
    assert_null(memmem(text.ptr, text.len, "geheim", 6));
    assert_non_null(memmem(text.ptr, text.len, "a=1", 3));
    assert_non_null(memmem(text.ptr, text.len, "b=2", 3));
    dz_redact_close(&redact);
}

static void without_memory_nothing_is_left_half_made(void **state)
{
    (void)state;
    static const char *const rules[] = {"?a", "b", "c"};
    dz_redact redact;
    no_table = true;
    int rc = dz_redact_init(&redact, rules, 3);
    no_table = false;
    assert_int_equal(rc, DZ_E_NOMEM);
    assert_null(redact.rules);
    for (int left = 0; left < 3; left++) {
        copies_left = left;
        rc = dz_redact_init(&redact, rules, 3);
        copies_left = -1;
        assert_int_equal(rc, DZ_E_NOMEM);
        assert_null(redact.rules);
        assert_int_equal(redact.count, 0);
        assert_false(redact.queries);
    }
    dz_redact_close(&redact); /* harmless */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_name_a_field_at_its_place_or_at_any),
        cmocka_unit_test(the_rules_are_copied),
        cmocka_unit_test(no_rules_hide_nothing_and_need_no_memory),
        cmocka_unit_test(a_rule_for_queries_is_noted),
        cmocka_unit_test(without_memory_nothing_is_left_half_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
