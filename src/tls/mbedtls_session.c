/* Owns: a TLS session on mbedTLS: bytes in and out, the certificate by name, and what its errors mean. May include: io,
 * base. */
#include <string.h>

#include "base/alloc.h"
#include "tls/mbedtls.h"

#define RECORD_HEAD_SIZE 5

int uvhttp__tls_f_rng(void *arg, unsigned char *memory, size_t size) {
    (void)arg;
    return uvhttp__tls_random(memory, size) ? 0 : MBEDTLS_ERR_SSL_INTERNAL_ERROR;
}

/* --- bytes in and out --- */

static int on_receive(void *arg, unsigned char *data, size_t size) {
    uvhttp__tls_io_t *io = ((uvhttp__tls_session_t *)arg)->io;
    if (io->in_size == 0) return MBEDTLS_ERR_SSL_WANT_READ;
    size_t take = io->in_size < size ? io->in_size : size;
    memcpy(data, io->in, take);
    io->in += take;
    io->in_size -= take;
    return (int)take;
}

/* An alert in the clear says best why a handshake has failed: mbedTLS has one code for many reasons. */
static int on_send(void *arg, const unsigned char *data, size_t size) {
    uvhttp__tls_session_t *session = arg;
    if (size == RECORD_HEAD_SIZE + 2 && data[0] == MBEDTLS_SSL_MSG_ALERT &&
        data[RECORD_HEAD_SIZE] == MBEDTLS_SSL_ALERT_LEVEL_FATAL)
        session->alert = data[RECORD_HEAD_SIZE + 1];
    if (session->io->write(session->io, (const char *)data, size) == UVHTTP_OK) return (int)size;
    return MBEDTLS_ERR_SSL_INTERNAL_ERROR;
}

uvhttp__tls_session_t *uvhttp__tls_session_new(uvhttp__tls_contexts_t *contexts, uvhttp__tls_io_t *io) {
    uvhttp__tls_session_t *made = uvhttp__calloc(1, sizeof *made);
    if (!made) return NULL;
    made->contexts = contexts;
    made->io = io;
    uvhttp__tls_bind(contexts, (uvhttp_str_t){"", 0}, made->binding);
    mbedtls_ssl_init(&made->ssl);
    const uvhttp__tls_library_t *library = contexts->library;
    bool without_h2 = contexts->settings->alpn_is_default && !io->speaks_h2;
    if (mbedtls_ssl_setup(&made->ssl, without_h2 ? &library->config_without_h2 : &library->config) != 0) {
        uvhttp__tls_session_free(made);
        return NULL;
    }
    mbedtls_ssl_set_bio(&made->ssl, made, on_send, on_receive, NULL);
    return made;
}

void uvhttp__tls_session_free(uvhttp__tls_session_t *session) {
    if (!session) return;
    mbedtls_ssl_free(&session->ssl);
    uvhttp__free(session);
}

/* --- errors --- */

static int code_of_alert(unsigned char alert) {
    switch (alert) {
        case MBEDTLS_SSL_ALERT_MSG_PROTOCOL_VERSION:
        case MBEDTLS_SSL_ALERT_MSG_INAPROPRIATE_FALLBACK: return UVHTTP_E_TLS_VERSION;
        case MBEDTLS_SSL_ALERT_MSG_HANDSHAKE_FAILURE:
        case MBEDTLS_SSL_ALERT_MSG_INSUFFICIENT_SECURITY: return UVHTTP_E_TLS_CIPHER;
        case MBEDTLS_SSL_ALERT_MSG_NO_APPLICATION_PROTOCOL: return UVHTTP_E_TLS_ALPN;
        case MBEDTLS_SSL_ALERT_MSG_NO_CERT:
        case MBEDTLS_SSL_ALERT_MSG_BAD_CERT:
        case MBEDTLS_SSL_ALERT_MSG_UNSUPPORTED_CERT:
        case MBEDTLS_SSL_ALERT_MSG_CERT_REVOKED:
        case MBEDTLS_SSL_ALERT_MSG_CERT_EXPIRED:
        case MBEDTLS_SSL_ALERT_MSG_CERT_UNKNOWN:
        case MBEDTLS_SSL_ALERT_MSG_UNKNOWN_CA:
        case MBEDTLS_SSL_ALERT_MSG_ACCESS_DENIED: return UVHTTP_E_TLS_CLIENT_CERTIFICATE;
        default: return UVHTTP_E_TLS_HANDSHAKE;
    }
}

static int code_of(int error, int otherwise) {
    switch (error) {
        case MBEDTLS_ERR_SSL_WANT_READ: return UVHTTP_E_AGAIN;
        case MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY: return UVHTTP_E_EOF;
        case MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE: return UVHTTP_E_TLS_ALERT;
        case MBEDTLS_ERR_SSL_ALLOC_FAILED: return UVHTTP_E_NOMEM;
        case MBEDTLS_ERR_SSL_BAD_HS_PROTOCOL_VERSION: return UVHTTP_E_TLS_VERSION;
        case MBEDTLS_ERR_SSL_NO_CLIENT_CERTIFICATE: return UVHTTP_E_TLS_CLIENT_CERTIFICATE;
        default: return otherwise;
    }
}

/* --- a session --- */

/* With VERIFY mbedTLS continues with a certificate that is not for clients (key usage), and says so in the result. */
static int check_peer(uvhttp__tls_session_t *session) {
    if (!mbedtls_ssl_get_peer_cert(&session->ssl) || mbedtls_ssl_get_verify_result(&session->ssl) == 0)
        return UVHTTP_OK;
    (void)mbedtls_ssl_send_alert_message(&session->ssl, MBEDTLS_SSL_ALERT_LEVEL_FATAL, MBEDTLS_SSL_ALERT_MSG_BAD_CERT);
    return UVHTTP_E_TLS_CLIENT_CERTIFICATE;
}

int uvhttp__tls_session_handshake(uvhttp__tls_session_t *session) {
    uvhttp__tls_tickets_for(session);
    int error = mbedtls_ssl_handshake(&session->ssl);
    uvhttp__tls_tickets_for(NULL);
    if (error == 0) return check_peer(session);
    int status = code_of(error, session->alert ? code_of_alert(session->alert) : UVHTTP_E_TLS_HANDSHAKE);
    if (status == UVHTTP_E_AGAIN || status == UVHTTP_E_TLS_ALERT) return status;
    if (status == UVHTTP_E_EOF) return UVHTTP_E_TLS_ALERT; /* close_notify in place of a handshake */
    if (!session->alert)
        (void)mbedtls_ssl_send_alert_message(&session->ssl, MBEDTLS_SSL_ALERT_LEVEL_FATAL,
                                             MBEDTLS_SSL_ALERT_MSG_DECODE_ERROR);
    return status;
}

bool uvhttp__tls_session_resumed(const uvhttp__tls_session_t *session) {
    return session->resumed;
}

const char *uvhttp__tls_session_version(const uvhttp__tls_session_t *session) {
    return mbedtls_ssl_get_version(&session->ssl);
}

const char *uvhttp__tls_session_cipher(const uvhttp__tls_session_t *session) {
    return mbedtls_ssl_get_ciphersuite(&session->ssl);
}

bool uvhttp__tls_session_chose_h2(const uvhttp__tls_session_t *session) {
    const char *name = mbedtls_ssl_get_alpn_protocol(&session->ssl);
    return name && strcmp(name, "h2") == 0;
}

int uvhttp__tls_session_read(uvhttp__tls_session_t *session, char *data, size_t size, size_t *got) {
    int result = mbedtls_ssl_read(&session->ssl, (unsigned char *)data, size);
    if (result < 0) return code_of(result, UVHTTP_E_TLS_RECORD); /* 0: empty records; mbedTLS refuses a flood of them */
    *got = (size_t)result;
    return UVHTTP_OK;
}

bool uvhttp__tls_session_pending(const uvhttp__tls_session_t *session) {
    return mbedtls_ssl_check_pending(&session->ssl) != 0;
}

/* One record, but for a client that has negotiated smaller ones (RFC 6066 section 4). */
int uvhttp__tls_session_write(uvhttp__tls_session_t *session, const char *data, size_t size) {
    while (size > 0) {
        int written = mbedtls_ssl_write(&session->ssl, (const unsigned char *)data, size);
        if (written <= 0) return UVHTTP_E_ABORTED;
        data += written;
        size -= (size_t)written;
    }
    return UVHTTP_OK;
}

void uvhttp__tls_session_close(uvhttp__tls_session_t *session) {
    (void)mbedtls_ssl_close_notify(&session->ssl);
}

char *uvhttp__tls_session_subject(const uvhttp__tls_session_t *session) {
    const mbedtls_x509_crt *peer = mbedtls_ssl_get_peer_cert(&session->ssl);
    if (!peer || mbedtls_ssl_get_verify_result(&session->ssl) != 0) return NULL;
    return uvhttp__tls_name_text(&peer->subject);
}

/* --- the certificate --- */

static int add_for_handshake(void *arg, mbedtls_x509_crt *chain, mbedtls_pk_context *key) {
    return mbedtls_ssl_set_hs_own_cert(arg, chain, key);
}

int uvhttp__tls_on_server_name(void *arg, mbedtls_ssl_context *ssl, const unsigned char *name, size_t size) {
    uvhttp__tls_contexts_t *contexts = arg;
    uvhttp_str_t asked = {(const char *)name, size};
    uvhttp__tls_session_t *session = ssl->p_bio;
    uvhttp__tls_bind(contexts, asked, session->binding);
    const uvhttp__tls_name_t *found = uvhttp__tls_names_find(&contexts->names, asked);
    if (!found || found->site == 0) return 0;
    return uvhttp__tls_each_of_site(contexts, found->site, add_for_handshake, ssl);
}
