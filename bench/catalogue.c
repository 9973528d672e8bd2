/* What validating a catalogue costs, and scanning it alone: bench-catalogue FILE
 * Best and median CPU time of interleaved rounds, the file in memory. */
#include "base/clock.h"
#include "catalogue.h"

#include <donmaz/csv.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { ROUNDS = 21, MIDDLE = ROUNDS / 2 };

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
static catalogue_result result;

static void scan(dz_slice input)
{
    dz_csv csv;
    dz_csv_field fields[8];
    dz_csv_row row = {.fields = fields, .cap = 8};
    if (dz_csv_init(&csv, input, &(dz_csv_options){.separator = ';'}) < 0)
        exit(1);
    while (dz_csv_next(&csv, &row) > 0)
        sink += row.count;
}

static void validate(dz_slice input)
{
    if (catalogue_validate(input, NULL, &result) < 0)
        exit(1);
}

static void validate_to_records(dz_slice input)
{
    dz_buf records;
    if (catalogue_validate(input, &(catalogue_options){.records = &records}, &result) < 0)
        exit(1);
    sink += records.len;
    dz_buf_release(&records);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(dz_slice input);
    } contenders[] = {{"scan", scan}, {"validate", validate}, {"records", validate_to_records}};
    enum { COUNT = sizeof contenders / sizeof contenders[0] };
    static uint64_t times[COUNT][ROUNDS];
    dz_slice input = argc == 2 ? map_file(argv[1]) : (dz_slice){NULL, 0};
    if (!input.ptr) {
        fputs("usage: bench-catalogue FILE (from make-catalogue)\n", stderr);
        return 2;
    }
    for (size_t round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < COUNT; i++) {
            uint64_t start = dz_thread_cpu();
            contenders[i].run(input);
            times[i][round] = dz_thread_cpu() - start;
        }
    printf("%s: %zu bytes, %" PRIu64 " imported, %" PRIu64 " skipped\n", argv[1], input.len,
           result.imported, result.skipped);
    for (size_t i = 0; i < COUNT; i++) {
        qsort(times[i], ROUNDS, sizeof times[i][0], compare);
        printf("  %-9s best %6.2f ms  median %6.2f ms\n", contenders[i].name,
               (double)times[i][0] / 1e6, (double)times[i][MIDDLE] / 1e6);
    }
    return 0;
}
