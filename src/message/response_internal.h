/* Owns: what the files of this folder share about a response. Private to src/message. May include: base. */
#ifndef UVHTTP_SRC_MESSAGE_RESPONSE_INTERNAL_H
#define UVHTTP_SRC_MESSAGE_RESPONSE_INTERNAL_H

#include "base/hot_path.h"
#include "message/message.h"

/* Memory of the arena; *status tells why there is none. */
static inline char *uvhttp__response_alloc(uvhttp_response_t *res, size_t size, int *status) {
    char *memory = uvhttp__arena_alloc_bytes(res->arena, size);
    if (__builtin_expect(memory == NULL, 0))
        *status = res->arena->size_max - res->arena->used < size ? UVHTTP_E_LIMIT : UVHTTP_E_NOMEM;
    return memory;
}

/* A Content-Type to be sent, in memory that lives as long as the response. */
typedef struct uvhttp__content_type {
    const char *data;
    uint32_t size;
    bool kept; /* it stays for a response that brings none */
} uvhttp__content_type_t;

/* The Content-Type of a response that was given `text` (NULL: none): a copy, or the kept one. Returns 0,
 * UVHTTP_E_INVALID, UVHTTP_E_NOMEM or UVHTTP_E_LIMIT. */
int uvhttp__response_copy_type(uvhttp_response_t *res, const char *text, uvhttp__content_type_t *type);
/* The same. A handler sends one type again and again: the last one that was checked is kept with the response, over all
 * requests that use it, and the same text is neither checked nor copied again. */
static inline bool uvhttp__response_has_checked(const uvhttp_response_t *res, const char *text) {
    return LIKELY(text != NULL) && LIKELY(strcmp(text, res->checked_type) == 0);
}
static inline int uvhttp__response_find_type(uvhttp_response_t *res, const char *text, uvhttp__content_type_t *type) {
    if (UNLIKELY(!uvhttp__response_has_checked(res, text))) return uvhttp__response_copy_type(res, text, type);
    *type = (uvhttp__content_type_t){res->checked_type, res->checked_type_size, false};
    return UVHTTP_OK;
}

static inline void uvhttp__response_set_type(uvhttp_response_t *res, uvhttp__content_type_t type) {
    res->content_type = type.data;
    res->content_type_size = type.size;
    unsigned others = res->flags & ~(unsigned)UVHTTP__RESPONSE_TYPE_KEPT;
    res->flags = (uint16_t)(others | (type.kept ? UVHTTP__RESPONSE_TYPE_KEPT : 0u));
}

/* Fields that frame the message or are made by the protocol. */
bool uvhttp__response_field_is_reserved(uvhttp_str_t name);

#endif
