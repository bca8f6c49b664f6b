/* Owns: the WebSocket route of the test server, for wss. */
/* Needs: websocket. */
#include <uvhttp.h>

void tls_websocket_route(uvhttp_server_t *server);

static void echo(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)user;
    uvhttp_ws_send(ws, message.type, message.data, message.size);
}

void tls_websocket_route(uvhttp_server_t *server) {
    static const uvhttp_ws_handlers_t handlers = {.on_message = echo};
    uvhttp_websocket(server, "/tls/ws", &handlers, NULL);
}
