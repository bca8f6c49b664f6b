/* Owns: frames on their way to the output of a connection: they are written into iteration memory, one behind the
 * other, and queued together. */
#include <string.h>

#include "base/alloc.h"
#include "base/hot_path.h"
#include "protocol/http2_connection.h"

void uvhttp__http2_set_due(uvhttp__http2_connection_t *connection) {
    if (connection->reading || connection->settling || uvhttp__list_linked(&connection->link)) return;
    uvhttp__list_push_back(&connection->of_loop->due, &connection->link);
}

/* What stands in iteration memory. */
static void queue_wire(uvhttp__http2_connection_t *connection) {
    if (!connection->wire) return;
    size_t size = (size_t)(connection->wire_end - connection->wire);
    int status = uvhttp__stream_send_iteration(&connection->conn->stream, connection->wire, size);
    connection->wire = connection->wire_end = NULL;
    if (status == UVHTTP_E_NOMEM) uvhttp__conn_close(connection->conn, status);
}

/* Memory behind what is not queued yet, if that is possible, so that all of it is one segment. */
static inline char *allocate(uvhttp__http2_connection_t *connection, size_t size) {
    uvhttp__loop_t *loop = uvhttp__http2_loop_of(connection);
    bool continues =
        connection->wire_end == loop->iteration_at && (size_t)(loop->iteration_end - loop->iteration_at) >= size;
    if (!continues) queue_wire(connection);
    char *memory = uvhttp__loop_iteration_alloc(loop, size);
    if (UNLIKELY(!memory)) {
        uvhttp__conn_close(connection->conn, UVHTTP_E_NOMEM);
        return NULL;
    }
    if (!connection->wire) {
        connection->wire = memory;
        uvhttp__http2_set_due(connection);
    }
    connection->wire_end = memory;
    return memory;
}

static NOINLINE bool append_control(uvhttp__http2_connection_t *connection, uvhttp_str_t control) {
    char *memory = allocate(connection, control.size);
    if (!memory) return false;
    memcpy(memory, control.data, control.size);
    connection->wire_end = memory + control.size;
    uvhttp__http2_control_consumed(&connection->core);
    return true;
}

char *uvhttp__http2_wire_extend(uvhttp__http2_connection_t *connection, size_t size) {
    uvhttp_str_t control = uvhttp__http2_control(&connection->core);
    if (UNLIKELY(control.size > 0) && !append_control(connection, control)) return NULL;
    return allocate(connection, size);
}

void uvhttp__http2_wire_flush(uvhttp__http2_connection_t *connection) {
    uvhttp_str_t control = uvhttp__http2_control(&connection->core);
    if (control.size > 0) (void)append_control(connection, control);
    queue_wire(connection);
}

void uvhttp__http2_wire_append(uvhttp__http2_connection_t *connection, uvhttp_str_t data, uvhttp__release_cb release,
                               void *arg) {
    queue_wire(connection);
    int status = uvhttp__stream_send_ref(&connection->conn->stream, data.data, data.size, release, arg);
    if (status == UVHTTP_E_NOMEM) uvhttp__conn_close(connection->conn, status);
    uvhttp__output_check_start(connection->conn);
}

/* The head goes in front of the bytes, where they are. */
static bool wire_framed(uvhttp__http2_connection_t *connection, uvhttp__http2_stream_t *stream,
                        const uvhttp__piece_t *piece, uvhttp__keeper_t keeper, bool end) {
    char *frame = (char *)(uintptr_t)piece->data - UVHTTP__HTTP2_FRAME_HEAD_SIZE;
    uvhttp_str_t control = uvhttp__http2_control(&connection->core);
    if (control.size > 0 && !append_control(connection, control)) {
        uvhttp__keeper_release(keeper);
        return false;
    }
    uvhttp__http2_write_data(&connection->core, stream, frame, (uint32_t)piece->size, end);
    uvhttp_str_t data = {frame, UVHTTP__HTTP2_FRAME_HEAD_SIZE + (size_t)piece->size};
    uvhttp__http2_wire_append(connection, data, keeper.release, keeper.arg);
    return true;
}

bool uvhttp__http2_wire_data(uvhttp__http2_connection_t *connection, uvhttp__http2_stream_t *stream,
                             const uvhttp__piece_t *piece, uvhttp__keeper_t keeper, bool end) {
    bool copied = piece->kind == UVHTTP__PIECE_LENT || piece->size <= UVHTTP__PIECE_COPY_MAX;
    size_t size = (size_t)piece->size, behind = copied ? size : 0;
    if (!copied && piece->kind == UVHTTP__PIECE_FRAMED) return wire_framed(connection, stream, piece, keeper, end);
    char *frame = uvhttp__http2_wire_reserve(connection, UVHTTP__HTTP2_FRAME_HEAD_SIZE + behind);
    if (!frame) {
        uvhttp__keeper_release(keeper);
        return false;
    }
    char *at = frame + UVHTTP__HTTP2_FRAME_HEAD_SIZE;
    uvhttp__http2_write_data(&connection->core, stream, frame, (uint32_t)size, end);
    memcpy(at, piece->data, behind);
    uvhttp__http2_wire_commit(connection, at + behind);
    if (copied)
        uvhttp__keeper_release(keeper);
    else
        uvhttp__http2_wire_append(connection, (uvhttp_str_t){piece->data, size}, keeper.release, keeper.arg);
    return true;
}

void uvhttp__http2_wire_end(uvhttp__http2_connection_t *connection, uvhttp__http2_stream_t *stream) {
    char *frame = uvhttp__http2_wire_reserve(connection, UVHTTP__HTTP2_FRAME_HEAD_SIZE);
    if (!frame) return;
    uvhttp__http2_write_data(&connection->core, stream, frame, 0, true);
    uvhttp__http2_wire_commit(connection, frame + UVHTTP__HTTP2_FRAME_HEAD_SIZE);
}

int uvhttp__http2_hold(uvhttp__http2_held_t *held, const char *data, size_t size) {
    if (size > held->capacity - held->at - held->size) {
        size_t capacity = held->size + size;
        if (capacity < 2 * (size_t)held->size) capacity = 2 * (size_t)held->size;
        char *grown = uvhttp__malloc(capacity);
        if (!grown) return UVHTTP_E_NOMEM;
        if (held->size > 0) memcpy(grown, held->data + held->at, held->size);
        uvhttp__free(held->data);
        *held = (uvhttp__http2_held_t){grown, 0, held->size, (uint32_t)capacity};
    }
    if (size > 0) memcpy(held->data + held->at + held->size, data, size);
    held->size += (uint32_t)size;
    return UVHTTP_OK;
}

bool uvhttp__http2_wire_section(uvhttp__http2_connection_t *connection, uvhttp__http2_stream_t *stream,
                                const uvhttp__http2_response_t *section, bool end) {
    size_t size_max = uvhttp__http2_headers_size(&connection->core, uvhttp__http2_response_size_max(section));
    char *frame = uvhttp__http2_wire_reserve(connection, size_max);
    if (!frame) return false;
    size_t block = uvhttp__http2_write_response(&connection->encoder, section, frame + UVHTTP__HTTP2_FRAME_HEAD_SIZE);
    size_t size = uvhttp__http2_write_headers(&connection->core, stream, frame, block, end);
    uvhttp__http2_wire_commit(connection, frame + size);
    return true;
}

void uvhttp__http2_fail_connection(uvhttp__http2_connection_t *connection, uvhttp__http2_error_t error) {
    (void)uvhttp__http2_fail(&connection->core, error);
    uvhttp__http2_set_due(connection);
}
