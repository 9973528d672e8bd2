/* probe.h: single requests to a stack: is it ready, and does it answer as it should? */
#ifndef DZ_LAB_PROBE_H
#define DZ_LAB_PROBE_H

#include <donmaz/slice.h>

#include <stdbool.h>
#include <stdint.h>

typedef struct dz_lab_answer {
    int status;
    char type[80]; /* Content-Type, cut off if longer; "" when there is none */
    dz_slice head; /* in `data`: status line and fields, without the empty line */
    dz_slice body; /* in `data`, chunks joined */
    char *data;    /* from malloc; free it */
} dz_lab_answer;

/* GETs `path` on a connection of its own. 0, or a negative error: -errno of connect or read,
 * DZ_E_TIMEOUT at `deadline` (monotonic ns), DZ_E_CLOSED, DZ_E_PROTOCOL, DZ_E_TOO_LARGE (1 MiB).
 * Only on 0 is there something to free. */
int dz_lab_get(const char *host, unsigned port, const char *path, uint64_t deadline,
               dz_lab_answer *answer);

/* Connects and closes again. 0 or a negative error. */
int dz_lab_connect(const char *host, unsigned port, uint64_t deadline);

/* A TCP port on `host` (an IPv4 address) that nothing listens on right now; 0 when none is to be
 * had. */
unsigned dz_lab_free_port(const char *host);

/* Whether something else holds the port. */
bool dz_lab_port_taken(const char *host, unsigned port);

#endif
