/* functions.h: which function of a file an address belongs to. libdw walks all symbols for each
 * question, which takes a millisecond in a file with hundreds of thousands; here they are put in
 * order once and each question is a binary search. One thread at a time. */
#ifndef DZ_FLAME_FUNCTIONS_H
#define DZ_FLAME_FUNCTIONS_H

#include <elfutils/libdwfl.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A symbol as it stands in the file; `end` equals `start` where its size is not told. */
typedef struct dz_function {
    uint64_t start, end;
    uint64_t limit;   /* of one without a size: where its section ends */
    const char *name; /* the module's own */
    uint8_t rank;     /* of several at one address the one with the least is meant */
} dz_function;

/* A piece of code and its function; what lies inside another function is cut out of that. */
typedef struct dz_function_piece {
    uint64_t start, end;
    const char *name;
} dz_function_piece;

typedef struct dz_functions {
    dz_function_piece *pieces; /* in order, none over another */
    size_t count;
} dz_functions;

void dz_functions_close(dz_functions *functions);

/* Reads a module's symbol tables. False out of memory: then fewer are known. */
bool dz_functions_read(dz_functions *functions, Dwfl_Module *module);

/* From symbols in any order, which it puts in order. False out of memory. */
bool dz_functions_make(dz_functions *functions, dz_function *symbols, size_t count);

/* NULL when no function is there. */
const char *dz_functions_find(const dz_functions *functions, uint64_t address);

#endif
