/* Owns: what a session of OpenSSL records so that the kernel can continue to write (kernel TLS): the secret that it
 * writes with, how many records it has written, and what it has sent by itself. Public functions only. May include:
 * base. */
#include <assert.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "tls/openssl.h"

#define SECRET_SIZE_MAX 48 /* SHA-384 */

typedef struct notes {
    uint64_t records;    /* written with the secret */
    uint8_t secret_size; /* bytes; 0: there is none, as in TLS 1.2 */
    bool rekeyed;        /* the secret is used no more */
    bool alerted;
    unsigned char alert[2];
    unsigned char secret[SECRET_SIZE_MAX];
} notes_t;

static SSL *ssl_of(uvhttp__tls_session_t *session) {
    return (SSL *)(void *)session;
}
static const SSL *const_ssl_of(const uvhttp__tls_session_t *session) {
    return (const SSL *)(const void *)session;
}

/* --- where they are --- */

static int notes_index = -1;
static pthread_once_t index_once = PTHREAD_ONCE_INIT;

static void free_notes(void *parent, void *notes, CRYPTO_EX_DATA *data, int index, long number, void *pointer) {
    (void)parent, (void)data, (void)index, (void)number, (void)pointer;
    if (!notes) return;
    explicit_bzero(notes, sizeof(notes_t));
    uvhttp__free(notes);
}

/* Lives as long as the process. */
static void make_index(void) {
    notes_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, free_notes);
}

/* NULL for a session that was not begun here. */
static notes_t *find_notes(const SSL *ssl) {
    return notes_index >= 0 ? SSL_get_ex_data(ssl, notes_index) : NULL;
}

static notes_t *notes_of(const SSL *ssl) {
    notes_t *notes = find_notes(ssl);
    assert(notes);
    return notes;
}

/* --- what OpenSSL tells --- */

static void on_message(int written, int version, int type, const void *data, size_t size, SSL *ssl, void *arg) {
    (void)version, (void)ssl;
    notes_t *notes = arg;
    const unsigned char *bytes = data;
    if (!written) return;
    if (type == SSL3_RT_HEADER) {
        notes->records++;
    } else if (type == SSL3_RT_ALERT && size == sizeof notes->alert) {
        memcpy(notes->alert, bytes, size);
        notes->alerted = true;
    } else if (type == SSL3_RT_HANDSHAKE && size > 0 && bytes[0] == SSL3_MT_KEY_UPDATE) {
        notes->rekeyed = true;
    }
}

/* A line of a key log: label, random of the client, secret, in hexadecimal. It comes at the moment from which records
 * are written with the secret. */
void uvhttp__tls_on_secret(const SSL *ssl, const char *line) {
    static const char label[] = "SERVER_TRAFFIC_SECRET_0 ";
    notes_t *notes = find_notes(ssl);
    if (!notes || strncmp(line, label, sizeof label - 1) != 0) return;
    const char *secret = strchr(line + sizeof label - 1, ' ');
    size_t size;
    if (!secret || OPENSSL_hexstr2buf_ex(notes->secret, sizeof notes->secret, &size, secret + 1, '\0') != 1) return;
    notes->secret_size = (uint8_t)size;
    notes->records = 0;
}

/* --- what is made of it --- */

static bool begin(uvhttp__tls_session_t *session) {
    pthread_once(&index_once, make_index);
    notes_t *notes = notes_index >= 0 ? uvhttp__calloc(1, sizeof *notes) : NULL;
    if (!notes || SSL_set_ex_data(ssl_of(session), notes_index, notes) != 1) {
        uvhttp__free(notes);
        ERR_clear_error();
        return false;
    }
    SSL_set_msg_callback(ssl_of(session), on_message);
    SSL_set_msg_callback_arg(ssl_of(session), notes);
    return true;
}

static void end(uvhttp__tls_session_t *session) {
    SSL *ssl = ssl_of(session);
    SSL_set_msg_callback(ssl, NULL);
    free_notes(NULL, notes_of(ssl), NULL, 0, 0, NULL);
    SSL_set_ex_data(ssl, notes_index, NULL);
}

/* What the peer has asked for is done before the next write: never, once the kernel writes. */
static bool rekeyed(const uvhttp__tls_session_t *session) {
    const SSL *ssl = const_ssl_of(session);
    return notes_of(ssl)->rekeyed || SSL_get_key_update_type(ssl) != SSL_KEY_UPDATE_NONE;
}

/* The kernel's records have 16 KiB: a client that wants smaller ones (RFC 6066 section 4) stays here. */
static uint8_t cipher(const uvhttp__tls_session_t *session) {
    const SSL *ssl = const_ssl_of(session);
    const notes_t *notes = notes_of(ssl);
    if (notes->secret_size == 0 || rekeyed(session) ||
        SSL_SESSION_get_max_fragment_length(SSL_get_session(ssl)) != TLSEXT_max_fragment_length_DISABLED)
        return 0;
    switch (SSL_CIPHER_get_protocol_id(SSL_get_current_cipher(ssl))) {
        case TLS1_3_CK_AES_128_GCM_SHA256 & 0xffff: return UVHTTP__TLS_AES_128_GCM;
        case TLS1_3_CK_AES_256_GCM_SHA384 & 0xffff: return UVHTTP__TLS_AES_256_GCM;
        case TLS1_3_CK_CHACHA20_POLY1305_SHA256 & 0xffff: return UVHTTP__TLS_CHACHA20_POLY1305;
        default: return 0;
    }
}

static OSSL_PARAM octets(const char *name, const void *data, size_t size) {
    return OSSL_PARAM_construct_octet_string(name, (void *)(uintptr_t)data, size);
}

bool uvhttp__tls_expand(const unsigned char *secret, size_t secret_size, const char *label, unsigned char *out,
                        size_t size) {
    const char *digest = secret_size == SECRET_SIZE_MAX ? "SHA384" : "SHA256";
    int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
    const OSSL_PARAM params[] = {OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
                                 OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)(uintptr_t)digest, 0),
                                 octets(OSSL_KDF_PARAM_KEY, secret, secret_size),
                                 octets(OSSL_KDF_PARAM_PREFIX, "tls13 ", 6),
                                 octets(OSSL_KDF_PARAM_LABEL, label, strlen(label)),
                                 OSSL_PARAM_construct_end()};
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, OSSL_KDF_NAME_TLS1_3_KDF, NULL);
    EVP_KDF_CTX *context = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
    bool done = context && EVP_KDF_derive(context, out, size, params) == 1;
    EVP_KDF_CTX_free(context);
    EVP_KDF_free(kdf);
    if (!done) ERR_clear_error();
    return done;
}

static bool take(uvhttp__tls_session_t *session, uvhttp__tls_sending_t *sending) {
    notes_t *notes = notes_of(ssl_of(session));
    sending->cipher = cipher(session);
    sending->key_size = sending->cipher == UVHTTP__TLS_AES_128_GCM ? 16 : 32;
    sending->record = notes->records;
    bool done = sending->cipher &&
                uvhttp__tls_expand(notes->secret, notes->secret_size, "key", sending->key, sending->key_size) &&
                uvhttp__tls_expand(notes->secret, notes->secret_size, "iv", sending->iv, sizeof sending->iv);
    explicit_bzero(notes->secret, sizeof notes->secret);
    notes->secret_size = 0;
    return done;
}

static const unsigned char *alert(const uvhttp__tls_session_t *session) {
    const notes_t *notes = notes_of(const_ssl_of(session));
    return notes->alerted ? notes->alert : NULL;
}

static const uvhttp__tls_notes_ops_t notes_ops = {
    .begin = begin, .end = end, .cipher = cipher, .take = take, .rekeyed = rekeyed, .alert = alert};

const uvhttp__tls_notes_ops_t *const uvhttp__tls_notes = &notes_ops;
