/* Owns: interim responses (RFC 9110 section 15.2): what may be sent before the final response, as text. May include:
 * base, obs. */
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "base/chars.h"
#include "base/str.h"
#include "message/response_internal.h"

/* Bytes of the fields as lines; SIZE_MAX: one of them must not be sent. */
static size_t measure(const uvhttp_response_field_t *fields, size_t count) {
    size_t size = 0;
    for (size_t i = 0; i < count; ++i) {
        if (!fields[i].name || !fields[i].value) return SIZE_MAX;
        uvhttp_str_t name = uvhttp__str_from(fields[i].name), value = uvhttp__str_from(fields[i].value);
        if (!uvhttp__valid_header_name(name) || !uvhttp__valid_header_value(value)) return SIZE_MAX;
        if (uvhttp__response_field_is_reserved(name)) return SIZE_MAX;
        size += name.size + value.size + 4;
    }
    return size;
}

static char *put(char *out, const char *text, size_t size) {
    if (size > 0) memcpy(out, text, size);
    return out + size;
}

static int refuse(int status, int code) {
    UVHTTP_LOG_WARN("http: interim response %d refused: %s", status, uvhttp_error_message(code));
    return code;
}

int uvhttp__interim_text(int status, const uvhttp_response_field_t *fields, size_t count, uvhttp_str_t *text) {
    *text = (uvhttp_str_t){NULL, 0};
    if (status < 102 || status > 199 || (!fields && count > 0)) return refuse(status, UVHTTP_E_INVALID);
    size_t size = measure(fields, count);
    if (size == SIZE_MAX) return refuse(status, UVHTTP_E_INVALID);
    if (size > UVHTTP__RESPONSE_HEADERS_SIZE_MAX) return refuse(status, UVHTTP_E_LIMIT);
    char *made = uvhttp__malloc(size + 1);
    if (!made) return UVHTTP_E_NOMEM;
    char *at = made;
    for (size_t i = 0; i < count; ++i) {
        at = put(at, fields[i].name, strlen(fields[i].name));
        at = put(at, ": ", 2);
        at = put(at, fields[i].value, strlen(fields[i].value));
        at = put(at, "\r\n", 2);
    }
    *text = (uvhttp_str_t){made, size};
    return UVHTTP_OK;
}

int uvhttp__response_interim(uvhttp_response_t *res, int status, uvhttp_str_t text) {
    const unsigned locked = UVHTTP__RESPONSE_BEGUN | UVHTTP__RESPONSE_COMMITTED | UVHTTP__RESPONSE_DEFERRED |
                            UVHTTP__RESPONSE_FINISHING | UVHTTP__RESPONSE_ON_ERROR;
    if (uvhttp__response_is(res, UVHTTP__RESPONSE_ABORTED)) return UVHTTP_E_ABORTED;
    if (uvhttp__response_is(res, locked)) return refuse(status, UVHTTP_E_STATE);
    if (res->request->head.version == UVHTTP_HTTP_1_0) return UVHTTP_OK;
    int code = res->sink->interim(res, status, text);
    return code == UVHTTP_E_LIMIT ? refuse(status, code) : code;
}

int uvhttp_response_interim(uvhttp_response_t *res, int status, const uvhttp_response_field_t *fields,
                            size_t field_count) {
    uvhttp_str_t text;
    int code = res ? uvhttp__interim_text(status, fields, field_count, &text) : UVHTTP_E_INVALID;
    if (code != UVHTTP_OK) return code;
    code = uvhttp__response_interim(res, status, text);
    uvhttp__free((char *)(uintptr_t)text.data);
    return code;
}
