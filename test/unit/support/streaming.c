/* Owns: see streaming.h. */
#include "support/streaming.h"

streaming_seen_t seen;
pthread_mutex_t text_lock = PTHREAD_MUTEX_INITIALIZER;

void seen_reset(void) {
    seen.defer = seen.pause_in_handler = seen.pause_at_first = seen.respond_in_handler = seen.respond_at_first = false;
    seen.no_response = seen.no_on_body = false;
    atomic_store(&seen.bytes, 0);
    atomic_store(&seen.sum, 0);
    seen.handlers = seen.pieces = seen.ends = seen.end_status = seen.dones = seen.done_status = seen.aborts =
        seen.largest = 0;
    atomic_store(&seen.deferred, NULL);
    pthread_mutex_lock(&text_lock);
    seen.trailer[0] = '\0';
    pthread_mutex_unlock(&text_lock);
}

void keep_trailer(uvhttp_request_t *req) {
    uvhttp_str_t trailer = uvhttp_request_trailer(req, "x-check");
    pthread_mutex_lock(&text_lock);
    if (trailer.data) snprintf(seen.trailer, sizeof seen.trailer, "%.*s", (int)trailer.size, trailer.data);
    pthread_mutex_unlock(&text_lock);
}

unsigned long sum_of(const char *data, size_t size, unsigned long long from) {
    unsigned long sum = 0;
    for (size_t i = 0; i < size; ++i) sum += (unsigned char)data[i] * (unsigned long)(from + i + 1);
    return sum;
}

void take_data(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user) {
    (void)user;
    if (data.size == 0) abort();
    atomic_fetch_add(&seen.sum, sum_of(data.data, data.size, atomic_load(&seen.bytes)));
    atomic_fetch_add(&seen.bytes, data.size);
    if ((int)data.size > atomic_load(&seen.largest)) atomic_store(&seen.largest, (int)data.size);
    if (atomic_fetch_add(&seen.pieces, 1) > 0) return;
    if (seen.pause_at_first && uvhttp_request_pause_body(req) != UVHTTP_OK) abort();
    if (seen.respond_at_first) uvhttp_response_text(res, 200, "early");
}

void take_end(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    (void)user;
    keep_trailer(req);
    if (uvhttp_request_path(req).size == 0) abort(); /* still readable */
    atomic_store(&seen.end_status, status);
    atomic_fetch_add(&seen.ends, 1);
    if (status != UVHTTP_OK || seen.no_response) return;
    char text[64];
    snprintf(text, sizeof text, "%llu %lu", atomic_load(&seen.bytes), atomic_load(&seen.sum));
    if (uvhttp_response_text(res, 200, text) != UVHTTP_OK) abort();
}

void take_done(uvhttp_response_t *res, int status, void *user) {
    (void)res, (void)user;
    atomic_store(&seen.done_status, status);
    atomic_fetch_add(&seen.dones, 1);
}

void take_abort(uvhttp_deferred_t *deferred, void *user) {
    (void)deferred, (void)user;
    atomic_fetch_add(&seen.aborts, 1);
}

void take(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    atomic_fetch_add(&seen.handlers, 1);
    if (uvhttp_response_on_done(res, take_done, NULL) != UVHTTP_OK) return;
    if (uvhttp_request_body(req).size != 0) abort();
    uvhttp_deferred_t *deferred = seen.defer ? uvhttp_response_defer(res) : NULL;
    if (deferred) uvhttp_deferred_on_abort(deferred, take_abort, NULL);
    if (!seen.no_on_body) {
        if (uvhttp_request_on_body(req, NULL, take_end, NULL) != UVHTTP_E_INVALID) abort();
        if (uvhttp_request_on_body(req, take_data, take_end, NULL) != UVHTTP_OK) abort();
        if (uvhttp_request_on_body(req, take_data, take_end, NULL) != UVHTTP_E_STATE) abort();
        if (seen.pause_in_handler && uvhttp_request_pause_body(req) != UVHTTP_OK) abort();
    }
    if (seen.respond_in_handler) uvhttp_response_text(res, 200, "at once");
    atomic_store(&seen.deferred, deferred);
}

void hello(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 200, "hello");
}

void streaming_start(serving_t *serving, uvhttp_route_options_t options) {
    seen_reset();
    serving_make(serving);
    options.stream_body = true;
    assert_non_null(uvhttp_get(serving->server, "/hello", hello, NULL));
    assert_int_equal(uvhttp_route_options(uvhttp_post(serving->server, "/take", take, NULL), &options), UVHTTP_OK);
    serving_start(serving);
}

uint64_t counter(const serving_t *serving, const char *name) {
    return uvhttp_server_counter(serving->server, name);
}

void assert_consumed(const client_response_t *response, const char *data, size_t size) {
    char text[64];
    snprintf(text, sizeof text, "%zu %lu", size, sum_of(data, size, 0));
    assert_int_equal(response->status, 200);
    assert_string_equal(response->body, text);
}

void expect_consumed(int fd, const char *data, size_t size) {
    assert_consumed(client_read(fd), data, size);
}

void expect_hello(int fd) {
    client_response_t *response = client_read(fd);
    assert_int_equal(response->status, 200);
    assert_string_equal(response->body, "hello");
}
