/* make-catalogue: writes a catalogue (see catalogue.h) to try the bookstore with. The same options
 * give the same bytes everywhere. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: make-catalogue [--rows N] [--bad N] [--seed N] > catalogue.csv\n"
    "\n"
    "  --rows N  rows below the header, at most 100000000 (default 500000)\n"
    "  --bad N   how many of them break a rule, spread evenly over the file and over\n"
    "            the kinds of fault (default 500)\n"
    "  --seed N  gives another catalogue (default 1)\n"
    "\n"
    "With the defaults: 500,000 rows, about 26 MB, 499,500 valid books.\n";

/* What a bad row gets wrong. */
typedef enum fault_kind {
    NO_FAULT = -1,
    WRONG_CHECK_DIGIT,
    SHORT_ISBN,
    ISBN_TWICE, /* repeats the last good row's number */
    NO_TITLE,
    NO_AUTHOR,
    PRICE_WITH_COMMA,
    NEGATIVE_STOCK,
    FIELD_MISSING,
    FIELD_TOO_MANY,
    STRAY_QUOTE,
    FAULTS
} fault_kind;

typedef struct catalogue_plan {
    uint64_t rows, bad, seed;
} catalogue_plan;

/* A mixer of 64 bits (SplitMix64), so that any row can be made without those before it. */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Row number to nine digits, each number once: the factor and 10^9 have no divisor in common. */
static uint64_t isbn_body(const catalogue_plan *plan, uint64_t row)
{
    return (row * UINT64_C(387420489) + mix(plan->seed)) % 1000000000;
}

static unsigned check_digit(const char *digits)
{
    unsigned sum = 0;
    for (size_t i = 0; i < 12; i++)
        sum += (unsigned)(digits[i] - '0') * (i % 2 ? 3 : 1);
    return (10 - sum % 10) % 10;
}

static void put_isbn(char *to, const catalogue_plan *plan, uint64_t row, fault_kind fault)
{
    char body[16];
    snprintf(body, sizeof body, "978%09u", (unsigned)isbn_body(plan, row));
    unsigned check = check_digit(body);
    if (fault == WRONG_CHECK_DIGIT)
        check = (check + 1) % 10;
    memcpy(to, body, 12);
    to[12] = (char)('0' + check);
    to[fault == SHORT_ISBN ? 12 : 13] = '\0';
}

static const char *const adjectives[] = {"Quiet",  "Burning", "Last",   "Hidden",
                                         "Silver", "Broken",  "Winter", "Golden",
                                         "Empty",  "Distant", "Paper",  "Iron"};
static const char *const nouns[] = {"Garden", "Harbour", "Library", "Machine", "River",  "Archive",
                                    "Letter", "Orchard", "Station", "Winter",  "Mirror", "Island"};
static const char *const given[] = {"Ada",  "Selim", "Ursula", "Jorge",   "Ayla",  "Stan",
                                    "Iris", "Orhan", "Elif",   "Octavia", "Yasar", "Nora"};
static const char *const family[] = {"Kaya",  "Lindgren", "Okafor", "Moreau",  "Yildiz", "Novak",
                                     "Demir", "Castillo", "Ito",    "Schmidt", "Arslan", "Byrne"};

#define PICK(list, random) ((list)[(random) % (sizeof(list) / sizeof(list)[0])])

/* Some titles need quotes: one in 64 holds the separator, one in 64 a quote. */
static void put_title(char *to, size_t room, uint64_t random)
{
    const char *adjective = PICK(adjectives, random), *noun = PICK(nouns, random >> 8);
    if (random >> 20 & 63) {
        snprintf(to, room, "The %s %s", adjective, noun);
        return;
    }
    if (random >> 26 & 1)
        snprintf(to, room, "\"%s %s; a novel\"", adjective, noun);
    else
        snprintf(to, room, "\"The \"\"%s\"\" %s\"", adjective, noun);
}

static void put_row(const catalogue_plan *plan, uint64_t row, uint64_t isbn_of, fault_kind fault)
{
    char isbn[16], title[64] = "", author[64] = "", price[24], stock[16];
    uint64_t random = mix(plan->seed ^ mix(row));
    put_isbn(isbn, plan, isbn_of, fault);
    if (fault == STRAY_QUOTE)
        snprintf(title, sizeof title, "The 12\" %s", PICK(nouns, random));
    else if (fault != NO_TITLE)
        put_title(title, sizeof title, random);
    if (fault != NO_AUTHOR)
        snprintf(author, sizeof author, "%s %s", PICK(given, random >> 32),
                 PICK(family, random >> 40));
    snprintf(price, sizeof price, "%u%c%02u", (unsigned)(random >> 45) % 95 + 5,
             fault == PRICE_WITH_COMMA ? ',' : '.', (unsigned)(random >> 52) % 100);
    snprintf(stock, sizeof stock, "%s%u", fault == NEGATIVE_STOCK ? "-" : "",
             (unsigned)(random >> 12) % 1000 + 1);
    if (fault == FIELD_MISSING)
        printf("%s;%s;%s;%s\n", isbn, title, author, price);
    else
        printf("%s;%s;%s;%s;%s%s\n", isbn, title, author, price, stock,
               fault == FIELD_TOO_MANY ? ";new" : "");
}

/* The rows are cut into `bad` stretches of nearly equal length; each holds one bad row, not
 * at its start if it can be helped, so that a good row comes before. */
static void put_rows(const catalogue_plan *plan)
{
    uint64_t good = UINT64_MAX; /* the last good row */
    for (uint64_t stretch = 0, row = 0; row < plan->rows; stretch++) {
        uint64_t end = plan->rows, bad = UINT64_MAX;
        if (plan->bad > 0) {
            end = plan->rows * (stretch + 1) / plan->bad;
            uint64_t length = end - row;
            bad = length > 1 ? row + 1 + mix(plan->seed ^ ~stretch) % (length - 1) : row;
        }
        for (; row < end; row++) {
            fault_kind fault = row == bad ? (fault_kind)(stretch % FAULTS) : NO_FAULT;
            if (fault == ISBN_TWICE && good == UINT64_MAX) /* nothing to repeat yet */
                fault = WRONG_CHECK_DIGIT;
            put_row(plan, row, fault == ISBN_TWICE ? good : row, fault);
            if (fault == NO_FAULT)
                good = row;
        }
    }
}

static bool parse_number(const char *text, uint64_t most, uint64_t *value)
{
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return errno == 0 && text[0] >= '0' && text[0] <= '9' && *end == '\0' && *value <= most;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"rows", required_argument, NULL, 'r'},
                                            {"bad", required_argument, NULL, 'b'},
                                            {"seed", required_argument, NULL, 's'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    catalogue_plan plan = {.rows = 500000, .bad = 500, .seed = 1};
    bool ok = true;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'h') {
            fputs(help, stdout);
            return 0;
        }
        if (c == '?')
            return 2;
        uint64_t *value = c == 'r' ? &plan.rows : c == 'b' ? &plan.bad : &plan.seed;
        ok = ok && parse_number(optarg, c == 's' ? UINT64_MAX : 100000000, value);
    }
    if (!ok || optind != argc || plan.bad > plan.rows) {
        fputs("make-catalogue: unusable arguments; --help tells more\n", stderr);
        return 2;
    }
    puts("isbn;title;author;price;stock");
    put_rows(&plan);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "make-catalogue: stdout: %s\n", strerror(errno));
        return 1;
    }
    return 0;
}
