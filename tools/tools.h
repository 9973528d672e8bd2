/* tools.h: the commands of donmaz and what they exit with. */
#ifndef DZ_TOOLS_H
#define DZ_TOOLS_H

/* Exit codes, the same for every command (docs: "exit codes"). */
enum {
    DZ_EXIT_OK = 0,     /* done */
    DZ_EXIT_FAILED = 1, /* measured something bad that was asked to be judged */
    DZ_EXIT_USAGE = 2,  /* unusable arguments */
    DZ_EXIT_TARGET = 3, /* the target could not be started or reached */
};

/* X(name, summary, function): argv[0] is the command's name. */
/* clang-format off: one line a command, so that two additions never touch the same line */
#define DZ_TOOL_COMMANDS(X)                                                                        \
    X("doctor", "find out why a server is slow", dz_tool_doctor)                                   \
    X("flame", "show where a program spends its CPU time", dz_tool_flame)                          \
    X("lab", "run experiments: several servers under the same load", dz_tool_lab)                  \
    X("load", "load a server and measure it", dz_tool_load)                                        \
    X("version", "print the version", dz_tool_version)
/* clang-format on */

int dz_tool_doctor(int argc, char **argv);
int dz_tool_flame(int argc, char **argv);
int dz_tool_lab(int argc, char **argv);
int dz_tool_load(int argc, char **argv);
int dz_tool_version(int argc, char **argv);

#endif
