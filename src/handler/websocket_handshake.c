/* Owns: the opening handshake of a WebSocket route: what is accepted, what is refused and how (RFC 6455 section 4.2).
 * May include: route message exec websocket conn base obs. */
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "handler/websocket.h"
#include "message/message.h"
#include "websocket/handshake.h"

/* The only field of that name; false if there is none, or several. */
static bool single_header(const uvhttp_request_t *req, const char *name, uvhttp_str_t *value) {
    size_t index = 0;
    uvhttp_str_t other;
    return uvhttp_request_header_next(req, name, &index, value) &&
           !uvhttp_request_header_next(req, name, &index, &other);
}

/* RFC 8441: the protocol was looked at when it was routed. */
static bool is_extended_connect(const uvhttp_request_t *req) {
    return uvhttp_request_http_version(req) == UVHTTP_HTTP_2 && req->head.upgrade;
}

static bool asks_for_websocket(const uvhttp_request_t *req) {
    if (uvhttp_request_method(req) != UVHTTP_GET || !req->head.upgrade) return false;
    if (is_extended_connect(req)) return true;
    return uvhttp_request_http_version(req) == UVHTTP_HTTP_1_1 &&
           uvhttp__members_have(req, "Upgrade", UVHTTP__STR("websocket"));
}

/* Returns 0 and the key (of HTTP/1.1), or why it is no handshake that this server understands. */
static int check_request(const uvhttp_request_t *req, uvhttp_str_t *key) {
    uvhttp_str_t version;
    *key = (uvhttp_str_t){NULL, 0};
    if (!asks_for_websocket(req)) return UVHTTP_E_WS_VERSION;
    if (!single_header(req, "Sec-WebSocket-Version", &version) || !uvhttp__str_equal(version, UVHTTP__STR("13")))
        return UVHTTP_E_WS_VERSION;
    if (is_extended_connect(req)) return UVHTTP_OK; /* the client needs no proof that it was understood */
    if (!single_header(req, "Sec-WebSocket-Key", key) || !uvhttp__ws_key_valid(*key)) return UVHTTP_E_WS_HANDSHAKE;
    return uvhttp_request_body(req).size > 0 ? UVHTTP_E_WS_HANDSHAKE : UVHTTP_OK;
}

/* A page of another site must not use the cookies of a visitor: browsers send Origin, and do not stop by themselves. */
static int check_origin(const uvhttp_request_t *req, const char *const *origins) {
    uvhttp_str_t origin;
    if (!uvhttp_request_header(req, "Origin").data) return UVHTTP_OK;
    if (!single_header(req, "Origin", &origin)) return UVHTTP_E_WS_ORIGIN;
    if (!origins) return uvhttp__ws_origin_is_host(origin, uvhttp_request_host(req)) ? UVHTTP_OK : UVHTTP_E_WS_ORIGIN;
    for (; *origins; origins++)
        if (strcmp(*origins, "*") == 0 || uvhttp__str_equal_nocase(origin, uvhttp__str_from(*origins)))
            return UVHTTP_OK;
    return UVHTTP_E_WS_ORIGIN;
}

static const char *choose_subprotocol(const uvhttp_request_t *req, const char *const *spoken) {
    uvhttp__members_t at = {.req = req, .name = "Sec-WebSocket-Protocol"};
    uvhttp_str_t offered;
    while (spoken && uvhttp__member_next(&at, &offered))
        for (const char *const *own = spoken; *own; own++)
            if (uvhttp__str_equal(offered, uvhttp__str_from(*own))) return *own;
    return NULL;
}

/* What is agreed on; server_bits 0: no compression. A malformed offer is as none. */
static uvhttp__ws_deflate_t choose_deflate(const uvhttp_request_t *req, const uvhttp_ws_options_t *options) {
    const uvhttp__ws_deflate_t willing = {.server_bits = (uint8_t)options->server_window_bits,
                                          .client_bits = (uint8_t)options->client_window_bits,
                                          .server_takeover = options->context_takeover,
                                          .client_takeover = options->context_takeover};
    uvhttp__ws_deflate_t agreed;
    size_t index = 0;
    uvhttp_str_t offers;
    while (options->compression && uvhttp_request_header_next(req, "Sec-WebSocket-Extensions", &index, &offers))
        if (uvhttp__ws_deflate_negotiate(offers, &willing, &agreed)) return agreed;
    return (uvhttp__ws_deflate_t){0};
}

static int put(uvhttp_response_t *res, uvhttp_str_t name, const char *value) {
    return uvhttp__response_put_header(res, name, uvhttp__str_from(value), true);
}

/* If there is no memory for what explains it, the status does. */
static void refuse(uvhttp_response_t *res, int code) {
    int status = uvhttp_error_http_status(code);
    if (status == 426) {
        (void)put(res, UVHTTP__STR("Upgrade"), "websocket");
        (void)put(res, UVHTTP__STR("Connection"), "Upgrade");
        (void)put(res, UVHTTP__STR("Sec-WebSocket-Version"), "13");
    }
    uvhttp__response_fail_by(res, code, status, uvhttp_error_message(code));
}

static int put_accept(uvhttp_response_t *res, uvhttp_str_t key, const char *subprotocol,
                      const uvhttp__ws_deflate_t *deflate) {
    char accept[UVHTTP__WS_ACCEPT_SIZE + 1], extension[UVHTTP__WS_EXTENSION_SIZE_MAX];
    int status = key.data ? uvhttp__ws_accept(key, accept) : UVHTTP_OK;
    if (status == UVHTTP_OK && key.data) status = put(res, UVHTTP__STR("Sec-WebSocket-Accept"), accept);
    if (status == UVHTTP_OK && subprotocol) status = put(res, UVHTTP__STR("Sec-WebSocket-Protocol"), subprotocol);
    if (status != UVHTTP_OK || deflate->server_bits == 0) return status;
    uvhttp__ws_deflate_write(deflate, extension);
    return put(res, UVHTTP__STR("Sec-WebSocket-Extensions"), extension);
}

uvhttp_ws_t *uvhttp__ws_new(const uvhttp__ws_endpoint_t *endpoint, uvhttp__ws_deflate_t deflate) {
    uvhttp_ws_t *ws = uvhttp__calloc(1, sizeof *ws);
    if (!ws) return NULL;
    ws->endpoint = endpoint;
    ws->deflate = deflate;
    if (deflate.server_bits > 0) {
        ws->special = true;
        ws->parser.allowed = UVHTTP__WS_COMPRESSED;
    }
    return ws;
}

int uvhttp__ws_handshake(uvhttp_request_t *req, uvhttp_response_t *res, const uvhttp__ws_endpoint_t *endpoint,
                         uvhttp_ws_t **accepted) {
    *accepted = NULL;
    uvhttp_str_t key;
    int status = check_request(req, &key);
    if (status == UVHTTP_OK) status = check_origin(req, endpoint->options.origins);
    if (status != UVHTTP_OK) {
        refuse(res, status);
        return status;
    }
    const uvhttp_ws_handlers_t *handlers = &endpoint->handlers;
    if (handlers->on_upgrade && handlers->on_upgrade(req, res, endpoint->user) != UVHTTP_NEXT) return UVHTTP_OK;
    const char *subprotocol = choose_subprotocol(req, endpoint->options.subprotocols);
    const uvhttp__ws_deflate_t deflate = choose_deflate(req, &endpoint->options);
    uvhttp_ws_t *ws = uvhttp__ws_new(endpoint, deflate);
    status = ws ? put_accept(res, key, subprotocol, &deflate) : UVHTTP_E_NOMEM;
    if (status != UVHTTP_OK) {
        uvhttp__free(ws);
        refuse(res, status);
        return status;
    }
    ws->subprotocol = subprotocol;
    ws->data = uvhttp_request_data(req);
    *accepted = ws;
    return UVHTTP_OK;
}

void uvhttp__ws_discard(uvhttp_ws_t *ws) {
    uvhttp__free(ws);
}
