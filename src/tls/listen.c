/* Owns: listening with TLS: the filter of an address. May include: conn, io, base. */
#include "tls/tls.h"

static void release(void *arg) {
    uvhttp_tls_release(arg);
}

int uvhttp__tls_filter(uvhttp_tls_t *tls, uvhttp__conn_filter_t *filter) {
    if (!tls) return UVHTTP_E_INVALID;
    *filter = (uvhttp__conn_filter_t){
        .open = uvhttp__tls_open, .release = release, .arg = uvhttp_tls_retain(tls), .name = " (TLS)"};
    return UVHTTP_OK;
}

uvhttp_tls_t *uvhttp__tls_of_filter(const uvhttp__conn_filter_t *filter) {
    return filter->open == uvhttp__tls_open ? filter->arg : NULL;
}

int uvhttp_tcp_server_listen_tls(uvhttp_tcp_server_t *server, const char *address, uvhttp_tls_t *tls, uint16_t *port) {
    uvhttp__conn_filter_t filter;
    int status = server ? uvhttp__tls_filter(tls, &filter) : UVHTTP_E_INVALID;
    if (status != UVHTTP_OK) return status;
    status = uvhttp__tcp_server_listen_filter(server, address, &filter, port);
    if (status != UVHTTP_OK) release(filter.arg);
    return status;
}
