/* Owns: the scanner and the tokenizer of a request head over bit masks. Included once by each engine_*.c, which
 * defines:
 *
 * - ENGINE_FN: attributes of every function, that is the instruction set;
 * - WIDTH: bytes of a vector, 1, 16 or 32;
 * - vec_t and load_vec(const char *);
 * - lines_of(vec_t), targets_of(vec_t), and the uint64_t not_token_of(vec_t), not_value_of(vec_t),
 * not_regname_of(vec_t): masks of WIDTH bits;
 *
 * and, after it, a uvhttp__http1_scanner_t of scan_head, tokenize_head and plain_host. All decisions are
 * made here, on masks, so the levels can only differ in the masks. May include: base. */

/* ORs the bits of `more` into `*bits`, dropping the `drop` lowest and moving the others up by `up`. */
SCANNER_FN static ALWAYS_INLINE void lines_merge(line_bits_t *bits, line_bits_t more, size_t drop, size_t up) {
    bits->lf |= more.lf >> drop << up;
    bits->cr |= more.cr >> drop << up;
}

SCANNER_FN static ALWAYS_INLINE void targets_merge(target_bits_t *bits, target_bits_t more, size_t drop, size_t up) {
    bits->not_target |= more.not_target >> drop << up;
    bits->question |= more.question >> drop << up;
    bits->percent |= more.percent >> drop << up;
    bits->slash |= more.slash >> drop << up;
    bits->dot |= more.dot >> drop << up;
}

static inline line_bits_t lines_of_byte(char c) {
    return (line_bits_t){.lf = c == '\n', .cr = c == '\r'};
}

static inline target_bits_t targets_of_byte(char c) {
    return (target_bits_t){.not_target = !uvhttp__char_is(c, UVHTTP__CHAR_TARGET),
                           .question = c == '?',
                           .percent = c == '%',
                           .slash = c == '/',
                           .dot = c == '.'};
}

/* kind_block(data, size, pos): the masks of data[pos..pos + 64), pos < size, zero for bytes from `size` on. Nothing
 * outside data[0..size) is read: the last vector is loaded so that it ends at `size`, and the bits of bytes before its
 * due place are dropped. */
#define DEFINE_BLOCK(kind, bits_t)                                                                                     \
    SCANNER_FN static ALWAYS_INLINE bits_t kind##_block(const char *data, size_t size, size_t pos) {                   \
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

SCANNER_FN static int scan_head(uvhttp__http1_scan_t *scan, const char *data, size_t size,
                                const uvhttp__head_limits_t *limits, size_t *head_size) {
    if (UNLIKELY(size > UINT32_MAX)) size = UINT32_MAX;
    size_t lines = scan->lines;
    if (lines == 0 && (size <= scan->head_start || !uvhttp__char_is(data[scan->head_start], UVHTTP__CHAR_TOKEN))) {
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
            uint64_t bare_cr = after_cr & bits_before(lf) & bits_below((size < limit ? size : limit) - pos);
            if (UNLIKELY(bare_cr != 0)) return UVHTTP_E_HTTP_BARE_CR;
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
SCANNER_FN static NOINLINE int tokenize_target(const char *data, size_t size, size_t pos, uvhttp__head_t *head,
                                               size_t *target_end) {
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
    head->path_plain = LIKELY(suspects == 0) || uvhttp__plain_path(data + start, path_end - start);
    *target_end = pos;
    return 0;
}

/* The end of a method at `start` that is not GET, or the size of the data. */
SCANNER_FN static NOINLINE size_t find_method_end(const char *data, size_t size, size_t start) {
    size_t pos = start;
    while (pos < size && uvhttp__char_is(data[pos], UVHTTP__CHAR_TOKEN)) ++pos;
    return pos;
}

/* The request line that begins at *start; then *start is the byte after it. */
SCANNER_FN static ALWAYS_INLINE int tokenize_request_line(const char *data, size_t size, size_t *start,
                                                          uvhttp__head_t *head) {
    size_t pos = *start + 3;
    if (UNLIKELY(size - *start < 4 || uvhttp__load32(data + *start) != uvhttp__load32("GET "))) {
        pos = find_method_end(data, size, *start);
        if (pos == *start || pos == size || data[pos] != ' ')
            return uvhttp__http1_fault(data, size, pos, UVHTTP_E_HTTP_METHOD);
    }
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
        size_t target_end;
        int rc = tokenize_target(data, size, pos, head, &target_end);
        if (UNLIKELY(rc != 0)) return rc;
        pos = target_end + 1;
    }
    if (UNLIKELY(size - pos < 10)) return uvhttp__http1_version_fault(data, size, pos);
    if (UNLIKELY(uvhttp__load16(data + pos + 8) != uvhttp__load16("\r\n")))
        return uvhttp__http1_version_fault(data, size, pos);
    uint64_t version = uvhttp__load64(data + pos);
    head->version = UVHTTP_HTTP_1_1;
    if (UNLIKELY(version != uvhttp__load64("HTTP/1.1"))) {
        if (version == uvhttp__load64("HTTP/1.0"))
            head->version = UVHTTP_HTTP_1_0;
        else if (!uvhttp__http1_newer_minor(data + pos))
            return uvhttp__http1_version_fault(data, size, pos);
    }
    *start = pos + 10;
    return 0;
}

/* Masks of the bytes from pos on; the last vector is loaded so that it ends with the data, at last + WIDTH. */
#define MASK_AT(mask_of_kind, data, last, pos)                                                                         \
    (LIKELY((pos) <= (last)) ? mask_of_kind(load_vec((data) + (pos)))                                                  \
                             : mask_of_kind(load_vec((data) + (last))) >> ((pos) - (last)))

SCANNER_FN static NOINLINE size_t find_long_name_end(const char *data, size_t last, size_t pos) {
    for (; pos < last + WIDTH; pos += WIDTH) {
        uint64_t mask = MASK_AT(not_token_of, data, last, pos);
        if (mask != 0) return pos + lowest_bit(mask);
    }
    return last + WIDTH;
}

/* The first byte from pos on that is no token, or the size of the data. Nearly all names end in the first vector. */
SCANNER_FN static ALWAYS_INLINE size_t find_name_end(const char *data, size_t last, size_t pos) {
    uint64_t mask = MASK_AT(not_token_of, data, last, pos);
    return LIKELY(mask != 0) ? pos + lowest_bit(mask) : find_long_name_end(data, last, pos + WIDTH);
}

/* The same for the first byte that no field value may hold. */
SCANNER_FN static ALWAYS_INLINE size_t find_value_end(const char *data, size_t last, size_t pos) {
    for (;; pos += WIDTH) {
        uint64_t mask = MASK_AT(not_value_of, data, last, pos);
        if (LIKELY(mask != 0)) return pos + lowest_bit(mask);
        if (UNLIKELY(pos >= last)) return last + WIDTH;
    }
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

/* The header section that begins at pos, with the empty line at its end. size >= WIDTH. */
SCANNER_FN static ALWAYS_INLINE int tokenize_fields(const char *data, size_t size, size_t pos,
                                                    const uvhttp__head_limits_t *limits, uvhttp__head_t *head) {
    const size_t start = pos;
    if (UNLIKELY(pos == size)) return UVHTTP_E_INVALID;
    const size_t last = size - WIDTH;
    uvhttp__field_t *field = head->headers, *const field_end = field + limits->header_count_max;
    for (;; ++field) {
        if (UNLIKELY(size - pos < 2)) return UVHTTP_E_INVALID;
        if (uvhttp__load16(data + pos) == uvhttp__load16("\r\n")) break;
        size_t colon = find_name_end(data, last, pos);
        if (UNLIKELY(colon == size)) return UVHTTP_E_INVALID;
        if (UNLIKELY(colon == pos || data[colon] != ':')) return name_fault(data, size, pos, colon);
        if (UNLIKELY(field == field_end)) return UVHTTP_E_HTTP_TOO_MANY_HEADERS;
        size_t end = find_value_end(data, last, colon + 1);
        if (UNLIKELY(size - end < 2)) return UVHTTP_E_INVALID;
        if (UNLIKELY(uvhttp__load16(data + end) != uvhttp__load16("\r\n")))
            return uvhttp__http1_fault(data, size, end, UVHTTP_E_HTTP_HEADER_VALUE);
        /* One space before the value and none behind it is what nearly all send. */
        size_t first = colon + 1, after = end;
        if (LIKELY(data[first] == ' ')) ++first;
        if (UNLIKELY((unsigned char)data[first] <= ' '))
            while (is_blank(data[first])) ++first; /* the CR stops it */
        if (UNLIKELY((unsigned char)data[after - 1] <= ' '))
            while (first < after && is_blank(data[after - 1])) --after;
        set_span(&field->name, pos, colon - pos);
        set_span(&field->value, first, after - first);
        pos = end + 2;
    }
    head->header_count = (uint32_t)(field - head->headers);
    pos += 2;
    if (UNLIKELY(pos - start > limits->headers_size_max)) return UVHTTP_E_HTTP_HEADERS_TOO_LARGE;
    head->size = (uint32_t)pos;
    return 0;
}

UVHTTP__HOT SCANNER_FN static int tokenize_head(const char *data, size_t size, const uvhttp__head_limits_t *limits,
                                                uvhttp__head_t *head) {
    size_t pos = 0;
    if (UNLIKELY(size > UINT32_MAX)) size = UINT32_MAX;
    if (WIDTH > 1 && UNLIKELY(size < WIDTH)) return uvhttp__http1_scanner_scalar.tokenize(data, size, limits, head);
    if (UNLIKELY(size == 0 || !uvhttp__char_is(data[0], UVHTTP__CHAR_TOKEN))) {
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

/* Whether the four bytes are digits. */
static inline bool are_digits(uint32_t text) {
    uint32_t values = text ^ UINT32_C(0x30303030);
    return ((values | (values + UINT32_C(0x76767676))) & UINT32_C(0x80808080)) == 0;
}

UVHTTP__HOT SCANNER_FN static bool plain_host(const char *data, size_t size, size_t pos, size_t count) {
    if (count - 1 >= WIDTH || size < WIDTH) return false;
    size_t last = size - WIDTH, at = pos < last ? pos : last; /* one vector is enough for this */
    uint64_t rest = not_regname_of(load_vec(data + at)) >> (pos - at) & bits_below(count);
    if (rest == 0) return true;
    size_t colon = lowest_bit(rest), digits = count - colon - 1;
    if (colon == 0 || digits > 4 || data[pos + colon] != ':') return false;
    /* Up to four digits need no look at their value. Those that are missing count as 0. */
    uint64_t port = (uint64_t)uvhttp__load32(data + pos + count - 4) >> (32 - 8 * digits);
    return are_digits((uint32_t)(port | UINT64_C(0x30303030) << 8 * digits));
}
