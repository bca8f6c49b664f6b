/* Owns: the scanner and the tokenizer of a request head over bit masks. Included once by each engine_*.c, which defines
 * first ENGINE_FN   attributes of every function, the instruction set WIDTH       bytes of a vector: 1, 16 or 32 vec_t,
 * load_vec(const char *), lines_of(vec_t), fields_of(vec_t), targets_of(vec_t)   masks of WIDTH bits and after it a
 * uvhttp__http1_engine_t of scan_head, tokenize_head and valid_value. All decisions are made here, on masks, so the
 * levels can only differ in the masks. May include: base. */

#include <assert.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* ORs the bits of `more` into `*bits`, dropping the `drop` lowest and moving the others up by `up`. */
ENGINE_FN static inline void lines_merge(line_bits_t *bits, line_bits_t more, size_t drop, size_t up) {
    bits->lf |= more.lf >> drop << up;
    bits->cr |= more.cr >> drop << up;
}

ENGINE_FN static inline void fields_merge(field_bits_t *bits, field_bits_t more, size_t drop, size_t up) {
    bits->not_token |= more.not_token >> drop << up;
    bits->not_value |= more.not_value >> drop << up;
}

ENGINE_FN static inline void targets_merge(target_bits_t *bits, target_bits_t more, size_t drop, size_t up) {
    bits->not_target |= more.not_target >> drop << up;
    bits->question |= more.question >> drop << up;
    bits->percent |= more.percent >> drop << up;
    bits->slash |= more.slash >> drop << up;
    bits->dot |= more.dot >> drop << up;
}

static inline line_bits_t lines_of_byte(char c) {
    return (line_bits_t){.lf = c == '\n', .cr = c == '\r'};
}

static inline field_bits_t fields_of_byte(char c) {
    return (field_bits_t){.not_token = !is_class(c, CLASS_TOKEN), .not_value = !is_class(c, CLASS_VALUE)};
}

static inline target_bits_t targets_of_byte(char c) {
    return (target_bits_t){.not_target = !is_class(c, CLASS_TARGET),
                           .question = c == '?',
                           .percent = c == '%',
                           .slash = c == '/',
                           .dot = c == '.'};
}

/* kind_block(data, size, pos): the masks of data[pos..pos + 64), zero for bytes from `size` on. Nothing outside
 * data[0..size) is read: the last vector is loaded so that it ends at `size`, and the bits of bytes before its due
 * place are dropped. */
#define DEFINE_BLOCK(kind, bits_t)                                                                                     \
    ENGINE_FN static inline bits_t kind##_block(const char *data, size_t size, size_t pos) {                           \
        bits_t bits = {0};                                                                                             \
        size_t rest = size - pos, i = 0;                                                                               \
        if (LIKELY(rest >= 64)) {                                                                                      \
            for (; i < 64; i += WIDTH) kind##_merge(&bits, kind##_of(load_vec(data + pos + i)), 0, i);                 \
            return bits;                                                                                               \
        }                                                                                                              \
        for (; rest - i >= WIDTH; i += WIDTH) kind##_merge(&bits, kind##_of(load_vec(data + pos + i)), 0, i);          \
        if (i == rest) return bits;                                                                                    \
        if (LIKELY(size >= WIDTH))                                                                                     \
            kind##_merge(&bits, kind##_of(load_vec(data + size - WIDTH)), WIDTH - (rest - i), i);                      \
        else                                                                                                           \
            for (; i < rest; ++i) kind##_merge(&bits, kind##_of_byte(data[pos + i]), 0, i);                            \
        return bits;                                                                                                   \
    }

DEFINE_BLOCK(lines, line_bits_t)
DEFINE_BLOCK(fields, field_bits_t)
DEFINE_BLOCK(targets, target_bits_t)

static inline size_t lowest_bit(uint64_t mask) {
    return (size_t)__builtin_ctzll(mask);
}

/* Finds the LF that ends the request line. */
ENGINE_FN static inline int scan_request_line(uvhttp__http1_scan_t *scan, const char *data, size_t size,
                                              size_t line_size_max) {
    size_t limit = scan->head_start + line_size_max + 2; /* its LF must be before this */
    size_t end = size < limit ? size : limit;
    size_t pos = scan->scanned > scan->head_start ? scan->scanned : scan->head_start;
    for (; pos < end; pos += 64) {
        uint64_t lf = lines_block(data, end, pos).lf;
        if (lf == 0) continue;
        pos += lowest_bit(lf);
        if (data[pos - 1] != '\r') return UVHTTP_E_HTTP_BARE_LF;
        scan->headers_start = scan->scanned = (uint32_t)pos + 1;
        scan->lines = 1;
        return 0;
    }
    if (size >= limit) return UVHTTP_E_HTTP_LINE_TOO_LONG;
    scan->scanned = (uint32_t)size;
    return UVHTTP_E_AGAIN;
}

/* Finds the empty line that ends the header section. */
ENGINE_FN static inline int scan_fields(uvhttp__http1_scan_t *scan, const char *data, size_t size,
                                        size_t headers_size_max, size_t header_count_max, size_t *head_size) {
    size_t limit = scan->headers_start + headers_size_max; /* its last LF must be before this */
    size_t end = size < limit ? size : limit;
    size_t lines = scan->lines;
    for (size_t pos = scan->scanned; pos < end; pos += 64) {
        line_bits_t bits = lines_block(data, end, pos);
        uint64_t after_cr = bits.cr << 1 | (data[pos - 1] == '\r');
        uint64_t after_line = bits.lf << 2 | (uint64_t)(data[pos - 1] == '\n') << 1 | (data[pos - 2] == '\n');
        /* Any LF that follows CR and has LF two bytes before it ends an empty line. */
        uint64_t stop = bits.lf & (~after_cr | after_line);
        uint64_t before_stop = (stop & (0 - stop)) - 1; /* all bits if there is no stop */
        lines += (size_t)__builtin_popcountll(bits.lf & before_stop);
        if (UNLIKELY(lines > header_count_max + 1)) return UVHTTP_E_HTTP_TOO_MANY_HEADERS;
        if (stop == 0) continue;
        size_t bit = lowest_bit(stop);
        if ((after_cr >> bit & 1) == 0) return UVHTTP_E_HTTP_BARE_LF;
        *head_size = pos + bit + 1;
        return 0;
    }
    if (size >= limit) return UVHTTP_E_HTTP_HEADERS_TOO_LARGE;
    scan->lines = (uint32_t)lines;
    scan->scanned = (uint32_t)size;
    return UVHTTP_E_AGAIN;
}

ENGINE_FN static int scan_head(uvhttp__http1_scan_t *scan, const char *data, size_t size,
                               const uvhttp__http1_limits_t *limits, size_t *head_size) {
    const uint32_t cap = 1U << 30; /* keeps every offset within 32 bits */
    if (size > UINT32_MAX) size = UINT32_MAX;
    if (scan->lines == 0) {
        int rc = uvhttp__http1_skip_empty_lines(scan, data, size);
        if (rc != 0) return rc;
        rc = scan_request_line(scan, data, size, limits->line_size_max < cap ? limits->line_size_max : cap);
        if (rc != 0) return rc;
    }
    return scan_fields(scan, data, size, limits->headers_size_max < cap ? limits->headers_size_max : cap,
                       limits->header_count_max, head_size);
}

/* The target that begins at pos: cuts it at the first '?', and finds out whether its path is plain. */
ENGINE_FN static inline int tokenize_target(const char *data, size_t size, size_t pos, uvhttp__http1_head_t *head,
                                            size_t *target_end) {
    const size_t start = pos;
    size_t path_end = 0; /* not found yet */
    uint64_t suspects = 0, after_slash = 0;
    for (;; pos += 64) {
        if (UNLIKELY(pos >= size)) return UVHTTP_E_INVALID;
        target_bits_t bits = targets_block(data, size, pos);
        if (LIKELY(path_end == 0)) {
            uint64_t ends = bits.not_target | bits.question;
            uint64_t in_path = (ends & (0 - ends)) - 1; /* all bits if it does not end here */
            suspects |= in_path & (bits.percent | ((bits.slash | bits.dot) & (bits.slash << 1 | after_slash)));
            after_slash = bits.slash >> 63;
            if (ends != 0) path_end = pos + lowest_bit(ends);
        }
        if (bits.not_target != 0) {
            pos += lowest_bit(bits.not_target);
            break;
        }
    }
    if (pos == start || data[pos] != ' ')
        return uvhttp__http1_fault(data, size, pos,
                                   pos > start && data[pos] == '\r' ? UVHTTP_E_HTTP_VERSION : UVHTTP_E_HTTP_TARGET);
    head->target = (uvhttp__span_t){(uint32_t)start, (uint32_t)(pos - start)};
    head->path = (uvhttp__span_t){(uint32_t)start, (uint32_t)(path_end - start)};
    head->query = (uvhttp__span_t){(uint32_t)pos, 0};
    if (path_end < pos) head->query = (uvhttp__span_t){(uint32_t)path_end + 1, (uint32_t)(pos - path_end - 1)};
    head->path_plain = LIKELY(suspects == 0) || uvhttp__http1_plain_path(data + start, path_end - start);
    *target_end = pos;
    return 0;
}

/* The request line that begins at *start; then *start is the byte after it. */
ENGINE_FN static inline int tokenize_request_line(const char *data, size_t size, size_t *start,
                                                  uvhttp__http1_head_t *head) {
    size_t pos = *start;
    while (pos < size && is_class(data[pos], CLASS_TOKEN)) ++pos;
    if (pos == *start || pos == size || data[pos] != ' ')
        return uvhttp__http1_fault(data, size, pos, UVHTTP_E_HTTP_METHOD);
    head->method_text = (uvhttp__span_t){(uint32_t)*start, (uint32_t)(pos - *start)};
    int rc = tokenize_target(data, size, pos + 1, head, &pos);
    if (UNLIKELY(rc != 0)) return rc;
    ++pos;
    if (UNLIKELY(size - pos < 10)) return uvhttp__http1_version_fault(data, size, pos);
    if (UNLIKELY(load16(data + pos + 8) != load16("\r\n"))) return uvhttp__http1_version_fault(data, size, pos);
    uint64_t version = load64(data + pos);
    if (LIKELY(version == load64("HTTP/1.1")))
        head->version_minor = 1;
    else if (version == load64("HTTP/1.0"))
        head->version_minor = 0;
    else
        return uvhttp__http1_version_fault(data, size, pos);
    *start = pos + 10;
    return 0;
}

/* A place in the header section that only moves forward, with the masks of the 64 bytes around it. */
typedef struct cursor {
    const char *data;
    size_t size;
    size_t base; /* masks are of data[base..base + 64) */
    field_bits_t bits;
} cursor_t;

ENGINE_FN static inline bool cursor_next_block(cursor_t *cursor) {
    cursor->base += 64;
    if (cursor->base >= cursor->size) return false;
    cursor->bits = fields_block(cursor->data, cursor->size, cursor->base);
    return true;
}

/* The first byte from pos on that is no token, or the size of the data. pos is not before the masks. */
ENGINE_FN static inline size_t find_name_end(cursor_t *cursor, size_t pos) {
    do {
        size_t bit = pos > cursor->base ? pos - cursor->base : 0;
        if (UNLIKELY(bit >= 64)) continue;
        uint64_t mask = cursor->bits.not_token >> bit;
        if (LIKELY(mask != 0)) return cursor->base + bit + lowest_bit(mask);
    } while (cursor_next_block(cursor));
    return cursor->size;
}

/* The same for the first byte that no field value may hold. */
ENGINE_FN static inline size_t find_value_end(cursor_t *cursor, size_t pos) {
    do {
        size_t bit = pos > cursor->base ? pos - cursor->base : 0;
        if (UNLIKELY(bit >= 64)) continue;
        uint64_t mask = cursor->bits.not_value >> bit;
        if (LIKELY(mask != 0)) return cursor->base + bit + lowest_bit(mask);
    } while (cursor_next_block(cursor));
    return cursor->size;
}

static inline bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

/* The header section that begins at pos and must end with the data. */
ENGINE_FN static inline int tokenize_fields(const char *data, size_t size, size_t pos, uint32_t header_count_max,
                                            uvhttp__http1_head_t *head) {
    if (UNLIKELY(size - pos < 2)) return UVHTTP_E_INVALID;
    cursor_t cursor = {.data = data, .size = size, .base = pos, .bits = fields_block(data, size, pos)};
    uvhttp__field_t *fields = head->headers;
    uint32_t count = 0;
    for (;; ++count) {
        size_t colon = find_name_end(&cursor, pos);
        if (UNLIKELY(colon == size)) return UVHTTP_E_INVALID;
        if (colon == pos || data[colon] != ':') {
            if (data[pos] == '\r' && size - pos == 2 && data[pos + 1] == '\n') break;
            if (is_blank(data[pos])) return UVHTTP_E_HTTP_OBS_FOLD;
            /* Data after the empty line is a wrong size, not a wrong name. */
            if (data[pos] == '\r' && size - pos > 2 && data[pos + 1] == '\n') return UVHTTP_E_INVALID;
            return uvhttp__http1_fault(data, size, colon, UVHTTP_E_HTTP_HEADER_NAME);
        }
        if (UNLIKELY(count == header_count_max)) return UVHTTP_E_HTTP_TOO_MANY_HEADERS;
        size_t end = find_value_end(&cursor, colon + 1);
        if (UNLIKELY(size - end < 2)) return UVHTTP_E_INVALID;
        if (UNLIKELY(load16(data + end) != load16("\r\n")))
            return uvhttp__http1_fault(data, size, end, UVHTTP_E_HTTP_HEADER_VALUE);
        size_t first = colon + 1, last = end;
        while (first < last && is_blank(data[first])) ++first;
        while (first < last && is_blank(data[last - 1])) --last;
        fields[count].name = (uvhttp__span_t){(uint32_t)pos, (uint32_t)(colon - pos)};
        fields[count].value = (uvhttp__span_t){(uint32_t)first, (uint32_t)(last - first)};
        pos = end + 2;
        if (UNLIKELY(size - pos < 2)) return UVHTTP_E_INVALID;
    }
    head->header_count = count;
    return 0;
}

ENGINE_FN static int tokenize_head(const char *data, size_t size, uint32_t header_count_max,
                                   uvhttp__http1_head_t *head) {
    assert(size <= UINT32_MAX);
    uvhttp__http1_scan_t empty = {0};
    int rc = uvhttp__http1_skip_empty_lines(&empty, data, size);
    if (UNLIKELY(rc != 0)) return rc == UVHTTP_E_AGAIN ? UVHTTP_E_INVALID : rc;
    size_t pos = empty.head_start;
    rc = tokenize_request_line(data, size, &pos, head);
    if (UNLIKELY(rc != 0)) return rc;
    return tokenize_fields(data, size, pos, header_count_max, head);
}

ENGINE_FN static bool valid_value(const char *data, size_t size) {
    for (size_t pos = 0; pos < size; pos += 64) {
        if (fields_block(data, size, pos).not_value != 0) return false;
    }
    return true;
}
