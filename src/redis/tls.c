#include "redis/tls.h"

#include <donmaz/error.h>

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { RECORD = 16 << 10 };

struct dz_redis_tls {
    SSL *ssl;
    size_t from, to; /* out[from..to) is to be sent */
    char out[RECORD];
};

/* --- a socket that raises no SIGPIPE --- */

static int socket_write(BIO *bio, const char *from, int len)
{
    BIO_clear_retry_flags(bio);
    ssize_t n = send((int)(intptr_t)BIO_get_data(bio), from, (size_t)len, MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(bio);
    return (int)n;
}

static int socket_read(BIO *bio, char *into, int size)
{
    BIO_clear_retry_flags(bio);
    ssize_t n = recv((int)(intptr_t)BIO_get_data(bio), into, (size_t)size, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(bio);
    return (int)n;
}

static long socket_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *method;

static void make_method(void)
{
    BIO_METHOD *made = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "socket");
    if (!made)
        return;
    BIO_meth_set_write(made, socket_write);
    BIO_meth_set_read(made, socket_read);
    BIO_meth_set_ctrl(made, socket_ctrl);
    method = made;
}

static BIO *socket_bio(int fd)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_method);
    BIO *bio = method ? BIO_new(method) : NULL;
    if (!bio)
        return NULL;
    BIO_set_data(bio, (void *)(intptr_t)fd);
    BIO_set_init(bio, 1);
    return bio;
}

/* --- the context --- */

static int load(SSL_CTX *context, const char *path, int (*use)(SSL_CTX *, const char *))
{
    if (!path)
        return 0;
    if (access(path, R_OK) < 0)
        return -errno;
    return use(context, path) == 1 ? 0 : DZ_E_FORMAT;
}

static int use_authorities(SSL_CTX *context, const char *path)
{
    return SSL_CTX_load_verify_locations(context, path, NULL);
}

static int use_certificate(SSL_CTX *context, const char *path)
{
    return SSL_CTX_use_certificate_chain_file(context, path);
}

static int use_key(SSL_CTX *context, const char *path)
{
    return SSL_CTX_use_PrivateKey_file(context, path, SSL_FILETYPE_PEM);
}

int dz_redis_tls_open(dz_redis_tls_context **out, const dz_redis_options *options)
{
    const char *key = options->tls_key_file ? options->tls_key_file : options->tls_cert_file;
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    if (!context)
        return DZ_E_NOMEM;
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    /* Redis closes without saying so; each reply tells its own length. */
    SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_read_ahead(context, 1); /* one read for a record's head and body */
    SSL_CTX_set_verify(context, options->tls_insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    if (!options->tls_ca_file)
        SSL_CTX_set_default_verify_paths(context);
    int rc = load(context, options->tls_ca_file, use_authorities);
    if (rc == 0)
        rc = load(context, options->tls_cert_file, use_certificate);
    if (rc == 0)
        rc = load(context, key, use_key);
    ERR_clear_error();
    if (rc < 0) {
        SSL_CTX_free(context);
        return rc;
    }
    *out = context;
    return 0;
}

void dz_redis_tls_close(dz_redis_tls_context *context)
{
    SSL_CTX_free(context);
}

/* --- a connection --- */

/* Whom the certificate must name; also told to the server, unless it is an address (RFC 6066 3). */
static bool set_name(SSL *ssl, const dz_redis_conn *conn)
{
    struct in6_addr any;
    const char *name = conn->config->tls_name[0] ? conn->config->tls_name : conn->endpoint->host;
    if (inet_pton(AF_INET, name, &any) == 1 || inet_pton(AF_INET6, name, &any) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
    char copy[sizeof conn->endpoint->host]; /* the macro wants one that it could change */
    memcpy(copy, name, strlen(name) + 1);
    return SSL_set_tlsext_host_name(ssl, copy) == 1 && SSL_set1_host(ssl, copy) == 1;
}

int dz_redis_tls_begin(dz_redis_conn *conn)
{
    dz_redis_tls *tls = malloc(sizeof *tls);
    if (!tls)
        return DZ_E_NOMEM;
    tls->from = tls->to = 0;
    tls->ssl = SSL_new(conn->config->tls);
    conn->tls = tls;
    BIO *bio = tls->ssl ? socket_bio(conn->fd) : NULL;
    if (!bio)
        return DZ_E_NOMEM;
    SSL_set_bio(tls->ssl, bio, bio);
    SSL_set_connect_state(tls->ssl);
    return set_name(tls->ssl, conn) ? 0 : DZ_E_INVALID;
}

void dz_redis_tls_end(dz_redis_conn *conn)
{
    if (!conn->tls)
        return;
    SSL_free(conn->tls->ssl);
    free(conn->tls);
    conn->tls = NULL;
}

/* Turns OpenSSL's outcome into errno; 0 is the end of the stream. */
static int outcome(dz_redis_conn *conn, int rc)
{
    int error = errno;
    switch (SSL_get_error(conn->tls->ssl, rc)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return EAGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    case SSL_ERROR_SYSCALL:
        return rc < 0 ? error : 0;
    default:
        break;
    }
    long verify = SSL_get_verify_result(conn->tls->ssl);
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    if (verify != X509_V_OK && SSL_get_verify_mode(conn->tls->ssl) != SSL_VERIFY_NONE)
        dz_redis_conn_why(conn, "TLS: the server's certificate is not accepted: %s",
                          X509_verify_cert_error_string(verify));
    else
        dz_redis_conn_why(conn, "TLS: %s", reason ? reason : "unknown error");
    ERR_clear_error();
    return EPROTO;
}

int dz_redis_tls_handshake(dz_redis_conn *conn)
{
    ERR_clear_error();
    int rc = SSL_do_handshake(conn->tls->ssl);
    if (rc == 1)
        return 1;
    int error = outcome(conn, rc);
    return error == EAGAIN ? 0 : error == 0 ? DZ_E_CLOSED : -error;
}

int dz_redis_tls_flush(dz_redis_conn *conn)
{
    dz_redis_tls *tls = conn->tls;
    while (tls->from < tls->to) {
        ERR_clear_error();
        int n = SSL_write(tls->ssl, tls->out + tls->from, (int)(tls->to - tls->from));
        if (n > 0) {
            tls->from += (size_t)n;
            continue;
        }
        int error = outcome(conn, n);
        return error == EAGAIN ? 1 : error == 0 ? DZ_E_CLOSED : -error;
    }
    tls->from = tls->to = 0;
    return 0;
}

ssize_t dz_redis_tls_send(dz_redis_conn *conn, const struct iovec *iov, int pieces)
{
    dz_redis_tls *tls = conn->tls;
    if (tls->to == RECORD) { /* only then: bytes that were tried must stay where they are */
        int rc = dz_redis_tls_flush(conn);
        if (rc != 0) {
            errno = rc == 1 ? EAGAIN : rc == DZ_E_CLOSED ? ECONNRESET : -rc;
            return -1;
        }
    }
    size_t before = tls->to;
    for (int i = 0; i < pieces && tls->to < RECORD; i++) {
        size_t room = RECORD - tls->to, len = iov[i].iov_len < room ? iov[i].iov_len : room;
        memcpy(tls->out + tls->to, iov[i].iov_base, len);
        tls->to += len;
    }
    return (ssize_t)(tls->to - before);
}

ssize_t dz_redis_tls_receive(dz_redis_conn *conn, const struct iovec *iov, int pieces)
{
    size_t total = 0;
    for (int i = 0; i < pieces; i++) {
        for (size_t len = 0; len < iov[i].iov_len;) {
            size_t left = iov[i].iov_len - len;
            ERR_clear_error();
            int n = SSL_read(conn->tls->ssl, (char *)iov[i].iov_base + len,
                             left > INT32_MAX ? INT32_MAX : (int)left);
            if (n > 0) {
                len += (size_t)n;
                total += (size_t)n;
                continue;
            }
            if (total > 0)
                return (ssize_t)total; /* the next call meets the same outcome */
            int error = outcome(conn, n);
            errno = error;
            return error == 0 ? 0 : -1;
        }
    }
    return (ssize_t)total;
}

void dz_redis_tls_last_words(dz_redis_conn *conn)
{
    char byte;
    ERR_clear_error();
    int n = SSL_read(conn->tls->ssl, &byte, 1);
    if (n <= 0)
        outcome(conn, n);
}
