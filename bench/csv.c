/* CSV scanning against what memchr needs for the same bytes.
 *   bench-csv [FILE [SEPARATOR]]    default: 26 MB made here, separated by ';'
 * Figures are the best of interleaved rounds on one core. `memchr` looks for a byte that is not
 * there; `memchr lines` finds every line end and is what a line reader needs at least. */
#include "base/clock.h"
#include "text/csv_kernel.h"

#include <donmaz/buf.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { ROUNDS = 15, MADE = 26 << 20 };

static dz_slice make_input(bool quoted)
{
    char *data = malloc(MADE + 256);
    size_t len = 0;
    for (unsigned i = 0; data && len < MADE; i++)
        len += (size_t)snprintf(
            data + len, 256,
            quoted ? "\"978%010u\";\"The \"\"Left\"\" Hand\";\"A. Author\";%u.%02u;%u\n"
                   : "978%010u;The Left Hand;A. Author;%u.%02u;%u\n",
            i, i % 90 + 5, i % 100, i % 500);
    return dz_slice_make(data, len);
}

static dz_slice map_file(const char *name)
{
    struct stat info;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) < 0 || info.st_size == 0)
        return (dz_slice){NULL, 0};
    size_t len = (size_t)info.st_size;
    char *data = mmap(NULL, len, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    return data == MAP_FAILED ? (dz_slice){NULL, 0} : dz_slice_make(data, len);
}

static volatile size_t sink;

static void run_memchr(dz_slice input, char separator)
{
    (void)separator;
    sink = memchr(input.ptr, '\x01', input.len) != NULL;
}

static void run_lines(dz_slice input, char separator)
{
    (void)separator;
    size_t lines = 0;
    const char *at = input.ptr, *end = at + input.len;
    while (at < end && (at = memchr(at, '\n', (size_t)(end - at)))) {
        lines++;
        at++;
    }
    sink = lines;
}

static void run_rows(dz_slice input, char separator)
{
    dz_csv csv;
    dz_csv_field fields[16];
    dz_csv_row row = {.fields = fields, .cap = 16};
    size_t total = 0;
    if (dz_csv_init(&csv, input, &(dz_csv_options){.separator = separator}) < 0)
        exit(2);
    while (dz_csv_next(&csv, &row) > 0)
        total += row.count + fields[0].text.len;
    sink = total;
}

static const dz_csv_kernel_entry *kernel;

static void run_index(dz_slice input, char separator)
{
    dz_csv csv;
    size_t total = 0;
    if (dz_csv_init(&csv, input, &(dz_csv_options){.separator = separator}) < 0)
        exit(2);
    while (!csv.stopped) {
        csv.window = csv.scanned;
        csv.count = 0;
        kernel->run(&csv);
        total += csv.count;
    }
    sink = total;
}

typedef struct contender {
    const char *name;
    void (*run)(dz_slice input, char separator);
    const dz_csv_kernel_entry *kernel;
    uint64_t best;
} contender;

/* The kernels stop at malformed input, so alone they are measured only on what is made here. */
static void measure(const char *title, dz_slice input, char separator, bool with_kernels)
{
    contender all[8] = {{"memchr", run_memchr, NULL, 0},
                        {"memchr lines", run_lines, NULL, 0},
                        {"rows and fields", run_rows, NULL, 0}};
    size_t count = 3, kernels;
    const dz_csv_kernel_entry *entries = dz_csv_kernels(&kernels);
    for (size_t i = 0; i < kernels && with_kernels; i++)
        if (dz_csv_kernel_supported(&entries[i]))
            all[count++] = (contender){entries[i].name, run_index, &entries[i], 0};
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < count; i++) {
            kernel = all[i].kernel;
            uint64_t start = dz_thread_cpu();
            all[i].run(input, separator);
            uint64_t took = dz_thread_cpu() - start;
            if (round == 0 || took < all[i].best)
                all[i].best = took;
        }
    printf("%s, %zu bytes; rows use %s\n", title, input.len, dz_csv_kernel_name());
    for (size_t i = 0; i < count; i++)
        printf("  %-16s%s %7.2f ms %7.2f GB/s\n", all[i].name, all[i].kernel ? " index" : "      ",
               (double)all[i].best / 1e6, (double)input.len / (double)all[i].best);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        dz_slice input = map_file(argv[1]);
        if (!input.ptr) {
            fprintf(stderr, "bench-csv: can't read %s\n", argv[1]);
            return 1;
        }
        const char *separator = argc > 2 ? argv[2] : ";";
        measure(argv[1], input, separator[0], false);
        return 0;
    }
    for (int quoted = 0; quoted < 2; quoted++) {
        dz_slice input = make_input(quoted);
        if (!input.ptr)
            return 1;
        measure(quoted ? "quoted fields" : "plain fields", input, ';', true);
        free((char *)(uintptr_t)input.ptr);
    }
    return 0;
}
