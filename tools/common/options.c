#include "common/options.h"

#include "common/printable.h"
#include "common/values.h"
#include "tools.h"

#include <donmaz/error.h>
#include <donmaz/slice.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int dz_strings_add(dz_strings *list, const char *item)
{
    const char **items = realloc(list->items, (list->count + 1) * sizeof *items);
    if (!items)
        return DZ_E_NOMEM;
    items[list->count++] = item;
    list->items = items;
    return 0;
}

void dz_strings_free(dz_strings *list)
{
    free(list->items);
    *list = (dz_strings){0};
}

int dz_fail(int code, const char *tool, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = NULL;
    int len = vasprintf(&text, format, args);
    va_end(args);
    if (len < 0)
        text = NULL;
    dz_print_clean(stderr, "%s: %s\n", tool, text ? text : "out of memory");
    free(text);
    return code;
}

/* What is being parsed: the next argument, and how the present option was written. */
typedef struct parse {
    const dz_option_spec *spec;
    char *into;
    char **argv;
    int argc, next;
    dz_slice written; /* "-c" or "--connections", for messages */
    char letter[2];   /* what `written` shows for a short option */
} parse;

/* Whether `name` is one of the alternatives of "a|b|c". */
static bool has_name(const char *alternatives, dz_slice name)
{
    while (alternatives) {
        const char *bar = strchr(alternatives, '|');
        size_t len = bar ? (size_t)(bar - alternatives) : strlen(alternatives);
        if (dz_slice_equal(dz_slice_make(alternatives, len), name))
            return true;
        alternatives = bar ? bar + 1 : NULL;
    }
    return false;
}

static const dz_option *find_long(const dz_option_spec *spec, dz_slice name)
{
    for (size_t i = 0; i < spec->count; i++)
        if (spec->options[i].kind != DZ_OPT_HEADING && has_name(spec->options[i].name, name))
            return &spec->options[i];
    return NULL;
}

static const dz_option *find_letter(const dz_option_spec *spec, char letter)
{
    for (size_t i = 0; i < spec->count; i++)
        if (letter != '\0' && spec->options[i].letter == letter)
            return &spec->options[i];
    return NULL;
}

enum { MOST_NAMES = 256, NAME_SIZE = 40 };

typedef struct name_list {
    const char *names[MOST_NAMES];
    char text[MOST_NAMES][NAME_SIZE];
    size_t count;
} name_list;

/* Adds each of "a|b|c". */
static void add_names(name_list *list, const char *alternatives)
{
    while (alternatives && list->count < MOST_NAMES) {
        size_t len = strcspn(alternatives, "|");
        if (len < NAME_SIZE) {
            char *text = list->text[list->count];
            memcpy(text, alternatives, len);
            text[len] = '\0';
            list->names[list->count++] = text;
        }
        alternatives = alternatives[len] ? alternatives + len + 1 : NULL;
    }
}

static int unknown_name(const parse *p, dz_slice name)
{
    name_list list = {.count = 0};
    add_names(&list, "help");
    for (size_t i = 0; i < p->spec->count; i++)
        if (p->spec->options[i].kind != DZ_OPT_HEADING)
            add_names(&list, p->spec->options[i].name);
    const char *nearest = dz_nearest_name(name, list.names, list.count);
    if (!nearest)
        return dz_usage(p->spec->tool, "no option --%.*s; '%s --help' lists them", (int)name.len,
                        name.ptr, p->spec->tool);
    return dz_usage(p->spec->tool, "no option --%.*s; did you mean --%s?", (int)name.len, name.ptr,
                    nearest);
}

static bool takes_value(const dz_option *option)
{
    return option->kind != DZ_OPT_FLAG && option->kind != DZ_OPT_FLAG_OFF;
}

static const char *what_is_wanted(dz_option_kind kind)
{
    switch (kind) {
    case DZ_OPT_COUNT:
        return "a whole number";
    case DZ_OPT_NUMBER:
        return "a number";
    case DZ_OPT_DURATION:
        return "a duration such as 10, 10s, 500ms or 2m";
    case DZ_OPT_BYTES:
        return "a size such as 4096, 64k or 1M";
    default:
        return "a value";
    }
}

static int unusable(const parse *p, const dz_option *option, const char *value)
{
    return dz_usage(p->spec->tool, "%.*s wants %s, not '%s'", (int)p->written.len, p->written.ptr,
                    what_is_wanted(option->kind), value);
}

static int out_of_range(const parse *p, const dz_option *option, const char *value)
{
    const char *unit = option->kind == DZ_OPT_DURATION ? " seconds" : "";
    if (option->max == 0)
        return dz_usage(p->spec->tool, "%.*s must be at least %.10g%s, not '%s'",
                        (int)p->written.len, p->written.ptr, option->min, unit, value);
    return dz_usage(p->spec->tool, "%.*s must be between %.10g and %.10g%s, not '%s'",
                    (int)p->written.len, p->written.ptr, option->min, option->max, unit, value);
}

static bool in_range(const dz_option *option, double value)
{
    return value >= option->min && (option->max == 0 || value <= option->max);
}

static int store_number(const parse *p, const dz_option *option, const char *value)
{
    dz_slice text = dz_slice_of(value);
    uint64_t whole = 0;
    double number = 0;
    int rc = 0;
    switch (option->kind) {
    case DZ_OPT_COUNT:
        rc = dz_read_count(text, &whole);
        number = (double)whole;
        break;
    case DZ_OPT_BYTES:
        rc = dz_read_bytes(text, &whole);
        number = (double)whole;
        break;
    case DZ_OPT_DURATION:
        rc = dz_read_duration(text, &whole);
        number = (double)whole / 1e9;
        break;
    default:
        rc = dz_read_number(text, &number);
        break;
    }
    if (rc == DZ_E_FORMAT)
        return unusable(p, option, value);
    if (rc < 0 || !in_range(option, number))
        return out_of_range(p, option, value);
    if (option->kind == DZ_OPT_NUMBER)
        memcpy(p->into + option->offset, &number, sizeof number);
    else
        memcpy(p->into + option->offset, &whole, sizeof whole);
    return DZ_OPTIONS_OK;
}

static int store(const parse *p, const dz_option *option, const char *value)
{
    switch (option->kind) {
    case DZ_OPT_FLAG:
    case DZ_OPT_FLAG_OFF:
        *(bool *)(void *)(p->into + option->offset) = option->kind == DZ_OPT_FLAG;
        return DZ_OPTIONS_OK;
    case DZ_OPT_STRING:
    case DZ_OPT_OUTPUT:
        memcpy(p->into + option->offset, &value, sizeof value);
        return DZ_OPTIONS_OK;
    case DZ_OPT_LIST:
        if (dz_strings_add((dz_strings *)(void *)(p->into + option->offset), value) < 0)
            return dz_usage(p->spec->tool, "out of memory");
        return DZ_OPTIONS_OK;
    default:
        return store_number(p, option, value);
    }
}

/* Whether the next argument is the file name of a DZ_OPT_OUTPUT option. */
static bool next_is_file(const parse *p)
{
    if (p->next >= p->argc)
        return false;
    const char *text = p->argv[p->next];
    if (dz_slice_equal(dz_slice_of(text), DZ_LIT("-")))
        return true;
    return text[0] != '-' && !strstr(text, "://");
}

/* Stores an option whose value, if any came attached, is `attached`. */
static int take(parse *p, const dz_option *option, const char *attached)
{
    if (!takes_value(option)) {
        if (attached)
            return dz_usage(p->spec->tool, "%.*s takes no value", (int)p->written.len,
                            p->written.ptr);
        return store(p, option, NULL);
    }
    if (attached)
        return store(p, option, attached);
    if (option->kind == DZ_OPT_OUTPUT && !next_is_file(p))
        return store(p, option, "-");
    if (p->next >= p->argc)
        return dz_usage(p->spec->tool, "%.*s wants %s", (int)p->written.len, p->written.ptr,
                        what_is_wanted(option->kind));
    return store(p, option, p->argv[p->next++]);
}

static int take_long(parse *p, const char *text)
{
    const char *equals = strchr(text, '=');
    dz_slice name = dz_slice_make(text, equals ? (size_t)(equals - text) : strlen(text));
    p->written = dz_slice_make(text - 2, name.len + 2);
    const dz_option *option = find_long(p->spec, name);
    if (!option)
        return unknown_name(p, name);
    return take(p, option, equals ? equals + 1 : NULL);
}

/* "-jn", "-c10", "-c=10": letters until one takes a value. */
static int take_letters(parse *p, const char *text)
{
    for (; *text; text++) {
        p->letter[0] = '-';
        p->letter[1] = *text;
        p->written = dz_slice_make(p->letter, sizeof p->letter);
        const dz_option *option = find_letter(p->spec, *text);
        if (!option)
            return dz_usage(p->spec->tool, "no option -%c; '%s --help' lists them", *text,
                            p->spec->tool);
        if (takes_value(option) && option->kind != DZ_OPT_OUTPUT) {
            const char *attached = text[1] == '=' ? text + 2 : text[1] ? text + 1 : NULL;
            return take(p, option, attached);
        }
        /* A letter for an output means standard output: it must not swallow an operand. */
        int rc = option->kind == DZ_OPT_OUTPUT ? store(p, option, "-") : take(p, option, NULL);
        if (rc != DZ_OPTIONS_OK)
            return rc;
    }
    return DZ_OPTIONS_OK;
}

int dz_options_parse(const dz_option_spec *spec, void *into, int argc, char **argv,
                     dz_operands *operands)
{
    parse p = {.spec = spec, .into = into, .argv = argv, .argc = argc, .next = 1};
    *operands = (dz_operands){0};
    int rc = DZ_OPTIONS_OK;
    while (p.next < argc && rc == DZ_OPTIONS_OK) {
        const char *text = argv[p.next++];
        if (dz_slice_equal(dz_slice_of(text), DZ_LIT("--"))) {
            operands->command = argv + p.next;
            operands->command_count = argc - p.next;
            break;
        }
        if (dz_slice_equal(dz_slice_of(text), DZ_LIT("--help")) ||
            (dz_slice_equal(dz_slice_of(text), DZ_LIT("-h")) && !find_letter(spec, 'h'))) {
            dz_options_help(spec, stdout);
            rc = DZ_EXIT_OK;
        } else if (text[0] == '-' && text[1] == '-') {
            rc = take_long(&p, text + 2);
        } else if (text[0] == '-' && text[1] != '\0') {
            rc = take_letters(&p, text + 1);
        } else if (dz_strings_add(&operands->args, text) < 0) {
            rc = dz_usage(spec->tool, "out of memory");
        }
    }
    if (rc != DZ_OPTIONS_OK)
        dz_strings_free(&operands->args);
    return rc;
}
