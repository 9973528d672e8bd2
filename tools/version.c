#include "tools.h"

#include <stdio.h>

int dz_tool_version(int argc, char **argv)
{
    if (argc > 1) {
        fprintf(stderr, "donmaz %s: takes no arguments\n", argv[0]);
        return DZ_EXIT_USAGE;
    }
    puts("donmaz " DZ_VERSION);
    return DZ_EXIT_OK;
}
