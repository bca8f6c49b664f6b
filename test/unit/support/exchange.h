/* Owns: a request and a response for tests, as the server's session would make them: the head is built field by field,
 * and the sink writes down what it is asked to do. Include after cmocka.h. */
#ifndef UVHTTP_TEST_UNIT_SUPPORT_EXCHANGE_H
#define UVHTTP_TEST_UNIT_SUPPORT_EXCHANGE_H

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "message/message.h"

#define STR(literal) ((uvhttp_str_t){"" literal, sizeof(literal) - 1})
#define assert_str(str, text)                                                                                          \
    do {                                                                                                               \
        uvhttp_str_t str_ = (str);                                                                                     \
        assert_non_null(str_.data);                                                                                    \
        assert_int_equal(str_.size, strlen(text));                                                                     \
        assert_memory_equal(str_.data, text, str_.size);                                                               \
    } while (0)

typedef struct exchange {
    uvhttp_request_t req;
    uvhttp_response_t res;
    uvhttp__arena_t arena;
    uvhttp__field_t fields[32];
    char head[70000];
    size_t head_size;
    char log[4096];  /* what the sink and the hooks did, in words separated by ' ' */
    int sink_result; /* what it returns */
    bool defer_fails;
    int peer_calls;
} exchange_t;

exchange_t *exchange_of(const uvhttp_response_t *res);
__attribute__((format(printf, 2, 3))) void exchange_log(exchange_t *ex, const char *format, ...);
int exchange_begin(uvhttp_response_t *res);
int exchange_end(uvhttp_response_t *res);
void exchange_cut_off(uvhttp_response_t *res);
/* Begins a request; never plain, so that decoding has to find out. */
void exchange_request(exchange_t *ex, uvhttp_method_t method, uvhttp_str_t path, const char *query);
void exchange_field(exchange_t *ex, const char *name, const char *value);
void exchange_init(exchange_t *ex, size_t memory_max);
void exchange_deinit(exchange_t *ex);

#endif
