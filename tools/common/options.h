/* options.h: command-line options described by a table, which also prints --help.
 *
 * A table entry says where in the command's options struct its value goes; parsing never allocates
 * copies of strings: they point into argv. Accepted forms: -c 10, -c10, -c=10, -jn (flags
 * together),
 * --name 10, --name=10. Options and operands may be mixed; `--` ends the options, and what follows
 * it is kept apart, because a command that starts another takes it from there. */
#ifndef DZ_TOOLS_COMMON_OPTIONS_H
#define DZ_TOOLS_COMMON_OPTIONS_H

#include "tools.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum dz_option_kind {
    DZ_OPT_HEADING,  /* no option: a line between groups of --help (name holds the text) */
    DZ_OPT_FLAG,     /* bool: set to true */
    DZ_OPT_FLAG_OFF, /* bool: set to false */
    DZ_OPT_COUNT,    /* uint64_t: a whole number */
    DZ_OPT_NUMBER,   /* double */
    DZ_OPT_DURATION, /* uint64_t nanoseconds: 10, 10s, 1.5s, 500ms, 2m, 1h; a bare number is seconds
                      */
    DZ_OPT_BYTES,    /* uint64_t: 4096, 64k, 1M, 2G (powers of 1024) */
    DZ_OPT_STRING,   /* const char * */
    DZ_OPT_LIST,     /* dz_strings: may be given several times, order kept */
    DZ_OPT_OUTPUT, /* const char *: a file name or "-"; "-" too when no value follows, that is, when
                      the next argument is missing, another option, or a URL */
} dz_option_kind;

typedef struct dz_strings {
    const char **items; /* the list's own array of borrowed strings; NULL when empty */
    size_t count;
} dz_strings;

typedef struct dz_option {
    dz_option_kind kind;
    char letter;       /* 0: none */
    const char *name;  /* "header|headers": the first is shown, all are accepted; NULL: none */
    const char *value; /* what --help calls the value: "NUM", "FILE" */
    size_t offset;     /* of the value in the options struct */
    double min, max;  /* of COUNT, NUMBER, BYTES as typed and of DURATION in seconds; max 0: none */
    const char *help; /* may hold several lines */
} dz_option;

typedef struct dz_option_spec {
    const char *tool;  /* "donmaz load": starts every message */
    const char *usage; /* "[options] URL..." */
    const char *about; /* a sentence or two below the usage line; NULL: none */
    const char *notes; /* printed after the options: examples, exit codes; NULL: none */
    const dz_option *options;
    size_t count;
} dz_option_spec;

typedef struct dz_operands {
    dz_strings args; /* what is no option, before `--` */
    char **command; /* what follows `--`: NULL-terminated as argv is; NULL when there was no `--` */
    int command_count; /* of command */
} dz_operands;

enum { DZ_OPTIONS_OK = -1 }; /* dz_options_parse: go on */

/* Parses argv[1..argc) into the struct at `into` (which holds the defaults) and *operands.
 * Returns DZ_OPTIONS_OK, or the exit code to end with: 0 after printing --help on stdout, 2 after
 * one line on stderr that says which argument is unusable and why. Strings stay in argv. Free lists
 * with dz_strings_free. */
int dz_options_parse(const dz_option_spec *spec, void *into, int argc, char **argv,
                     dz_operands *operands);

/* Prints the whole help: usage, about, options in groups, notes. */
void dz_options_help(const dz_option_spec *spec, void *file);

/* Appends a borrowed string. DZ_E_NOMEM: unchanged. */
int dz_strings_add(dz_strings *list, const char *item);
void dz_strings_free(dz_strings *list);

/* One line on stderr, "TOOL: message". Returns `code`, for `return dz_fail(...)`. */
int dz_fail(int code, const char *tool, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for unusable arguments. */
#define dz_usage(tool, ...) dz_fail(DZ_EXIT_USAGE, (tool), __VA_ARGS__)

#endif
