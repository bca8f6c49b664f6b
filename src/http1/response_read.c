/* Owns: reading of HTTP/1.x responses. May include: base. */
#include "http1/response_read.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/chars.h"
#include "base/str.h"

enum { STATE_HEAD, STATE_LENGTH, STATE_CHUNKED, STATE_UNTIL_CLOSE, STATE_DONE };

enum { STATUS_LINE_MIN = sizeof "HTTP/1.1 200" - 1, CHUNK_LIMIT = 64 * 1024 };

void uvhttp__http1_response_init(uvhttp__http1_response_t *response, uint32_t head_size_max,
                                 uvhttp__http1_head_cache_t *cache) {
    *response = (uvhttp__http1_response_t){
        .head_size_max = head_size_max, .interim_max = UVHTTP__HTTP1_INTERIM_DEFAULT, .cache = cache};
}

void uvhttp__http1_response_deinit(uvhttp__http1_response_t *response) {
    uvhttp__free(response->held);
    response->held = NULL;
    response->held_size = 0;
}

void uvhttp__http1_response_begin(uvhttp__http1_response_t *response, bool to_head) {
    uvhttp__http1_response_deinit(response);
    response->head_text = (uvhttp_str_t){NULL, 0};
    response->state = STATE_HEAD;
    response->interim_count = 0;
    response->to_head = to_head;
}

bool uvhttp__http1_response_has_head(const uvhttp__http1_response_t *response) {
    return response->state != STATE_HEAD;
}

/* --- the head --- */

/* Bytes that do not start like a response are reported immediately: they may have no end. */
static bool begins_well(const char *data, size_t size) {
    static const char begin[] = "HTTP/1.";
    return memcmp(data, begin, size < sizeof begin - 1 ? size : sizeof begin - 1) == 0;
}

/* "HTTP/1.1 200 OK" (RFC 9112 section 4); the reason may be missing, and its space with it. */
static int read_status_line(uvhttp_str_t line, uvhttp__http1_response_head_t *head, bool *is_http10) {
    assert(begins_well(line.data, line.size));
    if (line.size < STATUS_LINE_MIN) return UVHTTP_E_HTTP_VERSION;
    char minor = line.data[7];
    if (minor < '0' || minor > '9' || line.data[8] != ' ') return UVHTTP_E_HTTP_VERSION; /* RFC 9110 section 2.5 */
    int status = 0;
    for (size_t i = 9; i < STATUS_LINE_MIN; i++) {
        if (line.data[i] < '0' || line.data[i] > '9') return UVHTTP_E_HTTP_VERSION;
        status = status * 10 + (line.data[i] - '0');
    }
    if (status < 100) return UVHTTP_E_HTTP_VERSION;
    if (line.size > STATUS_LINE_MIN && line.data[STATUS_LINE_MIN] != ' ') return UVHTTP_E_HTTP_VERSION;
    uvhttp_str_t reason = {line.data + STATUS_LINE_MIN, line.size - STATUS_LINE_MIN};
    if (!uvhttp__valid_header_value(reason)) return UVHTTP_E_HTTP_HEADER_VALUE;
    head->status = status;
    head->close = *is_http10 = minor == '0';
    return 0;
}

typedef struct fields {
    bool has_coding, keep_alive, close;
} fields_t;

static int read_length(uvhttp_str_t value, uvhttp__http1_response_head_t *head) {
    uint64_t length;
    uvhttp_str_t rest = value, item;
    if (!uvhttp__list_next(&rest, &item)) return UVHTTP_E_HTTP_CONTENT_LENGTH;
    do { /* the same number several times is one number (RFC 9110 section 8.6) */
        if (uvhttp__str_parse_u64(item, &length) != 0 || length > INT64_MAX) return UVHTTP_E_HTTP_CONTENT_LENGTH;
        if (head->has_length && head->length != length) return UVHTTP_E_HTTP_CONTENT_LENGTH;
        head->has_length = true;
        head->length = length;
    } while (uvhttp__list_next(&rest, &item));
    return 0;
}

static int read_field(uvhttp_str_t name, uvhttp_str_t value, uvhttp__http1_response_head_t *head, fields_t *fields) {
    uvhttp_str_t rest = value, item;
    if (uvhttp__str_equal_nocase(name, UVHTTP__STR("content-length"))) return read_length(value, head);
    if (uvhttp__str_equal_nocase(name, UVHTTP__STR("transfer-encoding"))) {
        fields->has_coding = true;
        while (uvhttp__list_next(&rest, &item)) {
            if (head->chunked) return UVHTTP_E_HTTP_TRANSFER_ENCODING; /* chunked is the last, and once */
            head->chunked = uvhttp__str_equal_nocase(item, UVHTTP__STR("chunked"));
            head->coded |= !head->chunked;
        }
    } else if (uvhttp__str_equal_nocase(name, UVHTTP__STR("connection"))) {
        while (uvhttp__list_next(&rest, &item)) {
            if (uvhttp__str_equal_nocase(item, UVHTTP__STR("close"))) fields->close = true;
            if (uvhttp__str_equal_nocase(item, UVHTTP__STR("keep-alive"))) fields->keep_alive = true;
        }
    } else if (value.size == sizeof head->accept &&
               uvhttp__str_equal_nocase(name, UVHTTP__STR("sec-websocket-accept"))) {
        memcpy(head->accept, value.data, sizeof head->accept);
    }
    return 0;
}

/* A line without its CRLF off the front of the head; the head ends with one, so there is one. */
static int next_line(uvhttp_str_t *rest, uvhttp_str_t *line) {
    const char *lf = memchr(rest->data, '\n', rest->size);
    size_t size = (size_t)(lf - rest->data);
    if (size == 0 || lf[-1] != '\r') return UVHTTP_E_HTTP_BARE_LF;
    *line = (uvhttp_str_t){rest->data, size - 1};
    *rest = (uvhttp_str_t){lf + 1, rest->size - size - 1};
    return 0;
}

/* The syntax of a field; a line that continues the one before has no name. */
static int read_line(uvhttp_str_t line, uvhttp_str_t *name, uvhttp_str_t *value) {
    const char *colon = memchr(line.data, ':', line.size);
    if (!colon) return UVHTTP_E_HTTP_HEADER_NAME;
    *name = (uvhttp_str_t){line.data, (size_t)(colon - line.data)};
    *value = uvhttp__str_trim((uvhttp_str_t){colon + 1, line.size - name->size - 1});
    if (!uvhttp__valid_header_name(*name)) return UVHTTP_E_HTTP_HEADER_NAME;
    return uvhttp__valid_header_value(*value) ? 0 : UVHTTP_E_HTTP_HEADER_VALUE;
}

uvhttp_str_t uvhttp__http1_response_lines(const uvhttp__http1_response_t *response) {
    uvhttp_str_t lines = response->head_text, line;
    if (lines.size > 0) (void)next_line(&lines, &line);
    return lines;
}

bool uvhttp__http1_response_field(uvhttp_str_t *lines, uvhttp_str_t *name, uvhttp_str_t *value) {
    uvhttp_str_t line = {NULL, 0};
    if (lines->size == 0) return false;
    (void)next_line(lines, &line); /* lines were checked when the head was read */
    if (line.size == 0) return false;
    (void)read_line(line, name, value);
    return true;
}

static int read_head(uvhttp_str_t rest, uvhttp__http1_response_head_t *head) {
    uvhttp_str_t line, name, value;
    fields_t fields = {false, false, false};
    bool is_http10 = false;
    *head = (uvhttp__http1_response_head_t){.status = 0};
    int code = next_line(&rest, &line);
    if (code == 0) code = read_status_line(line, head, &is_http10);
    while (code == 0 && (code = next_line(&rest, &line)) == 0 && line.size > 0) {
        code = read_line(line, &name, &value);
        if (code == 0) code = read_field(name, value, head, &fields);
    }
    if (code != 0) return code;
    if (fields.has_coding && (head->has_length || is_http10)) return UVHTTP_E_HTTP_TRANSFER_ENCODING;
    head->close = fields.close || (is_http10 && !fields.keep_alive);
    return 0;
}

/* RFC 9112 section 6.3. Returns 0, or UVHTTP_E_PEER_INTERIM. */
static int begin_body(uvhttp__http1_response_t *response) {
    const uvhttp__http1_response_head_t *head = &response->head;
    if (head->status < 200 && head->status != 101) {
        if (response->interim_count++ == response->interim_max) return UVHTTP_E_PEER_INTERIM;
        response->state = STATE_HEAD;
    } else if (response->to_head || head->status == 101 || head->status == 204 || head->status == 304) {
        response->state = STATE_DONE;
    } else if (head->chunked) {
        uvhttp__http1_chunked_init(&response->chunked, CHUNK_LIMIT, CHUNK_LIMIT);
        response->state = STATE_CHUNKED;
    } else if (head->has_length) {
        response->left = head->length;
        response->state = head->length > 0 ? STATE_LENGTH : STATE_DONE;
    } else {
        response->head.close = true;
        response->state = STATE_UNTIL_CLOSE;
    }
    return 0;
}

static int complete_head(uvhttp__http1_response_t *response, const char *data, size_t size) {
    if (!begins_well(data, size)) return UVHTTP_E_HTTP_VERSION;
    response->head_text = (uvhttp_str_t){data, size};
    int code = read_head(response->head_text, &response->head);
    if (code != 0) return code;
    uvhttp__http1_head_cache_t *cache = response->cache;
    if (cache && size <= UVHTTP__HTTP1_HEAD_CACHED_MAX && response->head.status >= 200) {
        memcpy(cache->data, data, size);
        cache->size = (uint32_t)size;
        cache->head = response->head;
    }
    return begin_body(response);
}

/* Keeps a piece of a head; the head ends somewhere in it, or not yet. */
static int hold(uvhttp__http1_response_t *response, const char *data, size_t size, size_t *consumed) {
    size_t before = response->held_size, capacity = response->head_size_max - before;
    size_t take = size < capacity ? size : capacity;
    char *held = uvhttp__realloc(response->held, before + take);
    if (!held) return UVHTTP_E_NOMEM;
    memcpy(held + before, data, take);
    response->held = held;
    if (!begins_well(held, before + take)) return UVHTTP_E_HTTP_VERSION;
    size_t from = before > 3 ? before - 3 : 0;
    const char *end = memmem(held + from, before + take - from, "\r\n\r\n", 4);
    if (!end) {
        if (take < size || before + take == response->head_size_max) return UVHTTP_E_HTTP_HEADERS_TOO_LARGE;
        response->held_size = (uint32_t)(before + take);
        *consumed = take;
        return 0;
    }
    size_t head_size = (size_t)(end + 4 - held);
    *consumed = head_size - before;
    response->held_size = 0; /* its memory stays for head_text */
    return complete_head(response, held, head_size);
}

static int feed_head(uvhttp__http1_response_t *response, const char *data, size_t size, size_t *consumed) {
    if (response->held_size > 0) return hold(response, data, size, consumed);
    const uvhttp__http1_head_cache_t *cache = response->cache;
    if (cache && cache->size > 0 && size >= cache->size && memcmp(data, cache->data, cache->size) == 0) {
        response->head = cache->head;
        response->head_text = (uvhttp_str_t){data, cache->size};
        *consumed = cache->size;
        return begin_body(response);
    }
    const char *end = memmem(data, size < response->head_size_max ? size : response->head_size_max, "\r\n\r\n", 4);
    if (!end) return hold(response, data, size, consumed);
    *consumed = (size_t)(end - data) + 4;
    return complete_head(response, data, *consumed);
}

/* --- the body --- */

static void feed_length(uvhttp__http1_response_t *response, const char *data, size_t size, size_t *consumed,
                        uvhttp_str_t *body) {
    size_t take = response->left < size ? (size_t)response->left : size;
    response->left -= take;
    if (response->left == 0) response->state = STATE_DONE;
    *consumed += take;
    *body = (uvhttp_str_t){data, take};
}

static int feed_body(uvhttp__http1_response_t *response, const char *data, size_t size, size_t *consumed,
                     uvhttp_str_t *body) {
    size_t used;
    int code;
    switch (response->state) {
        case STATE_LENGTH: feed_length(response, data, size, consumed, body); break;
        case STATE_CHUNKED:
            code = uvhttp__http1_chunked_decode(&response->chunked, data, size, &used, body);
            *consumed += used;
            if (code == 0) response->state = STATE_DONE;
            return code;
        case STATE_UNTIL_CLOSE:
            *consumed += size;
            *body = (uvhttp_str_t){data, size};
            break;
        default: break;
    }
    return response->state == STATE_DONE ? 0 : UVHTTP_E_AGAIN;
}

int uvhttp__http1_response_feed(uvhttp__http1_response_t *response, const char *data, size_t size, size_t *consumed,
                                uvhttp_str_t *body) {
    *consumed = 0;
    *body = (uvhttp_str_t){NULL, 0};
    if (response->state == STATE_HEAD) {
        int code = feed_head(response, data, size, consumed);
        if (code != 0) return code;
        if (response->state == STATE_HEAD) return UVHTTP_E_AGAIN;
    }
    return feed_body(response, data + *consumed, size - *consumed, consumed, body);
}

int uvhttp__http1_response_end(uvhttp__http1_response_t *response) {
    if (response->state != STATE_UNTIL_CLOSE) return UVHTTP_E_ABORTED;
    response->state = STATE_DONE;
    return 0;
}
