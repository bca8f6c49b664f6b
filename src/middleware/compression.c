/* Owns: compression of responses: which ones, in which coding, and their header fields. May include: message, base. */
#include <uvhttp/compression.h>

#include "base/alloc.h"
#include "base/list.h"
#include "base/sized.h"
#include "base/str.h"
#include "message/accept_encoding.h"
#include "message/message.h"
#include "middleware/encoder.h"
#include "middleware/middleware.h"

typedef struct compression {
    uint32_t size_min, size_max;
    bool gzip, brotli, streams;
    char *types; /* terminated texts, one after the other, and an empty one; NULL: the defaults */
    uvhttp__encoder_pool_t *encoders;
} compression_t;

static const char default_types[] = "text/*\0application/json\0application/javascript\0application/xml\0image/svg+xml\0"
                                    "application/wasm\0application/manifest+json\0font/ttf\0font/otf\0"
                                    "application/vnd.ms-fontobject\0";

/* --- which responses --- */

static bool ends_with(uvhttp_str_t text, uvhttp_str_t end) {
    return text.size > end.size &&
           uvhttp__str_equal_nocase((uvhttp_str_t){text.data + text.size - end.size, end.size}, end);
}

static bool type_fits(uvhttp_str_t type, uvhttp_str_t pattern) {
    if (pattern.data[pattern.size - 1] != '*') return uvhttp__str_equal_nocase(type, pattern);
    return uvhttp__str_starts_with_nocase(type, (uvhttp_str_t){pattern.data, pattern.size - 1});
}

static bool worth_compressing(const compression_t *self, const uvhttp_response_t *res) {
    uvhttp_str_t type = {res->content_type, res->content_type_size};
    const char *semicolon = type.size ? memchr(type.data, ';', type.size) : NULL;
    if (semicolon) type.size = (size_t)(semicolon - type.data);
    type = uvhttp__str_trim(type);
    if (type.size == 0) return false;
    /* It has to be asked for: a proxy in between may wait for more of it. */
    bool events = uvhttp__str_equal_nocase(type, UVHTTP__STR("text/event-stream"));
    if (events && !self->types) return false;
    for (const char *pattern = self->types ? self->types : default_types; *pattern; pattern += strlen(pattern) + 1)
        if (type_fits(type, uvhttp__str_from(pattern)) && !(events && strchr(pattern, '*'))) return true;
    return !self->types && (ends_with(type, UVHTTP__STR("+json")) || ends_with(type, UVHTTP__STR("+xml")));
}

static bool size_fits(const compression_t *self, const uvhttp_response_t *res) {
    const uvhttp__body_t *body = &res->body;
    if (uvhttp__response_is(res, UVHTTP__RESPONSE_BEGUN))
        return self->streams && res->body.stream_size >= self->size_min;
    if (body->kind == UVHTTP__BODY_NONE || body->kind >= UVHTTP__BODY_FILE) return false;
    return body->size >= self->size_min && body->size <= self->size_max;
}

/* Not if it has a coding, or a digest, which is that of the bytes in one (RFC 9530) and may follow them. */
static bool may_be_encoded(const uvhttp_response_t *res) {
    static const char names[] = "Content-Encoding\0Content-Digest\0Repr-Digest\0Digest\0Content-MD5\0";
    for (const char *name = names; *name && res->headers_size > 0; name += strlen(name) + 1)
        if (uvhttp_response_header_get(res, name).data ||
            uvhttp__response_lists(res, UVHTTP__STR("Trailer"), uvhttp__str_from(name)))
            return false;
    return !uvhttp__response_lists(res, UVHTTP__STR("Cache-Control"), UVHTTP__STR("no-transform"));
}

static bool is_candidate(const compression_t *self, const uvhttp_response_t *res) {
    if (!size_fits(self, res)) return false;
    if (res->status == 206 || !uvhttp__status_has_body(res->status)) return false;
    return may_be_encoded(res) && worth_compressing(self, res);
}

/* Whether a 304 may stand for a response that would be compressed, or a 206 be a part of one: the size of that is
 * unknown, its type not always known. An unnecessary Vary does no harm. */
static bool stands_for_candidate(const compression_t *self, const uvhttp_response_t *res) {
    if ((res->status != 304 && res->status != 206) || !may_be_encoded(res)) return false;
    uvhttp_str_t type = {res->content_type, res->content_type_size};
    return type.size == 0 || uvhttp__str_starts_with_nocase(type, UVHTTP__STR("multipart/byteranges")) ||
           worth_compressing(self, res);
}

static uvhttp__coding_t choose(const compression_t *self, const uvhttp_request_t *req) {
    uvhttp__accept_encoding_t accept = {0};
    size_t index = 0;
    for (uvhttp_str_t value; uvhttp_request_header_next(req, "Accept-Encoding", &index, &value);)
        uvhttp__accept_encoding_add(&accept, value);
    uint16_t gzip = self->gzip ? uvhttp__accept_gzip(&accept) : 0;
    uint16_t brotli = self->brotli ? uvhttp__accept_brotli(&accept) : 0;
    if (brotli > 0 && brotli >= gzip) return UVHTTP__CODING_BROTLI;
    return gzip > 0 ? UVHTTP__CODING_GZIP : UVHTTP__CODING_IDENTITY;
}

/* --- what their heads say --- */

static int put(uvhttp_response_t *res, uvhttp_str_t name, uvhttp_str_t value, bool replace) {
    return uvhttp__response_put_header(res, name, value, replace);
}

/* Two codings of one thing are not the same bytes: a strong validator would lie (RFC 9110 section 8.8.3.3). */
static int weaken_etag(uvhttp_response_t *res) {
    uvhttp_str_t etag = uvhttp_response_header_get(res, "ETag");
    if (etag.size == 0 || etag.data[0] != '"') return 0;
    char *weak = uvhttp__arena_alloc_bytes(res->arena, etag.size + 2);
    if (!weak) return UVHTTP_E_NOMEM;
    memcpy(weak, "W/", 2);
    memcpy(weak + 2, etag.data, etag.size);
    return put(res, UVHTTP__STR("ETag"), (uvhttp_str_t){weak, etag.size + 2}, true);
}

/* The client has the response in a coding of ours, and asks with the validator of that. */
static bool asks_with_weak(uvhttp_response_t *res) {
    const uvhttp_request_t *req = uvhttp_response_request(res);
    uvhttp_str_t etag = uvhttp_response_header_get(res, "ETag");
    size_t index = 0;
    for (uvhttp_str_t value; etag.size > 0 && uvhttp_request_header_next(req, "If-None-Match", &index, &value);) {
        const char *at = memmem(value.data, value.size, etag.data, etag.size);
        if (at && at - value.data >= 2 && memcmp(at - 2, "W/", 2) == 0) return true;
    }
    return false;
}

/* Adds the fields of the response that it stands for (RFC 9110 sections 15.3.7 and 15.4.5). */
static void finish_like_candidate(uvhttp_response_t *res) {
    if (uvhttp__vary_add(res, UVHTTP__STR("Accept-Encoding")) != 0) return;
    if (res->status == 304 && asks_with_weak(res)) (void)weaken_etag(res);
}

/* Ranges count the bytes of the other coding, the plain one, and its strong validator: none are offered here. */
static int name_coding(uvhttp_response_t *res, uvhttp__coding_t coding) {
    uvhttp_str_t name = coding == UVHTTP__CODING_BROTLI ? UVHTTP__STR("br") : UVHTTP__STR("gzip");
    int status = weaken_etag(res);
    if (status == 0) status = put(res, UVHTTP__STR("Content-Encoding"), name, true);
    if (status == 0) uvhttp__response_remove_fields(res, UVHTTP__STR("Accept-Ranges"));
    return status;
}

/* --- a complete body --- */

static void encode_buffered(const compression_t *self, uvhttp_response_t *res, uvhttp__coding_t coding) {
    size_t size;
    void *encoded = uvhttp__encode(self->encoders, coding, res->body.data, (size_t)res->body.size, &size);
    if (!encoded) return;
    if (name_coding(res, coding) != 0) {
        uvhttp__free(encoded);
        return;
    }
    uvhttp__body_release(&res->body);
    res->body = (uvhttp__body_t){
        .kind = UVHTTP__BODY_REF, .data = encoded, .size = size, .release = uvhttp__free, .arg = encoded};
}

/* --- pieces --- */

typedef struct stream_coder {
    uvhttp__coder_t coder;
    uvhttp__encoder_t *encoder; /* NULL: for HEAD, which shows the head only */
} stream_coder_t;

static int push(void *arg, const char *data, size_t size) {
    uvhttp_response_t *res = arg;
    return res->sink->push(res, data, size);
}

static int coder_write(uvhttp__coder_t *coder, uvhttp_response_t *res, const char *data, size_t size) {
    stream_coder_t *self = UVHTTP__CONTAINER_OF(coder, stream_coder_t, coder);
    int status = res->sink->capacity(res, size); /* bytes that the encoder has consumed cannot be returned */
    if (status != 0 || !self->encoder) return status;
    status = uvhttp__encoder_write(self->encoder, data, size, false, push, res);
    if (status != 0) res->flags |= UVHTTP__RESPONSE_MISSIZED;
    return status;
}

static int coder_end(uvhttp__coder_t *coder, uvhttp_response_t *res) {
    stream_coder_t *self = UVHTTP__CONTAINER_OF(coder, stream_coder_t, coder);
    /* A truncated response must not look complete. */
    if (!self->encoder || uvhttp__response_is(res, UVHTTP__RESPONSE_MISSIZED)) return 0;
    return uvhttp__encoder_write(self->encoder, NULL, 0, true, push, res);
}

static void on_done(uvhttp_response_t *res, int status, void *user) {
    (void)res, (void)status;
    uvhttp__encoder_close(user);
}

static void encode_pieces(const compression_t *self, uvhttp_response_t *res, uvhttp__coding_t coding) {
    stream_coder_t *coder = uvhttp__arena_alloc(res->arena, sizeof *coder);
    if (!coder) return;
    *coder = (stream_coder_t){.coder = {.write = coder_write, .end = coder_end}};
    bool only_head = uvhttp_request_method(uvhttp_response_request(res)) == UVHTTP_HEAD;
    if (!only_head) {
        coder->encoder = uvhttp__encoder_open(self->encoders, coding);
        if (!coder->encoder) return;
        if (uvhttp_response_on_done(res, on_done, coder->encoder) != 0) {
            uvhttp__encoder_close(coder->encoder);
            return;
        }
    }
    if (name_coding(res, coding) == 0) res->coder = &coder->coder;
}

static void on_finish(uvhttp_response_t *res, void *user) {
    const compression_t *self = user;
    if (stands_for_candidate(self, res)) finish_like_candidate(res);
    if (!is_candidate(self, res)) return;
    /* Steps that can fail come first: a body must not leave in a coding that its head does not name. */
    if (uvhttp__vary_add(res, UVHTTP__STR("Accept-Encoding")) != 0) return;
    uvhttp__coding_t coding = choose(self, uvhttp_response_request(res));
    if (coding == UVHTTP__CODING_IDENTITY) return;
    if (uvhttp__response_is(res, UVHTTP__RESPONSE_BEGUN))
        encode_pieces(self, res, coding);
    else
        encode_buffered(self, res, coding);
}

static uvhttp_flow_t run(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    /* Out of memory: the response is sent uncompressed. Last: a hook of the application may replace the body. */
    (void)uvhttp__response_on_finish_last(res, on_finish, user);
    return UVHTTP_NEXT;
}

/* --- options --- */

static void destroy(void *user) {
    compression_t *self = user;
    uvhttp__encoder_pool_free(self->encoders);
    uvhttp__free(self->types);
    uvhttp__free(self);
}

static char *copy_types(const char *const *types) {
    size_t size = 1;
    for (const char *const *type = types; *type; ++type) size += strlen(*type) + 1;
    char *copy = uvhttp__malloc(size), *at = copy;
    if (!copy) return NULL;
    for (const char *const *type = types; *type; ++type) {
        size_t length = strlen(*type);
        if (length == 0) continue; /* it would end the list */
        memcpy(at, *type, length + 1);
        at += length + 1;
    }
    *at = '\0';
    return copy;
}

static bool option(const char *name, uint32_t given, uint32_t initial, uint32_t max, uint32_t *value) {
    *value = given ? given : initial;
    if (*value <= max) return true;
    (void)uvhttp__middleware_refused("compression", "%s is %u: give 1 to %u, or 0 for the default of %u", name, given,
                                     max, initial);
    return false;
}

uvhttp_middleware_t uvhttp_compression_sized(const uvhttp_compression_options_t *options, size_t options_size) {
    const uvhttp_middleware_t failed = {.run = NULL};
    uvhttp_compression_options_t full;
    if (!uvhttp__sized_read(&full, sizeof full, options, options_size))
        return uvhttp__middleware_refused("compression", "%s", UVHTTP__SIZED_NEWER);
    options = &full;
    uint32_t level, quality, size_min, size_max, streams_max;
    if (!option("gzip_level", options->gzip_level, 4, 9, &level) ||
        !option("brotli_quality", options->brotli_quality, 4, 11, &quality) ||
        !option("streams_max", options->streams_max, 64, 65536, &streams_max) ||
        !option("size_max", options->size_max, 1 << 20, INT32_MAX, &size_max) ||
        !option("size_min", options->size_min, 1024, INT32_MAX, &size_min))
        return failed;
    if (size_min > size_max)
        return uvhttp__middleware_refused("compression", "size_min is %u, more than size_max, which is %u", size_min,
                                          size_max);
    if (options->no_gzip && options->no_brotli)
        return uvhttp__middleware_refused("compression",
                                          "no_gzip and no_brotli leave no coding: set at most one of them");
    compression_t *self = uvhttp__calloc(1, sizeof *self);
    if (!self) return failed;
    *self = (compression_t){.size_min = size_min,
                            .size_max = size_max,
                            .gzip = !options->no_gzip,
                            .brotli = !options->no_brotli,
                            .streams = !options->no_streams};
    self->encoders = uvhttp__encoder_pool_new((int)level, (int)quality, streams_max);
    if (options->types) self->types = copy_types(options->types);
    if (self->encoders && (self->types || !options->types))
        return (uvhttp_middleware_t){.run = run, .user = self, .destroy = destroy};
    destroy(self);
    return failed;
}
