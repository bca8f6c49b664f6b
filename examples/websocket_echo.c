/* A WebSocket server that sends every message back, and reads no faster than its client does.
 *
 *   build/dist/bin/websocket_echo 127.0.0.1:9001
 *   python3 -m websockets ws://127.0.0.1:9001/echo
 *
 * A second address is for wss://, with a certificate of its own, for development.
 */
/* Needs: websocket. */
#include <stdio.h>
#include <uvhttp.h>

/* The queue is bounded, but a client that sends and never reads should not even fill it: reading pauses until what is
 * queued has left. */
static void on_message(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)user;
    int status = uvhttp_ws_send(ws, message.type, message.data, message.size);
    if (status == UVHTTP_E_AGAIN)
        uvhttp_ws_pause(ws);
    else if (status != 0)
        uvhttp_ws_close(ws, UVHTTP_WS_TRY_LATER, "the queue is full");
}

static void on_drain(uvhttp_ws_t *ws, void *user) {
    (void)user;
    uvhttp_ws_resume(ws);
}

static int listen_wss(uvhttp_server_t *server, const char *address) {
    uvhttp_tls_t *tls = uvhttp_tls_development(NULL);
    if (!tls) return UVHTTP_E_TLS_CERTIFICATE;
    int status = uvhttp_server_listen_tls(server, address, tls, NULL);
    uvhttp_tls_release(tls);
    return status;
}

int main(int argc, char **argv) {
    uvhttp_server_t *server = uvhttp_server_new(NULL);
    if (!server) return 1; /* what is wrong has been logged, here and below */
    const char *const subprotocols[] = {"echo.v1", NULL}, *const everyone[] = {"*", NULL};
    const uvhttp_ws_options_t options = {.message_size_max = 16 << 20,
                                         .send_queue_max = 40 << 20,
                                         .compression = true,
                                         .subprotocols = subprotocols,
                                         .origins = everyone}; /* echoing has no secrets */
    uvhttp_websocket(server, "/echo",
                     &(uvhttp_ws_handlers_t){.on_message = on_message, .on_drain = on_drain, .options = &options},
                     NULL);
    int status = argc > 2 ? listen_wss(server, argv[2]) : UVHTTP_OK;
    if (status == UVHTTP_OK) status = uvhttp_server_run(server, argc > 1 ? argv[1] : "127.0.0.1:9001");
    uvhttp_server_free(server);
    return status != UVHTTP_OK;
}
