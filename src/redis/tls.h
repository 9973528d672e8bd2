/* tls.h: TLS under a connection, by OpenSSL on the connection's non-blocking socket.
 *
 * Going out, bytes are copied into a buffer of a record's size: OpenSSL wants the same bytes again
 * when it could not send them, and commands may be given up meanwhile. What was taken into that
 * buffer counts as sent. */
#ifndef DZ_REDIS_TLS_H
#define DZ_REDIS_TLS_H

#include "redis/conn.h"

#include <donmaz/redis.h>

#include <sys/types.h>
#include <sys/uio.h>

/* What all connections of a client have in common. -errno: a file can't be read; DZ_E_FORMAT: it is
 * not what it should be, or the key does not belong to the certificate; DZ_E_NOMEM. */
int dz_redis_tls_open(dz_redis_tls_context **out, const dz_redis_options *options);
void dz_redis_tls_close(dz_redis_tls_context *context); /* NULL is harmless */

/* For conn->fd. DZ_E_NOMEM. */
int dz_redis_tls_begin(dz_redis_conn *conn);
void dz_redis_tls_end(dz_redis_conn *conn);

/* 1: done; 0: an event is needed; DZ_E_UNAVAILABLE or -errno, with conn->why set when OpenSSL
 * knows more. */
int dz_redis_tls_handshake(dz_redis_conn *conn);

/* As sendmsg: how much was taken, or -1 with errno. */
ssize_t dz_redis_tls_send(dz_redis_conn *conn, const struct iovec *iov, int pieces);

/* Sends what was taken. 1: some is left; 0; -errno. */
int dz_redis_tls_flush(dz_redis_conn *conn);

/* Sending failed: the peer may have said why before it hung up. Sets conn->why if so. */
void dz_redis_tls_last_words(dz_redis_conn *conn);

/* As readv. */
ssize_t dz_redis_tls_receive(dz_redis_conn *conn, const struct iovec *iov, int pieces);

#endif
