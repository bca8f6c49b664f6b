/* Owns: what the middlewares share. May include: message, base, obs. */
#include "middleware/middleware.h"

#include <stdarg.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "base/chars.h"
#include "base/format.h"
#include "message/message.h"

uvhttp_middleware_t uvhttp__middleware_refused(const char *name, const char *format, ...) {
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    uvhttp__format_v(message, sizeof message, format, arguments);
    va_end(arguments);
    UVHTTP_LOG_ERROR("middleware: %s: %s", name, message);
    return (uvhttp_middleware_t){.run = NULL};
}

uvhttp_flow_t uvhttp__middleware_unavailable(uvhttp_response_t *res) {
    uvhttp__middleware_count(uvhttp_response_request(res), middleware_no_memory);
    uvhttp__response_forget_body(res);
    (void)uvhttp_response_empty(res, 503);
    uvhttp__response_retry_later(res);
    return UVHTTP_STOP;
}

bool uvhttp__single_header(const uvhttp_request_t *req, const char *name, uvhttp_str_t *value) {
    size_t index = 0;
    return uvhttp_request_header_next(req, name, &index, value) && !uvhttp_request_header_next(req, name, &index, NULL);
}

/* --- lists --- */

bool uvhttp__list_has(uvhttp_str_t list, uvhttp_str_t wanted) {
    uvhttp_str_t item;
    while (uvhttp__list_next(&list, &item))
        if (uvhttp__str_equal_nocase(item, wanted)) return true;
    return false;
}

char *uvhttp__list_copy(const char *list) {
    uvhttp_str_t rest = uvhttp__str_from(list), item;
    char *copy = uvhttp__malloc(2 * rest.size + 1); /* "a,b" becomes "a, b" */
    if (!copy) return NULL;
    size_t size = 0;
    while (uvhttp__list_next(&rest, &item)) {
        if (size > 0) {
            memcpy(copy + size, ", ", 2);
            size += 2;
        }
        memcpy(copy + size, item.data, item.size);
        size += item.size;
    }
    copy[size] = '\0';
    return copy;
}

uvhttp_str_t uvhttp__list_wrong_token(const char *list) {
    uvhttp_str_t rest = uvhttp__str_from(list), item;
    while (uvhttp__list_next(&rest, &item))
        if (!uvhttp__valid_header_name(item)) return item;
    return (uvhttp_str_t){NULL, 0};
}

/* A separate field in addition to the handler's: that is the same list (RFC 9110 section 5.3). */
int uvhttp__vary_add(uvhttp_response_t *res, uvhttp_str_t name) {
    const uvhttp_str_t vary = UVHTTP__STR("Vary");
    if (uvhttp__response_lists(res, vary, name) || uvhttp__response_lists(res, vary, UVHTTP__STR("*")))
        return UVHTTP_OK;
    return uvhttp__response_put_header(res, vary, name, false);
}
