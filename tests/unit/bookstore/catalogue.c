#include "../check.h"

#include "catalogue.h"
#include "isbn.h"
#include "records.h"

#include <donmaz/error.h>

#include <endian.h>
#include <stdio.h>

#define HEADER "isbn;title;author;price;stock\n"
#define DUNE   "9780441172719;Dune;Frank Herbert;12.99;7\n"

static catalogue_result result;

static int validate(const char *text)
{
    return catalogue_validate(dz_slice_of(text), NULL, &result);
}

static void valid_books_are_counted(void **state)
{
    (void)state;
    assert_int_equal(
        validate("\xef\xbb\xbf" HEADER DUNE "\n"
                 "\"9780747532699\";\"a; \"\"b\"\"\";K\xc3\xbc\xc3\xa7\xc3\xbck;0.00;0\r\n"
                 "9791234567896;x;y;99999.99;9999999"),
        0);
    assert_int_equal(result.imported, 3);
    assert_int_equal(result.skipped, 0);
    assert_int_equal(result.error_count, 0);
    assert_true(result.parse_ms >= 0);
}

static void a_wrong_header_is_a_format_error(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "\n",
        DUNE,
        "isbn,title,author,price,stock\n" DUNE,
        "ISBN;title;author;price;stock\n",
        "isbn;title;author;price\n",
        "isbn;title;author;price;stock;more\n",
        "\n" HEADER,
        "\"isbn\"x;title;author;price;stock\n",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(validate(wrong[i]), DZ_E_FORMAT);
        assert_non_null(strstr(result.reason, "isbn;title;author;price;stock"));
        assert_int_equal(result.imported + result.skipped, 0);
    }
    assert_int_equal(validate(HEADER), 0);
    assert_int_equal(validate("isbn;title;author;price;\"stock\""), 0);
}

typedef struct bad_row {
    const char *row, *reason;
    unsigned column;
} bad_row;

static void each_bad_row_is_skipped_with_its_place_and_reason(void **state)
{
    (void)state;
    static const bad_row rows[] = {
        {"9780441172718;Dune;Frank Herbert;12.99;7", "check digit", 1},
        {"978044117271;Dune;Frank Herbert;12.99;7", "13 digits", 1},
        {"97804411727190;Dune;Frank Herbert;12.99;7", "13 digits", 1},
        {"978-441172719;Dune;Frank Herbert;12.99;7", "13 digits", 1},
        {"978044117271X;Dune;Frank Herbert;12.99;7", "13 digits", 1},
        {"9770441172710;Dune;Frank Herbert;12.99;7", "978 nor 979", 1},
        {";Dune;Frank Herbert;12.99;7", "13 digits", 1},
        {"9780441172719;;Frank Herbert;12.99;7", "title is empty", 15},
        {"9780441172719;\"\";Frank Herbert;12.99;7", "title is empty", 15},
        {"9780441172719;Dune;;12.99;7", "author is empty", 20},
        {"9780441172719;Dune;F;12,99;7", "price", 22},
        {"9780441172719;Dune;F;12.9;7", "price", 22},
        {"9780441172719;Dune;F;.99;7", "price", 22},
        {"9780441172719;Dune;F;-1.99;7", "price", 22},
        {"9780441172719;Dune;F;1299;7", "price", 22},
        {"9780441172719;Dune;F;100000.00;7", "price", 22},
        {"9780441172719;Dune;F;1.2.99;7", "price", 22},
        {"9780441172719;Dune;F;;7", "price", 22},
        {"9780441172719;Dune;F;12.99;-7", "stock", 28},
        {"9780441172719;Dune;F;12.99;", "stock", 28},
        {"9780441172719;Dune;F;12.99;7.5", "stock", 28},
        {"9780441172719;Dune;F;12.99;10000000", "stock", 28},
        {"9780441172719;Dune;F;12.99", "number of fields", 1},
        {"9780441172719;Dune;F;12.99;7;", "number of fields", 1},
        {"9780441172719;12\" Dune;F;12.99;7", "quote inside", 17},
        {"9780441172719;\"Dune\"s;F;12.99;7", "after a closing quote", 21},
        {"9780441172719;D\xfc;F;12.99;7", "UTF-8", 15},
        {"9780441172719;Dune;\xc3;12.99;7", "UTF-8", 20},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[256];
        snprintf(text, sizeof text, HEADER "9780747532699;\"a\nb\";c;1.00;1\n%s\n" DUNE,
                 rows[i].row);
        assert_int_equal(validate(text), 0);
        assert_int_equal(result.imported, 2);
        assert_int_equal(result.skipped, 1);
        assert_int_equal(result.error_count, 1);
        assert_non_null(strstr(result.errors[0].reason, rows[i].reason));
        assert_int_equal(result.errors[0].line, 4);
        assert_int_equal(result.errors[0].column, rows[i].column);
    }
}

static void an_unclosed_quote_costs_the_rest_and_is_reported_where_it_opens(void **state)
{
    (void)state;
    assert_int_equal(validate(HEADER "9780747532699;\"a;b;1.00;1\n" DUNE DUNE), 0);
    assert_int_equal(result.imported, 0);
    assert_int_equal(result.skipped, 1);
    assert_int_equal(result.errors[0].line, 2);
    assert_int_equal(result.errors[0].column, 15);
}

static void texts_up_to_500_bytes_are_taken(void **state)
{
    (void)state;
    char text[1400], title[502];
    memset(title, 't', sizeof title);
    for (int len = 500; len <= 501; len++) {
        snprintf(text, sizeof text, HEADER "9780441172719;%.*s;%.*s;1.00;1\n", len, title, 500,
                 title);
        assert_int_equal(validate(text), 0);
        assert_int_equal(result.imported, len == 500);
        snprintf(text, sizeof text, HEADER "9780441172719;%.*s;%.*s;1.00;1\n", 500, title, len,
                 title);
        assert_int_equal(validate(text), 0);
        assert_int_equal(result.imported, len == 500);
    }
}

/* The ISBN of a number, with its check digit. */
static void put_isbn(char *to, unsigned number)
{
    snprintf(to, 14, "978%09u0", number);
    unsigned sum = 0;
    for (size_t i = 0; i < 12; i++)
        sum += (unsigned)(to[i] - '0') * (i % 2 ? 3 : 1);
    to[12] = (char)('0' + (10 - sum % 10) % 10);
}

static void an_isbn_counts_once_and_errors_stay_in_file_order(void **state)
{
    (void)state;
    static char text[4000];
    size_t len = (size_t)snprintf(text, sizeof text, HEADER);
    for (unsigned i = 0; i < 60; i++) {
        char isbn[16];
        put_isbn(isbn, i % 20);
        len += (size_t)snprintf(text + len, sizeof text - len, "%s;t;a;%s;1\n", isbn,
                                i == 30 ? "x" : "1.00");
    }
    assert_int_equal(validate(text), 0);
    assert_int_equal(result.imported, 20);
    assert_int_equal(result.skipped, 40);
    assert_int_equal(result.error_count, CATALOGUE_ERRORS);
    for (size_t i = 0; i < CATALOGUE_ERRORS; i++) {
        assert_int_equal(result.errors[i].line, 22 + i);
        assert_string_equal(result.errors[i].reason,
                            i == 10 ? "price is not a number like 12.99, at most 99999.99"
                                    : "isbn occurred before");
    }
}

static void all_isbns_are_told_apart(void **state)
{
    (void)state;
    isbn_set set;
    assert_true(isbn_set_init(&set, 0)); /* so that it has to grow */
    for (int pass = 1; pass >= 0; pass--)
        for (isbn_key key = 1; key < 300000; key++)
            assert_int_equal(isbn_set_add(&set, key * 7), pass);
    assert_int_equal(set.count, 299999);
    isbn_set_close(&set);
    isbn_key a, b;
    uint64_t number;
    assert_null(isbn_parse(DZ_LIT("9780441172719"), &a, &number));
    assert_int_equal(number, 9780441172719);
    assert_null(isbn_parse(DZ_LIT("9790441172718"), &b, &number));
    assert_int_equal(number, 9790441172718);
    assert_int_not_equal(a, b);
}

static char *big_catalogue(unsigned rows, size_t *len)
{
    size_t room = 64 + (size_t)rows * 40;
    char *text = malloc(room);
    assert_non_null(text);
    *len = (size_t)snprintf(text, room, HEADER);
    for (unsigned i = 0; i < rows; i++) {
        char isbn[16];
        put_isbn(isbn, i);
        *len +=
            (size_t)snprintf(text + *len, room - *len, "%s;title %u;a;1.00;%u\n", isbn, i, i % 9);
    }
    return text;
}

typedef struct progress_log {
    uint64_t reports[8];
    size_t count, asked, cancel_at;
} progress_log;

static void on_progress(void *context, uint64_t rows)
{
    progress_log *watcher = context;
    watcher->reports[watcher->count++] = rows;
}

static bool on_ask(void *context)
{
    progress_log *watcher = context;
    return ++watcher->asked == watcher->cancel_at;
}

static void progress_comes_every_hundred_thousand_rows(void **state)
{
    (void)state;
    size_t len;
    char *text = big_catalogue(250000, &len);
    progress_log watcher = {0};
    catalogue_options options = {.progress = on_progress, .cancelled = on_ask, .context = &watcher};
    assert_int_equal(catalogue_validate(dz_slice_make(text, len), &options, &result), 0);
    assert_int_equal(watcher.count, 2);
    assert_int_equal(watcher.reports[0], 100000);
    assert_int_equal(watcher.reports[1], 200000);
    assert_int_equal(result.imported, 250000);
    free(text);
}

static void a_cancelled_validation_ends_at_once(void **state)
{
    (void)state;
    size_t len;
    char *text = big_catalogue(20000, &len);
    dz_buf books;
    progress_log watcher = {.cancel_at = 3};
    catalogue_options options = {.cancelled = on_ask, .context = &watcher, .records = &books};
    assert_int_equal(catalogue_validate(dz_slice_make(text, len), &options, &result),
                     DZ_E_CANCELLED);
    assert_int_equal(watcher.asked, 3);
    assert_true(result.imported <= 3000);
    assert_int_equal(books.len, 0);
    assert_null(books.data);
    free(text);
}

static uint32_t get32(const char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return le32toh(value);
}

static uint64_t get64(const char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return le64toh(value);
}

static void records_hold_the_valid_books(void **state)
{
    (void)state;
    dz_buf books;
    catalogue_options options = {.records = &books};
    assert_int_equal(catalogue_validate(
                         DZ_LIT(HEADER DUNE "bad;row;here;1;2\n"
                                            "9780747532699;\"a; \"\"b\"\"\";c;99999.99;9999999\n"),
                         &options, &result),
                     0);
    assert_memory_equal(books.data, "DZBOOKS1", 8);
    assert_int_equal(get32(books.data + 8), 32);
    assert_int_equal(get32(books.data + 12), 2);
    const char *text = books.data + get64(books.data + 16);
    assert_int_equal(get64(books.data + 16), 32 + 2 * 32);
    assert_int_equal(get64(books.data + 24), books.len - 96);
    const char *dune = books.data + 32, *other = dune + 32;
    assert_int_equal(get64(dune), 9780441172719);
    assert_int_equal(get32(dune + 8), 1299);
    assert_int_equal(get32(dune + 12), 7);
    assert_memory_equal(text + get32(dune + 16), "Dune", 4);
    assert_memory_equal(text + get32(dune + 20), "Frank Herbert", 13);
    assert_int_equal(get32(dune + 24), 4 | 13 << 16);
    assert_int_equal(get32(other + 8), 9999999);
    assert_int_equal(get32(other + 12), 9999999);
    assert_memory_equal(text + get32(other + 16), "a; \"b\"c", 7);
    assert_int_equal(get32(other + 24), 6 | 1 << 16);
    dz_buf owner;
    assert_int_equal(dz_buf_transfer(&owner, &books), 0); /* it owns its whole memory */
    dz_buf_release(&owner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_books_are_counted),
        cmocka_unit_test(a_wrong_header_is_a_format_error),
        cmocka_unit_test(each_bad_row_is_skipped_with_its_place_and_reason),
        cmocka_unit_test(an_unclosed_quote_costs_the_rest_and_is_reported_where_it_opens),
        cmocka_unit_test(texts_up_to_500_bytes_are_taken),
        cmocka_unit_test(an_isbn_counts_once_and_errors_stay_in_file_order),
        cmocka_unit_test(all_isbns_are_told_apart),
        cmocka_unit_test(progress_comes_every_hundred_thousand_rows),
        cmocka_unit_test(a_cancelled_validation_ends_at_once),
        cmocka_unit_test(records_hold_the_valid_books),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
