#include "load/record.h"

#include "load/response.h"

#include <donmaz/error.h>

#include <stdlib.h>
#include <string.h>

int load_series_grow(load_series *series, uint64_t value)
{
    if (series->chunk_count == series->chunk_cap) {
        size_t cap = series->chunk_cap ? series->chunk_cap * 2 : 16;
        load_chunk **chunks = realloc(series->chunks, cap * sizeof(load_chunk *));
        if (!chunks)
            return DZ_E_NOMEM;
        series->chunks = chunks;
        series->chunk_cap = cap;
    }
    load_chunk *chunk = malloc(sizeof *chunk);
    if (!chunk)
        return DZ_E_NOMEM;
    series->chunks[series->chunk_count++] = chunk;
    series->end = chunk->values;
    series->limit = chunk->values + LOAD_CHUNK_VALUES;
    *series->end++ = value;
    series->count++;
    return 0;
}

void load_series_free(load_series *series)
{
    for (size_t i = 0; i < series->chunk_count; i++)
        free(series->chunks[i]);
    free(series->chunks);
    *series = (load_series){0};
}

void load_series_copy(const load_series *series, uint64_t *out)
{
    size_t left = series->count;
    for (size_t i = 0; i < series->chunk_count; i++) {
        size_t n = left < LOAD_CHUNK_VALUES ? left : LOAD_CHUNK_VALUES;
        memcpy(out, series->chunks[i]->values, n * sizeof *out);
        out += n;
        left -= n;
    }
}

const char *load_failure_key(load_failure failure, int error)
{
    static const char *const keys[] = {
#define X(name, key, text) key,
        LOAD_FAILURES(X)
#undef X
    };
    return failure == LOAD_FAIL_ERRNO ? dz_error_name(-error) : keys[failure];
}

const char *load_failure_text(load_failure failure, int error)
{
    static const char *const texts[] = {
#define X(name, key, text) text,
        LOAD_FAILURES(X)
#undef X
    };
    if (failure == LOAD_FAIL_ERRNO)
        return dz_strerror(-error);
    if (failure == LOAD_FAIL_BAD_RESPONSE)
        return load_fault_text((load_fault)error);
    return texts[failure];
}

void load_record_free(load_record *record)
{
    load_series_free(&record->service);
    load_series_free(&record->scheduled);
    load_series_free(&record->lag);
    free(record->marks);
    record->marks = NULL;
}

int load_record_mark(load_record *record)
{
    if (record->mark_count == record->mark_cap) {
        size_t cap = record->mark_cap ? record->mark_cap * 2 : 64;
        load_mark *marks = realloc(record->marks, cap * sizeof *marks);
        if (!marks)
            return DZ_E_NOMEM;
        record->marks = marks;
        record->mark_cap = cap;
    }
    record->marks[record->mark_count++] = (load_mark){.completed = record->totals.completed,
                                                      .bytes = record->totals.bytes,
                                                      .latencies = record->service.count};
    return 0;
}

static void count_class(load_totals *totals, const load_error *error)
{
    for (size_t i = 0; i < totals->class_count; i++) {
        load_error *class = &totals->classes[i];
        if (class->failure == error->failure && class->error == error->error) {
            class->count += error->count;
            return;
        }
    }
    /* More kinds than there is room for: none is lost, the last one takes them. */
    if (totals->class_count < LOAD_ERRORS)
        totals->classes[totals->class_count++] = *error;
    else
        totals->classes[LOAD_ERRORS - 1].count += error->count;
}

void load_totals_error(load_totals *totals, load_failure failure, int error, uint64_t count)
{
    count_class(totals, &(load_error){.failure = failure, .error = error, .count = count});
    if (failure == LOAD_FAIL_STATUS) {
        totals->unexpected += count;
    } else if (failure == LOAD_FAIL_BODY) {
        totals->mismatches += count;
    } else {
        totals->errors += count;
        totals->timeouts += failure == LOAD_FAIL_TIMEOUT ? count : 0;
    }
}

void load_totals_add(load_totals *to, const load_totals *from)
{
    to->sent += from->sent;
    to->completed += from->completed;
    to->errors += from->errors;
    to->timeouts += from->timeouts;
    to->mismatches += from->mismatches;
    to->unexpected += from->unexpected;
    to->bytes += from->bytes;
    for (size_t i = 0; i < LOAD_STATUSES; i++)
        to->statuses[i] += from->statuses[i];
    for (size_t i = 0; i < from->class_count; i++)
        count_class(to, &from->classes[i]);
}

uint64_t load_totals_statuses(const load_totals *totals, unsigned low, unsigned high)
{
    uint64_t sum = 0;
    for (unsigned i = low; i <= high && i < LOAD_STATUSES; i++)
        sum += totals->statuses[i];
    return sum;
}

uint64_t load_totals_non2xx(const load_totals *totals)
{
    return totals->completed - load_totals_statuses(totals, 200, 299);
}
