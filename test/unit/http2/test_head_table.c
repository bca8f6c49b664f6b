/* Owns: request heads whose fields are in the table or enter it: each head means the same however its block is written,
 * and leaves the same table behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "head_block.h"
#include "http2/head.h"
#include "http2/hpack_table.h"
#include "support/random.h"

enum { FIELDS_MAX = 12, LINES_MAX = 32, BLOCK_MAX = 1 << 14, TEXT_MAX = 1 << 14, HEADS = 20000 };

static const uvhttp__http2_head_limits_t limits = {700, 150, FIELDS_MAX, false};

/* What one decoder has made of a head. */
typedef struct reading {
    uvhttp__hpack_decoder_t decoder;
    char *scratch;
    uvhttp__field_t fields[FIELDS_MAX];
    char text[TEXT_MAX]; /* all that the record shows */
} reading_t;

static reading_t compressed, literal;
static uint8_t block[BLOCK_MAX];
static test_random_t numbers = {.state = 20261126};

static uint32_t draw(uint32_t below) {
    return (uint32_t)test_random_below(&numbers, below);
}

/* --- a writer of blocks that draws the form of each field --- */

static size_t put_value(uint8_t *out, const char *text, size_t size) {
    return head_put_value(out, text, size, draw(6) == 0 ? HEAD_TEXT : HEAD_HUFFMAN);
}

/* An entry of the table with that name, and that value unless it is NULL; 0: none. */
static size_t find_entry(const uvhttp__hpack_table_t *table, const char *name, const char *value) {
    size_t name_size = strlen(name), value_size = value ? strlen(value) : 0;
    char text[256];
    snprintf(text, sizeof text, "%s%s", name, value ? value : "");
    for (uint32_t age = 0; age < table->count; ++age) {
        uvhttp__hpack_entry_t entry = *uvhttp__hpack_table_entry(table, age);
        if (!value) entry.value_size = 0;
        if (uvhttp__hpack_table_equals(table, &entry, text, name_size, value_size))
            return UVHTTP__HPACK_STATIC_COUNT + 1 + age;
    }
    return 0;
}

/* `table` is what it will be when the decoder comes to this field. */
static size_t put_field(uint8_t *out, uvhttp__hpack_table_t *table, const char *name, const char *value) {
    static const uint8_t kinds[] = {0x00, 0x10, 0x40, 0x40};
    size_t name_size = strlen(name), value_size = strlen(value);
    size_t whole = head_find_whole(name, name_size, value, value_size);
    if (!whole) whole = find_entry(table, name, value);
    if (whole > 0 && draw(8) > 0) return head_put_integer(out, 0x80, 0x7f, whole);
    uint8_t kind = kinds[draw(sizeof kinds)];
    size_t size = 1, index = uvhttp__hpack_find_name(name, name_size);
    if (index == 0 || index > UVHTTP__HPACK_STATIC_COUNT || draw(8) == 0) index = find_entry(table, name, NULL);
    if (index > 0)
        size = head_put_integer(out, kind, kind == 0x40 ? 0x3f : 0x0f, index);
    else
        out[0] = kind, size += put_value(out + size, name, name_size);
    if (kind == 0x40) {
        char text[256 + UVHTTP__HPACK_SLACK];
        snprintf(text, sizeof text, "%s%s", name, value);
        assert_int_equal(uvhttp__hpack_table_insert(table, text, name_size, value_size, 0, 0), 0);
    }
    return size + put_value(out + size, value, value_size);
}

/* --- heads --- */

typedef struct line {
    const char *name;
    char value[96];
} line_t;

static const char *const names[] = {"cookie", "cookie", "cookie",  "priority",   "user-agent",
                                    "accept", "x-id",   "x-id",    "te",         "content-length",
                                    "host",   "expect", "referer", "connection", "Bad"};

static void draw_value(line_t *line) {
    static const char *const values[] = {"a",
                                         "u=1",
                                         "trailers",
                                         "7",
                                         "a.example",
                                         "",
                                         " b",
                                         "c ",
                                         "\x01",
                                         "100-continue",
                                         "a value of some more characters than others"};
    if (draw(3) == 0)
        sprintf(line->value, "session=%u", draw(300));
    else
        strcpy(line->value, values[draw(draw(4) == 0 ? sizeof values / sizeof *values : 4)]);
}

static void draw_path(line_t *line) {
    static const char *const paths[] = {"/", "/index.html", "/a%20b", "//", "x", "", "/a?b=c?d", " /", "/\x7f"};
    if (draw(2) == 0)
        sprintf(line->value, "/items/%u?page=%u", draw(50), draw(1000));
    else
        strcpy(line->value, paths[draw(draw(4) == 0 ? sizeof paths / sizeof *paths : 3)]);
}

/* Nearly all heads are good. */
static size_t draw_head(line_t *lines) {
    static const char *const first[] = {":method", ":scheme", ":path", ":authority"};
    size_t count = 0;
    for (size_t i = 0; i < sizeof first / sizeof *first; ++i) {
        if (draw(40) == 0) continue;
        line_t *line = &lines[count++];
        *line = (line_t){.name = first[draw(60) == 0 ? draw(4) : i]};
        strcpy(line->value, i == 0 ? "GET" : i == 1 ? "https" : "a.example");
        if (i == 2) draw_path(line);
    }
    for (size_t left = draw(12); left > 0; --left) {
        line_t *line = &lines[count++];
        *line = (line_t){.name = names[draw(draw(6) == 0 ? sizeof names / sizeof *names : 8)]};
        draw_value(line);
    }
    return count;
}

/* --- what a decoder makes of it --- */

static char *append_span(char *out, const reading_t *reading, const char *what, uvhttp__span_t span) {
    return out + sprintf(out, "%s[%.*s]", what, (int)span.size, reading->scratch + span.offset);
}

static void read_block(reading_t *reading, size_t size) {
    uvhttp__head_t head = {.headers = reading->fields};
    uvhttp__http2_request_t request;
    uint8_t *exact = malloc(size + 1);
    memcpy(exact, block, size);
    free(reading->scratch);
    reading->scratch = malloc(uvhttp__http2_scratch_size(&limits));
    int code = uvhttp__http2_read_request(&reading->decoder, exact, size, &limits, reading->scratch, &head, &request);
    free(exact);
    char *out = reading->text;
    *out = '\0';
    if (code == 0 || uvhttp__http2_scope(code) == UVHTTP__HTTP2_SCOPE_RESPONSE) {
        out = append_span(out, reading, "target", head.target);
        out = append_span(out, reading, "path", head.path);
        out = append_span(out, reading, "query", head.query);
        out += sprintf(out, "method %u plain %u", head.method, head.path_plain);
    }
    if (code == 0) {
        out = append_span(out, reading, "authority", head.authority);
        out = append_span(out, reading, "priority", request.priority);
        for (uint32_t i = 0; i < head.header_count; ++i) {
            out = append_span(out, reading, "name", reading->fields[i].name);
            out = append_span(out, reading, "value", reading->fields[i].value);
            assert_true(reading->fields[i].value.offset + reading->fields[i].value.size <= head.size);
        }
    }
    /* Of several faults of one head any may be returned. */
    sprintf(out, " scope %d", code == 0 ? -1 : (int)uvhttp__http2_scope(code));
}

static void assert_same_tables(const uvhttp__hpack_table_t *a, const uvhttp__hpack_table_t *b) {
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->size, b->size);
    for (uint32_t age = 0; age < a->count; ++age) {
        char text[256 + UVHTTP__HPACK_COPY];
        const uvhttp__hpack_entry_t *entry = uvhttp__hpack_table_entry(a, age);
        uvhttp__hpack_table_copy(a, entry->offset, (size_t)entry->name_size + entry->value_size, text);
        assert_true(uvhttp__hpack_table_equals(b, uvhttp__hpack_table_entry(b, age), text, entry->name_size,
                                               entry->value_size));
    }
}

static void test_heads_mean_the_same_in_all_forms(void **state) {
    (void)state;
    uvhttp__hpack_table_t table;
    line_t lines[LINES_MAX];
    unsigned good = 0;
    uvhttp__hpack_decoder_init(&compressed.decoder);
    uvhttp__hpack_decoder_init(&literal.decoder);
    uvhttp__hpack_table_init(&table);
    for (unsigned i = 0; i < HEADS; ++i) {
        char text[TEXT_MAX];
        size_t size = 0, text_size = 0, count = draw_head(lines);
        for (size_t k = 0; k < count; ++k) {
            size += put_field(block + size, &table, lines[k].name, lines[k].value);
            text_size += (size_t)sprintf(text + text_size, "%s=%s\n", lines[k].name, lines[k].value);
        }
        read_block(&compressed, size);
        assert_same_tables(&compressed.decoder.table, &table);
        text[text_size] = '\0';
        read_block(&literal, head_block(block, text, 0, HEAD_TEXT));
        if (strcmp(compressed.text, literal.text) != 0) {
            print_error("head %u:\n%s", i, text);
            assert_string_equal(compressed.text, literal.text);
        }
        good += strstr(literal.text, "scope -1") != NULL;
    }
    assert_in_range(good, HEADS / 3, HEADS * 9 / 10);
    uvhttp__hpack_table_deinit(&table);
    uvhttp__hpack_decoder_deinit(&compressed.decoder);
    uvhttp__hpack_decoder_deinit(&literal.decoder);
    free(compressed.scratch);
    free(literal.scratch);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_heads_mean_the_same_in_all_forms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
