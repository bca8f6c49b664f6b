/* Owns: the scanner and tokenizer without vector instructions: the twin that every other level must agree with. */
#include "http1/engine.h"

#define ENGINE_FN
#define WIDTH 1

typedef char vec_t;

static inline vec_t load_vec(const char *p) {
    return *p;
}

#define lines_of lines_of_byte
#define fields_of fields_of_byte
#define targets_of targets_of_byte

static inline host_bits_t hosts_of(char c) {
    return (host_bits_t){.not_regname = !is_class(c, CLASS_REGNAME), .not_digit = !is_class(c, CLASS_DIGIT)};
}

#include "http1/engine_impl.h"

const uvhttp__http1_engine_t uvhttp__http1_engine_scalar = {
    .name = "scalar",
    .scan = scan_head,
    .tokenize = tokenize_head,
    .plain_host = plain_host,
};
