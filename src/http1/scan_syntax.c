/* Owns: the parts of scanner and tokenizer that are the same on every level of vector
 * instructions. May include: base. */
#include "http1/scan.h"

int uvhttp__http1_fault(const char *data, size_t size, size_t pos, int otherwise) {
    if (pos >= size) return UVHTTP_E_INVALID;
    if (data[pos] == '\n') return UVHTTP_E_HTTP_BARE_LF;
    if (data[pos] != '\r') return otherwise;
    if (pos + 1 >= size) return UVHTTP_E_INVALID;
    return data[pos + 1] == '\n' ? otherwise : UVHTTP_E_HTTP_BARE_CR;
}

int uvhttp__http1_version_fault(const char *data, size_t size, size_t pos) {
    static const char pattern[] = "HTTP/#.#\r\n"; /* '#' stands for a digit */
    for (size_t i = 0; i < sizeof pattern - 1; ++i, ++pos) {
        if (pos >= size) return UVHTTP_E_INVALID;
        bool fits = pattern[i] == '#' ? uvhttp__char_is(data[pos], UVHTTP__CHAR_DIGIT) : data[pos] == pattern[i];
        if (!fits && pattern[i] == '\n') return UVHTTP_E_HTTP_BARE_CR;
        if (!fits) return uvhttp__http1_fault(data, size, pos, UVHTTP_E_HTTP_VERSION);
    }
    return UVHTTP_E_HTTP_VERSION_UNSUPPORTED;
}

int uvhttp__http1_skip_empty_lines(uvhttp__http1_scan_t *scan, const char *data, size_t size) {
    for (;;) {
        size_t at = scan->head_start;
        if (at >= size) return UVHTTP_E_AGAIN;
        if (uvhttp__char_is(data[at], UVHTTP__CHAR_TOKEN)) return 0;
        if (data[at] == '\n') return UVHTTP_E_HTTP_BARE_LF;
        if (data[at] != '\r' || at >= 2 * UVHTTP__HTTP1_EMPTY_LINES_MAX) return UVHTTP_E_HTTP_METHOD;
        if (at + 1 >= size) return UVHTTP_E_AGAIN;
        if (data[at + 1] != '\n') return UVHTTP_E_HTTP_BARE_CR;
        scan->head_start += 2;
    }
}
