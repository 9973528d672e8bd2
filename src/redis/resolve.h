/* resolve.h: from an endpoint to socket addresses; names are looked up off the loop, since
 * getaddrinfo may take as long as it likes. */
#ifndef DZ_REDIS_RESOLVE_H
#define DZ_REDIS_RESOLVE_H

#include "loop/loop.h"
#include "redis/url.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { DZ_REDIS_ADDRESSES = 8 };

typedef struct dz_redis_address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un un;
    } to;
    socklen_t len;
} dz_redis_address;

typedef struct dz_redis_addresses {
    dz_redis_address list[DZ_REDIS_ADDRESSES];
    size_t count;
} dz_redis_addresses;

/* A path or a numeric address, at once. False: a name. */
bool dz_redis_resolve_now(dz_redis_addresses *out, const dz_redis_endpoint *endpoint);

typedef struct dz_redis_lookup dz_redis_lookup;

/* On the loop, when the name was looked up: rc is 0 with at least one address, or EAI_*. The lookup
 * is gone afterwards. */
typedef void dz_redis_resolved(void *user, int rc, const dz_redis_addresses *found);

/* Starts a lookup on a thread of its own. NULL with *rc set: DZ_E_NOMEM, DZ_E_NO_THREAD. */
dz_redis_lookup *dz_redis_lookup_start(dz_loop *loop, const dz_redis_endpoint *endpoint,
                                       dz_redis_resolved *fn, void *user, int *rc);

/* fn will not be called. On the loop, or after it ended (then say so). */
void dz_redis_lookup_cancel(dz_redis_lookup *lookup, bool loop_ended);

#endif
