/* Owns: the ids of requests. May include: message, base, obs. */
#include <stdatomic.h>
#include <uvhttp/request_id.h>

#include "base/alloc.h"
#include "base/chars.h"
#include "base/hash.h"
#include "message/message.h"
#include "middleware/middleware.h"

#define NAME "request_id"
#define HEADER_SIZE_MAX 64 /* bytes */
#define ID_SIZE 32         /* hex digits of an id of ours */
/* Numbers that a thread takes at once from those of the process, so that threads do not meet at every request. */
#define NUMBERS_AT_ONCE 65536u

typedef struct request_id {
    bool trust_incoming;
    size_t header_size;
    char header[HEADER_SIZE_MAX + 1];
} request_id_t;

static const char note_key; /* its address counts */

static void destroy(void *user) {
    uvhttp__free(user);
}

/* --- ids of ours --- */

/* Tells this process from all others, also after a restart. Not uvhttp__hash_seed(), which must stay secret. Made at
 * the first request and not before, so that processes forked before they serve differ. */
static uint64_t process_number(void) {
    static _Atomic uint64_t number;
    return uvhttp__random_once(&number, 1);
}

static uint64_t request_number(void) {
    static _Atomic uint64_t given;
    static _Thread_local uint64_t next, end;
    if (next == end) {
        next = atomic_fetch_add_explicit(&given, NUMBERS_AT_ONCE, memory_order_relaxed);
        end = next + NUMBERS_AT_ONCE;
    }
    return next++;
}

static void write_hex(char *out, uint64_t number) {
    for (int i = 15; i >= 0; i--, number >>= 4) out[i] = "0123456789abcdef"[number & 15];
}

/* --- requests --- */

static bool valid_id(uvhttp_str_t id) {
    if (id.size == 0 || id.size > UVHTTP_REQUEST_ID_SIZE_MAX) return false;
    for (size_t i = 0; i < id.size; i++) {
        char c = id.data[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!plain && (c == '\0' || !strchr("._~+/=:-", c))) return false;
    }
    return true;
}

static int give_id(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    const request_id_t *options = user;
    char made[ID_SIZE];
    uvhttp_str_t id;
    if (!options->trust_incoming || !uvhttp__single_header(req, options->header, &id) || !valid_id(id)) {
        write_hex(made, process_number());
        write_hex(made + 16, request_number());
        id = (uvhttp_str_t){made, sizeof made};
    }
    int status = uvhttp__request_set_note(req, &note_key, id);
    if (status == UVHTTP_OK)
        status = uvhttp__response_put_header(res, (uvhttp_str_t){options->header, options->header_size}, id, true);
    return status;
}

static uvhttp_flow_t run(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    return give_id(req, res, user) == UVHTTP_OK ? UVHTTP_NEXT : uvhttp__middleware_unavailable(res);
}

static void on_refused(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)give_id(req, res, user);
}

uvhttp_str_t uvhttp_request_id_get(const uvhttp_request_t *req) {
    return uvhttp__request_note(req, &note_key);
}

/* --- making it --- */

/* Fields with a meaning of their own: the library's, and the one that is not kept with the others. */
static bool is_reserved(uvhttp_str_t name) {
    static const char *const reserved[] = {"Content-Length", "Content-Type", "Transfer-Encoding", "Connection",
                                           "Date",           "Upgrade",      "Trailer",           "Set-Cookie"};
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (uvhttp__str_equal_nocase(name, uvhttp__str_from(reserved[i]))) return true;
    return false;
}

uvhttp_middleware_t uvhttp_request_id(const uvhttp_request_id_options_t *options) {
    static const uvhttp_request_id_options_t defaults;
    if (!options) options = &defaults;
    uvhttp_str_t header = uvhttp__str_from(options->header ? options->header : "X-Request-Id");
    if (header.size > HEADER_SIZE_MAX || !uvhttp__valid_header_name(header) || is_reserved(header))
        return uvhttp__middleware_refused(NAME,
                                          "header is \"%.100s\": expected a field name of 1..%d bytes without another "
                                          "meaning, such as X-Request-Id",
                                          header.data, HEADER_SIZE_MAX);
    request_id_t *made = uvhttp__calloc(1, sizeof *made);
    if (!made) return uvhttp__middleware_refused(NAME, "out of memory");
    made->trust_incoming = options->trust_incoming;
    made->header_size = header.size;
    memcpy(made->header, header.data, header.size);
    return (uvhttp_middleware_t){.run = run, .user = made, .destroy = destroy, .on_refused = on_refused};
}
