/* Owns: what the files of the OpenSSL backend share. May include: io, base. */
#ifndef UVHTTP_SRC_TLS_OPENSSL_H
#define UVHTTP_SRC_TLS_OPENSSL_H

#include <openssl/ssl.h>

#include "tls/backend.h"

/* A certificate as it was read. */
typedef struct uvhttp__tls_loaded {
    X509 *leaf;
    EVP_PKEY *key;
    STACK_OF(X509) * chain;
    unsigned char *ocsp; /* OPENSSL memory, NULL if none */
    int ocsp_size;       /* bytes */
    time_t ocsp_until;   /* seconds since 1970: it is sent before that */
} uvhttp__tls_loaded_t;

struct uvhttp__tls_library {
    SSL_CTX **sites;          /* names.site_count; connections begin with the first */
    X509_STORE *client_store; /* NULL: clients are not asked */
    STACK_OF(X509_NAME) * client_names;
    uvhttp__tls_loaded_t loaded[]; /* settings->certificate_count */
};

/* openssl_load.c */
void uvhttp__tls_unload(uvhttp__tls_loaded_t *loaded);
/* The reason of the last error of OpenSSL, whose queue is emptied. */
const char *uvhttp__tls_reason(void);

/* openssl_ktls.c: for SSL_CTX_set_keylog_callback. */
void uvhttp__tls_on_secret(const SSL *ssl, const char *line);
/* HKDF-Expand-Label(secret, label, "", size), RFC 8446 section 7.1, with SHA-384 for a secret of 48 bytes, else
 * SHA-256. Returns false without memory. */
bool uvhttp__tls_expand(const unsigned char *secret, size_t secret_size, const char *label, unsigned char *out,
                        size_t size);

/* openssl_session.c: for SSL_CTX_set_*. */
int uvhttp__tls_on_client_hello(SSL *ssl, int *alert, void *arg);
int uvhttp__tls_on_server_name(SSL *ssl, int *alert, void *arg);
int uvhttp__tls_on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_size, const unsigned char *in,
                        unsigned in_size, void *arg);
int uvhttp__tls_on_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac,
                          int encrypt);
/* For SSL_CTX_set_session_ticket_cb: whether a decrypted session may be resumed. */
SSL_TICKET_RETURN uvhttp__tls_on_resume(SSL *ssl, SSL_SESSION *session, const unsigned char *name, size_t name_size,
                                        SSL_TICKET_STATUS status, void *arg);
int uvhttp__tls_on_status(SSL *ssl, void *arg);

#endif
