/* TLS by OpenSSL on non-blocking sockets. */
#include "load/conn.h"

#include <donmaz/slice.h>

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>

/* Keeps the first failure's reason for the user; counting is done elsewhere. */
static void note_reason(load_shared *shared, const char *reason)
{
    if (!atomic_flag_test_and_set(&shared->tls_lock))
        snprintf(shared->tls_reason, sizeof shared->tls_reason, "%s", reason);
}

static void note_failure(load_conn *conn)
{
    char text[128];
    long verify = SSL_get_verify_result(conn->ssl);
    unsigned long error = ERR_peek_error();
    const char *reason = error ? ERR_reason_error_string(error) : NULL;
    if (verify != X509_V_OK)
        snprintf(text, sizeof text, "certificate not accepted: %s (-k takes any)",
                 X509_verify_cert_error_string(verify));
    else
        snprintf(text, sizeof text, "%s", reason ? reason : "connection closed during TLS");
    note_reason(conn->engine->shared, text);
    ERR_clear_error();
}

static bool load_files(SSL_CTX *ctx, const load_tls_options *options, char *why, size_t why_size)
{
    if (options->ca && SSL_CTX_load_verify_locations(ctx, options->ca, NULL) != 1) {
        snprintf(why, why_size, "--ca: can't read certificates from '%s'", options->ca);
        return false;
    }
    if (options->cert && SSL_CTX_use_certificate_chain_file(ctx, options->cert) != 1) {
        snprintf(why, why_size, "--cert: can't read a certificate from '%s'", options->cert);
        return false;
    }
    if (options->key && SSL_CTX_use_PrivateKey_file(ctx, options->key, SSL_FILETYPE_PEM) != 1) {
        snprintf(why, why_size, "--key: can't use the key in '%s'", options->key);
        return false;
    }
    return true;
}

int load_tls_setup(load_shared *shared, char *why, size_t why_size)
{
    const load_tls_options *options = &shared->plan->tls;
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    if (!ctx) {
        snprintf(why, why_size, "can't set up TLS");
        return -1;
    }
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_options(ctx, SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_verify(ctx, options->insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    if (!options->ca)
        SSL_CTX_set_default_verify_paths(ctx);
    if (!load_files(ctx, options, why, why_size)) {
        ERR_clear_error();
        SSL_CTX_free(ctx);
        return -1;
    }
    shared->tls = ctx;
    return 0;
}

void load_tls_free(load_shared *shared)
{
    SSL_CTX_free(shared->tls);
    shared->tls = NULL;
}

static bool is_address(const char *host)
{
    struct in6_addr any;
    return inet_pton(AF_INET, host, &any) == 1 || inet_pton(AF_INET6, host, &any) == 1;
}

/* Whom the certificate must name (RFC 9110 4.3.4). */
static bool set_peer_name(SSL *ssl, const load_origin *origin)
{
    /* OpenSSL's macro takes the const away; it only copies the name. */
    char *name = origin->servername ? (char *)(uintptr_t)origin->servername : origin->host;
    if (is_address(name))
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
    return SSL_set_tlsext_host_name(ssl, name) == 1 && SSL_set1_host(ssl, name) == 1;
}

bool load_tls_start(load_conn *conn)
{
    const load_plan *plan = conn->engine->plan;
    const load_origin *origin =
        &plan->origins[plan->endpoints[conn->group->plan->first_endpoint].origin];
    conn->ssl = SSL_new(conn->engine->shared->tls);
    if (!conn->ssl)
        return false;
    if (SSL_set_fd(conn->ssl, conn->fd) != 1 || !set_peer_name(conn->ssl, origin))
        return false;
    SSL_set_connect_state(conn->ssl);
    return true;
}

int load_tls_handshake(load_conn *conn)
{
    ERR_clear_error();
    int rc = SSL_do_handshake(conn->ssl);
    if (rc == 1)
        return 1;
    int error = SSL_get_error(conn->ssl, rc);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        return 0;
    note_failure(conn);
    return -1;
}

/* errno as recv and send would have set it. */
static void set_errno(load_conn *conn, int rc)
{
    int error = errno;
    switch (SSL_get_error(conn->ssl, rc)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        errno = EAGAIN;
        return;
    case SSL_ERROR_SYSCALL:
        errno = error != 0 ? error : ECONNRESET;
        return;
    default:
        note_failure(conn);
        errno = EPROTO;
        return;
    }
}

ssize_t load_tls_read(load_conn *conn, char *into, size_t size)
{
    ERR_clear_error();
    errno = 0;
    int n = SSL_read(conn->ssl, into, (int)size);
    if (n > 0)
        return n;
    if (SSL_get_error(conn->ssl, n) == SSL_ERROR_ZERO_RETURN)
        return 0;
    set_errno(conn, n);
    return -1;
}

ssize_t load_tls_write(load_conn *conn, const char *from, size_t len)
{
    ERR_clear_error();
    errno = 0;
    int n = SSL_write(conn->ssl, from, len > INT32_MAX ? INT32_MAX : (int)len);
    if (n > 0)
        return n;
    set_errno(conn, n);
    return -1;
}

void load_tls_end(load_conn *conn)
{
    /* No close_notify: it would cost a system call, and the socket is closed anyway. */
    SSL_set_quiet_shutdown(conn->ssl, 1);
    SSL_free(conn->ssl);
    conn->ssl = NULL;
}
