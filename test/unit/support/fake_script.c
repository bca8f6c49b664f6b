#include "support/fake_script.h"

void fake_server_make(fake_server_t *server, void **state) {
    *server = (fake_server_t){.serving = *state};
    server->serving->config.write_queue_max = 8192;
    server->serving->config.spool_memory = 4096;
    server->serving->config.body_size_max = 100000;
    fake_routes_reset();
    serving_make(server->serving);
    fake_routes_add(server->serving);
}

void fake_server_start(fake_server_t *server) {
    serving_start(server->serving);
    server->connection = fake_open(server->serving);
}

void fake_server_open(fake_server_t *server, void **state) {
    fake_server_make(server, state);
    fake_server_start(server);
}

void fake_server_stop(fake_server_t *server) {
    serving_stop(server->serving);
    fake_close(server->connection);
    assert_int_equal(fake_wrong_bytes, 0);
    assert_int_equal(fake_held, 0);
}

bool fake_mode_works(fake_mode_t mode) {
    return mode != FAKE_COROUTINE || UVHTTP_WITH_COROUTINES;
}

/* --- one stream --- */

static fake_script_t *new_script(fake_server_t *server) {
    fake_script_t *script = calloc(1, sizeof *script);
    assert_non_null(script);
    script->connection = server->connection;
    script->receive_window = script->send_window = FAKE_NO_LIMIT;
    return script;
}

fake_script_t *fake_script_new(fake_server_t *server, fake_mode_t mode, unsigned id, size_t body_size, size_t size) {
    fake_script_t *script = new_script(server);
    script->id = id;
    script->size = size;
    snprintf(script->path, sizeof script->path, "/%s/%u/%zu", fake_mode_names[mode], id, size);
    script->body = fake_bytes(fake_byte_in, id, body_size);
    script->request = (fake_request_t){.method = UVHTTP_POST,
                                       .path = script->path,
                                       .body = script->body,
                                       .body_size = body_size,
                                       .has_body = body_size > 0,
                                       .size_is_known = true};
    return script;
}

fake_script_t *fake_script_for(fake_server_t *server, uvhttp_method_t method, const char *path, const char *body) {
    fake_script_t *script = new_script(server);
    snprintf(script->path, sizeof script->path, "%s", path);
    script->request = (fake_request_t){.method = method,
                                       .path = script->path,
                                       .body = body,
                                       .body_size = body ? strlen(body) : 0,
                                       .has_body = body != NULL,
                                       .size_is_known = true};
    return script;
}

static void start(void *arg) {
    fake_script_t *script = arg;
    script->stream = fake_new(script->connection, &script->request);
    if (!script->stream) abort();
    script->stream->receive_window = script->receive_window;
    script->stream->send_window = script->send_window;
    script->stream->fail_begin = script->fail_begin;
    (void)fake_start(script->stream);
}

static void let_come(void *arg) {
    fake_script_t *script = arg;
    fake_open_receive(script->stream, script->bytes);
}

static void let_go(void *arg) {
    fake_script_t *script = arg;
    fake_open_send(script->stream, script->bytes);
}

static void cut(void *arg) {
    fake_abort(((fake_script_t *)arg)->stream, UVHTTP_E_ABORTED);
}

static void look(void *arg) {
    fake_script_t *script = arg;
    script->seen = *script->stream;
}

static void nothing(void *arg) {
    (void)arg;
}

static void drop(void *arg) {
    fake_free(((fake_script_t *)arg)->stream);
}

void fake_script_start(fake_script_t *script) {
    fake_call(script->connection, start, script);
}

void fake_script_receive(fake_script_t *script, uint64_t bytes) {
    script->bytes = bytes;
    fake_call(script->connection, let_come, script);
}

void fake_script_send(fake_script_t *script, uint64_t bytes) {
    script->bytes = bytes;
    fake_call(script->connection, let_go, script);
}

void fake_script_abort(fake_script_t *script) {
    fake_call(script->connection, cut, script);
}

const fake_stream_t *fake_script_look(fake_script_t *script) {
    fake_call(script->connection, look, script);
    return &script->seen;
}

void fake_script_expect_response(fake_script_t *script) {
    fake_script_expect_status(script, 200);
    const fake_stream_t *seen = &script->seen;
    assert_false(seen->missized);
    assert_int_equal(seen->body_consumed, script->size);
    for (size_t i = 0; i < script->size; i++)
        if (seen->body[i] != fake_byte_out(script->id, i)) fail_msg("%s: byte %zu is wrong", script->path, i);
    WAIT_UNTIL(fake_dones[script->id] == 1);
}

void fake_script_expect_status(fake_script_t *script, int status) {
    WAIT_UNTIL(fake_script_is_over(script));
    assert_int_equal(script->seen.finished, 1);
    assert_int_equal(script->seen.aborted, 0);
    assert_int_equal(script->seen.status, status);
}

void fake_script_expect_abort(fake_script_t *script) {
    WAIT_UNTIL(fake_script_is_over(script));
    assert_int_equal(script->seen.finished, 0);
    assert_int_equal(script->seen.aborted, 1);
}

/* What was posted for the stream before has run when it is freed. */
void fake_script_free(fake_script_t *script) {
    fake_call(script->connection, nothing, NULL);
    fake_call(script->connection, drop, script);
    free(script->body);
    free(script);
}
