/* Owns: streamed responses, hooks, and the transition to a deferred response. May include: base. */
#include "base/chars.h"
#include "base/str.h"
#include "message/response_internal.h"

struct uvhttp__hook {
    uvhttp__hook_t *next;
    union {
        void (*finish)(uvhttp_response_t *res, void *user);
        void (*done)(uvhttp_response_t *res, int status, void *user);
    };
    void *user;
};

/* Whether fields behind the body would be sent, and be understood. */
static bool accepts_trailers(const uvhttp_response_t *res) {
    const uvhttp_request_t *req = res->request;
    if (res->body.stream_size != UVHTTP_SIZE_UNKNOWN || !uvhttp__status_has_body(res->status)) return false;
    if (req->head.version == UVHTTP_HTTP_1_0 || req->head.method == UVHTTP_HEAD) return false;
    return uvhttp__members_have(req, "TE", UVHTTP__STR("trailers"));
}

/* --- pieces --- */

int uvhttp_response_begin(uvhttp_response_t *res, int status, const char *content_type, uint64_t size) {
    const unsigned locked = UVHTTP__RESPONSE_BEGUN | UVHTTP__RESPONSE_COMMITTED | UVHTTP__RESPONSE_DEFERRED |
                            UVHTTP__RESPONSE_FINISHING | UVHTTP__RESPONSE_ON_ERROR;
    if (uvhttp__response_is(res, locked)) return UVHTTP_E_STATE;
    if (status < 200 || status > 599) return UVHTTP_E_INVALID;
    uvhttp__content_type_t type;
    int problem = uvhttp__response_copy_type(res, content_type, &type);
    if (problem != 0) return problem;
    uvhttp__body_release(&res->body);
    uvhttp__response_set_type(res, type);
    res->status = (uint16_t)status;
    res->body.stream_size = res->body.stream_left = size;
    res->flags = (uint16_t)((res->flags & ~(unsigned)UVHTTP__RESPONSE_COMPLETE) | UVHTTP__RESPONSE_BEGUN);
    if (uvhttp__response_is(res, UVHTTP__RESPONSE_ABORTED)) return UVHTTP_E_ABORTED;
    if (res->headers_size > 0 && !accepts_trailers(res)) uvhttp__response_remove_fields(res, UVHTTP__STR("Trailer"));
    return res->sink->begin(res);
}

/* Why there can be no further piece, or 0. */
static int refusal(const uvhttp_response_t *res) {
    if (!uvhttp__response_is(res, UVHTTP__RESPONSE_BEGUN)) return UVHTTP_E_STATE;
    if (uvhttp__response_is(res, UVHTTP__RESPONSE_ENDED | UVHTTP__RESPONSE_DEFERRED)) return UVHTTP_E_STATE;
    if (uvhttp__response_is(res, UVHTTP__RESPONSE_ABORTED)) return UVHTTP_E_ABORTED;
    return uvhttp__response_is(res, UVHTTP__RESPONSE_COMMITTED) ? 0 : UVHTTP_E_STATE;
}

int uvhttp_response_write(uvhttp_response_t *res, const void *data, size_t size) {
    int problem = refusal(res);
    if (problem != 0) return problem;
    if (!data && size) return UVHTTP_E_INVALID;
    if (size == 0) return 0; /* an empty chunk would end the body */
    bool sized = res->body.stream_size != UVHTTP_SIZE_UNKNOWN;
    if (sized && size > res->body.stream_left) {
        res->flags |= UVHTTP__RESPONSE_MISSIZED;
        return UVHTTP_E_INVALID;
    }
    problem = res->coder ? res->coder->write(res->coder, res, data, size) : res->sink->write(res, data, size);
    if (problem == 0 && sized) res->body.stream_left -= size;
    if (problem == UVHTTP_E_NOMEM) res->sink->cut_off(res);
    return problem;
}

int uvhttp_response_end(uvhttp_response_t *res) {
    int problem = refusal(res);
    if (problem != 0) return problem;
    /* The response to HEAD, and 204 and 304, announce a size that is never sent. */
    bool has_body = res->request->head.method != UVHTTP_HEAD && uvhttp__status_has_body(res->status);
    if (has_body && res->body.stream_size != UVHTTP_SIZE_UNKNOWN && res->body.stream_left)
        res->flags |= UVHTTP__RESPONSE_MISSIZED;
    res->flags |= UVHTTP__RESPONSE_ENDED;
    if (res->coder && res->coder->end(res->coder, res) != 0) res->flags |= UVHTTP__RESPONSE_MISSIZED;
    return res->sink->end(res);
}

/* --- trailers --- */

/* Fields that a recipient must have seen before the body, or that steer who passes it on (RFC 9110 section 6.5.1). */
static bool may_be_trailer(uvhttp_str_t name) {
    static const char no[] = "content-length\0transfer-encoding\0host\0trailer\0connection\0keep-alive\0te\0upgrade\0"
                             "expect\0content-type\0content-encoding\0content-range\0content-location\0date\0location\0"
                             "vary\0age\0cache-control\0expires\0pragma\0retry-after\0warning\0set-cookie\0"
                             "authorization\0proxy-authorization\0www-authenticate\0proxy-authenticate\0range\0"
                             "if-range\0max-forwards\0";
    for (const char *field = no; *field; field += strlen(field) + 1)
        if (uvhttp__str_equal_nocase(name, uvhttp__str_from(field))) return false;
    return true;
}

static int reserve_trailer(uvhttp_response_t *res, size_t size) {
    uvhttp__trailers_t *old = res->trailers;
    size_t used = old ? old->size : 0, needed = used + size, capacity = old ? old->capacity : 256;
    if (size > UVHTTP__RESPONSE_TRAILERS_SIZE_MAX || needed > UVHTTP__RESPONSE_TRAILERS_SIZE_MAX) return UVHTTP_E_LIMIT;
    if (old && needed <= capacity) return 0;
    while (capacity < needed) capacity *= 2;
    uvhttp__trailers_t *grown = uvhttp__arena_alloc(res->arena, sizeof *grown + capacity);
    if (!grown) return res->arena->size_max - res->arena->used < capacity ? UVHTTP_E_LIMIT : UVHTTP_E_NOMEM;
    if (used) memcpy(grown->text, old->text, used);
    grown->size = (uint32_t)used;
    grown->capacity = (uint32_t)capacity;
    res->trailers = grown;
    return 0;
}

int uvhttp_response_trailer(uvhttp_response_t *res, const char *name, const char *value) {
    return uvhttp_response_trailer_str(res, name, uvhttp__str_from(value));
}

int uvhttp_response_trailer_str(uvhttp_response_t *res, const char *name_text, uvhttp_str_t value) {
    if (!name_text || !value.data) return UVHTTP_E_INVALID;
    uvhttp_str_t name = uvhttp__str_from(name_text);
    int problem = refusal(res);
    if (problem != 0) return problem;
    if (!uvhttp__valid_header_name(name) || !uvhttp__valid_header_value(value) || !may_be_trailer(name))
        return UVHTTP_E_INVALID;
    if (!accepts_trailers(res)) return UVHTTP_E_UNSUPPORTED;
    problem = reserve_trailer(res, name.size + value.size + 4);
    if (problem != 0) return problem;
    uvhttp__trailers_t *trailers = res->trailers;
    char *at = trailers->text + trailers->size;
    memcpy(at, name.data, name.size);
    memcpy(at + name.size, ": ", 2);
    if (value.size) memcpy(at + name.size + 2, value.data, value.size);
    memcpy(at + name.size + 2 + value.size, "\r\n", 2);
    trailers->size += (uint32_t)(name.size + value.size + 4);
    return 0;
}

/* --- hooks --- */

static uvhttp__hook_t *new_hook(uvhttp_response_t *res, uvhttp__hook_t **at, void *user) {
    uvhttp__hook_t *hook = uvhttp__arena_alloc(res->arena, sizeof *hook);
    if (!hook) return NULL;
    hook->next = *at;
    hook->user = user;
    *at = hook;
    return hook;
}

static int add_finish(uvhttp_response_t *res, uvhttp__hook_t **at, void (*callback)(uvhttp_response_t *res, void *user),
                      void *user) {
    if (!callback) return UVHTTP_E_INVALID;
    if (uvhttp__response_is(res, UVHTTP__RESPONSE_FINISHING | UVHTTP__RESPONSE_COMMITTED)) return UVHTTP_E_STATE;
    uvhttp__hook_t *hook = new_hook(res, at, user);
    if (!hook) return UVHTTP_E_NOMEM;
    hook->finish = callback;
    return 0;
}

int uvhttp_response_on_finish(uvhttp_response_t *res, void (*callback)(uvhttp_response_t *res, void *user),
                              void *user) {
    return add_finish(res, &res->finish_hooks, callback, user);
}

int uvhttp__response_on_finish_last(uvhttp_response_t *res, void (*callback)(uvhttp_response_t *res, void *user),
                                    void *user) {
    uvhttp__hook_t **at = &res->finish_hooks;
    while (*at) at = &(*at)->next;
    return add_finish(res, at, callback, user);
}

int uvhttp_response_on_done(uvhttp_response_t *res, void (*callback)(uvhttp_response_t *res, int status, void *user),
                            void *user) {
    if (!callback) return UVHTTP_E_INVALID;
    if (uvhttp__response_is(res, UVHTTP__RESPONSE_DONE)) return UVHTTP_E_STATE;
    uvhttp__hook_t *hook = new_hook(res, &res->done_hooks, user);
    if (!hook) return UVHTTP_E_NOMEM;
    hook->done = callback;
    return 0;
}

void uvhttp__response_run_finish(uvhttp_response_t *res) {
    for (uvhttp__hook_t *hook = res->finish_hooks; hook; hook = hook->next) hook->finish(res, hook->user);
}

void uvhttp__response_run_done(uvhttp_response_t *res, int status) {
    for (uvhttp__hook_t *hook = res->done_hooks; hook; hook = hook->next) hook->done(res, status, hook->user);
}

/* --- later --- */

uvhttp_deferred_t *uvhttp_response_defer(uvhttp_response_t *res) {
    const unsigned locked = UVHTTP__RESPONSE_BEGUN | UVHTTP__RESPONSE_COMMITTED | UVHTTP__RESPONSE_DEFERRED |
                            UVHTTP__RESPONSE_FINISHING | UVHTTP__RESPONSE_ON_ERROR;
    if (uvhttp__response_is(res, locked)) return NULL;
    uvhttp_deferred_t *deferred = res->sink->defer(res);
    if (!deferred) return NULL;
    uvhttp__body_release(&res->body);
    res->flags = (uint16_t)((res->flags & ~(unsigned)UVHTTP__RESPONSE_COMPLETE) | UVHTTP__RESPONSE_DEFERRED);
    return deferred;
}
