/* admin.h: the /metrics of a donmaz server under examination.
 *
 * A server that a tool starts is told by its environment to open them on a loopback address of
 * theirs, so that nothing has to be asked to tell this socket from the server's own. In a process
 * that runs already the sockets are asked, but only those of a program that contains donmaz. */
#ifndef DZ_NODE_ADMIN_H
#define DZ_NODE_ADMIN_H

#include "target/ports.h"

#include <donmaz/buf.h>

#include <sys/socket.h>

/* "DONMAZ_ADMIN=...", for the environment of a command; NULL when the user has set it, or when the
 * address can't be had here. */
const char *dz_admin_environment(void);

/* Which of the ports a donmaz server's /metrics are on; -1: none. Asks at most for as long as
 * `timeout_ms` each that may be. */
int dz_admin_find(const dz_port *ports, int count, unsigned timeout_ms);

/* GET of `path`, the body to `body` (replaced). Ends early when `stop` (a descriptor, or -1) can be
 * read. 0, -errno, DZ_E_TIMEOUT, DZ_E_PROTOCOL for another status than 200, DZ_E_CLOSED when
 * stopped. */
int dz_admin_get(const dz_port *port, const char *path, unsigned timeout_ms, int stop,
                 dz_buf *body);

typedef union dz_port_address {
    struct sockaddr any;
    struct sockaddr_storage storage;
} dz_port_address;

/* Where to connect to a port: loopback for those that listen everywhere. */
socklen_t dz_port_connect_address(const dz_port *port, dz_port_address *out);

#endif
