/* Owns: what of str.h is too long for a header. May include: str. */
#include "base/str.h"

#define ROW(first)                                                                                                     \
    (first), (first) + 1, (first) + 2, (first) + 3, (first) + 4, (first) + 5, (first) + 6, (first) + 7, (first) + 8,   \
        (first) + 9, (first) + 10, (first) + 11, (first) + 12, (first) + 13, (first) + 14, (first) + 15

const uint8_t uvhttp__lower[256] = {
    ROW(0x00), ROW(0x10), ROW(0x20), ROW(0x30),
    /* '@', then the letters, then "[\]^_". */
    '@', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o',  /* */
    'p', 'q', 'r', 's', 't', 'u', 'v', 'w', 'x', 'y', 'z', '[', '\\', ']', '^', '_', /* */
    ROW(0x60), ROW(0x70), ROW(0x80), ROW(0x90), ROW(0xa0), ROW(0xb0), ROW(0xc0), ROW(0xd0), ROW(0xe0), ROW(0xf0)};

int uvhttp__str_parse_u64(uvhttp_str_t str, uint64_t *out) {
    if (str.size == 0) return UVHTTP_E_INVALID;
    uint64_t value = 0;
    bool overflow = false;
    for (size_t i = 0; i < str.size; i++) {
        unsigned digit = (unsigned)(uint8_t)str.data[i] - '0';
        if (digit > 9) return UVHTTP_E_INVALID;
        overflow |= __builtin_mul_overflow(value, (uint64_t)10, &value);
        overflow |= __builtin_add_overflow(value, (uint64_t)digit, &value);
    }
    if (overflow) return UVHTTP_E_LIMIT;
    *out = value;
    return UVHTTP_OK;
}

int uvhttp__percent_decode(uvhttp_str_t in, char *out, size_t *out_size, bool plus_as_space) {
    size_t used = 0;
    for (size_t i = 0; i < in.size; i++) {
        char c = in.data[i];
        if (c == '%') {
            if (in.size - i < 3) return UVHTTP_E_INVALID;
            int high = uvhttp__hex_value(in.data[i + 1]), low = uvhttp__hex_value(in.data[i + 2]);
            if (high < 0 || low < 0) return UVHTTP_E_INVALID;
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && plus_as_space) {
            c = ' ';
        }
        out[used++] = c;
    }
    *out_size = used;
    return UVHTTP_OK;
}

static const char two_digits[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
                                 "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
                                 "8081828384858687888990919293949596979899";

static inline void put_two(char *out, unsigned n) {
    memcpy(out, two_digits + (size_t)n * 2, 2);
}

static size_t count_digits(uint64_t n) {
    size_t digits = 1;
    for (; n >= 10000; n /= 10000) digits += 4;
    return digits + (n >= 10) + (n >= 100) + (n >= 1000);
}

size_t uvhttp__write_decimal(char *out, uint64_t n) {
    size_t digits = count_digits(n);
    char *p = out + digits;
    for (; n >= 100; n /= 100) put_two(p -= 2, (unsigned)(n % 100));
    if (n >= 10)
        put_two(p - 2, (unsigned)n);
    else
        p[-1] = (char)('0' + n);
    return digits;
}
