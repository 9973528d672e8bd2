/* auth.h: bearer tokens: JSON Web Tokens signed with HS256 (RFC 7519, RFC 6750), through libjwt. */
#ifndef BOOKSTORE_AUTH_H
#define BOOKSTORE_AUTH_H

#include <donmaz/app.h>

#include <time.h>

enum { AUTH_SECRET_MIN = 32, AUTH_SECRET_MAX = 4096 }; /* at least 256 bits: RFC 7518 3.2 */

typedef struct bookstore_auth {
    unsigned char secret[AUTH_SECRET_MAX];
    int secret_len;
} bookstore_auth;

/* Reads the secret from `file`, or, when that is "", from the environment variable
 * BOOKSTORE_JWT_SECRET. Line ends at its end don't count. Prints what is wrong; negative then. */
int auth_init(bookstore_auth *auth, const char *file);

typedef enum auth_verdict { AUTH_OK, AUTH_MISSING, AUTH_INVALID, AUTH_FORBIDDEN } auth_verdict;

/* Checks an Authorization header's value: signed with the secret by HS256, in its time (exp, nbf),
 * and of the role. Any thread. */
auth_verdict auth_check(const bookstore_auth *auth, const char *header, const char *role,
                        time_t now);

/* Middleware that lets only store staff pass; others get 401 or 403. Finds the auth as what
 * dz_app_set_data was given points to. */
void auth_require_staff(dz_request *req, dz_response *res);

#endif
