/* lab.h: the subcommands of `donmaz lab`; argv[0] is the subcommand's name. */
#ifndef DZ_LAB_LAB_H
#define DZ_LAB_LAB_H

int dz_lab_command_run(int argc, char **argv);
int dz_lab_command_list(int argc, char **argv);
int dz_lab_command_compare(int argc, char **argv);

#endif
