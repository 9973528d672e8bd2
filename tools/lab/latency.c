/* The file: "DZLAT1\0\0", then blocks of u16 phase, u16 kind (0: from the send, 1: from when it was
 * due), u32 endpoint, u64 count and as many u64 nanoseconds, all little-endian. */
#include "latency.h"

#include "common/percentile.h"

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct header {
    uint16_t phase, kind;
    uint32_t endpoint;
    uint64_t count;
} header;

/* Dense where tails are. */
static const double percentiles[] = {
    0,  1,     2.5,  5,    10,   15,   20,    25,    30,    35,     40,     45,   50, 55,
    60, 65,    70,   75,   80,   85,   90,    92.5,  95,    96,     97,     97.5, 98, 98.5,
    99, 99.25, 99.5, 99.7, 99.8, 99.9, 99.95, 99.97, 99.99, 99.995, 99.999, 100};

static json_t *curve_of(uint64_t *values, size_t count)
{
    json_t *curve = json_array();
    dz_sort_u64(values, count);
    for (size_t i = 0; i < sizeof percentiles / sizeof percentiles[0]; i++) {
        /* A percentile finer than one request in all would only repeat the largest. */
        bool finer = (100 - percentiles[i]) * (double)count < 100 - 1e-6 && percentiles[i] < 100;
        if (count > 0 && !finer)
            json_array_append_new(
                curve, json_pack("[f, f]", percentiles[i],
                                 (double)dz_percentile(values, count, percentiles[i]) / 1e6));
    }
    return curve;
}

static bool read_whole(FILE *in, void *to, size_t size)
{
    return fread(to, 1, size, in) == size;
}

/* 1: a block was read; 0: end of file; -1: malformed. */
static int read_block(FILE *in, header *h, uint64_t **values)
{
    unsigned char raw[16];
    size_t n = fread(raw, 1, sizeof raw, in);
    if (n == 0)
        return 0;
    if (n != sizeof raw)
        return -1;
    memcpy(&h->phase, raw, 2);
    memcpy(&h->kind, raw + 2, 2);
    memcpy(&h->endpoint, raw + 4, 4);
    memcpy(&h->count, raw + 8, 8);
    h->phase = le16toh(h->phase);
    h->kind = le16toh(h->kind);
    h->endpoint = le32toh(h->endpoint);
    h->count = le64toh(h->count);
    if (h->count > SIZE_MAX / sizeof **values - 1)
        return -1;
    *values = malloc((size_t)(h->count + 1) * sizeof **values);
    if (!*values)
        return -1;
    if (!read_whole(in, *values, (size_t)h->count * sizeof **values)) {
        free(*values);
        return -1;
    }
    for (uint64_t i = 0; i < h->count; i++)
        (*values)[i] = le64toh((*values)[i]);
    return 1;
}

json_t *dz_lab_latency_curves(int fd)
{
    char magic[8];
    int copy = dup(fd);
    FILE *in = copy < 0 ? NULL : fdopen(copy, "rb");
    if (!in) {
        if (copy >= 0)
            close(copy);
        return NULL;
    }
    rewind(in);
    json_t *curves = json_array();
    header h;
    uint64_t *values;
    int rc = read_whole(in, magic, sizeof magic) && memcmp(magic, "DZLAT1\0", 8) == 0 ? 1 : -1;
    while (rc == 1 && (rc = read_block(in, &h, &values)) == 1) {
        /* With a rate, latency from when a request was due stands in place of that from its send.
         */
        json_t *curve = curve_of(values, (size_t)h.count);
        free(values);
        if (h.phase == 0 && h.kind == 1 && h.endpoint < json_array_size(curves))
            json_array_set_new(curves, h.endpoint, curve);
        else if (h.phase == 0 && h.kind == 0 && h.endpoint == json_array_size(curves))
            json_array_append_new(curves, curve);
        else
            json_decref(curve);
    }
    fclose(in);
    if (rc < 0) {
        json_decref(curves);
        return NULL;
    }
    return curves;
}
