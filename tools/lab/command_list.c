/* donmaz lab list */
#include "lab.h"

#include "stack.h"

#include "common/options.h"
#include "common/printable.h"
#include "common/terminal.h"
#include "tools.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOOL "donmaz lab list"

static const dz_option_spec spec = {
    .tool = TOOL,
    .usage = "[FOLDER|FILE.yaml…]",
    .about = "Shows each experiment (of ./experiments unless told otherwise) with its stacks and, "
             "for\nthose that can't run on this machine, what is missing.",
};

static int list_file(const char *path)
{
    dz_lab_experiment *x = dz_lab_experiment_load(path);
    if (!x)
        return DZ_EXIT_USAGE;
    dz_lab_bench bench = {.experiment = x, .host = "127.0.0.1", .cores = "1"};
    ssize_t len = readlink("/proc/self/exe", bench.build, sizeof bench.build - 1);
    char *slash = len > 0 ? strrchr(bench.build, '/') : NULL;
    if (slash)
        *slash = '\0';
    bool colour = dz_wants_colour(stdout);
    fputs(colour ? dz_style_code(DZ_STYLE_BOLD) : "", stdout);
    dz_put_clean(stdout, path, strlen(path));
    fputs(colour ? dz_style_code(DZ_STYLE_NONE) : "", stdout);
    dz_print_clean(stdout, "  %s\n", x->title);
    for (unsigned i = 0; i < x->stacks_count; i++) {
        char why[DZ_LAB_WHY];
        bool missing = dz_lab_stack_missing(&bench, &x->stacks[i], why) != 0;
        dz_print_clean(stdout, "    %s%s%s%s\n", x->stacks[i].name,
                       missing ? "  (would be skipped: " : "", missing ? why : "",
                       missing ? ")" : "");
    }
    dz_lab_experiment_free(x);
    return DZ_EXIT_OK;
}

static int list(const char *path)
{
    struct stat info;
    char pattern[PATH_MAX];
    glob_t found;
    if (stat(path, &info) == 0 && !S_ISDIR(info.st_mode))
        return list_file(path);
    snprintf(pattern, sizeof pattern, "%s/*.yaml", path);
    if (glob(pattern, 0, NULL, &found) != 0)
        return dz_fail(DZ_EXIT_USAGE, TOOL, "no experiment (*.yaml) in %s", path);
    int code = DZ_EXIT_OK;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        int one = list_file(found.gl_pathv[i]);
        code = one > code ? one : code;
    }
    globfree(&found);
    return code;
}

int dz_lab_command_list(int argc, char **argv)
{
    dz_operands operands = {0};
    char nothing = 0;
    int code = dz_options_parse(&spec, &nothing, argc, argv, &operands);
    if (code != DZ_OPTIONS_OK)
        return code;
    code = operands.args.count == 0 ? list("experiments") : DZ_EXIT_OK;
    for (size_t i = 0; i < operands.args.count; i++) {
        int one = list(operands.args.items[i]);
        code = one > code ? one : code;
    }
    dz_strings_free(&operands.args);
    return code;
}
