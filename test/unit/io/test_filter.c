/* Owns: tests of what a filter is given to encode: pieces that are complete where they are are not copied, and small
 * ones are collected. */
#include "support/io_server.h"

enum { PIECE = UVHTTP__FILTER_PIECE_MAX };

typedef struct fixture {
    uvhttp__filter_t filter;
    const char *orders; /* letters, of `sizes` */
    char *data;         /* what all pieces are the beginning of */
    char encoded[1024]; /* the sizes that were given to the filter, in order; "=": where they are */
} fixture_t;

static fixture_t fixture;

/* t: the iteration arena; others by reference. */
static size_t size_of(char order) {
    switch (order) {
        case 't': return 100;
        case 's': return 5000;
        case 'p': return PIECE;
        case 'q': return PIECE - 1;
        default: return 4 * PIECE;
    }
}

/* --- the filter --- */

static int encode(uvhttp__stream_t *stream, const char *data, size_t size) {
    size_t at = strlen(fixture.encoded);
    bool in_place = data >= fixture.data && data < fixture.data + 4 * PIECE;
    snprintf(fixture.encoded + at, sizeof fixture.encoded - at, "%zu%s ", size, in_place ? "=" : "");
    return uvhttp__filter_put(stream, data, size);
}

static const uvhttp__filter_ops_t filter_ops = {.encode = encode,
                                                .encode_end = filter_does_nothing,
                                                .closing = filter_does_nothing,
                                                .unread = filter_holds_nothing};

/* --- the server --- */

static size_t on_data(uvhttp__stream_t *stream, const char *data, size_t size) {
    (void)data;
    for (const char *order = fixture.orders; *order; order++) {
        if (*order == 't')
            uvhttp__stream_send_copy(stream, fixture.data, size_of('t'));
        else
            uvhttp__stream_send_ref(stream, fixture.data, size_of(*order), NULL, NULL);
    }
    uvhttp__stream_notify_sent(stream);
    return size;
}

static const uvhttp__stream_ops_t ops = {
    .on_data = on_data, .on_end = peer_close_at_end, .on_sent = peer_count_sent, .on_closed = peer_on_closed};

/* What the filter is given of the pieces, which the client gets as they are. */
static void expect_encoded(server_t *server, const char *orders, const char *sizes) {
    memset(&fixture, 0, sizeof fixture);
    fixture.filter = (uvhttp__filter_t){.ops = &filter_ops};
    fixture.orders = orders;
    fixture.data = pattern_new(4 * PIECE);
    server->filter = &fixture.filter;
    server_start(server, &ops);
    int fd = client_connect(server->port);
    client_send(fd, "x", 1);
    for (const char *order = orders; *order; order++) client_expect(fd, fixture.data, size_of(*order));
    server_wait(server, EV_SENT, 1);
    assert_string_equal(fixture.encoded, sizes);
    close(fd);
    server_wait(server, EV_CLOSED, 1);
    free(fixture.data);
}

static void test_small_pieces_are_collected(void **state) {
    expect_encoded(*state, "tsss", "15100 ");
}

static void test_what_small_pieces_are_more_than_one_record_is_collected_to_full_ones(void **state) {
    expect_encoded(*state, "tqss", "16384 10099 ");
}

static void test_a_piece_of_one_record_is_encoded_where_it_is(void **state) {
    expect_encoded(*state, "tppsptp", "100 16384= 16384= 5000 16384= 100 16384= ");
}

static void test_a_larger_piece_fills_the_record_before_it(void **state) {
    expect_encoded(*state, "tr", "16384 16384= 16384= 16384= 100= ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_EACH(test_small_pieces_are_collected),
        ON_EACH(test_what_small_pieces_are_more_than_one_record_is_collected_to_full_ones),
        ON_EACH(test_a_piece_of_one_record_is_encoded_where_it_is),
        ON_EACH(test_a_larger_piece_fills_the_record_before_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
