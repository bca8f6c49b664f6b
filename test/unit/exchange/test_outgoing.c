/* Owns: tests of the body of a response that is pulled: windows of every size, abort at every piece, allocations that
 * fail; whatever happens, each keeper is released once, and not before the last of its bytes is needed. */
#include "exchange/outgoing.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/failing_allocator.h"

enum { CONSUMED_MAX = 256, KEEPERS_MAX = 300 };

/* What a protocol has pulled, and what it still holds. */
typedef struct taker {
    uvhttp__outgoing_t outgoing;
    uvhttp__body_t body; /* in parts: it stays while they are accepted */
    char consumed[CONSUMED_MAX];
    size_t size;
    uvhttp__keeper_t held[KEEPERS_MAX];
    size_t held_count;
    int released; /* of the body's own keeper */
} taker_t;

static void never_ready(uvhttp__outgoing_t *outgoing) {
    (void)outgoing;
    fail_msg("nothing was awaited");
}

static taker_t *taker_new(void) {
    taker_t *taker = calloc(1, sizeof *taker);
    assert_non_null(taker);
    uvhttp__outgoing_init(&taker->outgoing, never_ready, NULL);
    return taker;
}

/* At most `window` bytes of the next piece. Returns what peek or consume does. */
static int take_piece(taker_t *taker, uint64_t window) {
    uvhttp__piece_t piece;
    uvhttp__keeper_t keeper;
    int status = uvhttp__outgoing_peek(&taker->outgoing, false, &piece);
    if (status != UVHTTP_OK) return status;
    assert_int_not_equal(piece.kind, UVHTTP__PIECE_FILE);
    assert_true(piece.size > 0 && piece.size <= taker->outgoing.size);
    uint64_t size = piece.size < window ? piece.size : window, before = taker->outgoing.size;
    assert_true(taker->size + size <= CONSUMED_MAX && taker->held_count < KEEPERS_MAX);
    memcpy(taker->consumed + taker->size, piece.data, size);
    status = uvhttp__outgoing_consume(&taker->outgoing, size, &keeper);
    if (status != UVHTTP_OK) {
        assert_int_equal(taker->outgoing.size, before);
        return status;
    }
    taker->size += size;
    taker->held[taker->held_count++] = keeper;
    return UVHTTP_OK;
}

static int take(taker_t *taker, uint64_t window) {
    int status;
    while ((status = take_piece(taker, window)) == UVHTTP_OK) continue;
    return status;
}

static void release_held(taker_t *taker) {
    while (taker->held_count > 0) uvhttp__keeper_release(taker->held[--taker->held_count]);
}

static void taker_free(taker_t *taker) {
    uvhttp__outgoing_release(&taker->outgoing);
    release_held(taker);
    free(taker);
}

#define assert_consumed(taker, text)                                                                                   \
    do {                                                                                                               \
        assert_int_equal((taker)->size, strlen(text));                                                                 \
        assert_memory_equal((taker)->consumed, (text), strlen(text));                                                  \
    } while (0)

/* --- streamed bodies --- */

/* Nothing is pulled in the call, so that all is copied. */
static int write_text(taker_t *taker, const char *text) {
    char lent[64];
    size_t size = strlen(text);
    memcpy(lent, text, size);
    uvhttp__outgoing_lend(&taker->outgoing, lent, size);
    int status = uvhttp__outgoing_take_back(&taker->outgoing, true);
    memset(lent, '?', sizeof lent);
    return status;
}

static void count_release(void *arg) {
    ++*(int *)arg;
}

static void test_copies_and_references_come_out_in_order_and_are_released_once(void **state) {
    (void)state;
    for (uint64_t window = 1; window <= 12; window++) {
        int released = 0, dropped = 0;
        taker_t *taker = taker_new();
        char head[] = "one ", rest[] = "and two ";
        assert_int_equal(uvhttp__outgoing_put_copy(&taker->outgoing, (uvhttp_str_t){head, 4}, (uvhttp_str_t){rest, 8}),
                         UVHTTP_OK);
        memset(rest, '?', sizeof rest);
        assert_int_equal(uvhttp__outgoing_put_reference(&taker->outgoing, (uvhttp_str_t){"three", 5},
                                                        (uvhttp__keeper_t){count_release, &released}),
                         UVHTTP_OK);
        assert_int_equal(taker->outgoing.size, 17);
        assert_int_equal(take(taker, window), UVHTTP_E_AGAIN);
        assert_consumed(taker, "one and two three");
        assert_int_equal(released, 0);
        release_held(taker);
        assert_int_equal(released, 1);
        assert_int_equal(uvhttp__outgoing_put_reference(&taker->outgoing, (uvhttp_str_t){"four", 4},
                                                        (uvhttp__keeper_t){count_release, &dropped}),
                         UVHTTP_OK);
        taker_free(taker);
        assert_int_equal(dropped, 1);
    }
}

static void test_what_is_written_comes_out_in_order_through_any_window(void **state) {
    (void)state;
    for (uint64_t window = 1; window <= 12; window++) {
        taker_t *taker = taker_new();
        assert_int_equal(take(taker, window), UVHTTP_E_AGAIN);
        assert_int_equal(write_text(taker, "one "), UVHTTP_OK);
        assert_int_equal(write_text(taker, "and two "), UVHTTP_OK);
        assert_int_equal(taker->outgoing.size, 12);
        assert_int_equal(take(taker, window), UVHTTP_E_AGAIN);
        assert_int_equal(taker->outgoing.size, 0);
        assert_int_equal(write_text(taker, "three"), UVHTTP_OK);
        uvhttp__outgoing_end(&taker->outgoing);
        assert_int_equal(take(taker, window), UVHTTP_E_EOF);
        assert_consumed(taker, "one and two three");
        taker_free(taker);
    }
}

static void test_a_piece_that_is_pulled_in_the_call_is_not_copied(void **state) {
    (void)state;
    taker_t *taker = taker_new();
    size_t before = test_allocator_count();
    for (int i = 0; i < 3; i++) {
        uvhttp__outgoing_lend(&taker->outgoing, "abc", 3);
        assert_int_equal(take(taker, CONSUMED_MAX), UVHTTP_E_AGAIN);
        assert_int_equal(uvhttp__outgoing_take_back(&taker->outgoing, true), UVHTTP_OK);
    }
    assert_int_equal(test_allocator_count(), before);
    assert_consumed(taker, "abcabcabc");
    taker_free(taker);
}

static void test_of_a_piece_that_is_pulled_in_part_the_rest_is_copied(void **state) {
    (void)state;
    for (uint64_t window = 1; window <= 8; window++) {
        taker_t *taker = taker_new();
        char lent[] = "12345678";
        assert_int_equal(write_text(taker, "0"), UVHTTP_OK);
        uvhttp__outgoing_lend(&taker->outgoing, lent, 8);
        assert_int_equal(take_piece(taker, 1), UVHTTP_OK); /* what is before it comes first */
        assert_int_equal(take_piece(taker, window), UVHTTP_OK);
        assert_int_equal(uvhttp__outgoing_take_back(&taker->outgoing, true), UVHTTP_OK);
        memset(lent, '?', sizeof lent);
        assert_int_equal(write_text(taker, "9"), UVHTTP_OK);
        assert_int_equal(take(taker, 3), UVHTTP_E_AGAIN);
        assert_consumed(taker, "0123456789");
        taker_free(taker);
    }
}

static void test_a_piece_that_is_not_kept_is_gone(void **state) {
    (void)state;
    taker_t *taker = taker_new();
    assert_int_equal(write_text(taker, "a"), UVHTTP_OK);
    uvhttp__outgoing_lend(&taker->outgoing, "lost", 4);
    assert_int_equal(uvhttp__outgoing_take_back(&taker->outgoing, false), UVHTTP_OK);
    assert_int_equal(taker->outgoing.size, 1);
    assert_int_equal(write_text(taker, "b"), UVHTTP_OK);
    uvhttp__outgoing_end(&taker->outgoing);
    assert_int_equal(take(taker, 1), UVHTTP_E_EOF);
    assert_consumed(taker, "ab");
    taker_free(taker);
}

static void test_without_memory_a_piece_is_refused_and_what_was_begun_cannot_continue(void **state) {
    (void)state;
    taker_t *taker = taker_new();
    test_allocator_fail_at(1);
    assert_int_equal(write_text(taker, "lost"), UVHTTP_E_NOMEM);
    assert_int_equal(write_text(taker, "abc"), UVHTTP_OK);
    assert_int_equal(take(taker, 8), UVHTTP_E_AGAIN);
    assert_consumed(taker, "abc");
    uvhttp__outgoing_lend(&taker->outgoing, "defg", 4);
    assert_int_equal(take_piece(taker, 1), UVHTTP_OK);
    test_allocator_fail_at(1);
    assert_int_equal(uvhttp__outgoing_take_back(&taker->outgoing, true), UVHTTP_E_NOMEM);
    test_allocator_fail_at(0);
    assert_int_equal(take(taker, 8), UVHTTP_E_NOMEM);
    assert_int_equal(take(taker, 8), UVHTTP_E_NOMEM);
    taker_free(taker);
}

/* --- complete bodies --- */

static void put_reference(taker_t *taker, const char *text) {
    uvhttp__body_t body = {.kind = UVHTTP__BODY_REF, .size = strlen(text), .data = text};
    const uvhttp__keeper_t keeper = {count_release, &taker->released};
    assert_int_equal(uvhttp__outgoing_put_body(&taker->outgoing, &body, keeper, NULL), 0);
    assert_int_equal(body.kind, UVHTTP__BODY_NONE);
}

static void test_a_reference_is_kept_until_the_last_piece_of_it_is_released(void **state) {
    (void)state;
    for (uint64_t window = 1; window <= 10; window++) {
        taker_t *taker = taker_new();
        put_reference(taker, "0123456789");
        assert_int_equal(take(taker, window), UVHTTP_E_EOF);
        assert_consumed(taker, "0123456789");
        while (taker->held_count > 0) {
            assert_int_equal(taker->released, 0);
            uvhttp__keeper_release(taker->held[--taker->held_count]);
        }
        assert_int_equal(taker->released, 1);
        taker_free(taker);
    }
}

static void test_a_whole_reference_costs_no_memory(void **state) {
    (void)state;
    taker_t *taker = taker_new();
    size_t before = test_allocator_count();
    put_reference(taker, "0123456789");
    assert_int_equal(take(taker, CONSUMED_MAX), UVHTTP_E_EOF);
    assert_int_equal(test_allocator_count(), before);
    taker_free(taker);
}

static void test_an_abort_releases_what_was_not_pulled_and_pieces_keep_theirs(void **state) {
    (void)state;
    for (int pieces = 0; pieces <= 10; pieces++) {
        taker_t *taker = taker_new();
        put_reference(taker, "0123456789");
        for (int i = 0; i < pieces; i++) assert_int_equal(take_piece(taker, 1), UVHTTP_OK);
        uvhttp__outgoing_release(&taker->outgoing);
        assert_int_equal(taker->outgoing.size, 0);
        assert_int_equal(taker->released, pieces == 0);
        assert_int_equal(take(taker, 1), UVHTTP_E_ABORTED);
        release_held(taker);
        assert_int_equal(taker->released, 1);
        taker_free(taker);
    }
}

static void test_memory_has_the_keeper_that_was_given(void **state) {
    (void)state;
    const uint8_t kinds[] = {UVHTTP__BODY_MEMORY, UVHTTP__BODY_STATIC};
    for (int i = 0; i < 2; i++) {
        taker_t *taker = taker_new();
        uvhttp__body_t body = {.kind = kinds[i], .size = 5, .data = "12345"};
        const bool kept = kinds[i] == UVHTTP__BODY_MEMORY;
        const uvhttp__keeper_t keeper = {kept ? count_release : NULL, &taker->released};
        assert_int_equal(uvhttp__outgoing_put_body(&taker->outgoing, &body, keeper, NULL), UVHTTP_OK);
        assert_int_equal(take(taker, 2), UVHTTP_E_EOF);
        assert_consumed(taker, "12345");
        release_held(taker);
        assert_int_equal(taker->released, kept);
        taker_free(taker);
    }
}

static void test_a_shared_body_is_a_file_for_peers_that_can_send_one(void **state) {
    (void)state;
    taker_t *taker = taker_new();
    uvhttp_shared_body_t content = {.fd = 0, .size = 10, .data = "0123456789"};
    uvhttp__body_t body = {.kind = UVHTTP__BODY_SHARED, .size = 10, .release = NULL, .arg = &content};
    uvhttp__piece_t piece;
    uvhttp__keeper_t keeper;
    assert_int_equal(uvhttp__outgoing_put_body(&taker->outgoing, &body, (uvhttp__keeper_t){NULL, NULL}, NULL), 0);
    assert_int_equal(uvhttp__outgoing_peek(&taker->outgoing, true, &piece), UVHTTP_OK);
    assert_int_equal(piece.kind, UVHTTP__PIECE_FILE);
    assert_int_equal(piece.fd, 0);
    assert_int_equal(uvhttp__outgoing_consume(&taker->outgoing, 3, &keeper), UVHTTP_OK);
    assert_int_equal(uvhttp__outgoing_peek(&taker->outgoing, true, &piece), UVHTTP_OK);
    assert_int_equal(piece.offset, 3);
    assert_int_equal(piece.size, 7);
    assert_int_equal(take(taker, 2), UVHTTP_E_EOF);
    assert_consumed(taker, "3456789");
    taker_free(taker);
}

/* --- bodies in parts --- */

enum { PARTS = 5 };

static void put_parts(taker_t *taker, uvhttp__body_parts_t *parts) {
    const uvhttp__body_part_t all[PARTS] = {{.data = "<a>", .size = 3},
                                            {.data = "first", .size = 5, .held = true},
                                            {.data = "<b>", .size = 3},
                                            {.data = "second", .size = 6, .held = true},
                                            {.data = "<c>", .size = 3}};
    *parts = (uvhttp__body_parts_t){.fd = -1, .count = PARTS};
    memcpy(parts->parts, all, sizeof all);
    taker->body = (uvhttp__body_t){
        .kind = UVHTTP__BODY_PARTS, .size = 20, .parts = parts, .release = count_release, .arg = &taker->released};
    assert_int_equal(uvhttp__outgoing_put_body(&taker->outgoing, &taker->body, (uvhttp__keeper_t){NULL, NULL}, NULL),
                     0);
}

static void test_parts_are_one_body_and_are_released_one_by_one(void **state) {
    (void)state;
    uvhttp__body_parts_t *parts = malloc(sizeof *parts + PARTS * sizeof parts->parts[0]);
    assert_non_null(parts);
    for (uint64_t window = 1; window <= 7; window++)
        for (int abort_at = 0; abort_at <= 20; abort_at++) {
            taker_t *taker = taker_new();
            put_parts(taker, parts);
            int status = UVHTTP_OK;
            for (int i = 0; i < abort_at && status == UVHTTP_OK; i++) status = take_piece(taker, window);
            assert_memory_equal(taker->consumed, "<a>first<b>second<c>", taker->size);
            assert_int_equal(taker->outgoing.size, 20 - taker->size);
            if (status != UVHTTP_OK) assert_int_equal(status, UVHTTP_E_EOF);
            uvhttp__outgoing_release(&taker->outgoing);
            release_held(taker);
            assert_int_equal(taker->released, 2);
            taker_free(taker);
        }
    free(parts);
}

static void test_only_what_has_a_keeper_of_its_own_stays_where_it_is(void **state) {
    (void)state;
    taker_t *taker = taker_new();
    uvhttp__body_parts_t *parts = malloc(sizeof *parts + PARTS * sizeof parts->parts[0]);
    assert_non_null(parts);
    put_parts(taker, parts);
    for (int i = 0; i < PARTS; i++) {
        uvhttp__piece_t piece;
        assert_int_equal(uvhttp__outgoing_peek(&taker->outgoing, false, &piece), UVHTTP_OK);
        assert_int_equal(piece.kind, parts->parts[i].held ? UVHTTP__PIECE_KEPT : UVHTTP__PIECE_LENT);
        assert_int_equal(take_piece(taker, CONSUMED_MAX), UVHTTP_OK);
    }
    taker_free(taker);
    free(parts);
}

static void take_with_failures(void *user) {
    taker_t *taker = taker_new();
    put_parts(taker, user);
    int status = take(taker, 2);
    assert_true(status == UVHTTP_E_EOF || status == UVHTTP_E_NOMEM);
    if (status == UVHTTP_E_NOMEM) status = take(taker, 2); /* nothing was lost: a protocol may try again */
    if (status == UVHTTP_E_EOF) assert_consumed(taker, "<a>first<b>second<c>");
    uvhttp__outgoing_release(&taker->outgoing);
    release_held(taker);
    assert_int_equal(taker->released, 2);
    taker_free(taker);
}

static void test_every_allocation_may_fail(void **state) {
    (void)state;
    uvhttp__body_parts_t *parts = malloc(sizeof *parts + PARTS * sizeof parts->parts[0]);
    assert_non_null(parts);
    assert_int_equal(test_allocator_each_failure(take_with_failures, parts), 2);
    free(parts);
}

/* --- files --- */

enum { FILE_SIZE = 100 };

/* A file of zeros. A kernel before 6.5 does not say whether a memfd's pages are in memory. */
static int file_open(void) {
    char path[] = "/tmp/uvhttp-outgoing-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    assert_true(fd >= 0 && unlink(path) == 0 && ftruncate(fd, FILE_SIZE) == 0);
    return fd;
}

static int put_file(taker_t *taker, int fd) {
    uvhttp__body_t body = {.kind = UVHTTP__BODY_FILE, .fd = fd, .offset = 10, .size = FILE_SIZE - 10};
    return uvhttp__outgoing_put_body(&taker->outgoing, &body, (uvhttp__keeper_t){NULL, NULL}, NULL);
}

static void test_a_file_is_closed_once_when_nobody_takes_it(void **state) {
    (void)state;
    taker_t *taker = taker_new();
    int fd = file_open();
    assert_int_equal(put_file(taker, fd), UVHTTP_OK);
    assert_int_equal(uvhttp__outgoing_file_size(&taker->outgoing), FILE_SIZE - 10);
    assert_int_equal(taker->outgoing.size, FILE_SIZE - 10);
    uvhttp__outgoing_release(&taker->outgoing);
    assert_int_equal(uvhttp__outgoing_file_size(&taker->outgoing), 0);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    taker_free(taker);
}

static void test_without_memory_a_file_is_refused_and_closed(void **state) {
    (void)state;
    taker_t *taker = taker_new();
    int fd = file_open();
    test_allocator_fail_at(1);
    assert_int_equal(put_file(taker, fd), UVHTTP_E_NOMEM);
    test_allocator_fail_at(0);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    taker_free(taker);
}

static uvhttp__body_parts_t *put_file_parts(taker_t *taker, bool copied) {
    uvhttp__body_parts_t *parts = malloc(sizeof *parts + 2 * sizeof parts->parts[0]);
    assert_non_null(parts);
    *parts = (uvhttp__body_parts_t){.fd = -1, .copied = copied, .count = 2};
    parts->parts[0] = (uvhttp__body_part_t){.data = "<a>", .size = 3};
    parts->parts[1] = (uvhttp__body_part_t){.size = FILE_SIZE, .held = true};
    taker->body = (uvhttp__body_t){.kind = UVHTTP__BODY_PARTS,
                                   .size = 3 + FILE_SIZE,
                                   .parts = parts,
                                   .release = count_release,
                                   .arg = &taker->released};
    assert_int_equal(uvhttp__outgoing_put_body(&taker->outgoing, &taker->body, (uvhttp__keeper_t){NULL, NULL}, NULL),
                     0);
    return parts;
}

static void test_a_file_among_parts_is_reported_when_it_is_next_and_may_go_by_sendfile(void **state) {
    (void)state;
    for (int copied = 0; copied <= 1; copied++) {
        taker_t *taker = taker_new();
        uvhttp__body_parts_t *parts = put_file_parts(taker, copied);
        assert_int_equal(uvhttp__outgoing_file_size(&taker->outgoing), 0);
        assert_int_equal(take_piece(taker, 2), UVHTTP_OK);
        assert_int_equal(uvhttp__outgoing_file_size(&taker->outgoing), 0); /* the rest of "<a>" is next */
        assert_int_equal(take_piece(taker, 1), UVHTTP_OK);
        assert_int_equal(uvhttp__outgoing_file_size(&taker->outgoing), copied ? 0 : FILE_SIZE);
        assert_int_equal(uvhttp__outgoing_file_size(&taker->outgoing), copied ? 0 : FILE_SIZE);
        taker_free(taker);
        free(parts);
    }
}

static void test_without_memory_for_the_next_part_the_rest_cannot_be_had(void **state) {
    (void)state;
    taker_t *taker = taker_new();
    uvhttp__body_parts_t *parts = put_file_parts(taker, false);
    assert_int_equal(take_piece(taker, 3), UVHTTP_OK);
    test_allocator_fail_at(1);
    assert_int_equal(uvhttp__outgoing_file_size(&taker->outgoing), 0);
    test_allocator_fail_at(0);
    assert_int_equal(taker->released, 1);
    assert_int_equal(uvhttp__outgoing_file_size(&taker->outgoing), 0);
    assert_int_equal(take(taker, 1), UVHTTP_E_NOMEM);
    uvhttp__outgoing_release(&taker->outgoing);
    assert_int_equal(taker->released, 1);
    taker_free(taker);
    free(parts);
}

/* What was begun may end with the last byte of a part: nothing but the failure is left then. */
static void test_after_a_failure_no_part_is_put_in(void **state) {
    (void)state;
    taker_t *taker = taker_new();
    uvhttp__body_parts_t *parts = put_file_parts(taker, false);
    assert_int_equal(take_piece(taker, 3), UVHTTP_OK);
    taker->outgoing.failure = UVHTTP_E_IO;
    assert_int_equal(uvhttp__outgoing_file_size(&taker->outgoing), 0);
    assert_int_equal(take(taker, 1), UVHTTP_E_IO);
    assert_null(taker->outgoing.first);
    taker_free(taker);
    free(parts);
}

static void test_a_file_is_consumed_by_sendfile_to_its_end(void **state) {
    (void)state;
    uvhttp__loop_t loop = {.now_ms = 1};
    uvhttp__work_port_t port = {.loop = &loop};
    taker_t *taker = taker_new();
    int fd = file_open();
    uvhttp__body_t body = {.kind = UVHTTP__BODY_FILE, .fd = fd, .size = FILE_SIZE};
    uvhttp__piece_t piece;
    uvhttp__keeper_t keeper;
    char data[FILE_SIZE] = "";
    assert_int_equal(pwrite(fd, data, sizeof data, 0), FILE_SIZE); /* it is in memory */
    assert_int_equal(uvhttp__outgoing_put_body(&taker->outgoing, &body, (uvhttp__keeper_t){NULL, NULL}, &port), 0);
    static const uint64_t sizes[] = {50, 49, 1};
    for (uint64_t i = 0, consumed = 0; i < 3; consumed += sizes[i++]) {
        assert_int_equal(uvhttp__outgoing_peek(&taker->outgoing, true, &piece), UVHTTP_OK);
        assert_int_equal(piece.kind, UVHTTP__PIECE_FILE);
        assert_int_equal(piece.offset, consumed);
        assert_int_equal(uvhttp__outgoing_file_size(&taker->outgoing), 0); /* it is decided */
        assert_int_equal(uvhttp__outgoing_consume(&taker->outgoing, sizes[i], &keeper), UVHTTP_OK);
        assert_int_equal(taker->outgoing.size, FILE_SIZE - consumed - sizes[i]);
        taker->held[taker->held_count++] = keeper;
    }
    assert_int_equal(uvhttp__outgoing_peek(&taker->outgoing, true, &piece), UVHTTP_E_EOF);
    assert_true(fcntl(fd, F_GETFD) >= 0); /* what has left is still being sent */
    release_held(taker);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    taker_free(taker);
}

int main(void) {
    test_allocator_install();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies_and_references_come_out_in_order_and_are_released_once),
        cmocka_unit_test(test_what_is_written_comes_out_in_order_through_any_window),
        cmocka_unit_test(test_a_piece_that_is_pulled_in_the_call_is_not_copied),
        cmocka_unit_test(test_of_a_piece_that_is_pulled_in_part_the_rest_is_copied),
        cmocka_unit_test(test_a_piece_that_is_not_kept_is_gone),
        cmocka_unit_test(test_without_memory_a_piece_is_refused_and_what_was_begun_cannot_continue),
        cmocka_unit_test(test_a_reference_is_kept_until_the_last_piece_of_it_is_released),
        cmocka_unit_test(test_a_whole_reference_costs_no_memory),
        cmocka_unit_test(test_an_abort_releases_what_was_not_pulled_and_pieces_keep_theirs),
        cmocka_unit_test(test_memory_has_the_keeper_that_was_given),
        cmocka_unit_test(test_a_shared_body_is_a_file_for_peers_that_can_send_one),
        cmocka_unit_test(test_parts_are_one_body_and_are_released_one_by_one),
        cmocka_unit_test(test_only_what_has_a_keeper_of_its_own_stays_where_it_is),
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_a_file_is_closed_once_when_nobody_takes_it),
        cmocka_unit_test(test_without_memory_a_file_is_refused_and_closed),
        cmocka_unit_test(test_a_file_among_parts_is_reported_when_it_is_next_and_may_go_by_sendfile),
        cmocka_unit_test(test_without_memory_for_the_next_part_the_rest_cannot_be_had),
        cmocka_unit_test(test_after_a_failure_no_part_is_put_in),
        cmocka_unit_test(test_a_file_is_consumed_by_sendfile_to_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
