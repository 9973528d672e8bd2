/* profile.h: stacks and how much time each took, as a tree; what every reader fills and every
 * writer prints.
 *
 * Strings, frames and nodes are small numbers into arrays, each distinct one kept once, so memory
 * grows with the number of different stacks, not with the number of samples. Node 0 is the root.
 * Out of memory is remembered (failed) and reported once by whoever made the profile; every
 * function stays safe to call. One thread at a time. */
#ifndef DZ_FLAME_PROFILE_H
#define DZ_FLAME_PROFILE_H

#include "map.h"

#include <base/arena.h>
#include <donmaz/slice.h>

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef enum dz_frame_kind {
    DZ_FRAME_APP,    /* the user's own code */
    DZ_FRAME_DEPS,   /* below a node_modules folder */
    DZ_FRAME_CORE,   /* node: modules */
    DZ_FRAME_NATIVE, /* machine code: the runtime's, libraries, a C program */
    DZ_FRAME_WASM,
    DZ_FRAME_KERNEL,
    DZ_FRAME_GC,   /* the garbage collector */
    DZ_FRAME_IDLE, /* waiting for events: no CPU */
    DZ_FRAME_KINDS
} dz_frame_kind;

typedef struct dz_frame {
    uint32_t name, file; /* strings; file 0 (empty) when unknown */
    uint32_t line;       /* where the function begins, from 1; 0 unknown */
    uint32_t column;
    uint8_t kind; /* dz_frame_kind */
    char mark;    /* '*' optimised, '~' not, 0 unknown or not JavaScript */
} dz_frame;

typedef struct dz_stack {
    uint32_t frame, parent;
    uint32_t first_child, next_sibling; /* 0: none */
    uint64_t self;                      /* ns at the top of the stack */
    uint64_t base;                      /* the same in the base profile of a differential graph */
} dz_stack;

/* One sample on the time line; kept only when wanted. */
typedef struct dz_tick {
    uint64_t at, weight; /* ns, CLOCK_MONOTONIC */
    uint32_t stack;
    pid_t tid;
} dz_tick;

/* Ticks seen on one line of a function. */
typedef struct dz_line {
    uint32_t frame, line;
    uint64_t ticks;
} dz_line;

typedef struct dz_profile {
    dz_arena arena;
    dz_slice *strings;
    size_t string_count, string_cap;
    dz_frame *frames;
    size_t frame_count, frame_cap;
    dz_stack *stacks;
    size_t stack_count, stack_cap;
    dz_tick *ticks;
    size_t tick_count, tick_cap;
    dz_line *lines;
    size_t line_count, line_cap;
    dz_map string_map, frame_map, stack_map, line_map;
    bool keep_ticks, failed;
    bool counts;  /* read from a file that counts samples: 1000 stands for one, not a microsecond */
    bool off_cpu; /* time is what threads waited, not what they used of a CPU */
} dz_profile;

/* DZ_E_NOMEM. */
int dz_profile_init(dz_profile *profile);
void dz_profile_close(dz_profile *profile);

uint32_t dz_profile_string(dz_profile *profile, dz_slice text);
dz_slice dz_profile_text(const dz_profile *profile, uint32_t string);

/* The frame equal to *frame, made when new. */
uint32_t dz_profile_frame(dz_profile *profile, const dz_frame *frame);

/* The stack that calls `frame` from `parent`, made when new. */
uint32_t dz_profile_child(dz_profile *profile, uint32_t parent, uint32_t frame);

/* Counts time at the top of a stack; `at` 0 when it has no place on the time line. */
void dz_profile_add(dz_profile *profile, uint32_t stack, uint64_t weight, uint64_t at, pid_t tid);

/* Counts ticks on a line of a function. */
void dz_profile_line(dz_profile *profile, uint32_t frame, uint32_t line, uint64_t ticks);

/* Adds all of `from`'s stacks, under one frame named `under` when that is not NULL. As base: their
 * time counts as the base of a differential graph. */
void dz_profile_merge(dz_profile *into, const dz_profile *from, const char *under, bool as_base);

/* Forgets the time of every stack that goes through a function of this file; its ticks are those of
 * an idle frame named "(reporter)" from now on. DZ_E_NOMEM. */
int dz_profile_drop_file(dz_profile *profile, dz_slice file);

/* Time of all stacks but idle ones. */
uint64_t dz_profile_total(const dz_profile *profile);

/* self plus all callees', for every stack: an array of stack_count that the caller frees. Idle
 * stacks count 0. NULL out of memory. */
uint64_t *dz_profile_totals(const dz_profile *profile);

/* A function with all its stacks taken together. */
typedef struct dz_hot {
    uint64_t self, total; /* total counts a recursive function once */
    uint32_t frame;
    uint32_t line; /* its hottest line, 0 unknown */
} dz_hot;

/* The functions by self time, most first, marks taken together; at most `cap` into `out`. When
 * `window` is given, only ticks for which it returns true count. How many; -1 out of memory. */
typedef bool dz_tick_filter(void *arg, const dz_tick *tick);
long dz_profile_hottest(const dz_profile *profile, dz_hot *out, size_t cap, dz_tick_filter *window,
                        void *arg);

/* Reads what V8 calls its machine code, in perf maps and so in perf's output ("JS:*name file:1:2",
 * "Builtin:Name", "wasm-function[3]"), or any other symbol, into *frame. `module` is the file that
 * holds the code, empty when unknown. */
void dz_frame_of_symbol(dz_profile *profile, dz_slice symbol, dz_slice module, dz_frame *frame);

/* The file of a script's address: the path in "file:///a%20b.js", any other as it is. A string. */
uint32_t dz_frame_file(dz_profile *profile, dz_slice url);

/* What a JavaScript frame is, by its name and script address. */
dz_frame_kind dz_frame_classify(dz_slice name, dz_slice url);

const char *dz_frame_kind_name(dz_frame_kind kind);

#endif
