/* Owns: buffered responses: recording, replacing and releasing them. May include: base. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hot_path.h"
#include "base/str.h"
#include "message/response_internal.h"

static_assert(sizeof(struct uvhttp_response) <= 208,
              "a response is part of every exchange, and reset for every request");

void uvhttp__response_init(uvhttp_response_t *res, uvhttp_request_t *req, uvhttp__arena_t *arena,
                           const uvhttp__response_sink_t *sink) {
    *res = (uvhttp_response_t){.request = req, .arena = arena, .sink = sink};
    uvhttp__response_reset(res);
}

/* Why a buffered response cannot be recorded, or 0. */
static inline int refusal(const uvhttp_response_t *res, int status) {
    const unsigned locked = UVHTTP__RESPONSE_BEGUN | UVHTTP__RESPONSE_COMMITTED | UVHTTP__RESPONSE_DEFERRED;
    if (__builtin_expect(res->flags & locked, 0)) return UVHTTP_E_STATE;
    return status < 200 || status > 599 ? UVHTTP_E_INVALID : 0;
}

void uvhttp__body_release_held(uvhttp__body_t *body) {
    uvhttp__body_t old = *body;
    body->kind = UVHTTP__BODY_NONE;
    body->size = 0;
    if (old.kind == UVHTTP__BODY_PARTS) {
        for (uint32_t i = 0; i < old.parts->count; i++)
            if (old.parts->parts[i].held) old.release(old.arg);
    } else if (old.release) {
        old.release(old.arg);
    } else if (old.kind == UVHTTP__BODY_FILE) {
        close(old.fd);
    }
}

/* The response is complete: nothing can fail from here. The callers of the plain path write the body field by field,
 * because a copy of the struct would wait for its own stores. */
static inline void record(uvhttp_response_t *res, int status, uvhttp__content_type_t type) {
    uvhttp__body_release(&res->body);
    res->status = (uint16_t)status;
    res->content_type = type.data;
    res->content_type_size = type.size;
    unsigned others = res->flags & ~(unsigned)(UVHTTP__RESPONSE_TYPE_KEPT | UVHTTP__RESPONSE_BY_SERVER);
    res->flags = (uint16_t)(others | UVHTTP__RESPONSE_COMPLETE | (type.kept ? UVHTTP__RESPONSE_TYPE_KEPT : 0u));
}

/* A copy of text with a Content-Type of ours. */
static int respond_text(uvhttp_response_t *res, int status, uvhttp_str_t text, uvhttp__content_type_t type) {
    int problem = refusal(res, status);
    if (problem == 0 && !text.data && text.size > 0) problem = UVHTTP_E_INVALID;
    if (problem != 0) return problem;
    size_t size = text.size;
    char *copy = size ? uvhttp__response_alloc(res, size, &problem) : "";
    if (!copy) return problem;
    if (size) memcpy(copy, text.data, size);
    record(res, status, type);
    res->body.kind = UVHTTP__BODY_MEMORY;
    res->body.data = copy;
    res->body.size = size;
    return 0;
}

#define TYPE(literal) ((uvhttp__content_type_t){literal, sizeof(literal) - 1, false})

/* NULL is refused, and no view of the application's looks like this. */
static inline uvhttp_str_t terminated(const char *text) {
    return (uvhttp_str_t){text, text ? strlen(text) : 1};
}

int uvhttp_response_text(uvhttp_response_t *res, int status, const char *text) {
    return respond_text(res, status, terminated(text), TYPE("text/plain; charset=utf-8"));
}

int uvhttp_response_json(uvhttp_response_t *res, int status, const char *json) {
    return respond_text(res, status, terminated(json), TYPE("application/json"));
}

int uvhttp_response_text_str(uvhttp_response_t *res, int status, uvhttp_str_t text) {
    return respond_text(res, status, text, TYPE("text/plain; charset=utf-8"));
}

int uvhttp_response_json_str(uvhttp_response_t *res, int status, uvhttp_str_t json) {
    return respond_text(res, status, json, TYPE("application/json"));
}

/* Everything that can fail, for a body that is in place; the body is released if it does. */
static inline int complete(uvhttp_response_t *res, int status, const char *content_type, uvhttp__body_t body) {
    uvhttp__content_type_t type;
    int problem = refusal(res, status);
    if (problem == 0) problem = uvhttp__response_find_type(res, content_type, &type);
    if (problem == 0) {
        record(res, status, type);
        res->body = body;
    } else {
        uvhttp__body_release(&body);
    }
    return problem;
}

int uvhttp__response_complete(uvhttp_response_t *res, int status, const char *content_type, uvhttp__body_t body) {
    return complete(res, status, content_type, body);
}

int uvhttp_response_send(uvhttp_response_t *res, int status, const char *content_type, const void *data, size_t size) {
    int problem = refusal(res, status);
    if (problem == 0 && !data && size) problem = UVHTTP_E_INVALID;
    if (problem != 0) return problem;
    char *copy = size ? uvhttp__response_alloc(res, size, &problem) : "";
    if (!copy) return problem;
    if (size) memcpy(copy, data, size);
    return complete(res, status, content_type,
                    (uvhttp__body_t){.kind = UVHTTP__BODY_MEMORY, .data = copy, .size = size});
}

static NOINLINE int send_static_other(uvhttp_response_t *res, int status, const char *content_type, const void *data,
                                      size_t size) {
    int problem = refusal(res, status);
    if (problem == 0 && !data && size) problem = UVHTTP_E_INVALID;
    if (problem != 0) return problem;
    return complete(res, status, content_type,
                    (uvhttp__body_t){.kind = UVHTTP__BODY_STATIC, .data = data, .size = size});
}

UVHTTP__HOT int uvhttp_response_send_static(uvhttp_response_t *res, int status, const char *content_type,
                                            const void *data, size_t size) {
    if (UNLIKELY(refusal(res, status) != 0 || !data || !uvhttp__response_has_checked(res, content_type)))
        return send_static_other(res, status, content_type, data, size);
    record(res, status, (uvhttp__content_type_t){res->checked_type, res->checked_type_size, false});
    res->body.kind = UVHTTP__BODY_STATIC;
    res->body.data = data;
    res->body.size = size;
    return 0;
}

int uvhttp_response_send_ref(uvhttp_response_t *res, int status, const char *content_type, const void *data,
                             size_t size, void (*release)(void *arg), void *arg) {
    uvhttp__body_t body = {.kind = UVHTTP__BODY_REF, .data = data, .size = size, .release = release, .arg = arg};
    if (!data && size) {
        uvhttp__body_release(&body);
        return UVHTTP_E_INVALID;
    }
    return complete(res, status, content_type, body);
}

static void release_shared_body(void *arg) {
    uvhttp_shared_body_release(arg);
}

int uvhttp_response_send_shared_body(uvhttp_response_t *res, int status, const char *content_type,
                                     uvhttp_shared_body_t *body) {
    if (!body) return UVHTTP_E_INVALID;
    uvhttp_shared_body_retain(body);
    return complete(res, status, content_type,
                    (uvhttp__body_t){.kind = UVHTTP__BODY_SHARED,
                                     .data = body->data,
                                     .size = body->size,
                                     .release = release_shared_body,
                                     .arg = body});
}

/* The size of [offset, offset + *size) in a regular file, where UINT64_MAX means to its end. */
static int measure_file(int fd, uint64_t offset, uint64_t *size) {
    struct stat info;
    if (fstat(fd, &info) != 0) return errno == EBADF ? UVHTTP_E_INVALID : UVHTTP_E_IO;
    if (!S_ISREG(info.st_mode) || offset > (uint64_t)info.st_size) return UVHTTP_E_INVALID;
    uint64_t rest = (uint64_t)info.st_size - offset;
    if (*size == UINT64_MAX) *size = rest;
    return *size > rest ? UVHTTP_E_INVALID : 0;
}

int uvhttp_response_send_fd(uvhttp_response_t *res, int status, const char *content_type, int fd, uint64_t offset,
                            uint64_t size) {
    if (fd < 0) return UVHTTP_E_INVALID;
    int problem = measure_file(fd, offset, &size);
    if (problem != 0) {
        close(fd);
        return problem;
    }
    return complete(res, status, content_type,
                    (uvhttp__body_t){.kind = UVHTTP__BODY_FILE, .fd = fd, .offset = offset, .size = size});
}

static int open_problem(int error) {
    switch (error) {
        case ENOENT:
        case ENOTDIR:
        case ELOOP:
        case ENAMETOOLONG: return UVHTTP_E_NOT_FOUND;
        case EACCES:
        case EPERM: return UVHTTP_E_PERMISSION;
        case EMFILE:
        case ENFILE: return UVHTTP_E_NO_DESCRIPTORS;
        case ENOMEM: return UVHTTP_E_NOMEM;
        case ENXIO: return UVHTTP_E_INVALID; /* a socket */
        default: return UVHTTP_E_IO;
    }
}

int uvhttp_response_send_file(uvhttp_response_t *res, int status, const char *content_type, const char *path) {
    int problem = refusal(res, status);
    if (problem == 0 && !path) problem = UVHTTP_E_INVALID;
    if (problem != 0) return problem;
    /* Non-blocking, so that opening a FIFO does not wait for a writer; for a regular file it means nothing. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return open_problem(errno);
    if (!content_type && !uvhttp__response_is(res, UVHTTP__RESPONSE_TYPE_KEPT))
        content_type = "application/octet-stream";
    return uvhttp_response_send_fd(res, status, content_type, fd, 0, UINT64_MAX);
}

int uvhttp_response_empty(uvhttp_response_t *res, int status) {
    return complete(res, status, NULL, (uvhttp__body_t){.kind = UVHTTP__BODY_NONE});
}

int uvhttp_response_redirect(uvhttp_response_t *res, int status, const char *location) {
    return uvhttp_response_redirect_str(res, status, uvhttp__str_from(location));
}

int uvhttp_response_redirect_str(uvhttp_response_t *res, int status, uvhttp_str_t location) {
    int problem = refusal(res, status);
    if (problem != 0) return problem;
    bool known = status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
    if (!known || location.size == 0) return UVHTTP_E_INVALID;
    problem = uvhttp__response_put_header(res, UVHTTP__STR("Location"), location, true);
    return problem == 0 ? uvhttp_response_empty(res, status) : problem;
}

int uvhttp_response_status(const uvhttp_response_t *res) {
    return res->status;
}

int uvhttp_response_set_status(uvhttp_response_t *res, int status) {
    if (!uvhttp__response_is(res, UVHTTP__RESPONSE_COMPLETE | UVHTTP__RESPONSE_BEGUN)) return UVHTTP_E_STATE;
    if (uvhttp__response_is(res, UVHTTP__RESPONSE_COMMITTED | UVHTTP__RESPONSE_DEFERRED)) return UVHTTP_E_STATE;
    if (status < 200 || status > 599) return UVHTTP_E_INVALID;
    res->status = (uint16_t)status;
    return 0;
}

uvhttp_request_t *uvhttp_response_request(uvhttp_response_t *res) {
    return res->request;
}

void uvhttp_response_close(uvhttp_response_t *res) {
    res->flags |= UVHTTP__RESPONSE_CLOSE;
}

static int code_of(int status) {
    switch (status) {
        case 403: return UVHTTP_E_PERMISSION;
        case 404: return UVHTTP_E_NOT_FOUND;
        case 405: return UVHTTP_E_HTTP_METHOD_NOT_ALLOWED;
        case 416: return UVHTTP_E_STATIC_RANGE;
        case 501: return UVHTTP_E_HTTP_METHOD_UNKNOWN;
        case 503: return UVHTTP_E_LIMIT;
        default: return UVHTTP_E_STATE;
    }
}

void uvhttp__response_fail(uvhttp_response_t *res, int status, const char *text) {
    uvhttp__response_fail_by(res, code_of(status), status, text);
}

int uvhttp__response_outcome(uvhttp_response_t *res, bool *refused) {
    const uvhttp_request_t *req = uvhttp_response_request(res);
    int code = req->ops->refused ? req->ops->refused(req) : UVHTTP_OK;
    *refused = code != UVHTTP_OK;
    if (*refused) return uvhttp_error_http_status(code);
    return uvhttp__response_is(res, UVHTTP__RESPONSE_COMPLETE | UVHTTP__RESPONSE_BEGUN) ? res->status : 0;
}

void uvhttp__response_forget_body(uvhttp_response_t *res) {
    if (res->headers_size == 0) return;
    static const char names[] = "Content-Encoding\0Content-Disposition\0Content-Range\0Content-Language\0"
                                "Content-Location\0Content-Digest\0Repr-Digest\0Cache-Control\0CDN-Cache-Control\0"
                                "Expires\0ETag\0Last-Modified\0Location\0";
    for (const char *name = names; *name; name += strlen(name) + 1)
        uvhttp__response_remove_fields(res, uvhttp__str_from(name));
}

void uvhttp__response_fail_by(uvhttp_response_t *res, int code, int status, const char *text) {
    if (uvhttp__response_is(res, UVHTTP__RESPONSE_COMMITTED)) return;
    uvhttp__response_forget_body(res);
    res->flags &= (uint16_t) ~(UVHTTP__RESPONSE_BEGUN | UVHTTP__RESPONSE_ENDED | UVHTTP__RESPONSE_DEFERRED);
    uvhttp__body_t body = {.kind = UVHTTP__BODY_NONE};
    if (text) body = (uvhttp__body_t){.kind = UVHTTP__BODY_STATIC, .data = text, .size = strlen(text)};
    record(res, status, text ? TYPE("text/plain; charset=utf-8") : TYPE(""));
    res->body = body;
    if (status == 503) uvhttp__response_retry_later(res);
    uvhttp__response_by_server(res, code);
}

void uvhttp__response_unavailable(uvhttp_response_t *res, int code) {
    uvhttp__response_fail_by(res, code, 503, "Service Unavailable\n");
}

void uvhttp__response_retry_later(uvhttp_response_t *res) {
    (void)uvhttp_response_header(res, "Retry-After", "1");
}
