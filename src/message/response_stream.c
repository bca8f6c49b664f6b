/* Owns: answers in pieces, hooks, and the way to a deferred answer. May include: base. */
#include "message/response_internal.h"

struct uvhttp__hook {
    uvhttp__hook_t *next;
    union {
        void (*finish)(uvhttp_response_t *res, void *user);
        void (*done)(uvhttp_response_t *res, int status, void *user);
    };
    void *user;
};

/* --- pieces --- */

int uvhttp_response_begin(uvhttp_response_t *res, int status, const char *content_type, uint64_t size) {
    const unsigned locked =
        UVHTTP__RESPONSE_BEGUN | UVHTTP__RESPONSE_COMMITTED | UVHTTP__RESPONSE_DEFERRED | UVHTTP__RESPONSE_FINISHING;
    if (uvhttp__response_is(res, locked)) return UVHTTP_E_STATE;
    if (status < 200 || status > 599) return UVHTTP_E_INVALID;
    uvhttp__content_type_t type;
    int problem = uvhttp__response_copy_type(res, content_type, &type);
    if (problem != 0) return problem;
    uvhttp__body_release(&res->body);
    uvhttp__response_set_type(res, type);
    res->status = (uint16_t)status;
    res->stream_size = res->stream_left = size;
    res->flags = (uint16_t)((res->flags & ~(unsigned)UVHTTP__RESPONSE_ANSWERED) | UVHTTP__RESPONSE_BEGUN);
    if (uvhttp__response_is(res, UVHTTP__RESPONSE_ABORTED)) return UVHTTP_E_ABORTED;
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
    bool sized = res->stream_size != UVHTTP_SIZE_UNKNOWN;
    if (sized && size > res->stream_left) {
        res->flags |= UVHTTP__RESPONSE_MISSIZED;
        return UVHTTP_E_INVALID;
    }
    problem = res->sink->write(res, data, size);
    if (problem == 0 && sized) res->stream_left -= size;
    return problem;
}

int uvhttp_response_end(uvhttp_response_t *res) {
    int problem = refusal(res);
    if (problem != 0) return problem;
    /* The answer to HEAD, and 204 and 304, announce a size that is never sent. */
    bool has_body = res->request->head.method != UVHTTP_HEAD && uvhttp__status_has_body(res->status);
    if (has_body && res->stream_size != UVHTTP_SIZE_UNKNOWN && res->stream_left)
        res->flags |= UVHTTP__RESPONSE_MISSIZED;
    res->flags |= UVHTTP__RESPONSE_ENDED;
    return res->sink->end(res);
}

/* --- hooks --- */

static uvhttp__hook_t *new_hook(uvhttp_response_t *res, uvhttp__hook_t **list, void *user) {
    uvhttp__hook_t *hook = uvhttp__arena_alloc(res->arena, sizeof *hook);
    if (!hook) return NULL;
    hook->next = *list;
    hook->user = user;
    *list = hook;
    return hook;
}

int uvhttp_response_on_finish(uvhttp_response_t *res, void (*callback)(uvhttp_response_t *res, void *user),
                              void *user) {
    if (!callback) return UVHTTP_E_INVALID;
    if (uvhttp__response_is(res, UVHTTP__RESPONSE_FINISHING | UVHTTP__RESPONSE_COMMITTED)) return UVHTTP_E_STATE;
    uvhttp__hook_t *hook = new_hook(res, &res->finish_hooks, user);
    if (!hook) return UVHTTP_E_NOMEM;
    hook->finish = callback;
    return 0;
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
    const unsigned locked =
        UVHTTP__RESPONSE_BEGUN | UVHTTP__RESPONSE_COMMITTED | UVHTTP__RESPONSE_DEFERRED | UVHTTP__RESPONSE_FINISHING;
    if (uvhttp__response_is(res, locked)) return NULL;
    uvhttp_deferred_t *deferred = res->sink->defer(res);
    if (!deferred) {
        uvhttp__response_fail(res, 503, "Service Unavailable\n");
        return NULL;
    }
    uvhttp__body_release(&res->body);
    res->flags = (uint16_t)((res->flags & ~(unsigned)UVHTTP__RESPONSE_ANSWERED) | UVHTTP__RESPONSE_DEFERRED);
    return deferred;
}
