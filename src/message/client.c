/* Owns: what a request says of its client. Who it is, its owner finds out once. May include: base. */
#include "base/str.h"
#include "message/message.h"

static const char client_key, text_key; /* their addresses count */

void uvhttp__request_client(uvhttp_request_t *req, uvhttp__client_t *client) {
    uvhttp_str_t known = uvhttp__request_note(req, &client_key);
    if (known.data) {
        memcpy(client, known.data, sizeof *client);
        return;
    }
    *client = (uvhttp__client_t){.address.kind = UVHTTP__PEER_UNKNOWN};
    if (req->ops->client) req->ops->client(req, client);
    /* Without memory it is found out again. */
    (void)uvhttp__request_set_note(req, &client_key, (uvhttp_str_t){(const char *)client, sizeof *client});
}

uvhttp_str_t uvhttp_request_client(uvhttp_request_t *req) {
    uvhttp_str_t known = uvhttp__request_note(req, &text_key);
    if (known.data) return known;
    uvhttp__client_t client;
    char text[UVHTTP__IP_TEXT_MAX];
    uvhttp__request_client(req, &client);
    size_t size = uvhttp__peer_text(&client.address, text);
    (void)uvhttp__request_set_note(req, &text_key, (uvhttp_str_t){text, size});
    return uvhttp__request_note(req, &text_key);
}

uvhttp_str_t uvhttp_request_client_scheme(uvhttp_request_t *req) {
    uvhttp__client_t client;
    uvhttp__request_client(req, &client);
    return client.https ? UVHTTP__STR("https") : UVHTTP__STR("http");
}

uvhttp_str_t uvhttp_request_client_host(uvhttp_request_t *req) {
    uvhttp__client_t client;
    uvhttp__request_client(req, &client);
    return client.host.size > 0 ? client.host : uvhttp_request_host(req);
}
