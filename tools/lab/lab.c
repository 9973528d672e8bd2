#include "lab.h"

#include "tools.h"

#include "common/options.h"
#include "common/values.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *usage, *about;
    int (*run)(int argc, char **argv);
} subcommands[] = {
    {"run", "FILE.yaml [options]", "measure the stacks of an experiment", dz_lab_command_run},
    {"list", "[FOLDER|FILE.yaml…]", "show experiments, their stacks and what is missing",
     dz_lab_command_list},
    {"compare", "A.json B.json", "what changed between two runs, and whether it is noise",
     dz_lab_command_compare},
};

enum { SUBCOMMANDS = sizeof subcommands / sizeof subcommands[0] };

static void help(FILE *out)
{
    fputs(
        "usage: donmaz lab run FILE.yaml | list | compare A.json B.json\n\n"
        "Runs experiments: several stacks (servers) under the same load, one after the other.\n\n",
        out);
    for (size_t i = 0; i < SUBCOMMANDS; i++)
        fprintf(out, "  %-8s %-20s  %s\n", subcommands[i].name, subcommands[i].usage,
                subcommands[i].about);
    fputs("\n'donmaz lab run --help' lists the options.\n", out);
}

int dz_tool_lab(int argc, char **argv)
{
    const char *names[SUBCOMMANDS];
    if (argc < 2) {
        help(stderr);
        return DZ_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        help(stdout);
        return DZ_EXIT_OK;
    }
    for (size_t i = 0; i < SUBCOMMANDS; i++) {
        names[i] = subcommands[i].name;
        if (strcmp(argv[1], names[i]) == 0)
            return subcommands[i].run(argc - 1, argv + 1);
    }
    const char *nearest = dz_nearest_name(dz_slice_of(argv[1]), names, SUBCOMMANDS);
    return dz_usage("donmaz lab", "no subcommand '%s'; %s%s%s", argv[1],
                    nearest ? "did you mean '" : "there are run, list, compare",
                    nearest ? nearest : "", nearest ? "'?" : "");
}
