/* Owns: the meaning of a request head: method, target form, and the fields that decide where the message ends and what
 * becomes of the connection (RFC 9110, RFC 9112). Ambiguous framing is refused here. May include: base. */
#include <assert.h>

#include "base/chars.h"
#include "base/hot_path.h"
#include "base/method.h"
#include "base/str.h"
#include "http1/scan.h"

/* What the fields have said so far. */
enum {
    SEEN_HOST = 1,
    SEEN_TRANSFER_ENCODING = 2,
    SEEN_CLOSE = 4,
    SEEN_KEEP_ALIVE = 8,
    SEEN_UPGRADE_OPTION = 16,
    SEEN_UPGRADE_FIELD = 32,
};

typedef struct facts {
    unsigned seen;
    uvhttp__span_t host;
} facts_t;

/* Names are tokens. ORing 0x20 into a token character makes letters small and keeps '-'. It maps no other token
 * character into one of those, so that both sides can be compared without regard to case a word at a time. '_' becomes
 * 0x7f. */
#define LOWER64 UINT64_C(0x2020202020202020)
#define LOWER32 UINT32_C(0x20202020)
#define LOWER16 UINT32_C(0x2020)

/* Whether text is the word, given in small letters, in any case. */
static bool lower_equals(const char *text, size_t size, const char *word) {
    for (size_t i = 0; i < size; ++i) {
        char c = text[i];
        if (c >= 'A' && c <= 'Z') c = (char)(c | 0x20);
        if (c != word[i]) return false;
    }
    return true;
}

#define IS_WORD(text, word) ((text).size == sizeof(word) - 1 && lower_equals((text).data, sizeof(word) - 1, word))

/* "http://authority/path?query" (RFC 9112 section 3.2.2). The tokenizer has cut it at the '?'. */
static COLD int parse_absolute_target(const char *data, uvhttp__head_t *head) {
    const char *text = data + head->path.offset;
    size_t size = head->path.size, scheme = 0;
    if (size > 7 && lower_equals(text, 7, "http://")) scheme = 7;
    if (size > 8 && lower_equals(text, 8, "https://")) scheme = 8;
    if (scheme == 0) return UVHTTP_E_HTTP_TARGET;
    const char *slash = memchr(text + scheme, '/', size - scheme);
    size_t end = slash == NULL ? size : (size_t)(slash - text);
    if (!uvhttp__valid_authority((uvhttp_str_t){text + scheme, end - scheme}, false)) return UVHTTP_E_HTTP_TARGET;
    head->form = UVHTTP__FORM_ABSOLUTE;
    head->authority = (uvhttp__span_t){head->path.offset + (uint32_t)scheme, (uint32_t)(end - scheme)};
    if (slash == NULL) { /* an empty path means "/": show the last one of "://" */
        head->path = (uvhttp__span_t){head->path.offset + (uint32_t)scheme - 1, 1};
    } else {
        head->path = (uvhttp__span_t){head->path.offset + (uint32_t)end, (uint32_t)(size - end)};
    }
    head->path_plain = uvhttp__plain_path(data + head->path.offset, head->path.size);
    return 0;
}

static COLD int parse_connect_target(const char *data, uvhttp__head_t *head) {
    uvhttp_str_t text = uvhttp__span_str(data, head->target);
    if (!uvhttp__valid_authority(text, true)) return UVHTTP_E_HTTP_TARGET;
    head->form = UVHTTP__FORM_AUTHORITY;
    head->authority = head->target;
    head->path = head->query = (uvhttp__span_t){head->target.offset, 0};
    head->path_plain = false;
    return 0;
}

/* One that is not a path. */
static COLD int parse_other_target(const char *data, uvhttp__head_t *head) {
    if (head->method == UVHTTP_CONNECT) return parse_connect_target(data, head);
    if (data[head->target.offset] != '*') return parse_absolute_target(data, head);
    if (head->target.size != 1 || head->method != UVHTTP_OPTIONS) return UVHTTP_E_HTTP_TARGET;
    head->form = UVHTTP__FORM_ASTERISK;
    return 0;
}

/* Digits only, no list, no sign, and once per message: two parsers must not be able to read two lengths. */
static int parse_content_length(uvhttp__head_t *head, uvhttp_str_t value) {
    if (head->has_content_length || value.size == 0) return UVHTTP_E_HTTP_CONTENT_LENGTH;
    uint64_t length = 0;
    for (size_t i = 0; i < value.size; ++i) {
        if (!uvhttp__char_is(value.data[i], UVHTTP__CHAR_DIGIT)) return UVHTTP_E_HTTP_CONTENT_LENGTH;
        uint64_t digit = (uint64_t)(value.data[i] - '0');
        if (length > (INT64_MAX - digit) / 10) return UVHTTP_E_HTTP_CONTENT_LENGTH;
        length = length * 10 + digit;
    }
    head->has_content_length = true;
    head->content_length = length;
    return 0;
}

/* Anything but "chunked" alone is an error: 501 for codings that could be meant and framed well, 400 for the others. */
static COLD int transfer_encoding_fault(uvhttp_str_t list) {
    uvhttp_str_t coding;
    size_t count = 0, expected = 1;
    bool chunked_last = false;
    for (size_t i = 0; i < list.size; i++) expected += list.data[i] == ',';
    while (uvhttp__list_next(&list, &coding)) {
        if (chunked_last) return UVHTTP_E_HTTP_TRANSFER_ENCODING;
        const char *semicolon = memchr(coding.data, ';', coding.size);
        uvhttp_str_t name = {coding.data, semicolon == NULL ? coding.size : (size_t)(semicolon - coding.data)};
        while (semicolon != NULL && name.size > 0 &&
               (name.data[name.size - 1] == ' ' || name.data[name.size - 1] == '\t'))
            --name.size;
        if (!uvhttp__valid_header_name(name) || IS_WORD(name, "identity")) return UVHTTP_E_HTTP_TRANSFER_ENCODING;
        if (IS_WORD(name, "chunked")) {
            if (semicolon != NULL) return UVHTTP_E_HTTP_TRANSFER_ENCODING;
            chunked_last = true;
        }
        ++count;
    }
    if (count != expected) return UVHTTP_E_HTTP_TRANSFER_ENCODING; /* an empty element */
    /* Without "chunked" at the end the length of a request would be unknown (RFC 9112 section 6.3). */
    return chunked_last || count == 1 ? UVHTTP_E_HTTP_TRANSFER_ENCODING_UNKNOWN : UVHTTP_E_HTTP_TRANSFER_ENCODING;
}

static int parse_transfer_encoding(facts_t *facts, uvhttp__head_t *head, uvhttp_str_t value) {
    if ((facts->seen & SEEN_TRANSFER_ENCODING) != 0 || head->version == UVHTTP_HTTP_1_0)
        return UVHTTP_E_HTTP_TRANSFER_ENCODING;
    facts->seen |= SEEN_TRANSFER_ENCODING;
    if (!IS_WORD(value, "chunked")) return transfer_encoding_fault(value);
    head->chunked = true;
    return 0;
}

static int parse_connection(facts_t *facts, uvhttp_str_t list) {
    /* By far the most frequent value. No byte of a value that is not a letter of the word becomes one by LOWER64: that
     * would be a control character. */
    if (list.size == 10 && (uvhttp__load64(list.data) | LOWER64) == uvhttp__load64("keep-ali") &&
        (uvhttp__load16(list.data + 8) | LOWER16) == uvhttp__load16("ve")) {
        facts->seen |= SEEN_KEEP_ALIVE;
        return 0;
    }
    uvhttp_str_t option;
    while (uvhttp__list_next(&list, &option)) {
        if (!uvhttp__valid_header_name(option)) return UVHTTP_E_HTTP_CONNECTION;
        if (IS_WORD(option, "close")) facts->seen |= SEEN_CLOSE;
        if (IS_WORD(option, "keep-alive")) facts->seen |= SEEN_KEEP_ALIVE;
        if (IS_WORD(option, "upgrade")) facts->seen |= SEEN_UPGRADE_OPTION;
    }
    return 0;
}

static ALWAYS_INLINE int parse_host(const uvhttp__http1_scanner_t *scanner, const char *data, facts_t *facts,
                                    const uvhttp__head_t *head, uvhttp__span_t host) {
    if ((facts->seen & SEEN_HOST) != 0) return UVHTTP_E_HTTP_HOST;
    facts->seen |= SEEN_HOST;
    facts->host = host;
    if (scanner->plain_host(data, head->size, host.offset, host.size)) return 0;
    if (host.size == 0) return 0; /* what a client sends for a target without an authority (RFC 9112 section 3.2) */
    return uvhttp__valid_authority(uvhttp__span_str(data, host), false) ? 0 : UVHTTP_E_HTTP_HOST;
}

static int parse_expect(uvhttp__head_t *head, uvhttp_str_t value) {
    if (!IS_WORD(value, "100-continue")) return UVHTTP_E_HTTP_EXPECTATION;
    head->expect_continue = head->version == UVHTTP_HTTP_1_1; /* RFC 9110 section 10.1.1: ignored from HTTP/1.0 */
    return 0;
}

/* Lengths of the names below, as bits: most fields are passed over by one test. */
#define KNOWN_NAME_SIZES (1U << 6 | 1U << 7 | 1U << 10 | 1U << 14 | 1U << 17)

static inline bool is_host(const char *data, const uvhttp__field_t *field) {
    return field->name.size == 4 && (uvhttp__load32(data + field->name.offset) | LOWER32) == uvhttp__load32("host");
}

static int parse_known_field(const char *data, const uvhttp__field_t *field, facts_t *facts, uvhttp__head_t *head) {
    const char *name = data + field->name.offset;
    uvhttp_str_t value = uvhttp__span_str(data, field->value);
    switch (field->name.size) {
        case 6:
            if ((uvhttp__load32(name) | LOWER32) == uvhttp__load32("expe") &&
                (uvhttp__load16(name + 4) | LOWER16) == uvhttp__load16("ct"))
                return parse_expect(head, value);
            break;
        case 7:
            if ((uvhttp__load32(name) | LOWER32) == uvhttp__load32("upgr") &&
                (uvhttp__load32(name + 3) | LOWER32) == uvhttp__load32("rade"))
                facts->seen |= value.size > 0 ? SEEN_UPGRADE_FIELD : 0U;
            break;
        case 10:
            if ((uvhttp__load64(name) | LOWER64) == uvhttp__load64("connecti") &&
                (uvhttp__load16(name + 8) | LOWER16) == uvhttp__load16("on"))
                return parse_connection(facts, value);
            break;
        case 14:
            if ((uvhttp__load64(name + 6) | LOWER64) != uvhttp__load64("t-length") &&
                (uvhttp__load64(name + 6) | LOWER64) != uvhttp__load64("t\x7flength"))
                break;
            if ((uvhttp__load64(name) | LOWER64) == uvhttp__load64("content-"))
                return parse_content_length(head, value);
            /* Behind CGI and its kin '_' is '-': such a name would smuggle a second length past this check. */
            if ((uvhttp__load64(name) | LOWER64) == uvhttp__load64("content\x7f")) return UVHTTP_E_HTTP_HEADER_NAME;
            break;
        default:
            assert(field->name.size == 17);
            if ((uvhttp__load64(name + 9) | LOWER64) != uvhttp__load64("encoding")) break;
            if ((uvhttp__load64(name) | LOWER64) != uvhttp__load64("transfer")) break;
            if (name[8] == '_') return UVHTTP_E_HTTP_HEADER_NAME;
            if (name[8] == '-') return parse_transfer_encoding(facts, head, value);
            break;
    }
    return 0;
}

/* What can only be said when all fields are known. */
static ALWAYS_INLINE int finish(const facts_t *facts, uvhttp__head_t *head) {
    unsigned seen = facts->seen;
    if ((seen & SEEN_HOST) == 0 && head->version == UVHTTP_HTTP_1_1) return UVHTTP_E_HTTP_HOST;
    if (head->chunked && head->has_content_length) return UVHTTP_E_HTTP_TRANSFER_ENCODING;
    if (head->form == UVHTTP__FORM_ORIGIN || head->form == UVHTTP__FORM_ASTERISK) head->authority = facts->host;
    const unsigned wants_upgrade = SEEN_UPGRADE_FIELD | SEEN_UPGRADE_OPTION;
    if (head->version == UVHTTP_HTTP_1_0) { /* no upgrades (RFC 9110 section 7.8) */
        head->keep_alive = (seen & (SEEN_CLOSE | SEEN_KEEP_ALIVE)) == SEEN_KEEP_ALIVE;
    } else {
        head->keep_alive = (seen & SEEN_CLOSE) == 0;
        head->upgrade = (seen & wants_upgrade) == wants_upgrade;
    }
    return 0;
}

/* The head that data begins with; UVHTTP_E_INVALID if it has no end yet. What the tokenizer writes needs no zero. */
static ALWAYS_INLINE int parse(const uvhttp__http1_scanner_t *scanner, const char *data, size_t size,
                               const uvhttp__head_limits_t *limits, uvhttp__head_t *head) {
    memset(&head->authority, 0, sizeof *head - offsetof(uvhttp__head_t, authority));
    int rc = scanner->tokenize(data, size, limits, head);
    if (rc != 0) return rc;
    const char *method = data + head->method_text.offset;
    head->method = UVHTTP_GET;
    if (UNLIKELY(uvhttp__load32(method) != uvhttp__load32("GET ")))
        head->method = (uint8_t)uvhttp__find_method(method, head->method_text.size);
    head->form = UVHTTP__FORM_ORIGIN;
    facts_t facts = {.seen = 0};
    if (UNLIKELY(data[head->target.offset] != '/' || head->method == UVHTTP_CONNECT)) {
        rc = parse_other_target(data, head);
        if (rc != 0) return rc;
        /* No tunnel is opened, and a client may have sent bytes for it already (RFC 9931 section 8). */
        if (head->form == UVHTTP__FORM_AUTHORITY) facts.seen = SEEN_CLOSE;
    }
    const uvhttp__field_t *field = head->headers, *const end = field + head->header_count;
    for (; field != end; ++field) {
        if (is_host(data, field))
            rc = parse_host(scanner, data, &facts, head, field->value);
        else if (field->name.size <= 17 && (KNOWN_NAME_SIZES >> field->name.size & 1) != 0)
            rc = parse_known_field(data, field, &facts, head);
        if (rc != 0) return rc;
    }
    return finish(&facts, head);
}

static NOINLINE int read_later(const uvhttp__http1_scanner_t *scanner, uvhttp__http1_scan_t *scan, const char *data,
                               size_t size, const uvhttp__head_limits_t *limits, uvhttp__head_t *head) {
    size_t head_size;
    bool is_first_line = scan->headers_start == 0;
    int rc = scanner->scan(scan, data, size, limits, &head_size);
    if (is_first_line && scan->headers_start != 0) { /* complete now: nothing that follows makes a faulty one valid */
        int fault = scanner->tokenize(data, scan->headers_start, limits, head);
        if (fault != UVHTTP_E_INVALID) return fault;
    }
    return rc != 0 ? rc : parse(scanner, data, head_size, limits, head);
}

UVHTTP__HOT int uvhttp__http1_read_request(uvhttp__http1_scan_t *scan, const char *data, size_t size,
                                           const uvhttp__head_limits_t *limits, uvhttp__head_t *head) {
    const uvhttp__http1_scanner_t *scanner = http1_scanner();
    /* Most heads are complete and valid: one pass. */
    if (scan->scanned == 0 && parse(scanner, data, size, limits, head) == 0) return 0;
    return read_later(scanner, scan, data, size, limits, head);
}

/* The path is shown only if it is its own decoded form or can be decoded: `path` is the origin form's. */
static COLD void set_refused_target(const char *data, size_t start, size_t end, uvhttp__head_t *head) {
    set_span(&head->target, start, end - start);
    head->size = (uint32_t)end;
    if (data[start] != '/') return;
    const char *question = memchr(data + start, '?', end - start);
    size_t path_end = question ? (size_t)(question - data) : end;
    set_span(&head->path, start, path_end - start);
    if (question) set_span(&head->query, path_end + 1, end - path_end - 1);
    head->path_plain = uvhttp__plain_path(data + start, path_end - start);
}

COLD void uvhttp__http1_read_refused(const char *data, size_t size, uint32_t line_size_max, uvhttp__head_t *head) {
    *head = (uvhttp__head_t){.headers = head->headers, .method = UVHTTP_GET, .version = UVHTTP_HTTP_1_1};
    uvhttp__http1_scan_t empty = {0};
    if (uvhttp__http1_skip_empty_lines(&empty, data, size) != 0) return;
    size_t start = empty.head_start, end = start;
    if (size - start > line_size_max) size = start + line_size_max;
    while (end < size && uvhttp__char_is(data[end], UVHTTP__CHAR_TOKEN)) ++end;
    if (end == size || data[end] != ' ') return;
    set_span(&head->method_text, start, end - start);
    head->method = (uint8_t)uvhttp__find_method(data + start, end - start);
    head->size = (uint32_t)end;
    start = ++end;
    while (end < size && data[end] > ' ' && data[end] < 0x7f && data[end] != '#') ++end;
    if (end > start && end < size && (data[end] == ' ' || data[end] == '\r' || data[end] == '\n'))
        set_refused_target(data, start, end, head);
}
