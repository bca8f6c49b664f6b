/* Owns: fuzzing of the request head reader (libFuzzer). Every input is read at every level of
 * vector instructions, whole and split, from heap blocks of the exact size; all results must agree, and what is
 * accepted must please the oracle. Input: a byte for the limits, a byte for the number of cuts, that many bytes for the
 * places, the head. */
#include "../unit/http1/http1_oracle.h"

enum { FIELDS_MAX = 64, CUTS_MAX = 8 };

typedef struct outcome {
    int code;
    size_t head_size;
    uvhttp__head_t head;
    uvhttp__field_t fields[FIELDS_MAX];
} outcome_t;

static void die(const char *what) {
    fprintf(stderr, "fuzz_http1_request: %s\n", what);
    abort();
}

static char *copy_exactly(const char *data, size_t size) {
    char *copy = malloc(size > 0 ? size : 1);
    if (copy == NULL) abort();
    if (size > 0) memcpy(copy, data, size);
    return copy;
}

/* Cuts need not be in order: a piece is the bytes up to the largest cut so far. */
static void run(const char *data, size_t size, const uint8_t *cuts, size_t cut_count,
                const uvhttp__head_limits_t *limits, outcome_t *out) {
    static unsigned char left; /* by the request before: what the reader leaves alone differs from call to call */
    uvhttp__http1_scan_t scan = {0};
    memset(out, ++left, sizeof *out);
    out->head_size = 0;
    out->head.headers = out->fields;
    size_t seen = 0;
    for (size_t i = 0; i <= cut_count; ++i) {
        size_t next = i == cut_count ? size : size * cuts[i] / 256;
        if (next < seen) continue;
        seen = next;
        char *copy = copy_exactly(data, seen);
        out->code = uvhttp__http1_read_request(&scan, copy, seen, limits, &out->head);
        free(copy);
        if (out->code == UVHTTP_E_AGAIN) continue;
        if (out->code == 0 && out->head.size > seen) die("head larger than the data");
        if (out->code == 0) out->head_size = out->head.size;
        return;
    }
}

static void expect_same(const outcome_t *a, const outcome_t *b) {
    if (a->code != b->code) die("codes differ");
    if (a->head_size != b->head_size) die("head sizes differ");
    if (a->code != 0) return;
    uvhttp__head_t x = a->head, y = b->head;
    x.headers = y.headers = NULL;
    if (memcmp(&x, &y, sizeof x) != 0) die("heads differ");
    if (memcmp(a->fields, b->fields, x.header_count * sizeof a->fields[0]) != 0) die("fields differ");
}

static void expect_innocent(const char *data, size_t size, const uvhttp__head_t *head) {
    const char *wrong = oracle_accepted(data, size, head);
    if (wrong == NULL) wrong = oracle_spans(data, size, head);
    if (wrong != NULL) die(wrong);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size) {
    static const uvhttp__head_limits_t all_limits[] = {{8192, 65536, FIELDS_MAX}, {30, 100, 3}, {64, 64, 8}, {0, 2, 0}};
    static outcome_t whole, other;
    if (input_size < 2) return 0;
    const uvhttp__head_limits_t *limits = &all_limits[input[0] % 4];
    size_t cut_count = input[1] % (CUTS_MAX + 1);
    if (input_size < 2 + cut_count) return 0;
    const uint8_t *cuts = input + 2;
    const char *data = (const char *)cuts + cut_count;
    size_t size = input_size - 2 - cut_count;
    static const uint8_t halves[] = {128};
    for (int level = UVHTTP__HTTP1_SIMD_SCALAR; level <= UVHTTP__HTTP1_SIMD_NEON; ++level) {
        if (uvhttp__http1_simd_select((uvhttp__http1_simd_t)level) != 0) continue;
        bool first = level == UVHTTP__HTTP1_SIMD_SCALAR;
        run(data, size, NULL, 0, limits, first ? &whole : &other);
        if (!first) expect_same(&whole, &other);
        run(data, size, cuts, cut_count, limits, &other);
        expect_same(&whole, &other);
        run(data, size, halves, 1, limits, &other); /* never in one pass */
        expect_same(&whole, &other);
        if (whole.code == 0) { /* what stands behind a head is nobody's business */
            run(data, whole.head_size, NULL, 0, limits, &other);
            expect_same(&whole, &other);
        }
    }
    if (whole.code == 0) expect_innocent(data, whole.head_size, &whole.head);
    return 0;
}
