/* Owns: tests of replies of Redis, each of them cut at every place. */
/* Needs: middleware redis. */
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "middleware/rate_limit_redis.h"
#include "support/run.h"

/* The reply is read from a block of its size, so that a sanitizer sees who reads on. *used: how far. */
static uvhttp__redis_parsed_t parse(const char *bytes, size_t size, size_t *used, uvhttp__redis_reply_t *reply) {
    static char *copy; /* `reply` has views of it */
    free(copy);
    copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    const char *at = copy;
    uvhttp__redis_parsed_t parsed = uvhttp__redis_parse_reply(&at, copy + size, reply);
    *used = (size_t)(at - copy);
    if (parsed != UVHTTP__REDIS_COMPLETE) assert_int_equal(*used, 0);
    return parsed;
}

/* Returns where the bytes are known to be wrong, or complete: before that each part is incomplete, and what follows
 * changes nothing. */
static size_t expect(const char *bytes, size_t size, uvhttp__redis_parsed_t parsed, uvhttp__redis_reply_t *reply) {
    size_t used, known = size + 1;
    for (size_t cut = 0; cut <= size; cut++) {
        uvhttp__redis_parsed_t part = parse(bytes, cut, &used, reply);
        if (part == UVHTTP__REDIS_PART && known > size) continue;
        if (known > size) known = cut;
        if (part != parsed) fail_msg("%zu bytes of %s: %d", cut, bytes, part);
        if (part == UVHTTP__REDIS_COMPLETE) assert_int_equal(used, known);
    }
    if (known > size) fail_msg("incomplete: %s", bytes);
    return known;
}

static void test_replies_are_read(void **state) {
    (void)state;
    static const struct {
        const char *bytes, *text;
        size_t used;
    } cases[] = {
        {"+OK\r\n", "OK", 5},
        {"+\r\n", "", 3},
        {"+OK\r\n+", "OK", 5},
        {"-NOSCRIPT No script\r\n", "NOSCRIPT No script", 21},
        {"$5\r\nhello\r\n", "hello", 11},
        {"$0\r\n\r\n", "", 6},
        {"$5\r\na\r\nbc\r\n+OK\r\n", "a\r\nbc", 11},
    };
    uvhttp__redis_reply_t reply;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t used = expect(cases[i].bytes, strlen(cases[i].bytes), UVHTTP__REDIS_COMPLETE, &reply);
        assert_int_equal(used, cases[i].used);
        assert_int_equal(reply.type, *cases[i].bytes);
        assert_int_equal(reply.text.size, strlen(cases[i].text));
        assert_memory_equal(reply.text.data, cases[i].text, reply.text.size);
    }
}

static void test_a_decision_has_three_numbers(void **state) {
    (void)state;
    static const char bytes[] = "*3\r\n:1\r\n:-9223372036854775807\r\n:0\r\n:4\r\n";
    uvhttp__redis_reply_t reply;
    assert_int_equal(expect(bytes, sizeof bytes - 1, UVHTTP__REDIS_COMPLETE, &reply), sizeof bytes - 5);
    assert_int_equal(reply.type, '*');
    assert_int_equal(reply.numbers[0], 1);
    assert_true(reply.numbers[1] == -INT64_MAX);
    assert_int_equal(reply.numbers[2], 0);
}

static void test_what_nobody_asked_for_ends_the_connection(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "\n",
        "\r\n",
        "OK\r\n",
        "+OK\n",
        ":1\r\n", /* a number alone */
        "_\r\n",
        "$-1\r\n",
        "$x\r\n",
        "$\r\n",
        "$-\r\n",
        "$4065\r\n", /* more than is kept */
        "$99999999999999999999\r\n",
        "$9223372036854775808\r\n",
        "$1\r\nabc",
        "*2\r\n",
        "*4\r\n",
        "*-1\r\n",
        "*\r\n",
        "*x\r\n",
        "*3\r\n+a\r\n",
        "*3\r\n:\r\n",
        "*3\r\n:x\r\n",
        "*3\r\n:1\n",
        "*3\r\n\r\n",
        "*3\r\n:1\r\n$1\r\n",
    };
    uvhttp__redis_reply_t reply;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        (void)expect(wrong[i], strlen(wrong[i]), UVHTTP__REDIS_WRONG, &reply);
}

static void test_the_longest_string_that_is_kept(void **state) {
    (void)state;
    static char bytes[4096];
    uvhttp__redis_reply_t reply;
    size_t size = (size_t)sprintf(bytes, "$%d\r\n", UVHTTP__REDIS_REPLY_SIZE_MAX - 32);
    memset(bytes + size, 'x', UVHTTP__REDIS_REPLY_SIZE_MAX - 32);
    size += UVHTTP__REDIS_REPLY_SIZE_MAX - 32;
    memcpy(bytes + size, "\r\n", 2);
    assert_int_equal(expect(bytes, size + 2, UVHTTP__REDIS_COMPLETE, &reply), size + 2);
    assert_int_equal(reply.text.size, UVHTTP__REDIS_REPLY_SIZE_MAX - 32);
}

int main(void) {
    return RUN_TESTS(test_replies_are_read, test_a_decision_has_three_numbers,
                     test_what_nobody_asked_for_ends_the_connection, test_the_longest_string_that_is_kept);
}
