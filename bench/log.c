/* Logs request lines to a file (blocking when full, so that every line is written) and prints how
 * many a CPU second makes, all threads counted. Usage: bench-log FILE LINES */
#include "base/clock.h"

#include <donmaz/error.h>
#include <donmaz/log.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "/dev/null";
    unsigned long lines = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000000;
    dz_logger *log;
    int rc = dz_logger_open(&log, &(dz_log_options){.path = path, .block = true});
    if (rc < 0) {
        fprintf(stderr, "%s: %s\n", path, dz_strerror(rc));
        return 1;
    }
    uint64_t cpu = dz_clock(CLOCK_PROCESS_CPUTIME_ID), start = dz_now();
    for (unsigned long i = 0; i < lines; i++) {
        char id[24];
        int len = snprintf(id, sizeof id, "req-%lu", i);
        dz_log_request(log, &(dz_log_request_info){.id = dz_slice_make(id, (size_t)len),
                                                   .method = DZ_LIT("GET"),
                                                   .url = DZ_LIT("/users/17?full=yes"),
                                                   .remote_address = DZ_LIT("127.0.0.1"),
                                                   .remote_port = 51234,
                                                   .status = 200,
                                                   .bytes = 512,
                                                   .duration_ns = 1234567});
    }
    dz_logger_close(log);
    double cpu_s = (double)(dz_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu) / 1e9;
    double wall_s = (double)(dz_now() - start) / 1e9;
    printf("{\"lines\": %lu, \"cpu_s\": %.4f, \"wall_s\": %.4f, \"lines_per_cpu_s\": %.0f}\n",
           lines, cpu_s, wall_s, (double)lines / cpu_s);
    return 0;
}
