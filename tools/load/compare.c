#include "load/report.h"

int load_print_comparison(const load_session *session, const char *base_file, FILE *out)
{
    (void)session;
    (void)base_file;
    (void)out;
    return DZ_OPTIONS_OK;
}
