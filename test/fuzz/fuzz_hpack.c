/* Owns: fuzzing of header compression against libnghttp2 (libFuzzer). What is read: both accept a block, with the same
 * fields, or both refuse it. What is written: libnghttp2 reads the fields that the response has. Input: blocks, each
 * behind two bytes of its size, of one connection; a size of 0xffff sets the limit of the table to the two bytes that
 * follow, for both directions; one of 0xfffe begins a response, see write_response(). */
#include "../unit/http2/hpack_oracle.h"
#include "base/date.h"
#include "base/str.h"
#include "http2/head_repeated.h"

enum { LIMIT = 0xffff, RESPONSE = 0xfffe, FIELDS_MAX = 6 };

static void die(const char *what) {
    fprintf(stderr, "fuzz_hpack: %s\n", what);
    abort();
}

typedef struct input {
    const uint8_t *at;
    size_t left;
} input_t;

static uint8_t take(input_t *input) {
    if (input->left == 0) return 0;
    input->left--;
    return *input->at++;
}

static uint32_t take_two(input_t *input) {
    uint32_t high = take(input);
    return high << 8 | take(input);
}

/* --- responses --- */

typedef struct writing {
    uvhttp__hpack_encoder_t encoder;
    nghttp2_hd_inflater *inflater;
    uint64_t second;
    oracle_text_t expected;
    char lines[FIELDS_MAX * 600], type[64];
    size_t lines_size;
} writing_t;

static void expect(writing_t *writing, const char *name, const char *value, size_t value_size) {
    char lower[64];
    size_t size = strlen(name);
    for (size_t i = 0; i < size; i++) lower[i] = uvhttp__char_lower(name[i]);
    if (!oracle_add(&writing->expected, lower, size, value, value_size)) die("no memory");
}

/* One of few names; a value that may repeat, and is empty, short or long. */
static void add_field(writing_t *writing, input_t *input) {
    static const char *const names[] = {"Server", "x-one", "X-Two", "Set-Cookie", "ETag", "Connection", "Vary", "Link"};
    uint8_t how = take(input);
    const char *name = names[how % 8];
    char value[512];
    size_t size = how & 8 ? take(input) * 2u : how >> 6;
    memset(value, 'a' + (how >> 4 & 3), size);
    if (how & 8 && size > 0) value[0] = (char)('A' + take(input) % 26);
    writing->lines_size +=
        (size_t)snprintf(writing->lines + writing->lines_size, sizeof writing->lines - writing->lines_size,
                         "%s: %.*s\r\n", name, (int)size, value);
    if (strcmp(name, "Connection") != 0) expect(writing, name, value, size);
}

static void set_type(writing_t *writing, uvhttp__http2_response_t *response, unsigned how) {
    static const char *const types[] = {NULL, "text/plain", "application/json; charset=utf-8", "a/b"};
    if (!types[how]) return;
    size_t size = strlen(types[how]);
    response->content_type = (uvhttp_str_t){strcpy(writing->type, types[how]), size};
    expect(writing, "content-type", types[how], size);
}

static void set_date(writing_t *writing, uvhttp__http2_response_t *response, char text[UVHTTP__DATE_SIZE]) {
    uvhttp__date_write(text, (int64_t)(1700000000 + writing->second));
    response->date = text;
    response->date_id = writing->second + 1;
    expect(writing, "date", text, UVHTTP__DATE_SIZE);
}

static void set_length(writing_t *writing, uvhttp__http2_response_t *response, uint32_t length) {
    char text[16];
    response->content_length = length == 0xffff ? UVHTTP__HTTP2_LENGTH_NONE : length;
    if (length != 0xffff) expect(writing, "content-length", text, (size_t)snprintf(text, sizeof text, "%u", length));
}

/* Two bytes choose status, type, date and the number of fields, two are the length; then each field has its own. */
static void write_response(writing_t *writing, input_t *input) {
    static const uint16_t statuses[] = {200, 404, 206, 503, 103, 299, 304, 0};
    static oracle_text_t theirs;
    uint32_t how = take_two(input);
    char date[UVHTTP__DATE_SIZE], digits[16];
    uvhttp__http2_response_t response = {.status = statuses[how & 7]};
    writing->expected.size = writing->lines_size = 0;
    if (response.status > 0)
        expect(writing, ":status", digits, (size_t)snprintf(digits, sizeof digits, "%u", response.status));
    set_type(writing, &response, how >> 3 & 3);
    for (uint32_t i = 0; i < (how >> 5 & 7) && i < FIELDS_MAX; i++) add_field(writing, input);
    response.fields = (uvhttp_str_t){writing->lines, writing->lines_size};
    if (how & 0x100) writing->second++;
    if (how & 0x600) set_date(writing, &response, date);
    set_length(writing, &response, take_two(input));
    size_t max = uvhttp__http2_response_size_max(&response), size;
    char *block = malloc(max);
    if (!block) die("no memory");
    if (!uvhttp__http2_repeat_response(&writing->encoder, &response, block, &size))
        size = uvhttp__http2_write_response(&writing->encoder, &response, block);
    oracle_theirs(writing->inflater, (const uint8_t *)block, size, &theirs);
    free(block);
    if (theirs.code != 0) die("libnghttp2 does not accept what we write");
    if (theirs.size != writing->expected.size || memcmp(theirs.bytes, writing->expected.bytes, theirs.size) != 0)
        die("other fields are read than were written");
    if (writing->encoder.table.size != nghttp2_hd_inflate_get_dynamic_table_size(writing->inflater))
        die("sizes of the tables differ");
}

/* --- both directions --- */

typedef struct reading {
    uvhttp__hpack_decoder_t decoder;
    nghttp2_hd_inflater *inflater;
} reading_t;

static void set_limit(reading_t *reading, writing_t *writing, uint32_t limit) {
    limit %= UVHTTP__HPACK_TABLE_SIZE_MAX + 1;
    uvhttp__hpack_decoder_set_limit(&reading->decoder, limit);
    uvhttp__hpack_encoder_set_limit(&writing->encoder, limit);
    if (nghttp2_hd_inflate_change_table_size(reading->inflater, limit) != 0 ||
        nghttp2_hd_inflate_change_table_size(writing->inflater, limit) != 0)
        die("no memory");
}

/* False: it is refused, and the connection over. */
static bool read_block(reading_t *reading, input_t *input, size_t size) {
    bool good;
    if (size > input->left) size = input->left;
    const char *wrong = oracle_compare(&reading->decoder, reading->inflater, input->at, size, &good);
    if (wrong) die(wrong);
    input->at += size;
    input->left -= size;
    return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static writing_t writing;
    reading_t reading;
    input_t input = {data, size};
    bool good = true;
    writing.second = 0;
    uvhttp__hpack_decoder_init(&reading.decoder);
    uvhttp__hpack_encoder_init(&writing.encoder);
    if (nghttp2_hd_inflate_new(&reading.inflater) != 0 || nghttp2_hd_inflate_new(&writing.inflater) != 0)
        die("no memory");
    while (good && input.left >= 4) {
        uint32_t block = take_two(&input);
        if (block == LIMIT)
            set_limit(&reading, &writing, take_two(&input));
        else if (block == RESPONSE)
            write_response(&writing, &input);
        else
            good = read_block(&reading, &input, block);
    }
    uvhttp__hpack_decoder_deinit(&reading.decoder);
    uvhttp__hpack_encoder_deinit(&writing.encoder);
    nghttp2_hd_inflate_del(reading.inflater);
    nghttp2_hd_inflate_del(writing.inflater);
    return 0;
}
