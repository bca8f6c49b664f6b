/* Owns: the public functions for texts: comparing, numbers, copies, media types (include/uvhttp/str.h). */
#include <uvhttp/str.h>

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/format.h"
#include "base/str.h"

uvhttp_str_t uvhttp_str(const char *text) {
    return uvhttp__str_from(text);
}

bool uvhttp_str_equal(uvhttp_str_t text, const char *other) {
    return uvhttp__str_equal(text, uvhttp__str_from(other));
}

bool uvhttp_str_equal_n(uvhttp_str_t text, const char *other, size_t size) {
    return uvhttp__str_equal(text, (uvhttp_str_t){other, other ? size : 0});
}

bool uvhttp_str_equal_ci(uvhttp_str_t text, const char *other) {
    return uvhttp__str_equal_nocase(text, uvhttp__str_from(other));
}

bool uvhttp_str_starts_with(uvhttp_str_t text, const char *prefix) {
    return uvhttp__str_starts_with(text, uvhttp__str_from(prefix));
}

int uvhttp_str_to_int64(uvhttp_str_t text, int64_t *value) {
    bool negative = text.size > 0 && text.data[0] == '-';
    uint64_t magnitude;
    if (!value) return UVHTTP_E_INVALID;
    if (negative) text = (uvhttp_str_t){text.data + 1, text.size - 1};
    int status = uvhttp__str_parse_u64(text, &magnitude);
    if (status != UVHTTP_OK) return status;
    if (magnitude > (uint64_t)INT64_MAX + negative) return UVHTTP_E_LIMIT;
    *value = negative ? -(int64_t)(magnitude - 1) - 1 : (int64_t)magnitude;
    if (magnitude == 0) *value = 0;
    return UVHTTP_OK;
}

static size_t skip_digits(uvhttp_str_t text, size_t at) {
    while (at < text.size && text.data[at] >= '0' && text.data[at] <= '9') at++;
    return at;
}

/* The grammar of RFC 8259 section 6. */
static bool is_number(uvhttp_str_t text) {
    size_t at = text.size > 0 && text.data[0] == '-', end = skip_digits(text, at);
    if (end == at || (text.data[at] == '0' && end > at + 1)) return false;
    if (end < text.size && text.data[end] == '.') {
        at = end + 1;
        end = skip_digits(text, at);
        if (end == at) return false;
    }
    if (end < text.size && (text.data[end] | 0x20) == 'e') {
        at = end + 1;
        if (at < text.size && (text.data[at] == '+' || text.data[at] == '-')) at++;
        end = skip_digits(text, at);
        if (end == at) return false;
    }
    return end == text.size;
}

int uvhttp_str_to_double(uvhttp_str_t text, double *value) {
    char copy[UVHTTP_STR_DOUBLE_SIZE_MAX + 1];
    if (!value || !is_number(text)) return UVHTTP_E_INVALID;
    if (text.size > UVHTTP_STR_DOUBLE_SIZE_MAX) return UVHTTP_E_LIMIT;
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    /* strtod(3) reads the decimal point of the thread's locale. */
    uvhttp__c_locale_t locale;
    if (!uvhttp__c_locale_enter(&locale)) return UVHTTP_E_NOMEM;
    double number = strtod(copy, NULL);
    uvhttp__c_locale_leave(&locale);
    if (!isfinite(number)) return UVHTTP_E_LIMIT;
    *value = number;
    return UVHTTP_OK;
}

char *uvhttp_str_dup(uvhttp_str_t text) {
    char *copy = uvhttp__malloc(text.size + 1);
    if (!copy) return NULL;
    if (text.size) memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    return copy;
}

void uvhttp_free(void *memory) {
    uvhttp__free(memory);
}

bool uvhttp_media_type_is(uvhttp_str_t value, const char *type) {
    const char *semicolon = value.size ? memchr(value.data, ';', value.size) : NULL;
    if (semicolon) value.size = (size_t)(semicolon - value.data);
    value = uvhttp__str_trim(value);
    return value.size > 0 && uvhttp__str_equal_nocase(value, uvhttp__str_from(type));
}
