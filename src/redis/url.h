/* url.h: where a Redis server is, from redis://, rediss:// and unix:// URLs. */
#ifndef DZ_REDIS_URL_H
#define DZ_REDIS_URL_H

#include <donmaz/slice.h>

#include <stdint.h>

typedef struct dz_redis_url {
    char host[256]; /* empty with a path */
    char path[108]; /* of a unix socket: what sun_path holds */
    char user[128], password[512];
    uint16_t port;
    unsigned db;
    bool tls;
} dz_redis_url;

/*   redis://[user[:password]@]host[:port][/db][?db=n]     rediss:// the same with TLS
 *   unix://[user[:password]@]/path[?db=n]
 * User, password and path are percent-decoded; an IPv6 host stands in brackets. DZ_E_INVALID. */
int dz_redis_url_parse(dz_redis_url *url, dz_slice text);

#endif
