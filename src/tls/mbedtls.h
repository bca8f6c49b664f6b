/* Owns: what the files of the mbedTLS backend share. Written for 2.28, whose structures are public; TLS 1.2 only. May
 * include: io, base. */
#ifndef UVHTTP_SRC_TLS_MBEDTLS_H
#define UVHTTP_SRC_TLS_MBEDTLS_H

#include <mbedtls/pk.h>
#include <mbedtls/ssl.h>
#include <mbedtls/x509_crl.h>
#include <mbedtls/x509_crt.h>

#include "tls/backend.h"

/* A certificate as it was read. */
typedef struct uvhttp__tls_loaded {
    mbedtls_x509_crt chain;
    mbedtls_pk_context key;
} uvhttp__tls_loaded_t;

/* One configuration for all names: what belongs to a name is chosen when the client has said it. */
struct uvhttp__tls_library {
    mbedtls_ssl_config config;
    mbedtls_ssl_config config_without_h2; /* the same but for ALPN, and with all that it points to */
    mbedtls_x509_crt authorities;         /* of clients */
    mbedtls_x509_crl lists;               /* of what the authorities have revoked */
    bool has_lists;
    const char **alpn;             /* NULL behind the last; NULL: ALPN is ignored */
    uvhttp__tls_loaded_t loaded[]; /* settings->certificate_count */
};

struct uvhttp__tls_session {
    mbedtls_ssl_context ssl; /* first: found by callbacks */
    uvhttp__tls_contexts_t *contexts;
    uvhttp__tls_io_t *io;
    unsigned char binding[UVHTTP__TLS_DIGEST_SIZE]; /* what a ticket of this session counts for */
    unsigned char alert;                            /* that we have sent in the handshake, 0: none */
    bool resumed;
};

/* mbedtls_load.c */
/* The certificates that a site is served with, in order: one of each kind of key. Calls `add` for each until it does
 * not return 0, and returns that. */
int uvhttp__tls_each_of_site(uvhttp__tls_contexts_t *contexts, size_t site,
                             int (*add)(void *arg, mbedtls_x509_crt *chain, mbedtls_pk_context *key), void *arg);

/* mbedtls_clients.c */
/* The library asks clients for what the settings want. */
void uvhttp__tls_set_clients(uvhttp__tls_contexts_t *contexts);
/* Whether a client's certificate is trusted now, as in a full handshake. */
bool uvhttp__tls_is_trusted(uvhttp__tls_contexts_t *contexts, mbedtls_x509_crt *peer);

/* mbedtls_session.c: for mbedtls_ssl_conf_*. */
int uvhttp__tls_f_rng(void *arg, unsigned char *memory, size_t size);
int uvhttp__tls_on_server_name(void *arg, mbedtls_ssl_context *ssl, const unsigned char *name, size_t size);

/* mbedtls_ticket.c */
void uvhttp__tls_bind(const uvhttp__tls_contexts_t *contexts, uvhttp_str_t asked,
                      unsigned char binding[UVHTTP__TLS_DIGEST_SIZE]);
/* The callbacks of tickets do not get the session: it is this, on this thread, until it is NULL. */
void uvhttp__tls_tickets_for(uvhttp__tls_session_t *session);
int uvhttp__tls_on_ticket_write(void *arg, const mbedtls_ssl_session *session, unsigned char *start,
                                const unsigned char *end, size_t *size, uint32_t *lifetime);
int uvhttp__tls_on_ticket_parse(void *arg, mbedtls_ssl_session *session, unsigned char *data, size_t size);

/* mbedtls_subject.c: as in RFC 4514, uvhttp__free it; NULL: no memory. */
char *uvhttp__tls_name_text(const mbedtls_x509_name *name);

#endif
