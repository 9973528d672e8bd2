/* parser.c: what the request head parser costs, in nanoseconds of CPU per head, beside the time
 * memchr needs just to look at as many bytes.
 *   parser [ROUNDS]          default 15 rounds; prints medians */
#include "http/head.h"

#include "base/clock.h"

#include <donmaz/buf.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADERS_MAX = 100, ROUNDS_MAX = 1000, PER_ROUND = 20000 };

typedef struct sample {
    const char *name;
    dz_buf text;
} sample;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}

static double time_parser(const sample *s)
{
    static const dz_head_limits limits = DZ_HEAD_LIMITS_DEFAULT;
    static dz_header headers[HEADERS_MAX];
    dz_head head = {.headers = headers};
    uint64_t start = dz_thread_cpu();
    for (int i = 0; i < PER_ROUND; i++) {
        size_t scanned = 0;
        const char *text = s->text.data;
        __asm__ volatile("" : "+r"(text) : : "memory"); /* the compiler can't know the bytes */
        if (dz_head_parse(&head, text, s->text.len, &scanned, &limits) != (int)s->text.len) {
            fprintf(stderr, "parser: %s: did not parse\n", s->name);
            exit(1);
        }
    }
    return (double)(dz_thread_cpu() - start) / PER_ROUND;
}

/* The same bytes in pieces of 64, as from a slow client: shows that the cost stays linear. */
static double time_pieces(const sample *s)
{
    static const dz_head_limits limits = DZ_HEAD_LIMITS_DEFAULT;
    static dz_header headers[HEADERS_MAX];
    dz_head head = {.headers = headers};
    uint64_t start = dz_thread_cpu();
    for (int i = 0; i < PER_ROUND; i++) {
        size_t scanned = 0;
        int rc = DZ_HEAD_MORE;
        for (size_t given = 64; rc == DZ_HEAD_MORE; given += 64)
            rc = dz_head_parse(&head, s->text.data, given < s->text.len ? given : s->text.len,
                               &scanned, &limits);
        if (rc != (int)s->text.len)
            exit(1);
    }
    return (double)(dz_thread_cpu() - start) / PER_ROUND;
}

static double time_memchr(const sample *s)
{
    uint64_t start = dz_thread_cpu();
    for (int i = 0; i < PER_ROUND; i++) {
        const char *text = s->text.data;
        __asm__ volatile("" : "+r"(text) : : "memory");
        const void *found = memchr(text, 0, s->text.len);
        __asm__ volatile("" : : "r"(found));
    }
    return (double)(dz_thread_cpu() - start) / PER_ROUND;
}

static sample make_sample(const char *name, const char *head, size_t cookie)
{
    dz_buf text = {0};
    int rc = dz_buf_append(&text, dz_slice_of(head));
    if (cookie > 0) {
        rc |= dz_buf_append(&text, DZ_LIT("Cookie: session="));
        for (size_t i = 0; i < cookie; i++)
            rc |= dz_buf_append(&text, DZ_LIT("c"));
        rc |= dz_buf_append(&text, DZ_LIT("\r\n"));
    }
    rc |= dz_buf_append(&text, DZ_LIT("\r\n"));
    if (rc < 0)
        abort();
    return (sample){name, text};
}

int main(int argc, char **argv)
{
    unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 15;
    if (rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: parser [ROUNDS]   1 to %d\n", ROUNDS_MAX);
        return 2;
    }
    static const char browser[] =
        "GET /catalogue/books?page=2&sort=title HTTP/1.1\r\nHost: www.example.org\r\n"
        "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n"
        "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n"
        "Accept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n"
        "Connection: keep-alive\r\nReferer: https://www.example.org/catalogue\r\n"
        "Upgrade-Insecure-Requests: 1\r\nSec-Fetch-Dest: document\r\n"
        "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Site: same-origin\r\n";
    sample samples[] = {
        make_sample("load generator", "GET / HTTP/1.1\r\nHost: 127.0.0.1:3000\r\n", 0),
        make_sample("browser", browser, 0),
        make_sample("browser, 4 KB cookie", browser, 4096),
    };
    printf("%-22s %7s %10s %10s %12s %8s\n", "head", "bytes", "ns/head", "ns memchr",
           "ns in pieces", "GB/s");
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        static double parser[ROUNDS_MAX], scan[ROUNDS_MAX], pieces[ROUNDS_MAX];
        for (size_t round = 0; round < rounds; round++) {
            parser[round] = time_parser(&samples[i]);
            scan[round] = time_memchr(&samples[i]);
            pieces[round] = time_pieces(&samples[i]);
        }
        double ns = median(parser, rounds);
        printf("%-22s %7zu %10.1f %10.1f %12.1f %8.2f\n", samples[i].name, samples[i].text.len, ns,
               median(scan, rounds), median(pieces, rounds), (double)samples[i].text.len / ns);
        dz_buf_release(&samples[i].text);
    }
    return 0;
}
