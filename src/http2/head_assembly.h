/* Owns: a request head while it is read: the assembly, which the usual way (head_request.c) and the way for everything
 * else (head_any.c) share. Private to src/http2. May include: base. */
#ifndef UVHTTP_SRC_HTTP2_HEAD_ASSEMBLY_H
#define UVHTTP_SRC_HTTP2_HEAD_ASSEMBLY_H

#include <string.h>

#include "http2/head.h"
#include "http2/hpack_decode.h"

/* What the scratch memory begins with: texts that nearly every head shows, so that they need not be copied one by one.
 * Values of the static table's pseudo-fields, and the name of the field that is made of :authority. */
#define UVHTTP__HTTP2_PREFIX "GETPOST/index.htmlhost"
enum { UVHTTP__HTTP2_PREFIX_SIZE = sizeof UVHTTP__HTTP2_PREFIX - 1 };
#define UVHTTP__HTTP2_HOST ((uvhttp__span_t){UVHTTP__HTTP2_PREFIX_SIZE - 4, 4})

/* What has been seen of a request. Those of pseudo-fields are 1 << name. */
enum {
    UVHTTP__SEEN_AUTHORITY = 1 << UVHTTP__HPACK_AUTHORITY,
    UVHTTP__SEEN_METHOD = 1 << UVHTTP__HPACK_METHOD,
    UVHTTP__SEEN_PATH = 1 << UVHTTP__HPACK_PATH,
    UVHTTP__SEEN_SCHEME = 1 << UVHTTP__HPACK_SCHEME,
    UVHTTP__SEEN_USUAL = UVHTTP__SEEN_AUTHORITY | UVHTTP__SEEN_METHOD | UVHTTP__SEEN_PATH | UVHTTP__SEEN_SCHEME,
    UVHTTP__PSEUDO_COUNT = UVHTTP__HPACK_SCHEME + 1,
    UVHTTP__SEEN_PROTOCOL = 1 << 8,
    UVHTTP__SEEN_FIELD = 1 << 9, /* a field that is not a pseudo-field: none of those may follow */
    UVHTTP__SEEN_HOST = 1 << 10,
    UVHTTP__SEEN_COOKIE = 1 << 11,
    UVHTTP__SEEN_COOKIES_APART = 1 << 12, /* crumbs with other fields in between */
    UVHTTP__SEEN_ODD_PATH = 1 << 13,      /* :path has to be looked at: UVHTTP__HPACK_GOOD_PSEUDO does not hold */
    UVHTTP__SEEN_QUERY = 1 << 14,         /* it does hold, and there is a query */
    UVHTTP__SEEN_REFUSED = 1 << 15,       /* assembly.refusal says why */
    UVHTTP__SEEN_UNUSUAL = UVHTTP__SEEN_PROTOCOL | UVHTTP__SEEN_HOST | UVHTTP__SEEN_COOKIES_APART |
                           UVHTTP__SEEN_ODD_PATH | UVHTTP__SEEN_REFUSED,
};

/* A request being read. */
typedef struct uvhttp__http2_assembly {
    uvhttp__hpack_reader_t reader; /* as of the last leave(); decoder and too_large always */
    const uvhttp__http2_head_limits_t *limits;
    char *scratch;
    uvhttp__head_t *head;
    uvhttp__http2_request_t *request;
    uvhttp__field_t *field, *fields_end; /* the next one */
    unsigned seen;
    int refusal;    /* of scope RESPONSE: the first */
    uint32_t query; /* where the first '?' of a good :path is; 0: it is not known. Of the usual way only */
    uvhttp__span_t host;
    uvhttp__span_t pseudo[UVHTTP__PSEUDO_COUNT]; /* values by name; of those that were seen */
} uvhttp__http2_assembly_t;

static ALWAYS_INLINE uint32_t uvhttp__http2_offset_of(const uvhttp__http2_assembly_t *at, const char *text) {
    return (uint32_t)(text - at->scratch);
}

/* Path and query are the parts of the target before and behind the '?' at that place. */
static ALWAYS_INLINE void uvhttp__http2_split_at(uvhttp__head_t *head, uint32_t question) {
    head->path.size = question;
    head->query = (uvhttp__span_t){head->path.offset + question + 1, head->target.size - question - 1};
}

/* At the first one, if there is one. */
static inline void uvhttp__http2_split_target(uvhttp__head_t *head, const char *target) {
    const char *question = memchr(target, '?', head->target.size);
    if (question) uvhttp__http2_split_at(head, (uint32_t)(question - target));
}

/* Reads one field, whatever it is. Returns 0 or a code; after one the table has what the rest of the block brings. */
int uvhttp__http2_read_any_field(uvhttp__http2_assembly_t *at);
/* The end of a head that is not usual, or, with a status, is none. Returns what uvhttp__http2_read_request does. */
int uvhttp__http2_finish_any_head(uvhttp__http2_assembly_t *at, int status);

#endif
