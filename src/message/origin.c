/* Owns: what a request shows of its connection: who is there, who the client is, and what TLS knows. Its owner is asked
 * for each part once; what it says is copied. May include: base. */
#include "base/str.h"
#include "message/message.h"

/* A terminated copy that the application's limit does not keep out: it decides about access. data NULL: no memory. */
static uvhttp_str_t copy(uvhttp_request_t *req, const char *text, size_t size) {
    char *memory = uvhttp__arena_alloc_uncounted(req->arena, size + 1, 1);
    if (!memory) return (uvhttp_str_t){NULL, 0};
    memcpy(memory, text, size);
    memory[size] = '\0';
    return (uvhttp_str_t){memory, size};
}

static const uvhttp__client_t unknown = {.address.kind = UVHTTP__PEER_UNKNOWN};

static bool learn_peer(uvhttp_request_t *req) {
    char text[UVHTTP__PEER_TEXT_MAX] = "unknown";
    if (req->ops->peer) req->ops->peer(req, text);
    req->origin->peer = copy(req, text, strlen(text));
    return req->origin->peer.data != NULL;
}

static bool learn_client(uvhttp_request_t *req) {
    uvhttp__origin_t *origin = req->origin;
    char text[UVHTTP__IP_TEXT_MAX];
    origin->client = unknown;
    if (req->ops->client) req->ops->client(req, &origin->client);
    origin->client_text = copy(req, text, uvhttp__peer_text(&origin->client.address, text));
    return origin->client_text.data != NULL;
}

static bool learn_tls(uvhttp_request_t *req) {
    const char *subject = NULL;
    req->origin->tls = req->ops->tls && req->ops->tls(req, &subject);
    req->origin->subject = subject ? copy(req, subject, strlen(subject)).data : NULL;
    return !subject || req->origin->subject;
}

static bool make_origin(uvhttp_request_t *req) {
    req->origin = uvhttp__arena_alloc_uncounted(req->arena, sizeof *req->origin, _Alignof(uvhttp__origin_t));
    if (req->origin) *req->origin = (uvhttp__origin_t){.client = unknown};
    return req->origin != NULL;
}

int uvhttp__request_learn_missing(uvhttp_request_t *req, unsigned parts) {
    static bool (*const learn[])(uvhttp_request_t * req) = {learn_peer, learn_client, learn_tls};
    if (!req->origin && !make_origin(req)) return UVHTTP_E_NOMEM;
    for (unsigned i = 0; i < sizeof learn / sizeof *learn; i++) {
        unsigned part = 1u << i;
        if (!(parts & part) || (req->origin->known & part)) continue;
        if (!learn[i](req)) return UVHTTP_E_NOMEM;
        req->origin->known |= (uint8_t)part;
    }
    return UVHTTP_OK;
}

/* --- what is asked for --- */

uvhttp_str_t uvhttp_request_peer(uvhttp_request_t *req) {
    if (uvhttp__request_learn(req, UVHTTP__ORIGIN_PEER) != UVHTTP_OK) return (uvhttp_str_t){NULL, 0};
    return req->origin->peer;
}

uvhttp_str_t uvhttp_request_peer_address(uvhttp_request_t *req) {
    uvhttp_str_t peer = uvhttp_request_peer(req);
    if (peer.size == 0 || uvhttp__str_starts_with(peer, UVHTTP__STR("unix:"))) return peer;
    const char *colon = memrchr(peer.data, ':', peer.size);
    if (colon) peer.size = (size_t)(colon - peer.data);
    if (peer.size >= 2 && peer.data[0] == '[' && peer.data[peer.size - 1] == ']')
        return (uvhttp_str_t){peer.data + 1, peer.size - 2};
    return peer;
}

const uvhttp__client_t *uvhttp__request_client(uvhttp_request_t *req) {
    /* For want of memory its text is missing, or it is unknown: then nobody trusts it. */
    (void)uvhttp__request_learn(req, UVHTTP__ORIGIN_CLIENT);
    return req->origin ? &req->origin->client : &unknown;
}

uvhttp_str_t uvhttp_request_client(uvhttp_request_t *req) {
    if (uvhttp__request_learn(req, UVHTTP__ORIGIN_CLIENT) != UVHTTP_OK) return (uvhttp_str_t){NULL, 0};
    return req->origin->client_text;
}

uvhttp_str_t uvhttp_request_client_scheme(uvhttp_request_t *req) {
    return uvhttp__request_client(req)->https ? UVHTTP__STR("https") : UVHTTP__STR("http");
}

uvhttp_str_t uvhttp_request_client_host(uvhttp_request_t *req) {
    uvhttp_str_t host = uvhttp__request_client(req)->host;
    return host.size > 0 ? host : uvhttp_request_host(req);
}
