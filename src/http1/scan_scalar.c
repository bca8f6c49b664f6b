/* Owns: the scanner and tokenizer without vector instructions: the twin that every other level must agree with. */
#include "http1/scan.h"

#define SCANNER_FN
#define WIDTH 1

typedef char vec_t;

static inline vec_t load_vec(const char *p) {
    return *p;
}

#define lines_of lines_of_byte
#define targets_of targets_of_byte

static inline uint64_t not_token_of(char c) {
    return !uvhttp__char_is(c, UVHTTP__CHAR_TOKEN);
}

static inline uint64_t not_value_of(char c) {
    return !uvhttp__char_is(c, UVHTTP__CHAR_VALUE);
}

static inline uint64_t not_regname_of(char c) {
    return !uvhttp__char_is(c, UVHTTP__CHAR_REGNAME);
}

#include "http1/scan_impl.h"

const uvhttp__http1_scanner_t uvhttp__http1_scanner_scalar = {
    .name = "scalar",
    .scan = scan_head,
    .tokenize = tokenize_head,
    .plain_host = plain_host,
};
