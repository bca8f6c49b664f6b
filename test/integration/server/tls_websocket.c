/* Owns: the WebSocket routes of the test server: /tls/ws for wss, /costly/ws and /costly/context with narrow limits. */
/* Needs: websocket. */
#include <uvhttp.h>

void tls_websocket_route(uvhttp_server_t *server);

static void echo(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)user;
    if (uvhttp_ws_send(ws, message.type, message.data, message.size) == UVHTTP_E_AGAIN) uvhttp_ws_pause(ws);
}

static void resume(uvhttp_ws_t *ws, void *user) {
    (void)user;
    uvhttp_ws_resume(ws);
}

static void add_costly(uvhttp_server_t *server, const char *pattern, bool context_takeover) {
    const uvhttp_ws_options_t narrow = {.message_size_max = 65536,
                                        .fragments_max = 1000,
                                        .message_timeout = 1,
                                        .ping_interval = 1,
                                        .idle_timeout = 2,
                                        .close_timeout = 1,
                                        .send_queue_max = 262144,
                                        .compression = true,
                                        .context_takeover = context_takeover};
    uvhttp_websocket(server, pattern,
                     &(uvhttp_ws_handlers_t){.on_message = echo, .on_drain = resume, .options = &narrow}, NULL);
}

void tls_websocket_route(uvhttp_server_t *server) {
    static const uvhttp_ws_handlers_t handlers = {.on_message = echo, .on_drain = resume};
    uvhttp_websocket(server, "/tls/ws", &handlers, NULL);
    add_costly(server, "/costly/ws", false);
    add_costly(server, "/costly/context", true);
}
