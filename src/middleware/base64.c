/* Owns: strict decoding of base64. May include: base. */
#include "middleware/base64.h"

/* 0..63, or -1. */
static int value_of(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool uvhttp__base64_decode(uvhttp_str_t in, char *out, size_t *out_size) {
    if (in.size % 4 != 0) return false;
    size_t digits = in.size;
    for (int i = 0; i < 2 && digits > 0 && in.data[digits - 1] == '='; i++) digits--;
    uint32_t bits = 0; /* the low `held` of them are not yet written */
    unsigned held = 0;
    size_t size = 0;
    for (size_t i = 0; i < digits; i++) {
        int value = value_of(in.data[i]);
        if (value < 0) return false;
        bits = bits << 6 | (uint32_t)value;
        held += 6;
        if (held < 8) continue;
        held -= 8;
        out[size++] = (char)(bits >> held & 0xff);
    }
    *out_size = size;
    return (bits & ((1u << held) - 1)) == 0;
}
