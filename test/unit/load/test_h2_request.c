/* Owns: tests of the requests of HTTP/2: what a server decodes, whichever of them comes first on a connection. */
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "http2/hpack.h"
#include "load/plan.h"
#include "support/failing_allocator.h"
#include "support/run.h"

enum { WORDS_MAX = 32, LIST_MAX = 32768 };

static void parse(const char *line, load_options_t *options) {
    static char copy[20000]; /* the options point into it */
    char *words[WORDS_MAX] = {copy}, *save = NULL;
    int count = 1, code;
    snprintf(copy, sizeof copy, "uvhttp-load --h2 %s", line);
    strtok_r(copy, " ", &save);
    for (char *word; count < WORDS_MAX - 1 && (word = strtok_r(NULL, " ", &save));) words[count++] = word;
    if (!load_options_parse(options, count, words, stderr, stderr, &code)) fail_msg("%s", line);
}

/* The fields of a HEADERS frame, "name: value\n" each. */
static void decode(uvhttp__hpack_decoder_t *decoder, const load_h2_frame_t *frame, char *out) {
    static char scratch[LIST_MAX + UVHTTP__HPACK_TABLE_SIZE_MAX + UVHTTP__HPACK_SLACK];
    uvhttp__hpack_reader_t reader;
    uvhttp__hpack_field_t field;
    const uint8_t *head = (const uint8_t *)frame->data;
    assert_true(frame->size >= LOAD_H2_HEAD_SIZE);
    assert_int_equal((head[0] << 16 | head[1] << 8 | head[2]) + LOAD_H2_HEAD_SIZE, frame->size);
    assert_int_equal(head[3], 1); /* HEADERS */
    assert_int_equal(uvhttp__hpack_read(&reader, decoder, frame->data + LOAD_H2_HEAD_SIZE,
                                        frame->size - LOAD_H2_HEAD_SIZE, scratch, LIST_MAX),
                     0);
    int code;
    *out = '\0';
    while ((code = uvhttp__hpack_read_next(&reader, &field)) == 0)
        out += sprintf(out, "%.*s: %.*s\n", (int)field.name_size, field.text, (int)field.value_size,
                       field.text + field.name_size);
    assert_int_equal(code, UVHTTP_E_EOF);
}

static void expect(uvhttp__hpack_decoder_t *decoder, const load_h2_frame_t *frame, const char *fields) {
    char found[LIST_MAX];
    decode(decoder, frame, found);
    assert_string_equal(found, fields);
}

/* The request as the first and as the two behind it, with either table. */
static void expect_all(const load_request_t *request, const char *fields) {
    for (int table = 0; table < LOAD_H2_TABLES; table++) {
        uvhttp__hpack_decoder_t decoder;
        uvhttp__hpack_decoder_init(&decoder);
        if (table == LOAD_H2_LITERAL) uvhttp__hpack_decoder_set_limit(&decoder, 0);
        expect(&decoder, &request->h2.first[table], fields);
        expect(&decoder, &request->h2.later[table], fields);
        expect(&decoder, &request->h2.later[table], fields);
        uvhttp__hpack_decoder_deinit(&decoder);
    }
}

static void expect_request(const char *line, const char *fields, unsigned flags) {
    load_options_t options;
    load_plan_t plan;
    parse(line, &options);
    assert_int_equal(load_plan_init(&plan, &options, stderr), 0);
    assert_int_equal(plan.requests->h2.first[0].data[4], flags);
    expect_all(plan.requests, fields);
    load_plan_deinit(&plan);
    load_options_deinit(&options);
}

enum { END_STREAM = 1, END_HEADERS = 4 };

static void test_the_fields_of_a_request(void **state) {
    (void)state;
    expect_request("http://localhost:1/", ":method: GET\n:scheme: http\n:authority: localhost:1\n:path: /\n",
                   END_HEADERS | END_STREAM);
    expect_request("-X DELETE http://localhost:1/a?b=c",
                   ":method: DELETE\n:scheme: http\n:authority: localhost:1\n:path: /a?b=c\n",
                   END_HEADERS | END_STREAM);
    expect_request("-H X-Test:Yes -H hOST:other -H Connection:close -H cookie:a=b -b text http://localhost:1/",
                   ":method: POST\n:scheme: http\n:authority: other\n:path: /\nx-test: Yes\ncookie: a=b\n"
                   "content-length: 4\n",
                   END_HEADERS);
    expect_request("--echo --payload-size 20 http://localhost:1/",
                   ":method: POST\n:scheme: http\n:authority: localhost:1\n:path: /\ncontent-length: 20\n",
                   END_HEADERS);
}

static void test_later_requests_refer_to_the_table(void **state) {
    (void)state;
    load_options_t options;
    load_plan_t plan;
    parse("-H X-Test:Yes http://localhost:1/", &options);
    assert_int_equal(load_plan_init(&plan, &options, stderr), 0);
    assert_int_equal(plan.requests->h2.later[LOAD_H2_INDEXED].size, LOAD_H2_HEAD_SIZE + 5);
    assert_true(plan.requests->h2.later[LOAD_H2_LITERAL].size > LOAD_H2_HEAD_SIZE + 20);
    load_plan_deinit(&plan);
    load_options_deinit(&options);
}

static void test_any_request_may_be_the_first(void **state) {
    (void)state;
    load_options_t options;
    load_plan_t plan;
    char path[] = "/tmp/uvhttp-load-XXXXXX", line[256];
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    fputs("/a\nPUT /b\n", file);
    fclose(file);
    snprintf(line, sizeof line, "-H X-Test:Yes -u %s http://localhost:1/", path);
    parse(line, &options);
    assert_int_equal(load_plan_init(&plan, &options, stderr), 0);
    remove(path);
    for (size_t first = 0; first < 2; first++) {
        uvhttp__hpack_decoder_t decoder;
        char found[LIST_MAX];
        uvhttp__hpack_decoder_init(&decoder);
        decode(&decoder, &plan.requests[first].h2.first[LOAD_H2_INDEXED], found);
        expect(&decoder, &plan.requests[0].h2.later[LOAD_H2_INDEXED],
               ":method: GET\n:scheme: http\n:authority: localhost:1\n:path: /a\nx-test: Yes\n");
        expect(&decoder, &plan.requests[1].h2.later[LOAD_H2_INDEXED],
               ":method: PUT\n:scheme: http\n:authority: localhost:1\n:path: /b\nx-test: Yes\n");
        uvhttp__hpack_decoder_deinit(&decoder);
    }
    load_plan_deinit(&plan);
    load_options_deinit(&options);
}

/* `count` fields of 1000 bytes. */
static void long_line(char *line, int count) {
    for (int i = 0; i < count; i++) line += sprintf(line, "-H a%d:%01000d ", i, i);
    strcpy(line, "http://localhost:1/");
}

static void test_more_fields_than_the_table_holds_are_never_added(void **state) {
    (void)state;
    load_options_t options;
    load_plan_t plan;
    char line[20000], found[LIST_MAX], again[LIST_MAX];
    uvhttp__hpack_decoder_t decoder;
    long_line(line, 6);
    parse(line, &options);
    assert_int_equal(load_plan_init(&plan, &options, stderr), 0);
    uvhttp__hpack_decoder_init(&decoder);
    decode(&decoder, &plan.requests->h2.first[LOAD_H2_INDEXED], found);
    decode(&decoder, &plan.requests->h2.later[LOAD_H2_INDEXED], again);
    assert_string_equal(found, again);
    assert_int_equal(decoder.table.count, 0);
    uvhttp__hpack_decoder_deinit(&decoder);
    load_plan_deinit(&plan);
    load_options_deinit(&options);
}

static void test_more_fields_than_a_frame_holds_are_refused(void **state) {
    (void)state;
    load_options_t options;
    load_h2_request_t request = {0};
    static char target[40000];
    parse("http://localhost:1/", &options);
    memset(target, '~', sizeof target - 1); /* 13 bits of the Huffman code: it is sent as it is */
    target[0] = '/';
    assert_int_equal(load_h2_request_init(&request, &options, (uvhttp_str_t){"GET", 3},
                                          (uvhttp_str_t){target, sizeof target - 1}, 0),
                     UVHTTP_E_HTTP_HEADERS_TOO_LARGE);
    load_h2_request_deinit(&request);
    load_options_deinit(&options);
}

static void make_once(void *user) {
    load_h2_request_t request = {0};
    int code = load_h2_request_init(&request, user, (uvhttp_str_t){"GET", 3}, (uvhttp_str_t){"/a", 2}, 0);
    assert_int_equal(code, test_allocator_failed() && code != 0 ? UVHTTP_E_NOMEM : 0);
    load_h2_request_deinit(&request);
}

static void plan_once(void *user) {
    load_plan_t plan;
    FILE *err = fopen("/dev/null", "w");
    int code = load_plan_init(&plan, user, err);
    assert_int_equal(code, test_allocator_failed() && code != 0 ? LOAD_ERROR : 0);
    fclose(err);
    load_plan_deinit(&plan);
}

static void test_a_request_bears_a_lack_of_memory(void **state) {
    (void)state;
    load_options_t options;
    parse("-H X-Test:Yes http://localhost:1/", &options);
    assert_true(test_allocator_each_failure(make_once, &options) >= 6);
    assert_true(test_allocator_each_failure(plan_once, &options) >= 8);
    load_options_deinit(&options);
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS(test_the_fields_of_a_request, test_later_requests_refer_to_the_table,
                     test_any_request_may_be_the_first, test_more_fields_than_the_table_holds_are_never_added,
                     test_more_fields_than_a_frame_holds_are_refused, test_a_request_bears_a_lack_of_memory);
}
