#include "app/app.h"

#include "base/bound.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* The socket a service listens on. */

/* -errno. */
static int listen_at(const struct addrinfo *at)
{
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int rc = -errno;
    close(fd);
    return rc;
}

int dz_core_listen(const dz_core *core, unsigned *port)
{
    const dz_settings *settings = &core->settings;
    char service[16];
    snprintf(service, sizeof service, "%u", (unsigned)settings->port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found;
    if (getaddrinfo(settings->host, service, &hints, &found) != 0)
        return -EADDRNOTAVAIL;
    int fd = -EADDRNOTAVAIL;
    for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next)
        fd = listen_at(at);
    freeaddrinfo(found);
    if (fd >= 0)
        *port = dz_bound_port(fd);
    return fd;
}
