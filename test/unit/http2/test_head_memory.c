/* Owns: tests of request heads whose table cannot have its memory: the connection cannot be used any more, and with
 * memory the same block is a request. */
#include "support/failing_allocator.h"

#include "head_feed.h"
#include "support/run.h"

/* GET, https, "/", "a", and a literal that the table gets; its value is Huffman code or text. */
static size_t put_block(const char *name, const char *value, head_form_t value_form) {
    size_t at = 0;
    block[at++] = 0x82;
    block[at++] = 0x87;
    if (strcmp(name, ":path") != 0) block[at++] = 0x84;
    at += head_put_name(block + at, ":authority", 10, 0, HEAD_HUFFMAN);
    at += head_put_value(block + at, "a", 1, HEAD_TEXT);
    at += head_put_name(block + at, name, strlen(name), 0x40, HEAD_HUFFMAN);
    return at + head_put_value(block + at, value, strlen(value), value_form);
}

static int read_block(size_t size) {
    free(scratch);
    scratch = malloc(uvhttp__http2_scratch_size(&connect_limits));
    memset(&head, 0xa5, sizeof head);
    head.headers = fields;
    return uvhttp__http2_read_request(&decoder, block, size, &connect_limits, scratch, &head, &request);
}

static void test_a_table_without_memory_ends_the_connection(void **state) {
    static const struct {
        const char *name, *value;
    } literals[] = {{":path", "/tea?green"}, {":path", "/tea"}, {"accept", "text/html"}, {"cookie", "a=b"}};
    for (size_t i = 0; i < sizeof literals / sizeof *literals; i++)
        for (head_form_t value_form = HEAD_TEXT; value_form <= HEAD_HUFFMAN; value_form += HEAD_HUFFMAN) {
            size_t size = put_block(literals[i].name, literals[i].value, value_form);
            test_allocator_fail_from(1); /* also where another way to read it would try again */
            assert_int_equal(read_block(size), UVHTTP_E_NOMEM);
            assert_true(test_allocator_failed());
            assert_int_equal(uvhttp__http2_scope(UVHTTP_E_NOMEM), UVHTTP__HTTP2_SCOPE_CONNECTION);
            test_allocator_fail_at(0);
            tear_down(state);
            set_up(state);
            assert_int_equal(read_block(size), UVHTTP_OK);
            assert_int_equal(decoder.table.count, 1);
            if (literals[i].name[0] == ':')
                assert_string_equal(text(head.target), literals[i].value);
            else
                assert_string_equal(field(literals[i].name), literals[i].value);
            tear_down(state);
            set_up(state);
        }
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS_WITH(set_up, tear_down, test_a_table_without_memory_ends_the_connection);
}
