/* Owns: what TLS is in a build without it (UVHTTP_TLS=off). May include: conn, obs. */
#include <uvhttp/log.h>

#include "tls/tls.h"

static uvhttp_tls_t *refuse(void) {
    UVHTTP_LOG_ERROR("tls: this library was built without it (UVHTTP_TLS=off)");
    return NULL;
}

uvhttp_tls_t *uvhttp_tls_new(const uvhttp_tls_options_t *options) {
    (void)options;
    return refuse();
}

uvhttp_tls_t *uvhttp_tls_development(const uvhttp_tls_options_t *options) {
    (void)options;
    return refuse();
}

uvhttp_tls_t *uvhttp_tls_retain(uvhttp_tls_t *tls) {
    return tls;
}

void uvhttp_tls_release(uvhttp_tls_t *tls) {
    (void)tls;
}

int uvhttp_tls_reload(uvhttp_tls_t *tls) {
    (void)tls;
    return UVHTTP_E_UNSUPPORTED;
}

const char *uvhttp_tls_error_text(const uvhttp_tls_t *tls) {
    (void)tls;
    return uvhttp_error_message(UVHTTP_E_UNSUPPORTED);
}

int uvhttp__tls_filter(uvhttp_tls_t *tls, uvhttp__conn_filter_t *filter) {
    (void)tls, (void)filter;
    (void)refuse();
    return UVHTTP_E_UNSUPPORTED;
}

int uvhttp_tcp_server_listen_tls(uvhttp_tcp_server_t *server, const char *address, uvhttp_tls_t *tls, uint16_t *port) {
    (void)server, (void)address, (void)tls, (void)port;
    (void)refuse();
    return UVHTTP_E_UNSUPPORTED;
}

bool uvhttp_tcp_is_tls(const uvhttp_tcp_t *tcp) {
    (void)tcp;
    return false;
}

const char *uvhttp_tcp_client_subject(uvhttp_tcp_t *tcp) {
    (void)tcp;
    return NULL;
}

/* Nothing listens with TLS, so that nothing is reloaded. */
uvhttp_tls_t *uvhttp__tls_of_filter(const uvhttp__conn_filter_t *filter) {
    (void)filter;
    return NULL;
}

int uvhttp__tls_prepare(uvhttp_tls_t *tls, const uvhttp_tls_options_t *options, struct uvhttp__tls_contexts **fresh) {
    (void)tls, (void)options, (void)fresh;
    return UVHTTP_E_UNSUPPORTED;
}

void uvhttp__tls_commit(uvhttp_tls_t *tls, struct uvhttp__tls_contexts *fresh) {
    (void)tls, (void)fresh;
}

void uvhttp__tls_contexts_release(struct uvhttp__tls_contexts *contexts) {
    (void)contexts;
}

void uvhttp__tls_set_configured(uvhttp_tls_t *tls) {
    (void)tls;
}

bool uvhttp__tls_is_configured(const uvhttp_tls_t *tls) {
    (void)tls;
    return false;
}
