/* Owns: a TLS session on OpenSSL: bytes in and out, what is decided during a handshake (certificate by name, ALPN,
 * tickets, stapling), and what its errors mean. The session is the SSL object itself. May include: io, base. */
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "tls/openssl.h"

static SSL *ssl_of(uvhttp__tls_session_t *session) {
    return (SSL *)(void *)session;
}
static const SSL *const_ssl_of(const uvhttp__tls_session_t *session) {
    return (const SSL *)(const void *)session;
}

/* The queue of errors is the thread's, not the session's: what the application has left there is not of ours, and
 * nothing of ours stays. */
static void no_errors(void) {
    if (ERR_peek_error() != 0) ERR_clear_error();
}

/* --- bytes in and out --- */

static int bio_read(BIO *bio, char *data, int size) {
    uvhttp__tls_io_t *io = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (size <= 0) return 0;
    if (io->in_size == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    size_t take = io->in_size < (size_t)size ? io->in_size : (size_t)size;
    memcpy(data, io->in, take);
    io->in += take;
    io->in_size -= take;
    return (int)take;
}

static int bio_write(BIO *bio, const char *data, int size) {
    BIO_clear_retry_flags(bio);
    if (size <= 0) return 0;
    uvhttp__tls_io_t *io = BIO_get_data(bio);
    return io->write(io, data, (size_t)size) == UVHTTP_OK ? size : -1;
}

static long bio_control(BIO *bio, int command, long number, void *pointer) {
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static int bio_create(BIO *bio) {
    BIO_set_init(bio, 1);
    return 1;
}

static BIO_METHOD *method;
static pthread_once_t method_once = PTHREAD_ONCE_INIT;

/* Lives as long as the process. */
static void make_method(void) {
    BIO_METHOD *made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "uvhttp");
    if (made && BIO_meth_set_read(made, bio_read) == 1 && BIO_meth_set_write(made, bio_write) == 1 &&
        BIO_meth_set_ctrl(made, bio_control) == 1 && BIO_meth_set_create(made, bio_create) == 1)
        method = made;
}

uvhttp__tls_session_t *uvhttp__tls_session_new(uvhttp__tls_contexts_t *contexts, uvhttp__tls_io_t *io) {
    pthread_once(&method_once, make_method);
    BIO *bio = method ? BIO_new(method) : NULL;
    SSL *ssl = bio ? SSL_new(contexts->library->sites[0]) : NULL;
    if (!ssl) {
        BIO_free(bio);
        ERR_clear_error();
        return NULL;
    }
    BIO_set_data(bio, io);
    SSL_set_bio(ssl, bio, bio);
    SSL_set_app_data(ssl, io);
    SSL_set_accept_state(ssl);
    return (uvhttp__tls_session_t *)(void *)ssl;
}

void uvhttp__tls_session_free(uvhttp__tls_session_t *session) {
    SSL_free(ssl_of(session));
    no_errors();
}

/* --- errors --- */

static int code_of(unsigned long error, int otherwise) {
    if (ERR_GET_LIB(error) != ERR_LIB_SSL) return otherwise;
    int reason = ERR_GET_REASON(error);
    switch (reason) {
        case SSL_R_UNSUPPORTED_PROTOCOL:
        case SSL_R_VERSION_TOO_LOW:
        case SSL_R_WRONG_SSL_VERSION:
        case SSL_R_WRONG_VERSION_NUMBER:
        case SSL_R_NO_PROTOCOLS_AVAILABLE:
        case SSL_R_BAD_PROTOCOL_VERSION_NUMBER:
        case SSL_R_BAD_LEGACY_VERSION:
        case SSL_R_INAPPROPRIATE_FALLBACK: return UVHTTP_E_TLS_VERSION;
        case SSL_R_NO_SHARED_CIPHER:
        case SSL_R_NO_SHARED_GROUPS:
        case SSL_R_NO_SUITABLE_GROUPS:
        case SSL_R_NO_SUITABLE_KEY_SHARE:
        case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
        case SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS:
        case SSL_R_NO_CIPHERS_SPECIFIED: return UVHTTP_E_TLS_CIPHER;
        case SSL_R_NO_APPLICATION_PROTOCOL: return UVHTTP_E_TLS_ALPN;
        case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        case SSL_R_CERTIFICATE_VERIFY_FAILED: return UVHTTP_E_TLS_CLIENT_CERTIFICATE;
        case ERR_R_MALLOC_FAILURE: return UVHTTP_E_NOMEM;
        default: return reason >= SSL_AD_REASON_OFFSET ? UVHTTP_E_TLS_ALERT : otherwise;
    }
}

/* An operation has not succeeded: it needs bytes, or the session has failed. */
static int failure(SSL *ssl, int result, int otherwise) {
    int error = SSL_get_error(ssl, result);
    if (error == SSL_ERROR_WANT_READ) return UVHTTP_E_AGAIN;
    if (error == SSL_ERROR_ZERO_RETURN) return UVHTTP_E_EOF;
    int code = code_of(ERR_peek_last_error(), otherwise);
    ERR_clear_error();
    return code;
}

/* --- a session --- */

int uvhttp__tls_session_handshake(uvhttp__tls_session_t *session) {
    no_errors();
    int done = SSL_do_handshake(ssl_of(session));
    int status = done == 1 ? UVHTTP_OK : failure(ssl_of(session), done, UVHTTP_E_TLS_HANDSHAKE);
    no_errors();
    return status == UVHTTP_E_EOF ? UVHTTP_E_TLS_ALERT : status; /* close_notify in place of a handshake */
}

bool uvhttp__tls_session_resumed(const uvhttp__tls_session_t *session) {
    return SSL_session_reused(const_ssl_of(session)) == 1;
}

const char *uvhttp__tls_session_version(const uvhttp__tls_session_t *session) {
    return SSL_get_version(const_ssl_of(session));
}

const char *uvhttp__tls_session_cipher(const uvhttp__tls_session_t *session) {
    return SSL_get_cipher_name(const_ssl_of(session));
}

bool uvhttp__tls_session_chose_h2(const uvhttp__tls_session_t *session) {
    const unsigned char *name;
    unsigned size;
    SSL_get0_alpn_selected(const_ssl_of(session), &name, &size);
    return size == 2 && memcmp(name, "h2", 2) == 0;
}

int uvhttp__tls_session_read(uvhttp__tls_session_t *session, char *data, size_t size, size_t *got) {
    SSL *ssl = ssl_of(session);
    no_errors();
    return SSL_read_ex(ssl, data, size, got) == 1 ? UVHTTP_OK : failure(ssl, 0, UVHTTP_E_TLS_RECORD);
}

bool uvhttp__tls_session_pending(const uvhttp__tls_session_t *session) {
    return SSL_pending(const_ssl_of(session)) > 0;
}

int uvhttp__tls_session_write(uvhttp__tls_session_t *session, const char *data, size_t size) {
    size_t written;
    if (SSL_write_ex(ssl_of(session), data, size, &written) == 1) return UVHTTP_OK;
    ERR_clear_error();
    return UVHTTP_E_ABORTED;
}

void uvhttp__tls_session_close(uvhttp__tls_session_t *session) {
    (void)SSL_shutdown(ssl_of(session));
    no_errors();
}

char *uvhttp__tls_session_subject(const uvhttp__tls_session_t *session) {
    const SSL *ssl = const_ssl_of(session);
    X509 *peer = SSL_get0_peer_certificate(ssl);
    if (!peer || SSL_get_verify_result(ssl) != X509_V_OK) return NULL;
    BIO *text = BIO_new(BIO_s_mem());
    char *copy = NULL, *data;
    /* Characters beyond ASCII stay UTF-8. */
    unsigned long how = XN_FLAG_RFC2253 & ~(unsigned long)ASN1_STRFLGS_ESC_MSB;
    if (text && X509_NAME_print_ex(text, X509_get_subject_name(peer), 0, how) >= 0) {
        long size = BIO_get_mem_data(text, &data);
        copy = uvhttp__malloc((size_t)size + 1);
        if (copy) memcpy(copy, data, (size_t)size);
        if (copy) copy[size] = '\0';
    }
    BIO_free(text);
    ERR_clear_error();
    return copy;
}

/* --- decisions during a handshake --- */

/* server_name (RFC 6066 section 3): a list with one entry of type 0. */
static uvhttp_str_t asked_name(SSL *ssl) {
    const unsigned char *data;
    size_t size;
    uvhttp_str_t none = {NULL, 0};
    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &data, &size) != 1 || size < 5) return none;
    size_t name_size = (size_t)data[3] << 8 | data[4];
    if (data[2] != TLSEXT_NAMETYPE_host_name || name_size > size - 5) return none;
    return (uvhttp_str_t){(const char *)data + 5, name_size};
}

/* A ticket counts only for the name that it was made for, and for the same demands on clients. */
static bool bind_sessions(SSL *ssl, const uvhttp__tls_contexts_t *contexts, uvhttp_str_t name) {
    unsigned char digest[UVHTTP__TLS_DIGEST_SIZE];
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool done = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1 &&
                EVP_DigestUpdate(context, contexts->clients_digest, sizeof contexts->clients_digest) == 1 &&
                EVP_DigestUpdate(context, name.data, name.size) == 1 &&
                EVP_DigestFinal_ex(context, digest, NULL) == 1 &&
                SSL_set_session_id_context(ssl, digest, sizeof digest) == 1;
    EVP_MD_CTX_free(context);
    return done;
}

/* Before anything else is looked at, so that tickets are judged by the name, too. */
int uvhttp__tls_on_client_hello(SSL *ssl, int *alert, void *arg) {
    const uvhttp__tls_contexts_t *contexts = arg;
    uvhttp_str_t asked = asked_name(ssl);
    const uvhttp__tls_name_t *found = uvhttp__tls_names_find(&contexts->names, asked);
    char lower[256];
    uvhttp_str_t name = {"", 0};
    if (found) {
        /* The name as asked for, not the wildcard: one ticket is not for all that the wildcard covers. */
        for (size_t i = 0; i < asked.size; i++) lower[i] = uvhttp__char_lower(asked.data[i]);
        name = (uvhttp_str_t){lower, asked.size};
    }
    bool done = !found || found->site == 0 || SSL_set_SSL_CTX(ssl, contexts->library->sites[found->site]);
    if (done && bind_sessions(ssl, contexts, name)) return SSL_CLIENT_HELLO_SUCCESS;
    *alert = SSL_AD_INTERNAL_ERROR;
    return SSL_CLIENT_HELLO_ERROR;
}

/* on_client_hello has chosen; this only says that the name was understood. */
int uvhttp__tls_on_server_name(SSL *ssl, int *alert, void *arg) {
    (void)ssl, (void)alert, (void)arg;
    return SSL_TLSEXT_ERR_OK;
}

/* Our order counts. */
int uvhttp__tls_on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_size, const unsigned char *in,
                        unsigned in_size, void *arg) {
    const uvhttp__tls_settings_t *settings = ((const uvhttp__tls_contexts_t *)arg)->settings;
    const uvhttp__tls_io_t *io = BIO_get_data(SSL_get_rbio(ssl));
    const uint8_t *own = settings->alpn, *end = own + settings->alpn_size;
    if (settings->alpn_is_default && !io->speaks_h2) own += 1 + own[0];
    for (; own < end; own += 1 + own[0])
        for (unsigned i = 0; i < in_size && i + in[i] < in_size; i += 1u + in[i]) {
            if (in[i] != own[0] || memcmp(in + i + 1, own + 1, own[0]) != 0) continue;
            *out = own + 1;
            *out_size = own[0];
            return SSL_TLSEXT_ERR_OK;
        }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static bool set_keys(const uvhttp__ticket_key_t *key, const unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac,
                     int encrypt) {
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, (void *)(uintptr_t)key->mac, sizeof key->mac),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0), OSSL_PARAM_construct_end()};
    return EVP_MAC_CTX_set_params(mac, params) == 1 &&
           EVP_CipherInit_ex2(cipher, EVP_aes_256_cbc(), key->cipher, iv, encrypt, NULL) == 1;
}

/* 1: continue; 2: continue, and replace the ticket; 0: no ticket; -1: failed. */
int uvhttp__tls_on_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac,
                          int encrypt) {
    const uvhttp__tls_io_t *io = SSL_get_app_data(ssl);
    const uvhttp__tls_contexts_t *contexts = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    uint64_t now_ms = io->stream->loop->now_ms;
    uvhttp__ticket_key_t key;
    bool old = false;
    if (encrypt) {
        if (!uvhttp__tickets_current(contexts->tickets, now_ms, &key)) return 0;
        memcpy(name, key.name, sizeof key.name);
        if (!uvhttp__tls_random(iv, EVP_MAX_IV_LENGTH)) return -1;
    } else if (!uvhttp__tickets_find(contexts->tickets, now_ms, name, &key, &old)) {
        return 0;
    }
    bool done = set_keys(&key, iv, cipher, mac, encrypt);
    explicit_bzero(&key, sizeof key);
    if (!done) return -1;
    /* TLS 1.3: each ticket is for one connection (RFC 8446 section C.4), so that a resumed session gets the next one.
     */
    return !encrypt && (old || SSL_version(ssl) == TLS1_3_VERSION) ? 2 : 1;
}

/* As in a full handshake, but with what a ticket holds: the certificate alone, without the client's intermediate ones.
 */
static bool is_trusted_now(SSL *ssl, X509 *peer) {
    X509_STORE_CTX *context = X509_STORE_CTX_new();
    X509_STORE *store = SSL_CTX_get_cert_store(SSL_get_SSL_CTX(ssl));
    bool trusted = context && X509_STORE_CTX_init(context, store, peer, NULL) == 1 &&
                   X509_STORE_CTX_set_default(context, "ssl_client") == 1;
    if (trusted) {
        X509_VERIFY_PARAM_set_auth_level(X509_STORE_CTX_get0_param(context), SSL_get_security_level(ssl));
        trusted = X509_verify_cert(context) == 1;
    }
    X509_STORE_CTX_free(context);
    no_errors();
    return trusted;
}

/* What is not resumed gets a full handshake, in which the client is asked for its certificate again. */
SSL_TICKET_RETURN uvhttp__tls_on_resume(SSL *ssl, SSL_SESSION *session, const unsigned char *name, size_t name_size,
                                        SSL_TICKET_STATUS status, void *arg) {
    (void)name, (void)name_size, (void)arg;
    if (status == SSL_TICKET_EMPTY || status == SSL_TICKET_NO_DECRYPT) return SSL_TICKET_RETURN_IGNORE_RENEW;
    X509 *peer = SSL_SESSION_get0_peer(session);
    if (peer && !is_trusted_now(ssl, peer)) {
        const uvhttp__tls_io_t *io = SSL_get_app_data(ssl);
        uvhttp__counters_add(io->stream->loop->counters, tls_resumption_refused, 1);
        return SSL_TICKET_RETURN_IGNORE_RENEW;
    }
    return status == SSL_TICKET_SUCCESS_RENEW ? SSL_TICKET_RETURN_USE_RENEW : SSL_TICKET_RETURN_USE;
}

/* The response of the certificate that was chosen. */
int uvhttp__tls_on_status(SSL *ssl, void *arg) {
    const uvhttp__tls_contexts_t *contexts = arg;
    const X509 *chosen = SSL_get_certificate(ssl);
    for (uint32_t i = 0; i < contexts->settings->certificate_count; i++) {
        const uvhttp__tls_loaded_t *one = &contexts->library->loaded[i];
        if (one->leaf != chosen || !one->ocsp) continue;
        if ((time_t)(uvhttp__clock_unix_ms() / 1000) >= one->ocsp_until) break;
        unsigned char *copy = OPENSSL_memdup(one->ocsp, (size_t)one->ocsp_size); /* the session frees it */
        if (!copy || SSL_set_tlsext_status_ocsp_resp(ssl, copy, one->ocsp_size) != 1) break;
        return SSL_TLSEXT_ERR_OK;
    }
    return SSL_TLSEXT_ERR_NOACK;
}
