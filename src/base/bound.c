#include "base/bound.h"

#include <netinet/in.h>
#include <sys/socket.h>

typedef union address {
    struct sockaddr any;
    struct sockaddr_in ip4;
    struct sockaddr_in6 ip6;
} address;

static address address_of(int fd)
{
    address bound = {.any.sa_family = AF_UNSPEC};
    socklen_t len = sizeof bound;
    if (getsockname(fd, &bound.any, &len) < 0)
        bound.any.sa_family = AF_UNSPEC;
    return bound;
}

unsigned dz_bound_port(int fd)
{
    const address bound = address_of(fd);
    if (bound.any.sa_family == AF_INET)
        return ntohs(bound.ip4.sin_port);
    return bound.any.sa_family == AF_INET6 ? ntohs(bound.ip6.sin6_port) : 0;
}

bool dz_bound_to_loopback(int fd)
{
    const address bound = address_of(fd);
    if (bound.any.sa_family == AF_INET)
        return ntohl(bound.ip4.sin_addr.s_addr) >> 24 == 127;
    return bound.any.sa_family != AF_INET6 || IN6_IS_ADDR_LOOPBACK(&bound.ip6.sin6_addr);
}
