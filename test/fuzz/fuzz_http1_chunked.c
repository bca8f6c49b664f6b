/* Owns: fuzzing of the chunked decoder (libFuzzer). Every input is decoded whole and split, from heap blocks of
 * the exact size; the results must agree with each other, and a finished body with a second decoder that looks at whole
 * lines. Input: a byte for the number of cuts, that many bytes for the places, the body. */
#include "../unit/http1/http1_oracle.h"

enum { CUTS_MAX = 8, EXTENSIONS_MAX = 64, TRAILERS_MAX = 128 };

typedef struct outcome {
    int code;
    size_t consumed;
    size_t body_size;
    char *body;
} outcome_t;

static void die(const char *what) {
    fprintf(stderr, "fuzz_http1_chunked: %s\n", what);
    abort();
}

/* Decodes one piece; true if more is wanted. */
static bool decode_piece(uvhttp__http1_chunked_t *chunked, const char *data, size_t size, outcome_t *out) {
    char *copy = malloc(size > 0 ? size : 1);
    if (copy == NULL) abort();
    if (size > 0) memcpy(copy, data, size);
    size_t pos = 0;
    do {
        size_t consumed;
        uvhttp_str_t body;
        out->code = uvhttp__http1_chunked_decode(chunked, copy + pos, size - pos, &consumed, &body);
        if (consumed > size - pos || body.size > consumed) die("more consumed than there is");
        if (body.size > 0) memcpy(out->body + out->body_size, body.data, body.size);
        out->body_size += body.size;
        out->consumed += consumed;
        pos += consumed;
        if (out->code == UVHTTP_E_AGAIN && consumed == 0 && pos < size) die("no progress");
    } while (out->code == UVHTTP_E_AGAIN && pos < size);
    free(copy);
    return out->code == UVHTTP_E_AGAIN;
}

static void run(const char *data, size_t size, const uint8_t *cuts, size_t cut_count, outcome_t *out) {
    uvhttp__http1_chunked_t chunked;
    uvhttp__http1_chunked_init(&chunked, EXTENSIONS_MAX, TRAILERS_MAX);
    char *body = out->body;
    *out = (outcome_t){.code = UVHTTP_E_AGAIN, .body = body};
    size_t seen = 0;
    for (size_t i = 0; i <= cut_count; ++i) {
        size_t next = i == cut_count ? size : size * cuts[i] / 256;
        if (next < seen) continue;
        if (!decode_piece(&chunked, data + seen, next - seen, out)) break;
        seen = next;
    }
    if (chunked.extension_size > EXTENSIONS_MAX || chunked.trailer_size > TRAILERS_MAX) die("a bound was passed");
}

/* The size of the line at data, without its CRLF; there must be no other CR or LF in it. */
static size_t line_size(const char *data, size_t size) {
    const char *lf = size == 0 ? NULL : memchr(data, '\n', size);
    if (lf == NULL || lf == data || lf[-1] != '\r') die("a line does not end in CRLF");
    size_t length = (size_t)(lf - data) - 1;
    if (length > 0 && (memchr(data, '\r', length) != NULL || memchr(data, '\0', length) != NULL))
        die("a line holds CR");
    return length;
}

static size_t skip_token(const char *text, size_t size, size_t at) {
    while (at < size && text[at] != '\0' && (isalnum((unsigned char)text[at]) || strchr("!#$%&'*+-.^_`|~", text[at])))
        at++;
    return at;
}

static size_t skip_blanks(const char *text, size_t size, size_t at) {
    while (at < size && (text[at] == ' ' || text[at] == '\t')) at++;
    return at;
}

static size_t skip_quoted(const char *text, size_t size, size_t at) {
    for (at++; at < size && text[at] != '"'; at++) at += text[at] == '\\';
    return at < size ? at + 1 : size + 1;
}

/* *( BWS ";" BWS token [ BWS "=" BWS ( token / quoted-string ) ] ) and nothing else. */
static void expect_extensions(const char *text, size_t size) {
    for (size_t at = 0, begin; at < size;) {
        at = skip_blanks(text, size, at);
        if (at == size || text[at] != ';') die("an extension does not begin with ';'");
        begin = skip_blanks(text, size, at + 1);
        at = skip_token(text, size, begin);
        if (at == begin) die("an extension has no name");
        size_t equals = skip_blanks(text, size, at);
        if (equals == size || text[equals] != '=') continue;
        begin = skip_blanks(text, size, equals + 1);
        at = begin < size && text[begin] == '"' ? skip_quoted(text, size, begin) : skip_token(text, size, begin);
        if (at == begin || at > size) die("an extension has no value behind its '='");
    }
}

/* Decodes a body that was accepted, data[0..size), once more. */
static void expect_body(const char *data, size_t size, const outcome_t *out) {
    size_t pos = 0, body_size = 0;
    for (;;) {
        size_t line = line_size(data + pos, size - pos);
        char *end;
        if (!isxdigit((unsigned char)data[pos])) die("a chunk size does not begin with a digit");
        if (data[pos] == '0' && (data[pos + 1] == 'x' || data[pos + 1] == 'X')) die("a chunk size begins with 0x");
        unsigned long long chunk = strtoull(data + pos, &end, 16);
        expect_extensions(end, (size_t)(data + pos + line - end));
        pos += line + 2;
        if (chunk == 0) break;
        if (chunk > size - pos || size - pos - chunk < 2) die("a chunk is larger than the body");
        if (memcmp(out->body + body_size, data + pos, chunk) != 0) die("the body differs");
        body_size += chunk;
        pos += chunk;
        if (memcmp(data + pos, "\r\n", 2) != 0) die("a chunk is not followed by CRLF");
        pos += 2;
    }
    if (body_size != out->body_size) die("the body has another size");
    oracle_counts_t counts = {0};
    for (;;) {
        size_t line = line_size(data + pos, size - pos);
        if (line > 0 && oracle_field(data + pos, line, &counts) != NULL) die("a malformed trailer");
        pos += line + 2;
        if (line == 0) break;
    }
    if (counts.hosts + counts.lengths + counts.encodings > 0) die("a trailer that frames the message");
    if (pos != size) die("bytes after the end");
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size) {
    if (input_size < 1) return 0;
    size_t cut_count = input[0] % (CUTS_MAX + 1);
    if (input_size < 1 + cut_count) return 0;
    const char *data = (const char *)input + 1 + cut_count;
    size_t size = input_size - 1 - cut_count;
    outcome_t whole = {.body = malloc(size + 1)}, cut = {.body = malloc(size + 1)};
    if (whole.body == NULL || cut.body == NULL) abort();
    run(data, size, NULL, 0, &whole);
    run(data, size, input + 1, cut_count, &cut);
    if (whole.code != cut.code || whole.consumed != cut.consumed) die("results differ");
    if (whole.body_size != cut.body_size || memcmp(whole.body, cut.body, whole.body_size) != 0) die("bodies differ");
    if (whole.code == 0) {
        /* strtoull wants a terminator somewhere: the copy has one. */
        char *copy = malloc(whole.consumed + 1);
        if (copy == NULL) abort();
        memcpy(copy, data, whole.consumed);
        copy[whole.consumed] = '\0';
        expect_body(copy, whole.consumed, &whole);
        free(copy);
    }
    free(whole.body);
    free(cut.body);
    return 0;
}
