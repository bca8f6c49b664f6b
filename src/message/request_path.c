/* Owns: the decoded path of a request (RFC 3986 sections 2.1 and 5.2.4) and the parameters cut out of it. May include:
 * base.
 *
 * An escaped slash must not become a separator, so %2F stays as three bytes in the path. Because a decoded "%252F"
 * looks the same, the places of those that were kept are remembered: a parameter's %2F is decoded there and nowhere
 * else, so that nothing is ever decoded twice. */
#include "base/hot_path.h"
#include "base/str.h"
#include "message/message.h"

typedef struct path_writer {
    char *out;
    size_t size;
    uint32_t *slashes;
    size_t slash_count;
} path_writer_t;

/* *at is '%'. */
static bool is_slash_escape(const char *at, const char *end) {
    return end - at >= 3 && at[1] == '2' && (at[2] == 'F' || at[2] == 'f');
}

/* Decodes raw[*at..] up to the next '/' or the end. */
static int decode_segment(path_writer_t *writer, const char **at, const char *end) {
    const char *raw = *at;
    while (raw < end && *raw != '/') {
        if (*raw != '%') {
            writer->out[writer->size++] = *raw++;
            continue;
        }
        if (end - raw < 3) return UVHTTP_E_HTTP_TARGET;
        if (is_slash_escape(raw, end)) {
            writer->slashes[writer->slash_count++] = (uint32_t)writer->size;
            memcpy(writer->out + writer->size, raw, 3);
            writer->size += 3;
        } else {
            int high = uvhttp__hex_value(raw[1]), low = uvhttp__hex_value(raw[2]);
            if (high < 0 || low < 0 || (high | low) == 0) return UVHTTP_E_HTTP_TARGET;
            writer->out[writer->size++] = (char)(high << 4 | low);
        }
        raw += 3;
    }
    *at = raw;
    return 0;
}

/* Takes back the segment that begins with the '/' at `start` if it is a dot segment, and with ".." the one before. The
 * last segment of a path leaves its '/'. */
static int remove_dot_segment(path_writer_t *writer, size_t start, bool last) {
    const char *segment = writer->out + start + 1;
    size_t size = writer->size - start - 1;
    if (size == 0 || size > 2 || segment[0] != '.' || segment[size - 1] != '.') return 0;
    if (size == 2) {
        if (start == 0) return UVHTTP_E_HTTP_TARGET; /* above the root */
        while (writer->out[--start] != '/') continue;
    }
    writer->size = start + (last ? 1 : 0);
    while (writer->slash_count && writer->slashes[writer->slash_count - 1] >= writer->size) --writer->slash_count;
    return 0;
}

static int decode(path_writer_t *writer, uvhttp_str_t raw) {
    const char *at = raw.data, *end = raw.data + raw.size;
    while (at < end) { /* *at is '/' */
        size_t start = writer->size;
        writer->out[writer->size++] = '/';
        ++at;
        int status = decode_segment(writer, &at, end);
        if (status == 0) status = remove_dot_segment(writer, start, at == end);
        if (status != 0) return status;
    }
    return 0;
}

UVHTTP__HOT int uvhttp__request_decode_path(uvhttp_request_t *req) {
    if (__builtin_expect(req->head.path_plain, 1)) return 0;
    uvhttp_str_t raw = uvhttp__span_str(req->base, req->head.path);
    if (raw.size == 0 || (raw.size == 1 && raw.data[0] == '*')) return 0; /* authority and asterisk form */
    if (raw.data[0] != '/') return UVHTTP_E_HTTP_TARGET;
    size_t slash_count = 0;
    for (const char *at = raw.data, *end = at + raw.size; (at = memchr(at, '%', (size_t)(end - at))) != NULL; ++at)
        slash_count += is_slash_escape(at, end);

    path_writer_t writer = {.out = uvhttp__arena_alloc_bytes(req->arena, raw.size)};
    if (!writer.out) return UVHTTP_E_NOMEM;
    if (slash_count) {
        writer.slashes = uvhttp__arena_alloc(req->arena, slash_count * sizeof *writer.slashes);
        if (!writer.slashes) return UVHTTP_E_NOMEM;
    }
    int status = decode(&writer, raw);
    if (status != 0) return status;
    uvhttp__request_extras_t *extras = uvhttp__request_extras(req);
    if (!extras) return UVHTTP_E_NOMEM;
    extras->decoded = writer.out;
    extras->decoded_size = (uint32_t)writer.size;
    extras->slashes = writer.slashes;
    extras->slash_count = (uint32_t)writer.slash_count;
    return 0;
}

/* Copies one parameter to `out` with its kept %2F decoded; returns the size. *slash: the first of path->slashes to look
 * at. */
static size_t decode_param(const uvhttp__request_extras_t *path, uvhttp__span_t span, size_t *slash, char *out) {
    size_t size = 0, at = span.offset, end = at + span.size;
    while (at < end) {
        while (*slash < path->slash_count && path->slashes[*slash] < at) ++*slash;
        if (*slash < path->slash_count && path->slashes[*slash] == at) {
            out[size++] = '/';
            at += 3;
        } else {
            out[size++] = path->decoded[at++];
        }
    }
    return size;
}

int uvhttp__request_own_params(uvhttp_request_t *req) {
    uvhttp__request_extras_t *extras = uvhttp__request_find_extras(req);
    size_t count = extras ? extras->param_count : 0, size = count * sizeof(uvhttp_str_t);
    if (count == 0) return UVHTTP_OK;
    for (size_t i = 0; i < count; ++i) size += extras->param_names[i].size;
    uvhttp_str_t *names = uvhttp__arena_alloc_uncounted(req->arena, size, _Alignof(uvhttp_str_t));
    if (!names) return UVHTTP_E_NOMEM;
    char *text = (char *)(names + count);
    for (size_t i = 0; i < count; ++i) {
        names[i] = (uvhttp_str_t){text, extras->param_names[i].size};
        memcpy(text, extras->param_names[i].data, names[i].size);
        text += names[i].size;
    }
    extras->param_names = names;
    return UVHTTP_OK;
}

int uvhttp__request_set_params(uvhttp_request_t *req, const uvhttp_str_t *names, const uvhttp__span_t *params,
                               size_t count) {
    assert(count <= UVHTTP__PARAM_MAX);
    uvhttp__request_extras_t *extras = count ? uvhttp__request_extras(req) : uvhttp__request_find_extras(req);
    if (extras) extras->param_count = 0;
    if (count == 0) return 0;
    if (!extras) return UVHTTP_E_NOMEM;
    extras->params = uvhttp__arena_alloc_uncounted(req->arena, count * sizeof *params, _Alignof(uvhttp__span_t));
    if (!extras->params) return UVHTTP_E_NOMEM;
    memcpy(extras->params, params, count * sizeof *params);
    extras->param_names = names;
    extras->param_count = (uint32_t)count;
    extras->param_text = NULL;
    if (LIKELY(extras->slash_count == 0)) return 0;
    /* Parameters do not overlap, so that decoded ones fit into the size of the path. */
    char *text = uvhttp__arena_alloc_bytes(req->arena, extras->decoded_size);
    if (!text) {
        extras->param_count = 0;
        return UVHTTP_E_NOMEM;
    }
    size_t used = 0, slash = 0;
    for (size_t i = 0; i < count; ++i) {
        size_t size = decode_param(extras, params[i], &slash, text + used);
        extras->params[i] = (uvhttp__span_t){(uint32_t)used, (uint32_t)size};
        used += size;
    }
    extras->param_text = text;
    return 0;
}
