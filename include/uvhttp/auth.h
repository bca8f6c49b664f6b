/* Owns: authentication middleware: Basic (RFC 7617) and Bearer (RFC 6750). */
#ifndef UVHTTP_AUTH_H
#define UVHTTP_AUTH_H

#include <uvhttp/route.h>

UVHTTP_BEGIN_DECLS

#define UVHTTP_AUTH_USER_SIZE_MAX 128    /**< maximum bytes of a user name; longer names are refused */
#define UVHTTP_AUTH_SECRET_SIZE_MAX 512  /**< maximum bytes of a password or listed token; longer ones are refused */
#define UVHTTP_AUTH_CREDENTIALS_MAX 256u /**< maximum entries of a list; each request is compared with all of them */

/** A user who may pass. Copied. The copy stays in memory in clear text until the server is freed, and is then
 * overwritten. */
typedef struct uvhttp_credential {
    const char *user;   /**< 0..128 bytes; for Basic without ':' and control characters */
    const char *secret; /**< password (without control characters) or token ([A-Za-z0-9._~+/-]+=*), 1..512 bytes */
} uvhttp_credential_t;

/** Options of Basic authentication. Set either `credentials` or `check`. */
typedef struct uvhttp_basic_auth_options {
    const char *realm; /**< name that a browser shows to its user, at most 256 bytes. NULL: "Restricted" */
    /** The users. A request is compared with every entry, in a time that does not depend on which entry or which part
     * differs. Neither response nor time reveals whether a user exists. */
    const uvhttp_credential_t *credentials;
    size_t credential_count; /**< 1..256 */
    /** Decides whether a user may pass. The views are valid during the call and contain no control characters. It runs
     * on the loop's thread and must not block: a slow password hash (bcrypt, argon2) stops all connections of the loop.
     * It must ensure constant time itself. */
    bool (*check)(uvhttp_request_t *req, uvhttp_str_t user, uvhttp_str_t password, void *arg);
    void *arg;
} uvhttp_basic_auth_options_t;

/** Options of Bearer authentication. Set either `credentials` or `check`. */
typedef struct uvhttp_bearer_auth_options {
    const char *realm;                      /**< at most 256 bytes. NULL: "Restricted" */
    const uvhttp_credential_t *credentials; /**< as for Basic; a token given twice belongs to the last entry */
    size_t credential_count;                /**< 1..256 */
    /** Decides whether the token passes, and sets its user. *user is initially empty and copied after the call. `token`
     * has the syntax of RFC 6750 section 2.1 and any length; it is valid during the call. Runs on the loop's thread;
     * must not block. */
    bool (*check)(uvhttp_request_t *req, uvhttp_str_t token, uvhttp_str_t *user, void *arg);
    void *arg;
} uvhttp_bearer_auth_options_t;

UVHTTP_EXPORT UVHTTP_ANY_THREAD uvhttp_middleware_t uvhttp_basic_auth_sized(const uvhttp_basic_auth_options_t *options,
                                                                            size_t options_size);
/** Creates a middleware that requires one Authorization field with valid credentials. Other requests get 401 with
 * WWW-Authenticate, or 503 when there is no memory for the user's name. Without TLS, everyone on the network path can
 * read the credentials. `options` NULL, wrong options and lack of memory are logged as errors, and `run` is NULL, so
 * that registration fails with UVHTTP_E_INVALID. Any thread. */
static inline uvhttp_middleware_t uvhttp_basic_auth(const uvhttp_basic_auth_options_t *options) {
    return uvhttp_basic_auth_sized(options, sizeof *options);
}

UVHTTP_EXPORT UVHTTP_ANY_THREAD uvhttp_middleware_t
uvhttp_bearer_auth_sized(const uvhttp_bearer_auth_options_t *options, size_t options_size);
/** Creates the same for tokens. After a wrong token, the challenge contains error="invalid_token" (RFC 6750
 * section 3.1). */
static inline uvhttp_middleware_t uvhttp_bearer_auth(const uvhttp_bearer_auth_options_t *options) {
    return uvhttp_bearer_auth_sized(options, sizeof *options);
}

/** Returns the authenticated user, valid as long as the request. `data` is NULL if neither middleware has accepted the
 * request. With both, it is the user of the inner one. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD uvhttp_str_t uvhttp_auth_user(const uvhttp_request_t *req);

UVHTTP_END_DECLS

#endif
