/* Owns: TLS of the HTTP server: listening, and what a request knows of it. May include: everything. */
#include "tls/tls.h"

#include "server/server.h"
#include "server/server_config.h"

int uvhttp_server_listen_tls(uvhttp_server_t *server, const char *address, uvhttp_tls_t *tls, uint16_t *port) {
    if (!server) return UVHTTP_E_INVALID;
    uvhttp__conn_filter_t filter;
    int status = uvhttp__tls_filter(tls, &filter);
    if (status == UVHTTP_E_UNSUPPORTED)
        return uvhttp__server_remember(server, status, "this library was built without TLS (UVHTTP_TLS=off)");
    if (status != UVHTTP_OK)
        return uvhttp__server_remember(server, status, "%s",
                                       "listen_tls: tls is NULL: uvhttp_tls_new has said why in the log");
    status = uvhttp__server_listen(server, address, &filter, port);
    if (status != UVHTTP_OK) filter.release(filter.arg);
    return status;
}

bool uvhttp_request_is_tls(const uvhttp_request_t *req) {
    if (!req) return false;
    /* Written only to remember what does not change; for want of memory only the subject is missing. */
    (void)uvhttp__request_learn((uvhttp_request_t *)(uintptr_t)req, UVHTTP__ORIGIN_TLS);
    const char *subject = NULL;
    return req->origin ? req->origin->tls : req->ops->tls && req->ops->tls(req, &subject);
}

const char *uvhttp_request_client_subject(uvhttp_request_t *req) {
    return req && uvhttp__request_learn(req, UVHTTP__ORIGIN_TLS) == UVHTTP_OK ? req->origin->subject : NULL;
}
