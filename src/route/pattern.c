/* Owns: the syntax of route patterns (include/uvhttp/route.h). May include: message, base. */
#include <assert.h>
#include <stdio.h>

#include "base/chars.h"
#include "base/str.h"
#include "base/utf8.h"
#include "route/router_internal.h"

/* What other frameworks write for a parameter, and no path of a URL holds as it stands (RFC 3986 section 3.3). */
#define FOREIGN "{}<>"

/* "%7B", "%7D", "%3C" or "%3E": the only way to write one of those. */
static bool is_foreign_escape(uvhttp_str_t segment, size_t at) {
    if (segment.size - at < 3) return false;
    int high = uvhttp__hex_value(segment.data[at + 1]), low = uvhttp__hex_value(segment.data[at + 2]);
    return high > 0 && low >= 0 && strchr(FOREIGN, high << 4 | low);
}

/* "{id}", "{id:int}", "<id>", "{*rest}": names the spelling of here. */
static const char *explain_foreign(uvhttp__pattern_t *pattern, uvhttp_str_t segment) {
    size_t begin = 0, size = 0;
    while (begin < segment.size && !uvhttp__char_is(segment.data[begin], UVHTTP__CHAR_PARAM_NAME)) begin++;
    while (begin + size < segment.size && uvhttp__char_is(segment.data[begin + size], UVHTTP__CHAR_PARAM_NAME)) size++;
    if (size > 32) size = 32;
    snprintf(pattern->why, sizeof pattern->why,
             "\"%.*s\" is no parameter here: write \":%.*s\" (a whole segment); a brace itself is written %%7B, %%7D",
             (int)(segment.size < 40 ? segment.size : 40), segment.data, size ? (int)size : 4,
             size ? segment.data + begin : "name");
    return pattern->why;
}

static const char *check_static(uvhttp__pattern_t *pattern, uvhttp_str_t segment) {
    if (uvhttp__str_equal(segment, UVHTTP__STR(".")) || uvhttp__str_equal(segment, UVHTTP__STR("..")))
        return "a dot segment never matches";
    for (size_t i = 0; i < segment.size; ++i) {
        char c = segment.data[i];
        if ((unsigned char)c < 0x20 || c == 0x7f) return "a control character";
        if (c == '?' || c == '#') return "a pattern is a path, without query or fragment";
        if (c == '%' && !is_foreign_escape(segment, i))
            return "a pattern is written decoded, without percent escapes (but %7B, %7D, %3C, %3E)";
        if (c != '\0' && strchr(FOREIGN, c)) return explain_foreign(pattern, segment);
        if (c == '*') return "'*' may only begin the last segment";
    }
    return NULL;
}

static const char *check_param(const uvhttp__pattern_t *pattern, uvhttp_str_t segment, bool last) {
    uvhttp_str_t name = {segment.data + 1, segment.size - 1};
    if (name.size == 0) return "a parameter without a name";
    if (!uvhttp__chars_are(name, UVHTTP__CHAR_PARAM_NAME))
        return "a parameter's name is made of letters, digits, '_', '-'";
    if (segment.data[0] == '*' && !last) return "'*' may only begin the last segment";
    if (pattern->param_count == UVHTTP__ROUTE_PARAM_MAX) return "too many parameters";
    for (size_t i = 0; i < pattern->segment_count; ++i) {
        uvhttp_str_t other = pattern->segments[i];
        if (!uvhttp__segment_is_dynamic(other)) continue;
        if (uvhttp__str_equal((uvhttp_str_t){other.data + 1, other.size - 1}, name))
            return "a parameter's name is there twice";
    }
    return NULL;
}

/* NULL, or what is wrong. */
static const char *parse(uvhttp_str_t text, uvhttp__pattern_t *pattern, bool decoded) {
    pattern->segment_count = pattern->param_count = 0;
    if (text.size == 0 || text.data[0] != '/') return "a pattern begins with '/'";
    if (text.size > UVHTTP__ROUTE_PATTERN_SIZE_MAX) return "too long";
    if (!decoded && !uvhttp__utf8_valid(text.data, text.size)) return "a pattern is UTF-8";
    const char *at = text.data, *end = text.data + text.size;
    while (at < end) { /* *at is '/' */
        ++at;
        const char *slash = memchr(at, '/', (size_t)(end - at));
        uvhttp_str_t segment = {at, (size_t)((slash ? slash : end) - at)};
        bool dynamic = uvhttp__segment_is_dynamic(segment);
        const char *reason = NULL;
        if (dynamic)
            reason = check_param(pattern, segment, !slash);
        else if (!decoded)
            reason = check_static(pattern, segment);
        if (!reason && pattern->segment_count == UVHTTP__ROUTE_SEGMENT_MAX) reason = "too many segments";
        if (reason) return reason;
        pattern->segments[pattern->segment_count++] = segment;
        pattern->param_count += dynamic;
        at = segment.data + segment.size;
    }
    return NULL;
}

int uvhttp__pattern_parse(uvhttp_str_t text, uvhttp__pattern_t *pattern, const char **reason) {
    *reason = parse(text, pattern, false);
    return *reason ? UVHTTP_E_ROUTE_PATTERN : 0;
}

size_t uvhttp__pattern_decode(char *text, size_t size, uvhttp__pattern_t *pattern) {
    if (!memchr(text, '%', size)) return size;
    size_t decoded = size;
    int status = uvhttp__percent_decode((uvhttp_str_t){text, size}, text, &decoded, false);
    const char *reason = parse((uvhttp_str_t){text, decoded}, pattern, true);
    assert(status == 0 && !reason);
    (void)status, (void)reason;
    text[decoded] = '\0';
    return decoded;
}
