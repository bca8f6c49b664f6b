/* Owns: reading Accept-Encoding. May include: base. */
#include "message/accept_encoding.h"

#include "base/str.h"

/* The text up to the separator, trimmed; the rest is what is left. */
static uvhttp_str_t cut(uvhttp_str_t *rest, char separator) {
    const char *at = rest->size ? memchr(rest->data, separator, rest->size) : NULL;
    uvhttp_str_t part = {rest->data, at ? (size_t)(at - rest->data) : rest->size};
    size_t used = at ? part.size + 1 : part.size;
    *rest = (uvhttp_str_t){rest->data + used, rest->size - used};
    return uvhttp__str_trim(part);
}

/* qvalue = ( "0" [ "." 0*3DIGIT ] ) / ( "1" [ "." 0*3("0") ] ). Returns thousandths, or -1. */
static int parse_qvalue(uvhttp_str_t text) {
    if (text.size == 0 || text.size > 5 || (text.data[0] != '0' && text.data[0] != '1')) return -1;
    int value = (text.data[0] - '0') * 1000, unit = 100;
    if (text.size > 1 && text.data[1] != '.') return -1;
    for (size_t i = 2; i < text.size; ++i, unit /= 10) {
        if (text.data[i] < '0' || text.data[i] > '9') return -1;
        value += (text.data[i] - '0') * unit;
    }
    return value <= 1000 ? value : -1;
}

int uvhttp__accept_weight(uvhttp_str_t parameters) {
    int weight = 1000;
    while (parameters.size > 0) {
        uvhttp_str_t parameter = cut(&parameters, ';');
        if (parameter.size >= 2 && (parameter.data[0] == 'q' || parameter.data[0] == 'Q') && parameter.data[1] == '=')
            weight = parse_qvalue((uvhttp_str_t){parameter.data + 2, parameter.size - 2});
        if (weight < 0) return -1;
    }
    return weight;
}

void uvhttp__accept_encoding_add(uvhttp__accept_encoding_t *accept, uvhttp_str_t value) {
    while (value.size > 0) {
        uvhttp_str_t element = cut(&value, ',');
        uvhttp_str_t coding = cut(&element, ';');
        int weight = uvhttp__accept_weight(element);
        if (weight < 0) continue;
        if (uvhttp__str_equal_nocase(coding, UVHTTP__STR("gzip")) ||
            uvhttp__str_equal_nocase(coding, UVHTTP__STR("x-gzip"))) {
            accept->gzip = (uint16_t)weight;
            accept->gzip_named = true;
        } else if (uvhttp__str_equal_nocase(coding, UVHTTP__STR("br"))) {
            accept->brotli = (uint16_t)weight;
            accept->brotli_named = true;
        } else if (uvhttp__str_equal(coding, UVHTTP__STR("*"))) {
            accept->any = (uint16_t)weight;
            accept->any_named = true;
        } else if (uvhttp__str_equal_nocase(coding, UVHTTP__STR("identity"))) {
            accept->identity = (uint16_t)weight;
        }
    }
}

uint16_t uvhttp__accept_gzip(const uvhttp__accept_encoding_t *accept) {
    uint16_t weight = accept->gzip_named || !accept->any_named ? accept->gzip : accept->any;
    return weight < accept->identity ? 0 : weight;
}

uint16_t uvhttp__accept_brotli(const uvhttp__accept_encoding_t *accept) {
    uint16_t weight = accept->brotli_named || !accept->any_named ? accept->brotli : accept->any;
    return weight < accept->identity ? 0 : weight;
}
