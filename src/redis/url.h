/* url.h: where Redis is, from redis://, rediss://, redis+cluster:// and unix:// URLs. */
#ifndef DZ_REDIS_URL_H
#define DZ_REDIS_URL_H

#include <donmaz/slice.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DZ_REDIS_SEEDS = 8 };

/* One server: a host and port, or the path of a unix socket. */
typedef struct dz_redis_endpoint {
    char host[256]; /* empty with a path */
    char path[108]; /* what sun_path holds */
    uint16_t port;
} dz_redis_endpoint;

typedef struct dz_redis_url {
    dz_redis_endpoint endpoints[DZ_REDIS_SEEDS]; /* one, or the cluster's first nodes */
    size_t endpoint_count;
    char user[128], password[512];
    unsigned db;
    bool tls, cluster;
} dz_redis_url;

/*   redis://[user[:password]@]host[:port][/db][?db=n]     rediss:// the same with TLS
 *   redis+cluster://[user[:password]@]host[:port][,host[:port]...]    rediss+cluster:// with TLS
 *   unix://[user[:password]@]/path[?db=n]
 * User, password and path are percent-decoded; an IPv6 host stands in brackets. DZ_E_INVALID. */
int dz_redis_url_parse(dz_redis_url *url, dz_slice text);

#endif
