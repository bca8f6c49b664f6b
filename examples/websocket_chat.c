/* A chat room: a page, and a WebSocket by which what one visitor says reaches all others. No library in the browser.
 *
 *   build/dist/bin/websocket_chat          # or: websocket_chat 127.0.0.1:9000
 *   then open http://127.0.0.1:8080/ in two windows
 *
 * Everybody subscribes to one topic; who says something publishes to it. The server keeps no list of visitors, and a
 * message is encoded once, however many there are.
 */
/* Needs: websocket. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp.h>

enum { NAME_MAX_SIZE = 32, TEXT_MAX_SIZE = 1000 };

static const char page[] =
    "<!DOCTYPE html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
    "<title>uvhttp chat</title><style>"
    "body{font:16px/1.4 sans-serif;max-width:40em;margin:2em auto;padding:0 1em}"
    "ul{list-style:none;padding:0;min-height:10em}li{padding:.2em 0}"
    "form{display:flex;gap:.5em}form[hidden]{display:none}input{flex:1;font:inherit;padding:.4em}button{font:inherit}#"
    "state{color:#666}"
    "</style><h1>Chat</h1><p id=state role=status>not connected</p><ul id=said aria-live=polite></ul>"
    "<form id=join><input name=name placeholder='your name' aria-label='your name' maxlength=8 required autofocus>"
    "<button>Join</button></form>"
    "<form id=say hidden><input name=text placeholder='say something' aria-label='say something' maxlength=250 "
    "required>"
    "<button>Say</button></form>"
    "<script>"
    "const by = id => document.getElementById(id);"
    "const show = text => { const item = document.createElement('li'); item.textContent = text;"
    " by('said').append(item); };"
    "by('join').onsubmit = event => { event.preventDefault(); connect(by('join').elements.name.value); };"
    "function connect(name) {"
    " const socket = new WebSocket(location.href.replace(/^http/, 'ws').replace(/[?#].*$/, '') + 'chat?name=' +"
    "  encodeURIComponent(name));"
    " socket.onopen = () => { by('state').textContent = 'connected as ' + name;"
    "  by('join').hidden = true; by('say').hidden = false; by('say').elements.text.focus(); };"
    " socket.onmessage = event => show(event.data);"
    " socket.onclose = () => { by('state').textContent = 'not connected'; by('join').hidden = false;"
    "  by('say').hidden = true; };"
    " by('say').onsubmit = event => { event.preventDefault(); socket.send(by('say').elements.text.value);"
    "  by('say').reset(); };"
    "}"
    "const name = new URLSearchParams(location.search).get('name'); if (name) connect(name);"
    "</script>";

static void home(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_send_static(res, 200, "text/html; charset=utf-8", page, sizeof page - 1);
}

/* A handshake that fails after all (no memory) has no on_close to free it. */
static void drop_name(uvhttp_response_t *res, int status, void *name) {
    if (status != 0 || uvhttp_response_status(res) != 101) free(name);
}

/* Who does not say a name stays outside. What is set here is the connection's data. */
static uvhttp_flow_t ask_name(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t name;
    bool good = uvhttp_request_query_param(req, "name", &name) && name.size > 0 && name.size <= NAME_MAX_SIZE &&
                !memchr(name.data, '\0', name.size);
    char *copy = good ? strndup(name.data, name.size) : NULL;
    if (!copy || uvhttp_response_on_done(res, drop_name, copy) != 0) {
        free(copy);
        uvhttp_response_text(res, good ? 503 : 422, good ? "try again\n" : "?name= is missing or too long\n");
        return UVHTTP_STOP;
    }
    uvhttp_request_set_data(req, copy);
    return UVHTTP_NEXT;
}

/* A name that is no UTF-8 fails here: text that is sent is checked. */
static int say(uvhttp_ws_t *ws, const char *between, uvhttp_str_t text) {
    char line[NAME_MAX_SIZE + TEXT_MAX_SIZE + 16];
    int size =
        snprintf(line, sizeof line, "%s%s%.*s", (const char *)uvhttp_ws_data(ws), between, (int)text.size, text.data);
    return uvhttp_ws_publish(ws, "room", UVHTTP_WS_TEXT, line, (size_t)size);
}

static void on_open(uvhttp_ws_t *ws, void *user) {
    (void)user;
    if (uvhttp_ws_subscribe(ws, "room") != 0 || say(ws, " has come", (uvhttp_str_t){"", 0}) != 0)
        uvhttp_ws_close(ws, UVHTTP_WS_POLICY, "the room is full, or the name is no text");
}

static void on_message(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)user;
    if (message.type != UVHTTP_WS_TEXT)
        uvhttp_ws_close(ws, UVHTTP_WS_UNSUPPORTED_DATA, "text only");
    else if (message.size > 0 && say(ws, ": ", (uvhttp_str_t){message.data, strnlen(message.data, message.size)}) != 0)
        uvhttp_ws_close(ws, UVHTTP_WS_TRY_LATER, "too much is being said");
}

static void on_close(uvhttp_ws_t *ws, int code, uvhttp_str_t reason, void *user) {
    (void)code, (void)reason, (void)user;
    (void)say(ws, " has left", (uvhttp_str_t){"", 0});
    free(uvhttp_ws_data(ws));
}

int main(int argc, char **argv) {
    uvhttp_server_t *server = uvhttp_server_new(NULL);
    if (!server) return 1; /* what is wrong has been logged, here and below */
    const uvhttp_ws_options_t options = {
        .message_size_max = TEXT_MAX_SIZE, .publish_to_self = true, .drop_slow_subscribers = true};
    uvhttp_get(server, "/", home, NULL);
    uvhttp_websocket(server, "/chat",
                     &(uvhttp_ws_handlers_t){.on_upgrade = ask_name,
                                             .on_open = on_open,
                                             .on_message = on_message,
                                             .on_close = on_close,
                                             .options = &options},
                     NULL);
    int status = uvhttp_server_run(server, argc > 1 ? argv[1] : "127.0.0.1:8080");
    uvhttp_server_free(server);
    return status != 0;
}
