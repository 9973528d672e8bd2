#include "auth.h"

#include <donmaz/request.h>
#include <donmaz/response.h>

#include <errno.h>
#include <fcntl.h>
#include <jwt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static int read_secret(bookstore_auth *auth, const char *file)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, auth->secret, sizeof auth->secret);
    int error = errno;
    if (fd >= 0)
        close(fd);
    if (n < 0) {
        fprintf(stderr, "bookstore: %s: %s\n", file, dz_strerror(-error));
        return -error;
    }
    auth->secret_len = (int)n;
    return 0;
}

int auth_init(bookstore_auth *auth, const char *file)
{
    const char *text = getenv("BOOKSTORE_JWT_SECRET");
    auth->secret_len = 0;
    if (file[0]) {
        int rc = read_secret(auth, file);
        if (rc < 0)
            return rc;
    } else if (text) {
        size_t len = strnlen(text, sizeof auth->secret);
        memcpy(auth->secret, text, len);
        auth->secret_len = (int)len;
    }
    while (auth->secret_len > 0 && strchr("\r\n", auth->secret[auth->secret_len - 1]))
        auth->secret_len--;
    if (auth->secret_len >= AUTH_SECRET_MIN && auth->secret_len < AUTH_SECRET_MAX)
        return 0;
    fprintf(stderr,
            "bookstore: the secret for tokens has %d bytes, not %d to %d: put it into a file and "
            "name that with --jwt-secret-file, or into BOOKSTORE_JWT_SECRET\n",
            auth->secret_len, AUTH_SECRET_MIN, AUTH_SECRET_MAX - 1);
    return DZ_E_INVALID;
}

/* A time claim; `absent` when the token has none. What is no whole number counts as 0. (libjwt's
 * own answer for an absent one, -1, could also stand in a token.) */
static long time_claim(jwt_t *token, const char *name, long absent)
{
    char *text = jwt_get_grants_json(token, name);
    if (!text)
        return absent;
    free(text);
    return jwt_get_grant_int(token, name);
}

auth_verdict auth_check(const bookstore_auth *auth, const char *header, const char *role,
                        time_t now)
{
    static const char scheme[] = "Bearer ";
    if (strncasecmp(header, scheme, sizeof scheme - 1) != 0)
        return AUTH_MISSING;
    jwt_t *token = NULL;
    if (jwt_decode(&token, header + sizeof scheme - 1, auth->secret, auth->secret_len) != 0)
        return AUTH_INVALID;
    auth_verdict verdict = AUTH_INVALID;
    /* The algorithm is ours to choose, not the token's. */
    if (jwt_get_alg(token) == JWT_ALG_HS256 && time_claim(token, "exp", now + 1) > now &&
        time_claim(token, "nbf", now) <= now) {
        const char *has = jwt_get_grant(token, "role");
        verdict = has && strcmp(has, role) == 0 ? AUTH_OK : AUTH_FORBIDDEN;
    }
    jwt_free(token);
    return verdict;
}

static void refuse(dz_response *res, int status, const char *challenge, const char *reason)
{
    if (challenge)
        dz_res_header(res, "WWW-Authenticate", challenge);
    dz_send_json(res, status, "{\"ok\":false,\"reason\":\"%s\"}", reason);
}

void auth_require_staff(dz_request *req, dz_response *res)
{
    const bookstore_auth *auth = dz_req_data(req);
    dz_slice header = dz_req_header(req, "Authorization");
    char *text = dz_req_alloc(req, header.len + 1);
    if (!text) {
        dz_send_error(res, 503, DZ_E_NOMEM);
        return;
    }
    if (header.len > 0)
        memcpy(text, header.ptr, header.len);
    text[header.len] = '\0';
    switch (auth_check(auth, text, "StoreStaff", time(NULL))) {
    case AUTH_OK:
        dz_next(req, res);
        break;
    case AUTH_MISSING:
        refuse(res, 401, "Bearer realm=\"bookstore\"", "a bearer token is needed");
        break;
    case AUTH_INVALID:
        refuse(res, 401, "Bearer realm=\"bookstore\", error=\"invalid_token\"",
               "the token is not valid");
        break;
    case AUTH_FORBIDDEN:
        refuse(res, 403, NULL, "only store staff may do this");
        break;
    }
}
