/* donmaz: one command, several instruments. Each lives in a folder of its own. */
#include "tools.h"

#include "common/printable.h"

#include <donmaz/slice.h>

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

typedef struct command {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} command;

static const command commands[] = {
#define X(name, summary, run) {name, summary, run},
    DZ_TOOL_COMMANDS(X)
#undef X
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(FILE *out)
{
    fputs("usage: donmaz COMMAND [options]\n\ncommands:\n", out);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].summary);
    fputs("\n'donmaz COMMAND --help' lists a command's options; 'donmaz --version' the version.\n",
          out);
}

/* A socket that got the number of a closed standard stream would be sent the report. /dev/null
 * takes the number, opened the wrong way round: what is read or written still fails and is noticed.
 */
static bool hold_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            return false;
    return true;
}

int main(int argc, char **argv)
{
    if (!hold_standard_streams())
        return DZ_EXIT_FAILED;
    if (argc < 2) {
        print_help(stderr);
        return DZ_EXIT_USAGE;
    }
    dz_slice name = dz_slice_of(argv[1]);
    if (dz_slice_equal(name, DZ_LIT("--help")) || dz_slice_equal(name, DZ_LIT("help"))) {
        print_help(stdout);
        return DZ_EXIT_OK;
    }
    if (dz_slice_equal(name, DZ_LIT("--version"))) {
        puts("donmaz " DZ_VERSION);
        return DZ_EXIT_OK;
    }
    for (size_t i = 0; i < COMMANDS; i++)
        if (dz_slice_equal(name, dz_slice_of(commands[i].name)))
            return commands[i].run(argc - 1, argv + 1);
    dz_print_clean(stderr, "donmaz: no command '%s'; 'donmaz --help' lists them\n", argv[1]);
    return DZ_EXIT_USAGE;
}
