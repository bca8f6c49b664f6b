/* Owns: the response for a file: coding, conditions, ranges, head and body. May include: route message base. */
#include <inttypes.h>
#include <stdio.h>

#include "base/date.h"
#include "base/hash.h"
#include "base/str.h"
#include "handler/static.h"
#include "message/accept_encoding.h"

/* A response under construction. */
typedef struct serving {
    uvhttp__static_cache_t *cache;
    uvhttp__static_file_t *file;
    uvhttp_request_t *req;
    uvhttp_response_t *res;
} serving_t;

/* --- which coding --- */

static uvhttp__static_file_t *choose(const uvhttp__static_found_t *found, const uvhttp_request_t *req) {
    uvhttp__accept_encoding_t accept = {0};
    size_t index = 0;
    for (uvhttp_str_t value; uvhttp_request_header_next(req, "Accept-Encoding", &index, &value);)
        uvhttp__accept_encoding_add(&accept, value);
    uint16_t brotli = found->files[UVHTTP__STATIC_BROTLI] ? uvhttp__accept_brotli(&accept) : 0;
    uint16_t gzip = found->files[UVHTTP__STATIC_GZIP] ? uvhttp__accept_gzip(&accept) : 0;
    if (brotli > 0 && brotli >= gzip) return found->files[UVHTTP__STATIC_BROTLI];
    return gzip > 0 ? found->files[UVHTTP__STATIC_GZIP] : found->files[UVHTTP__STATIC_PLAIN];
}

/* --- bodies --- */

static void refuse_memory(uvhttp_response_t *res) {
    uvhttp__response_unavailable(res, UVHTTP_E_LIMIT);
}

/* Allocates `count` parts; NULL: out of memory. */
static uvhttp__body_parts_t *parts_new(const serving_t *serving, size_t count) {
    uvhttp__body_parts_t *parts = uvhttp_request_alloc(serving->req, sizeof *parts + count * sizeof parts->parts[0]);
    if (!parts) return NULL;
    parts->blocking = &serving->cache->port;
    parts->fd = serving->file->fd;
    parts->found_ms = NULL;
    parts->copied = serving->cache->site->settings.options.no_sendfile;
    parts->count = 0;
    return parts;
}

static void send_range(const serving_t *serving, int status, uint64_t offset, uint64_t size) {
    uvhttp__static_file_t *file = serving->file;
    uvhttp__body_t body = {.size = size, .release = uvhttp__static_file_release, .arg = file};
    if (file->content) {
        body.kind = UVHTTP__BODY_REF;
        body.data = file->content + offset;
    } else {
        uvhttp__body_parts_t *parts = parts_new(serving, 1);
        if (!parts) {
            refuse_memory(serving->res);
            return;
        }
        parts->parts[parts->count++] = (uvhttp__body_part_t){.offset = offset, .size = size, .held = true};
        if (size == file->size) parts->found_ms = &file->found_ms;
        body.kind = UVHTTP__BODY_PARTS;
        body.parts = parts;
    }
    uvhttp__ref_acquire(&file->ref);
    if (uvhttp__response_complete(serving->res, status, file->type, body) != UVHTTP_OK) refuse_memory(serving->res);
}

/* --- one range --- */

static int put_content_range(uvhttp_response_t *res, const uvhttp__range_t *range, uint64_t size) {
    char text[96];
    int length = range ? snprintf(text, sizeof text, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, range->first,
                                  range->first + range->size - 1, size)
                       : snprintf(text, sizeof text, "bytes */%" PRIu64, size);
    return uvhttp__response_put_header(res, UVHTTP__STR("Content-Range"), (uvhttp_str_t){text, (size_t)length}, true);
}

static void send_unsatisfiable(const serving_t *serving) {
    uvhttp__counters_error(serving->cache->counters, UVHTTP_E_STATIC_RANGE);
    uvhttp__response_fail(serving->res, 416, "Range Not Satisfiable\n");
    (void)put_content_range(serving->res, NULL, serving->file->size);
}

/* --- several ranges (RFC 9110 section 14.6) --- */

#define BOUNDARY_SIZE 32
#define PART_HEAD_MAX 512 /* bytes: boundary, type of at most 255 bytes, range */

/* Random enough that it is not in the file but by design of somebody who knows this process's secret. */
static void write_boundary(const serving_t *serving, char boundary[BOUNDARY_SIZE + 1]) {
    uint64_t time = uvhttp_request_time_ns(serving->req), seed = uvhttp__hash_seed();
    uint64_t a = uvhttp__hash_seeded(&time, sizeof time, seed), b = uvhttp__hash_seeded(&a, sizeof a, seed);
    snprintf(boundary, BOUNDARY_SIZE + 1, "%016" PRIx64 "%016" PRIx64, a, b);
}

static uvhttp__body_part_t text_part(const char *text, int size) {
    return (uvhttp__body_part_t){.data = text, .size = (uint64_t)size};
}

static uvhttp__body_parts_t *make_parts(const serving_t *serving, const uvhttp__range_t *ranges, uint32_t count,
                                        const char *boundary, uint64_t *size) {
    const uvhttp__static_file_t *file = serving->file;
    uvhttp__body_parts_t *parts = parts_new(serving, 2 * (size_t)count + 1);
    char *text = uvhttp_request_alloc(serving->req, ((size_t)count + 1) * PART_HEAD_MAX);
    if (!parts || !text) return NULL;
    *size = 0;
    for (uint32_t i = 0; i < count; i++, text += PART_HEAD_MAX) {
        const uvhttp__range_t *range = &ranges[i];
        int length = snprintf(
            text, PART_HEAD_MAX,
            "%s--%s\r\nContent-Type: %s\r\nContent-Range: bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64 "\r\n\r\n",
            i > 0 ? "\r\n" : "", boundary, file->type, range->first, range->first + range->size - 1, file->size);
        parts->parts[parts->count++] = text_part(text, length);
        parts->parts[parts->count++] =
            (uvhttp__body_part_t){.data = file->content ? file->content + range->first : NULL,
                                  .offset = range->first,
                                  .size = range->size,
                                  .held = true};
        *size += (uint64_t)length + range->size;
    }
    int length = snprintf(text, PART_HEAD_MAX, "\r\n--%s--\r\n", boundary);
    parts->parts[parts->count++] = text_part(text, length);
    *size += (uint64_t)length;
    return parts;
}

static void send_ranges(const serving_t *serving, const uvhttp__range_t *ranges, uint32_t count) {
    uvhttp__static_file_t *file = serving->file;
    char boundary[BOUNDARY_SIZE + 1], type[96];
    uint64_t size;
    write_boundary(serving, boundary);
    snprintf(type, sizeof type, "multipart/byteranges; boundary=%s", boundary);
    uvhttp__body_parts_t *parts = make_parts(serving, ranges, count, boundary, &size);
    if (!parts) {
        refuse_memory(serving->res);
        return;
    }
    for (uint32_t i = 0; i < count; i++) uvhttp__ref_acquire(&file->ref);
    uvhttp__body_t body = {
        .kind = UVHTTP__BODY_PARTS, .size = size, .parts = parts, .release = uvhttp__static_file_release, .arg = file};
    if (uvhttp__response_complete(serving->res, 206, type, body) != UVHTTP_OK) refuse_memory(serving->res);
}

static void send_by_range(const serving_t *serving, uvhttp_str_t value) {
    const uvhttp_static_options_t *options = &serving->cache->site->settings.options;
    uvhttp__static_file_t *file = serving->file;
    uvhttp__range_t few[16], *ranges = few;
    uint32_t count;
    if (options->ranges_max > sizeof few / sizeof *few) {
        ranges = uvhttp_request_alloc(serving->req, options->ranges_max * sizeof *ranges);
        if (!ranges) {
            refuse_memory(serving->res);
            return;
        }
    }
    switch (uvhttp__range_parse(value, file->size, ranges, options->ranges_max, &count)) {
        case UVHTTP__RANGE_UNSATISFIABLE: send_unsatisfiable(serving); return;
        case UVHTTP__RANGE_ABSURD:
            uvhttp__counters_error(serving->cache->counters, UVHTTP_E_STATIC_RANGES_ABSURD);
            break;
        case UVHTTP__RANGE_SOME:
            if (count > 1)
                send_ranges(serving, ranges, count);
            else if (put_content_range(serving->res, ranges, file->size) == UVHTTP_OK)
                send_range(serving, 206, ranges[0].first, ranges[0].size);
            else
                refuse_memory(serving->res);
            return;
        case UVHTTP__RANGE_NONE: break;
    }
    send_range(serving, 200, 0, file->size);
}

/* --- all together --- */

static int put_fields(const serving_t *serving, size_t size) {
    return uvhttp__response_put_fields(serving->res, serving->file->fields.data, size);
}

/* A date in the future is replaced by that of the response (RFC 9110 section 8.8.2.1). The time is that of the loop
 * iteration, which no Date that it sends is before. */
static int put_modified(const serving_t *serving) {
    uint64_t since_ns = uvhttp__clock_ns() - uvhttp_request_time_ns(serving->req);
    int64_t now = (uvhttp__clock_unix_ms() - (int64_t)(since_ns / 1000000) - 1) / 1000;
    char date[UVHTTP__DATE_SIZE];
    uvhttp__date_write(date, serving->file->modified < now ? serving->file->modified : now);
    return uvhttp__response_put_header(serving->res, UVHTTP__STR("Last-Modified"), (uvhttp_str_t){date, sizeof date},
                                       true);
}

static int put_all_fields(const serving_t *serving) {
    int status = put_fields(serving, serving->file->fields.size);
    return status == UVHTTP_OK && serving->file->ahead ? put_modified(serving) : status;
}

/* Returns whether the response is made: 304, 412, or part of the file. */
static bool respond_conditionally(const serving_t *serving, const uvhttp__static_fields_t *fields) {
    const uvhttp__static_file_t *file = serving->file;
    const uvhttp__validators_t validators = {
        .etag = file->etag, .modified = file->modified, .now = uvhttp__clock_unix_ms() / 1000, .vary = file->vary};
    int status = uvhttp__static_condition(fields, &validators);
    if (status == 304 && put_fields(serving, file->shared_fields_size) == UVHTTP_OK)
        return uvhttp_response_empty(serving->res, 304) == UVHTTP_OK;
    if (status == 412)
        uvhttp__response_fail(serving->res, 412, "Precondition Failed\n");
    else if (status != 200)
        refuse_memory(serving->res);
    if (status != 200) return true;
    /* Range is defined for GET only (RFC 9110 section 14.2). */
    if (!fields->range.data || uvhttp_request_method(serving->req) != UVHTTP_GET ||
        !uvhttp__static_range_applies(fields, &validators))
        return false;
    if (put_all_fields(serving) != UVHTTP_OK)
        refuse_memory(serving->res);
    else
        send_by_range(serving, fields->range);
    return true;
}

void uvhttp__static_respond_file(uvhttp__static_cache_t *cache, const uvhttp__static_found_t *found,
                                 uvhttp_request_t *req, uvhttp_response_t *res) {
    serving_t serving = {.cache = cache, .file = found->files[UVHTTP__STATIC_PLAIN], .req = req, .res = res};
    uvhttp__static_fields_t fields;
    uvhttp__static_fields(req, &fields);
    if (serving.file->vary && fields.accept_encoding) serving.file = choose(found, req);
    if (fields.any && respond_conditionally(&serving, &fields)) return;
    if (put_all_fields(&serving) != UVHTTP_OK)
        refuse_memory(res);
    else
        send_range(&serving, 200, 0, serving.file->size);
}
