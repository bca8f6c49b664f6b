/* Owns: the middlewares that let only known users pass: Basic (RFC 7617) and Bearer (RFC 6750). */
#ifndef UVHTTP_AUTH_H
#define UVHTTP_AUTH_H

#include <uvhttp/route.h>

UVHTTP_BEGIN_DECLS

#define UVHTTP_AUTH_USER_SIZE_MAX 128    /**< bytes of a user name; longer ones are refused */
#define UVHTTP_AUTH_SECRET_SIZE_MAX 512  /**< bytes of a password, or of a token in a list; longer ones are refused */
#define UVHTTP_AUTH_CREDENTIALS_MAX 256u /**< entries of a list: each request is compared with all of them */

/** Who may pass. Copied, and kept in memory as it is, neither hashed nor encrypted, until the server is freed; then
 * overwritten. */
typedef struct uvhttp_credential {
    const char *user; /**< 0..128 bytes; for Basic without ':' and control characters */
    const char
        *secret; /**< the password (without control characters) or the token ([A-Za-z0-9._~+/-]+=*), 1..512 bytes */
} uvhttp_credential_t;

/** Either `credentials` or `check`. */
typedef struct uvhttp_basic_auth_options {
    const char *realm; /**< what a browser shows its user, at most 256 bytes. NULL: "Restricted" */
    /** The list. A request is compared with every entry, in a time that depends neither on where, nor on whether user
     * or password differ, so that neither answer nor time tells whether a user exists. */
    const uvhttp_credential_t *credentials;
    size_t credential_count; /**< 1..256 */
    /** Whether they may pass. The views are valid in the call and free of control characters. On the loop's thread, and
     * must not block: a slow password hash (bcrypt, argon2) holds up all connections of the loop. Constant time is its
     * own affair. */
    bool (*check)(uvhttp_request_t *req, uvhttp_str_t user, uvhttp_str_t password, void *arg);
    void *arg;
} uvhttp_basic_auth_options_t;

/** Either `credentials` or `check`. */
typedef struct uvhttp_bearer_auth_options {
    const char *realm;                      /**< at most 256 bytes. NULL: "Restricted" */
    const uvhttp_credential_t *credentials; /**< as for Basic; a token given twice belongs to the last */
    size_t credential_count;                /**< 1..256 */
    /** Whether the token passes, and whose it is: *user is empty before, and copied after the call. `token` is of the
     * syntax of RFC 6750 section 2.1, of any length, valid in the call. On the loop's thread; must not block. */
    bool (*check)(uvhttp_request_t *req, uvhttp_str_t token, uvhttp_str_t *user, void *arg);
    void *arg;
} uvhttp_bearer_auth_options_t;

UVHTTP_EXPORT uvhttp_middleware_t uvhttp_basic_auth_sized(const uvhttp_basic_auth_options_t *options,
                                                          size_t options_size);
/** Middleware that answers 401 with WWW-Authenticate unless the request has one Authorization field with credentials
 * that pass; also 503 when there is no memory to keep the user's name. Without TLS everybody on the way can read them.
 * options NULL, wrong options, or no memory: logged as an error, and `run` is NULL, so that registering it fails with
 * UVHTTP_E_INVALID. Any thread. */
static inline uvhttp_middleware_t uvhttp_basic_auth(const uvhttp_basic_auth_options_t *options) {
    return uvhttp_basic_auth_sized(options, sizeof *options);
}

UVHTTP_EXPORT uvhttp_middleware_t uvhttp_bearer_auth_sized(const uvhttp_bearer_auth_options_t *options,
                                                           size_t options_size);
/** The same for tokens. The challenge says error="invalid_token" if there was one (RFC 6750 section 3.1). */
static inline uvhttp_middleware_t uvhttp_bearer_auth(const uvhttp_bearer_auth_options_t *options) {
    return uvhttp_bearer_auth_sized(options, sizeof *options);
}

/** The user who has passed, valid as long as the request; data NULL if neither middleware has let it pass. After both,
 * that of the inner one. */
UVHTTP_EXPORT uvhttp_str_t uvhttp_auth_user(const uvhttp_request_t *req);

UVHTTP_END_DECLS

#endif
