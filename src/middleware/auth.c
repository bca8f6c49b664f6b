/* Owns: Basic (RFC 7617) and Bearer (RFC 6750) authentication. May include: message, base, obs. */
#include <stdio.h>
#include <uvhttp/auth.h>

#include "base/alloc.h"
#include "base/chars.h"
#include "base/sized.h"
#include "message/message.h"
#include "middleware/base64.h"
#include "middleware/middleware.h"

#define REALM_SIZE_MAX 256 /* bytes */
#define PAIR_SIZE_MAX (UVHTTP_AUTH_USER_SIZE_MAX + 1 + UVHTTP_AUTH_SECRET_SIZE_MAX)
#define WORD sizeof(uint64_t)
#define USER_WORDS (UVHTTP_AUTH_USER_SIZE_MAX / WORD)
#define SECRET_WORDS (UVHTTP_AUTH_SECRET_SIZE_MAX / WORD)

/* Both filled up with zeros, which stand in neither, so that comparing costs the same whatever their sizes. */
typedef struct entry {
    uint64_t user[USER_WORDS];
    uint64_t secret[SECRET_WORDS];
} entry_t;

static_assert(sizeof(entry_t) == UVHTTP_AUTH_USER_SIZE_MAX + UVHTTP_AUTH_SECRET_SIZE_MAX, "whole words");

typedef struct auth {
    bool (*check_basic)(uvhttp_request_t *req, uvhttp_str_t user, uvhttp_str_t password, void *arg);
    bool (*check_bearer)(uvhttp_request_t *req, uvhttp_str_t token, uvhttp_str_t *user, void *arg);
    void *arg;
    char challenge[2 * REALM_SIZE_MAX + 64];         /* of WWW-Authenticate */
    char challenge_invalid[2 * REALM_SIZE_MAX + 64]; /* for a token that is not valid */
    size_t entry_count;
    entry_t entries[];
} auth_t;

static const char user_key; /* its address counts */

static void destroy(void *user) {
    auth_t *auth = user;
    explicit_bzero(auth->entries, auth->entry_count * sizeof *auth->entries);
    uvhttp__free(auth);
}

/* --- comparing --- */

/* Sizes are within the bounds of an entry. */
static void fill_entry(entry_t *entry, uvhttp_str_t user, uvhttp_str_t secret) {
    memset(entry, 0, sizeof *entry);
    if (user.size) memcpy(entry->user, user.data, user.size);
    if (secret.size) memcpy(entry->secret, secret.data, secret.size);
}

static uint64_t difference(const uint64_t *a, const uint64_t *b, size_t words) {
    uint64_t bits = 0;
    for (size_t i = 0; i < words; i++) bits |= a[i] ^ b[i];
    __asm__ volatile("" : "+r"(bits)); /* so that no compiler ends the loop early */
    return bits;
}

/* The last entry that is equal (with_user: also in the user), found without a branch on what is in them; NULL if none
 * is. */
static const entry_t *find(const auth_t *auth, const entry_t *wanted, bool with_user) {
    size_t found = 0; /* its number from 1 */
    for (size_t i = 0; i < auth->entry_count; i++) {
        const entry_t *entry = &auth->entries[i];
        uint64_t bits = difference(entry->secret, wanted->secret, SECRET_WORDS);
        if (with_user) bits |= difference(entry->user, wanted->user, USER_WORDS);
        uint64_t low = (bits | bits >> 32) & UINT32_MAX;
        size_t mask = (size_t)0 - (size_t)((low - 1) >> 63); /* all ones if bits is 0 */
        found = (found & ~mask) | ((i + 1) & mask);
    }
    return found ? &auth->entries[found - 1] : NULL;
}

/* --- requests --- */

static uvhttp_flow_t refuse(uvhttp_response_t *res, const char *challenge) {
    static const char text[] = "Unauthorized\n";
    uvhttp__response_forget_body(res);
    int status = uvhttp_response_header(res, "WWW-Authenticate", challenge);
    if (status == UVHTTP_OK)
        status = uvhttp_response_send_static(res, 401, "text/plain; charset=utf-8", text, sizeof text - 1);
    if (status != UVHTTP_OK) return uvhttp__middleware_unavailable(res);
    uvhttp__middleware_count(uvhttp_response_request(res), refused_auth);
    return UVHTTP_STOP;
}

static uvhttp_flow_t accept_user(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t user) {
    int status = uvhttp__request_set_note(req, &user_key, user);
    return status == UVHTTP_OK ? UVHTTP_NEXT : uvhttp__middleware_unavailable(res);
}

/* What follows the scheme in the one Authorization field (RFC 9110 section 11.4); false if there is none. */
static bool credentials_of(const uvhttp_request_t *req, uvhttp_str_t scheme, uvhttp_str_t *credentials) {
    uvhttp_str_t value;
    if (!uvhttp__single_header(req, "Authorization", &value)) return false;
    if (!uvhttp__str_starts_with_nocase(value, scheme)) return false;
    *credentials = (uvhttp_str_t){value.data + scheme.size, value.size - scheme.size};
    if (credentials->size == 0 || credentials->data[0] != ' ') return false;
    while (credentials->size > 0 && credentials->data[0] == ' ') credentials->data++, credentials->size--;
    return true;
}

static bool has_control(uvhttp_str_t text) {
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.data[i] < ' ' || text.data[i] == 0x7f) return true;
    return false;
}

/* Decodes "user:password" into `text`. */
static bool read_pair(uvhttp_str_t coded, char text[PAIR_SIZE_MAX + 2], uvhttp_str_t *user, uvhttp_str_t *password) {
    size_t size;
    if (coded.size > (PAIR_SIZE_MAX + 2) / 3 * 4 || !uvhttp__base64_decode(coded, text, &size)) return false;
    const char *colon = memchr(text, ':', size);
    if (!colon || has_control((uvhttp_str_t){text, size})) return false;
    *user = (uvhttp_str_t){text, (size_t)(colon - text)};
    *password = (uvhttp_str_t){colon + 1, size - user->size - 1};
    return user->size <= UVHTTP_AUTH_USER_SIZE_MAX && password->size <= UVHTTP_AUTH_SECRET_SIZE_MAX;
}

static uvhttp_flow_t run_basic(uvhttp_request_t *req, uvhttp_response_t *res, void *arg) {
    const auth_t *auth = arg;
    char text[PAIR_SIZE_MAX + 2];
    uvhttp_str_t coded, user, password;
    if (!credentials_of(req, UVHTTP__STR("Basic"), &coded) || !read_pair(coded, text, &user, &password))
        return refuse(res, auth->challenge);
    bool passes;
    if (auth->check_basic) {
        passes = auth->check_basic(req, user, password, auth->arg);
    } else {
        entry_t wanted;
        fill_entry(&wanted, user, password);
        passes = find(auth, &wanted, true) != NULL;
    }
    return passes ? accept_user(req, res, user) : refuse(res, auth->challenge);
}

/* b64token (RFC 6750 section 2.1). */
static bool valid_token(uvhttp_str_t token) {
    size_t size = token.size;
    while (size > 0 && token.data[size - 1] == '=') size--;
    for (size_t i = 0; i < size; i++) {
        char c = token.data[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!plain && (c == '\0' || !strchr("-._~+/", c))) return false;
    }
    return size > 0;
}

static bool check_token(const auth_t *auth, uvhttp_request_t *req, uvhttp_str_t token, uvhttp_str_t *user) {
    *user = (uvhttp_str_t){"", 0};
    if (!valid_token(token)) return false;
    if (auth->check_bearer) return auth->check_bearer(req, token, user, auth->arg);
    if (token.size > UVHTTP_AUTH_SECRET_SIZE_MAX) return false;
    entry_t wanted;
    fill_entry(&wanted, *user, token);
    const entry_t *entry = find(auth, &wanted, false);
    if (!entry) return false;
    const char *name = (const char *)entry->user;
    *user = (uvhttp_str_t){name, strnlen(name, UVHTTP_AUTH_USER_SIZE_MAX)};
    return true;
}

static uvhttp_flow_t run_bearer(uvhttp_request_t *req, uvhttp_response_t *res, void *arg) {
    const auth_t *auth = arg;
    uvhttp_str_t token, user;
    if (!credentials_of(req, UVHTTP__STR("Bearer"), &token)) return refuse(res, auth->challenge);
    return check_token(auth, req, token, &user) ? accept_user(req, res, user) : refuse(res, auth->challenge_invalid);
}

uvhttp_str_t uvhttp_auth_user(const uvhttp_request_t *req) {
    return uvhttp__request_note(req, &user_key);
}

/* --- making it --- */

/* What both kinds of options have in common. */
typedef struct common {
    const char *name, *realm;
    const uvhttp_credential_t *credentials;
    size_t credential_count;
    bool has_check, basic;
} common_t;

/* Never the text itself: a log is no place for passwords. */
static const char *wrong_credential(const uvhttp_credential_t *credential, bool basic) {
    uvhttp_str_t user = uvhttp__str_from(credential->user), secret = uvhttp__str_from(credential->secret);
    if (!user.data || user.size > UVHTTP_AUTH_USER_SIZE_MAX) return "user is NULL or longer than 128 bytes";
    if (secret.size == 0 || secret.size > UVHTTP_AUTH_SECRET_SIZE_MAX)
        return "secret is NULL, empty or longer than 512 bytes";
    if (basic && (has_control(user) || has_control(secret))) return "user or secret has a control character";
    if (basic && memchr(user.data, ':', user.size)) return "user has a ':', which ends it in a request";
    if (!basic && !valid_token(secret)) return "secret is no token: expected [A-Za-z0-9._~+/-]+=*";
    return NULL;
}

/* Whether the options can be used; writes why not. */
static bool right(const common_t *common, char *why, size_t size) {
    uvhttp_str_t realm = uvhttp__str_from(common->realm);
    const char *problem = NULL;
    if (realm.size > REALM_SIZE_MAX || has_control(realm))
        problem = "realm is longer than 256 bytes or has a control character";
    else if (common->has_check == (common->credential_count > 0))
        problem = common->has_check ? "credentials and check are both set: give one of them"
                                    : "neither credentials nor check is set: nobody could pass";
    else if (common->credential_count > UVHTTP_AUTH_CREDENTIALS_MAX)
        problem = "credential_count is more than 256: use check";
    else if (common->credential_count > 0 && !common->credentials)
        problem = "credentials is NULL, but credential_count is not 0";
    if (problem) snprintf(why, size, "%s", problem);
    for (size_t i = 0; !problem && i < common->credential_count; i++) {
        problem = wrong_credential(&common->credentials[i], common->basic);
        if (problem) snprintf(why, size, "credentials[%zu].%s", i, problem);
    }
    return !problem;
}

/* realm as a quoted-string (RFC 9110 section 5.6.4). */
static void write_challenge(char *out, size_t size, const char *scheme, const char *realm, const char *more) {
    size_t used = (size_t)snprintf(out, size, "%s realm=\"", scheme);
    for (; *realm; realm++) {
        if (*realm == '"' || *realm == '\\') out[used++] = '\\';
        out[used++] = *realm;
    }
    (void)snprintf(out + used, size - used, "\"%s", more);
}

/* NULL, and it has been logged, if the options are wrong or memory is lacking. */
static auth_t *make(const common_t *common) {
    char why[200];
    if (!right(common, why, sizeof why)) {
        (void)uvhttp__middleware_refused(common->name, "%s", why);
        return NULL;
    }
    auth_t *auth = uvhttp__calloc(1, sizeof *auth + common->credential_count * sizeof *auth->entries);
    if (!auth) {
        (void)uvhttp__middleware_refused(common->name, "out of memory");
        return NULL;
    }
    auth->entry_count = common->credential_count;
    for (size_t i = 0; i < auth->entry_count; i++)
        fill_entry(&auth->entries[i], uvhttp__str_from(common->credentials[i].user),
                   uvhttp__str_from(common->credentials[i].secret));
    const char *realm = common->realm ? common->realm : "Restricted";
    const char *scheme = common->basic ? "Basic" : "Bearer";
    write_challenge(auth->challenge, sizeof auth->challenge, scheme, realm, common->basic ? ", charset=\"UTF-8\"" : "");
    write_challenge(auth->challenge_invalid, sizeof auth->challenge_invalid, scheme, realm,
                    ", error=\"invalid_token\"");
    return auth;
}

uvhttp_middleware_t uvhttp_basic_auth_sized(const uvhttp_basic_auth_options_t *options, size_t options_size) {
    uvhttp_basic_auth_options_t full;
    if (!uvhttp__sized_read(&full, sizeof full, options, options_size))
        return uvhttp__middleware_refused("basic_auth", "%s", UVHTTP__SIZED_NEWER);
    options = &full;
    common_t common = {
        "basic_auth", options->realm, options->credentials, options->credential_count, options->check != NULL, true};
    auth_t *auth = make(&common);
    if (!auth) return (uvhttp_middleware_t){.run = NULL};
    auth->check_basic = options->check;
    auth->arg = options->arg;
    return (uvhttp_middleware_t){.run = run_basic, .user = auth, .destroy = destroy};
}

uvhttp_middleware_t uvhttp_bearer_auth_sized(const uvhttp_bearer_auth_options_t *options, size_t options_size) {
    uvhttp_bearer_auth_options_t full;
    if (!uvhttp__sized_read(&full, sizeof full, options, options_size))
        return uvhttp__middleware_refused("bearer_auth", "%s", UVHTTP__SIZED_NEWER);
    options = &full;
    common_t common = {"bearer_auth",          options->realm, options->credentials, options->credential_count,
                       options->check != NULL, false};
    auth_t *auth = make(&common);
    if (!auth) return (uvhttp_middleware_t){.run = NULL};
    auth->check_bearer = options->check;
    auth->arg = options->arg;
    return (uvhttp_middleware_t){.run = run_bearer, .user = auth, .destroy = destroy};
}
