/* Owns: the scanner and the tokenizer of a request head over bit masks. Included once by each engine_*.c, which
 * defines:
 *
 * - ENGINE_FN: attributes of every function, that is the instruction set;
 * - WIDTH: bytes of a vector, 1, 16 or 32;
 * - vec_t and load_vec(const char *);
 * - lines_of(vec_t), fields_of(vec_t), targets_of(vec_t), hosts_of(vec_t): masks of WIDTH bits;
 *
 * and, after it, a uvhttp__http1_engine_t of scan_head, tokenize_head and plain_host. All decisions are
 * made here, on masks, so the levels can only differ in the masks. May include: base. */

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define ALWAYS_INLINE inline __attribute__((always_inline))

/* ORs the bits of `more` into `*bits`, dropping the `drop` lowest and moving the others up by `up`. */
ENGINE_FN static ALWAYS_INLINE void lines_merge(line_bits_t *bits, line_bits_t more, size_t drop, size_t up) {
    bits->lf |= more.lf >> drop << up;
    bits->cr |= more.cr >> drop << up;
}

ENGINE_FN static ALWAYS_INLINE void fields_merge(field_bits_t *bits, field_bits_t more, size_t drop, size_t up) {
    bits->not_token |= more.not_token >> drop << up;
    bits->not_value |= more.not_value >> drop << up;
}

ENGINE_FN static ALWAYS_INLINE void targets_merge(target_bits_t *bits, target_bits_t more, size_t drop, size_t up) {
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

/* kind_block(data, size, pos): the masks of data[pos..pos + 64), pos < size, zero for bytes from `size` on. Nothing
 * outside data[0..size) is read: the last vector is loaded so that it ends at `size`, and the bits of bytes before its
 * due place are dropped. */
#define DEFINE_BLOCK(kind, bits_t)                                                                                     \
    ENGINE_FN static ALWAYS_INLINE bits_t kind##_block(const char *data, size_t size, size_t pos) {                    \
        bits_t bits = {0};                                                                                             \
        size_t rest = size - pos, i = 0;                                                                               \
        if (LIKELY(rest >= 64)) {                                                                                      \
            _Pragma("GCC unroll 4") for (; i < 64; i += WIDTH)                                                         \
                kind##_merge(&bits, kind##_of(load_vec(data + pos + i)), 0, i);                                        \
        } else if (LIKELY(size >= WIDTH)) {                                                                            \
            for (; rest - i > WIDTH; i += WIDTH) kind##_merge(&bits, kind##_of(load_vec(data + pos + i)), 0, i);       \
            kind##_merge(&bits, kind##_of(load_vec(data + size - WIDTH)), WIDTH - (rest - i), i);                      \
        } else {                                                                                                       \
            for (; i < rest; ++i) kind##_merge(&bits, kind##_of_byte(data[pos + i]), 0, i);                            \
        }                                                                                                              \
        return bits;                                                                                                   \
    }

DEFINE_BLOCK(lines, line_bits_t)
DEFINE_BLOCK(fields, field_bits_t)
DEFINE_BLOCK(targets, target_bits_t)

static inline size_t lowest_bit(uint64_t mask) {
    return (size_t)__builtin_ctzll(mask);
}

/* The bits below bit n, n being any number. */
static inline uint64_t bits_below(size_t n) {
    return n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1;
}

/* The bits below the lowest one of mask; all bits if there is none. */
static inline uint64_t bits_before(uint64_t mask) {
    return (mask & (0 - mask)) - 1;
}

ENGINE_FN static int scan_head(uvhttp__http1_scan_t *scan, const char *data, size_t size,
                               const uvhttp__http1_limits_t *limits, size_t *head_size) {
    if (UNLIKELY(size > UINT32_MAX)) size = UINT32_MAX;
    size_t lines = scan->lines;
    if (lines == 0 && (size <= scan->head_start || !is_class(data[scan->head_start], CLASS_TOKEN))) {
        int rc = uvhttp__http1_skip_empty_lines(scan, data, size);
        if (rc != 0) return rc;
    }
    size_t pos = scan->scanned > scan->head_start ? scan->scanned : scan->head_start;
    /* The LF that ends the part, request line or header section, must be before this. */
    size_t limit = lines == 0 ? scan->head_start + (size_t)limits->line_size_max + 2
                              : scan->headers_start + (size_t)limits->headers_size_max;
    uint64_t cr_before = 0; /* bit 0: the byte before pos is CR */
    uint64_t lf_before = 0; /* bits 0 and 1: the second and the first byte before pos are LF */
    if (pos > scan->head_start) {
        cr_before = data[pos - 1] == '\r';
        lf_before = (uint64_t)(data[pos - 1] == '\n') << 1 | (lines > 0 && data[pos - 2] == '\n');
    }
    for (; pos < size; pos += 64) {
        line_bits_t bits = lines_block(data, size, pos);
        uint64_t lf = bits.lf, after_cr = bits.cr << 1 | cr_before, after_line = bits.lf << 2 | lf_before;
        cr_before = bits.cr >> 63;
        lf_before = bits.lf >> 62;
        if (UNLIKELY(pos + 64 > limit)) lf &= limit > pos ? bits_below(limit - pos) : 0;
        if (lines == 0) {
            if (lf == 0) {
                if (UNLIKELY(pos + 64 >= limit)) break;
                continue;
            }
            size_t bit = lowest_bit(lf);
            if (UNLIKELY((after_cr >> bit & 1) == 0)) return UVHTTP_E_HTTP_BARE_LF;
            scan->headers_start = (uint32_t)(pos + bit + 1);
            lines = 1;
            limit = scan->headers_start + (size_t)limits->headers_size_max;
            lf = bits.lf & ~bits_below(bit + 1);
            if (UNLIKELY(pos + 64 > limit)) lf &= bits_below(limit - pos);
        }
        /* Any LF that follows CR and has LF two bytes before it ends an empty line. */
        uint64_t stop = lf & (~after_cr | after_line);
        lines += (size_t)__builtin_popcountll(lf & bits_before(stop));
        if (UNLIKELY(lines > (size_t)limits->header_count_max + 1)) return UVHTTP_E_HTTP_TOO_MANY_HEADERS;
        if (stop != 0) {
            size_t bit = lowest_bit(stop);
            if (UNLIKELY((after_cr >> bit & 1) == 0)) return UVHTTP_E_HTTP_BARE_LF;
            *head_size = pos + bit + 1;
            return 0;
        }
        if (UNLIKELY(pos + 64 >= limit)) break;
    }
    if (size >= limit) return lines == 0 ? UVHTTP_E_HTTP_LINE_TOO_LONG : UVHTTP_E_HTTP_HEADERS_TOO_LARGE;
    scan->lines = (uint32_t)lines;
    scan->scanned = (uint32_t)size;
    return UVHTTP_E_AGAIN;
}

/* Not inlined, to leave the registers to the fields. The target that begins at pos: cuts it at the first '?', and finds
 * out whether its path is plain. */
ENGINE_FN static __attribute__((noinline)) int tokenize_target(const char *data, size_t size, size_t pos,
                                                               uvhttp__head_t *head, size_t *target_end) {
    const size_t start = pos;
    size_t path_end = 0; /* not found yet */
    uint64_t suspects = 0, after_slash = 0;
    for (;; pos += 64) {
        if (UNLIKELY(pos >= size)) return UVHTTP_E_INVALID;
        target_bits_t bits = targets_block(data, size, pos);
        if (LIKELY(path_end == 0)) {
            uint64_t ends = bits.not_target | bits.question;
            uint64_t in_path = bits_before(ends);
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
    set_span(&head->target, start, pos - start);
    set_span(&head->path, start, path_end - start);
    size_t query = path_end < pos ? path_end + 1 : pos;
    set_span(&head->query, query, pos - query);
    head->path_plain = LIKELY(suspects == 0) || uvhttp__http1_plain_path(data + start, path_end - start);
    *target_end = pos;
    return 0;
}

/* The request line that begins at *start; then *start is the byte after it. */
ENGINE_FN static inline int tokenize_request_line(const char *data, size_t size, size_t *start, uvhttp__head_t *head) {
    size_t pos = *start;
    if (size - pos >= 4 && uvhttp__load32(data + pos) == uvhttp__load32("GET "))
        pos += 3;
    else
        while (pos < size && is_class(data[pos], CLASS_TOKEN)) ++pos;
    if (pos == *start || pos == size || data[pos] != ' ')
        return uvhttp__http1_fault(data, size, pos, UVHTTP_E_HTTP_METHOD);
    set_span(&head->method_text, *start, pos - *start);
    ++pos;
    if (size - pos >= 2 &&
        uvhttp__load16(data + pos) == uvhttp__load16("/ ")) { /* so common that it is worth a way of its own */
        set_span(&head->target, pos, 1);
        set_span(&head->path, pos, 1);
        set_span(&head->query, pos + 1, 0);
        head->path_plain = true;
        pos += 2;
    } else {
        int rc = tokenize_target(data, size, pos, head, &pos);
        if (UNLIKELY(rc != 0)) return rc;
        ++pos;
    }
    if (UNLIKELY(size - pos < 10)) return uvhttp__http1_version_fault(data, size, pos);
    if (UNLIKELY(uvhttp__load16(data + pos + 8) != uvhttp__load16("\r\n")))
        return uvhttp__http1_version_fault(data, size, pos);
    uint64_t version = uvhttp__load64(data + pos);
    if (LIKELY(version == uvhttp__load64("HTTP/1.1")))
        head->version_minor = 1;
    else if (version == uvhttp__load64("HTTP/1.0"))
        head->version_minor = 0;
    else if (uvhttp__http1_newer_minor(data + pos))
        head->version_minor = 1;
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

ENGINE_FN static ALWAYS_INLINE bool cursor_next_block(cursor_t *cursor) {
    cursor->base += 64;
    if (cursor->base >= cursor->size) return false;
    cursor->bits = fields_block(cursor->data, cursor->size, cursor->base);
    return true;
}

/* The first byte from pos on that is no token, or the size of the data. pos is not before the masks. */
ENGINE_FN static ALWAYS_INLINE size_t find_name_end(cursor_t *cursor, size_t pos) {
    do {
        size_t bit = pos > cursor->base ? pos - cursor->base : 0;
        if (UNLIKELY(bit >= 64)) continue;
        uint64_t mask = cursor->bits.not_token >> bit;
        if (LIKELY(mask != 0)) return cursor->base + bit + lowest_bit(mask);
    } while (cursor_next_block(cursor));
    return cursor->size;
}

/* The same for the first byte that no field value may hold. */
ENGINE_FN static ALWAYS_INLINE size_t find_value_end(cursor_t *cursor, size_t pos) {
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

/* The code for a line at pos that does not begin with a name and a colon; its first byte that is no token is at
 * name_end. */
static COLD int name_fault(const char *data, size_t size, size_t pos, size_t name_end) {
    if (is_blank(data[pos])) return UVHTTP_E_HTTP_OBS_FOLD;
    return uvhttp__http1_fault(data, size, name_end, UVHTTP_E_HTTP_HEADER_NAME);
}

/* The header section that begins at pos, with the empty line at its end. */
ENGINE_FN static inline int tokenize_fields(const char *data, size_t size, size_t pos,
                                            const uvhttp__http1_limits_t *limits, uvhttp__head_t *head) {
    const size_t start = pos;
    if (UNLIKELY(pos == size)) return UVHTTP_E_INVALID;
    cursor_t cursor = {.data = data, .size = size, .base = pos, .bits = fields_block(data, size, pos)};
    uvhttp__field_t *fields = head->headers;
    for (uint32_t count = 0;; ++count) {
        if (UNLIKELY(size - pos < 2)) return UVHTTP_E_INVALID;
        if (uvhttp__load16(data + pos) == uvhttp__load16("\r\n")) {
            head->header_count = count;
            break;
        }
        size_t colon = find_name_end(&cursor, pos);
        if (UNLIKELY(colon == size)) return UVHTTP_E_INVALID;
        if (UNLIKELY(colon == pos || data[colon] != ':')) return name_fault(data, size, pos, colon);
        if (UNLIKELY(count == limits->header_count_max)) return UVHTTP_E_HTTP_TOO_MANY_HEADERS;
        size_t end = find_value_end(&cursor, colon + 1);
        if (UNLIKELY(size - end < 2)) return UVHTTP_E_INVALID;
        if (UNLIKELY(uvhttp__load16(data + end) != uvhttp__load16("\r\n")))
            return uvhttp__http1_fault(data, size, end, UVHTTP_E_HTTP_HEADER_VALUE);
        size_t first = colon + 1, last = end;
        while (is_blank(data[first])) ++first; /* the CR stops it */
        while (first < last && is_blank(data[last - 1])) --last;
        set_span(&fields[count].name, pos, colon - pos);
        set_span(&fields[count].value, first, last - first);
        pos = end + 2;
    }
    pos += 2;
    if (UNLIKELY(pos - start > limits->headers_size_max)) return UVHTTP_E_HTTP_HEADERS_TOO_LARGE;
    head->size = (uint32_t)pos;
    return 0;
}

UVHTTP__HOT ENGINE_FN static int tokenize_head(const char *data, size_t size, const uvhttp__http1_limits_t *limits,
                                               uvhttp__head_t *head) {
    size_t pos = 0;
    if (UNLIKELY(size > UINT32_MAX)) size = UINT32_MAX;
    if (size == 0 || !is_class(data[0], CLASS_TOKEN)) {
        uvhttp__http1_scan_t empty = {0};
        int rc = uvhttp__http1_skip_empty_lines(&empty, data, size);
        if (rc != 0) return rc == UVHTTP_E_AGAIN ? UVHTTP_E_INVALID : rc;
        pos = empty.head_start;
    }
    const size_t start = pos;
    int rc = tokenize_request_line(data, size, &pos, head);
    if (UNLIKELY(rc != 0)) return rc;
    if (UNLIKELY(pos - start > (size_t)limits->line_size_max + 2)) return UVHTTP_E_HTTP_LINE_TOO_LONG;
    return tokenize_fields(data, size, pos, limits, head);
}

UVHTTP__HOT ENGINE_FN static bool plain_host(const char *data, size_t size, size_t pos, size_t count) {
    if (count == 0 || count > WIDTH || size < WIDTH) return false;
    size_t at = pos <= size - WIDTH ? pos : size - WIDTH; /* one vector is enough for this */
    host_bits_t bits = hosts_of(load_vec(data + at));
    uint64_t in_host = bits_below(count);
    uint64_t rest = bits.not_regname >> (pos - at) & in_host;
    if (rest == 0) return true;
    size_t colon = lowest_bit(rest);
    const char *port = data + pos + colon + 1;
    size_t digits = count - colon - 1;
    /* Up to four digits need no look at their value; five compare like a number. */
    return colon > 0 && port[-1] == ':' && (digits <= 4 || (digits == 5 && memcmp(port, "65535", 5) <= 0)) &&
           (bits.not_digit >> (pos - at) & in_host & ~bits_below(colon + 1)) == 0;
}
