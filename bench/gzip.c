/* gzip.c: which library should compress replies? zlib and libdeflate over JSON of several sizes:
 * CPU time per reply, throughput and ratio at each level. */
#include <libdeflate.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Records as a service's list would hold them: repeated keys, ids, names, dates, numbers. */
static size_t make_json(char *out, size_t size)
{
    static const char *const names[] = {"Ada", "Grace",  "Edsger",   "Barbara", "Donald", "Frances",
                                        "Ken", "Leslie", "Margaret", "Niklaus", "Radia",  "Tony"};
    static const char *const states[] = {"open", "paid", "shipped", "returned"};
    uint64_t seed = 42;
    size_t at = 0;
    out[at++] = '[';
    for (unsigned id = 1000;; id++) {
        char row[256];
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        unsigned r = (unsigned)(seed >> 33);
        int len = snprintf(row, sizeof row,
                           "{\"id\":%u,\"name\":\"%s\",\"state\":\"%s\",\"total\":%u.%02u,"
                           "\"created\":\"2026-%02u-%02uT%02u:%02u:00Z\",\"key\":\"%08x\"},",
                           id, names[r % 12], states[r / 12 % 4], r % 997, r % 100, 1 + r % 12,
                           1 + r % 28, r % 24, r % 60, r);
        if (at + (size_t)len + 1 > size)
            break;
        memcpy(out + at, row, (size_t)len);
        at += (size_t)len;
    }
    out[at - 1] = ']';
    return at;
}

static char *packed;
static size_t packed_cap;

static size_t by_zlib(const char *in, size_t len, int level)
{
    z_stream z = {0};
    if (deflateInit2(&z, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        exit(1);
    z.next_in = (Bytef *)(uintptr_t)in;
    z.avail_in = (uInt)len;
    z.next_out = (Bytef *)packed;
    z.avail_out = (uInt)packed_cap;
    if (deflate(&z, Z_FINISH) != Z_STREAM_END)
        exit(1);
    size_t out = z.total_out;
    deflateEnd(&z);
    return out;
}

static size_t by_libdeflate(const char *in, size_t len, int level)
{
    struct libdeflate_compressor *c = libdeflate_alloc_compressor(level);
    if (!c)
        exit(1);
    size_t out = libdeflate_gzip_compress(c, in, len, packed, packed_cap);
    libdeflate_free_compressor(c);
    return out;
}

static void measure(const char *name, size_t (*run)(const char *, size_t, int), const char *in,
                    size_t len, int level)
{
    size_t out = run(in, len, level);
    double best = 1e9;
    for (int round = 0; round < 5; round++) {
        unsigned count = 0;
        double start = cpu_seconds(), used;
        do {
            run(in, len, level);
            count++;
        } while ((used = cpu_seconds() - start) < 0.03);
        if (used / count < best)
            best = used / count;
    }
    printf("%-11s %5d %9zu %9zu %6.1f%% %10.1f %8.0f\n", name, level, len, out,
           100.0 * (double)out / (double)len, best * 1e6, (double)len / best / 1e6);
}

int main(void)
{
    static const size_t sizes[] = {2 << 10, 16 << 10, 100 << 10, 1 << 20};
    static const int levels[] = {1, 4, 6};
    packed_cap = (2 << 20) + 1024;
    packed = malloc(packed_cap);
    char *json = malloc(1 << 20);
    if (!packed || !json)
        return 1;
    printf("%-11s %5s %9s %9s %7s %10s %8s\n", "library", "level", "bytes", "gzip", "ratio",
           "us CPU", "MB/s");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t len = make_json(json, sizes[i]);
        for (size_t k = 0; k < sizeof levels / sizeof levels[0]; k++) {
            measure("zlib", by_zlib, json, len, levels[k]);
            measure("libdeflate", by_libdeflate, json, len, levels[k]);
        }
    }
    free(json);
    free(packed);
    return 0;
}
