/* Streamed responses on each backend, plain and compressed, as each allocation fails once: their handlers write when
 * the queue has drained, and end the response only behind the last piece. One that cannot be complete any more is cut
 * off by the library: no client waits for its rest, and nothing of it is written behind a gap. */
/* Needs: middleware compression. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp.h>

#include <cmocka.h>

#include "support/failing_allocator.h"
#include "support/failing_calls.h"

enum { PIECES = 6, PIECE = 3000 };

typedef struct stream {
    uvhttp_deferred_t *deferred;
    unsigned pieces;
} stream_t;

static unsigned streams; /* whose on_done is to come */

static void write_rest(uvhttp_response_t *res, void *user) {
    static char piece[PIECE];
    stream_t *stream = user;
    if (!res) return;
    for (; stream->pieces < PIECES; stream->pieces++) {
        memset(piece, 'a' + (int)stream->pieces, sizeof piece);
        int status = uvhttp_response_write(res, piece, sizeof piece);
        if (status == UVHTTP_E_NOMEM) {
            assert_true(test_allocator_failed());
            assert_int_not_equal(uvhttp_response_write(res, piece, sizeof piece), UVHTTP_OK);
        }
        if (status != UVHTTP_OK) return;
    }
    (void)uvhttp_response_end(res);
}

static void begin(uvhttp_response_t *res, void *user) {
    stream_t *stream = user;
    if (!res) return;
    if (uvhttp_response_begin(res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN) == UVHTTP_OK) {
        write_rest(res, stream);
    } else {
        uvhttp_deferred_release(stream->deferred); /* the client gets 500 */
        stream->deferred = NULL;
    }
}

static void on_done(uvhttp_response_t *res, int status, void *user) {
    (void)res, (void)status;
    stream_t *stream = user;
    uvhttp_deferred_release(stream->deferred);
    free(stream);
    streams--;
}

static void respond(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    stream_t *stream = calloc(1, sizeof *stream);
    assert_non_null(stream);
    stream->deferred = uvhttp_response_defer(res);
    if (!stream->deferred || uvhttp_response_on_done(res, on_done, stream) != UVHTTP_OK) {
        uvhttp_deferred_release(stream->deferred);
        free(stream);
        return;
    }
    streams++;
    uvhttp_deferred_on_drain(stream->deferred, write_rest, stream);
    if (uvhttp_deferred_run(stream->deferred, begin, stream) == UVHTTP_OK) return;
    uvhttp_deferred_release(stream->deferred);
    stream->deferred = NULL;
}

static void configure(uvhttp_server_config_t *config) {
    config->write_queue_max = 2 * PIECE; /* so that handlers wait for the queue */
}

static void set_up(uvhttp_server_t *server) {
    static const char *const types[] = {"text/plain", NULL};
    (void)uvhttp_use(server, uvhttp_compression(&(uvhttp_compression_options_t){.types = types}));
    (void)uvhttp_get(server, "/", respond, NULL);
}

static void speak(one_thread_t *it) {
    static const char *const codings[] = {"identity", "gzip", "br"};
    for (size_t i = 0; i < sizeof codings / sizeof *codings; i++) {
        char text[128];
        snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAccept-Encoding: %s\r\n\r\n",
                 codings[i]);
        one_thread_ask(it, &(one_request_t){text, 200, NULL, NULL});
        for (int j = 0; j < 20 && streams > 0; j++) one_thread_run(it, -1, 0);
        assert_int_equal(streams, 0); /* the response is over, whoever has ended it */
    }
}

static const failing_life_t life = {.configure = configure, .set_up = set_up, .speak = speak, .complete = 3};

static void test_each_allocation_may_fail(void **state) {
    fail_each_allocation_of(&life, state, 50);
}

int main(void) {
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_IN_ONE_THREAD(test_each_allocation_may_fail);
}
