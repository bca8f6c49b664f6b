/* Owns: the context of a trace (W3C Trace Context). May include: base. */
#include "obs/trace.h"

#include <string.h>

#include "base/str.h"

/* --- hex digits --- */

void uvhttp__trace_hex(const uint8_t *bytes, size_t size, char *text) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
}

/* Lower case only (section 3.2.2). */
static int digit(char c) {
    return c >= 'A' && c <= 'F' ? -1 : uvhttp__hex_value(c);
}

/* Returns false if a digit is none. *any: whether a byte is not 0. */
static bool read_hex(const char *text, uint8_t *bytes, size_t size, bool *any) {
    *any = false;
    for (size_t i = 0; i < size; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        bytes[i] = (uint8_t)(high << 4 | low);
        *any |= bytes[i] != 0;
    }
    return true;
}

/* --- traceparent --- */

enum { VERSION_AT = 0, TRACE_AT = 3, SPAN_AT = 36, FLAGS_AT = 53 };

bool uvhttp__traceparent_parse(uvhttp_str_t text, uvhttp__trace_context_t *context) {
    const char *at = text.data;
    uint8_t version;
    bool any, trace, span;
    if (text.size < UVHTTP__TRACEPARENT_SIZE) return false;
    if (at[TRACE_AT - 1] != '-' || at[SPAN_AT - 1] != '-' || at[FLAGS_AT - 1] != '-') return false;
    if (!read_hex(at + VERSION_AT, &version, 1, &any) || version == 0xff) return false;
    /* Later versions may have more behind a dash. */
    if (text.size > UVHTTP__TRACEPARENT_SIZE && (version == 0 || at[UVHTTP__TRACEPARENT_SIZE] != '-')) return false;
    if (!read_hex(at + TRACE_AT, context->trace_id, UVHTTP__TRACE_ID_SIZE, &trace) || !trace) return false;
    if (!read_hex(at + SPAN_AT, context->span_id, UVHTTP__SPAN_ID_SIZE, &span) || !span) return false;
    if (!read_hex(at + FLAGS_AT, &context->flags, 1, &any)) return false;
    context->flags &= UVHTTP__TRACE_SAMPLED | UVHTTP__TRACE_RANDOM; /* the others have no meaning yet */
    return true;
}

void uvhttp__traceparent_write(const uvhttp__trace_context_t *context, char text[UVHTTP__TRACEPARENT_SIZE]) {
    static const uint8_t version = 0;
    memset(text, '-', UVHTTP__TRACEPARENT_SIZE);
    uvhttp__trace_hex(&version, 1, text + VERSION_AT);
    uvhttp__trace_hex(context->trace_id, UVHTTP__TRACE_ID_SIZE, text + TRACE_AT);
    uvhttp__trace_hex(context->span_id, UVHTTP__SPAN_ID_SIZE, text + SPAN_AT);
    uvhttp__trace_hex(&context->flags, 1, text + FLAGS_AT);
}

/* --- tracestate --- */

enum { MEMBERS_MAX = 32, KEY_SIZE_MAX = 256, VALUE_SIZE_MAX = 256 };

static bool valid_key(uvhttp_str_t key) {
    if (key.size == 0 || key.size > KEY_SIZE_MAX) return false;
    for (size_t i = 0; i < key.size; i++) {
        char c = key.data[i];
        bool first = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!first && (i == 0 || !memchr("_-*/@", c, 5))) return false;
    }
    return true;
}

static bool valid_value(uvhttp_str_t value) {
    if (value.size == 0 || value.size > VALUE_SIZE_MAX) return false;
    for (size_t i = 0; i < value.size; i++)
        if (value.data[i] < ' ' || value.data[i] > '~' || value.data[i] == '=') return false;
    return true;
}

static bool valid_member(uvhttp_str_t member) {
    const char *equals = memchr(member.data, '=', member.size);
    if (!equals) return false;
    size_t size = (size_t)(equals - member.data);
    return valid_key((uvhttp_str_t){member.data, size}) &&
           valid_value((uvhttp_str_t){equals + 1, member.size - size - 1});
}

bool uvhttp__tracestate_add(uvhttp_str_t field, char list[UVHTTP__TRACESTATE_SIZE_MAX], size_t *size, unsigned *count) {
    uvhttp_str_t member;
    while (uvhttp__list_next(&field, &member)) {
        if (!valid_member(member) || ++*count > MEMBERS_MAX) return false;
        size_t comma = *size > 0;
        if (*size + comma + member.size > UVHTTP__TRACESTATE_SIZE_MAX) continue;
        if (comma) list[(*size)++] = ',';
        memcpy(list + *size, member.data, member.size);
        *size += member.size;
    }
    return true;
}

/* --- here --- */

static _Thread_local uvhttp__trace_scope_t *innermost;

const uvhttp__trace_context_t *uvhttp__trace_here(void) {
    return innermost ? innermost->context : NULL;
}

void uvhttp__trace_set_here(const uvhttp__trace_context_t *context) {
    if (innermost) innermost->context = context;
}

void uvhttp__trace_enter(uvhttp__trace_scope_t *scope, const uvhttp__trace_context_t *context) {
    *scope = (uvhttp__trace_scope_t){context, innermost};
    innermost = scope;
}

void uvhttp__trace_leave(const uvhttp__trace_scope_t *scope) {
    innermost = scope->outer;
}
