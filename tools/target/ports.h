/* ports.h: where a process listens, read from /proc: nothing is sent to it. */
#ifndef DZ_TARGET_PORTS_H
#define DZ_TARGET_PORTS_H

#include "tree.h"

typedef enum dz_port_kind { DZ_PORT_TCP4, DZ_PORT_TCP6, DZ_PORT_UNIX } dz_port_kind;

typedef struct dz_port {
    dz_port_kind kind;
    pid_t pid;         /* the first process of the tree that holds it */
    unsigned port;     /* 0 for unix sockets */
    uint64_t inode;    /* names the socket: shared by a cluster's processes */
    char address[110]; /* numeric; the path of a unix socket, "@" first when abstract */
    bool loopback;     /* bound to a loopback address only */
} dz_port;

/* Listening sockets of the tree's living processes, at most `cap`, TCP ones first, each socket
 * once. How many, or -errno. Processes of other users are not seen unless we may look. */
int dz_ports_find(const dz_tree *tree, dz_port *out, size_t cap);

#endif
