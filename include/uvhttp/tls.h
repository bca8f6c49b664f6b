/* Owns: TLS for the HTTP server and the TCP server: certificates, listeners, and the TLS facts of a connection.
 * docs/guide/tls.md. In a library built with UVHTTP_TLS=off, everything here fails with UVHTTP_E_UNSUPPORTED or NULL
 * and a line in the log. */
#ifndef UVHTTP_TLS_H
#define UVHTTP_TLS_H

#include <uvhttp/error.h>
#include <uvhttp/tcp.h>
#include <uvhttp/types.h>

UVHTTP_BEGIN_DECLS

struct uvhttp_server_config;
typedef struct uvhttp_tls uvhttp_tls_t;

typedef enum uvhttp_tls_version {
    UVHTTP_TLS_DEFAULT = 0, /**< TLS 1.2 as a minimum, TLS 1.3 as a maximum */
    UVHTTP_TLS_1_2 = 12,
    UVHTTP_TLS_1_3 = 13
} uvhttp_tls_version_t;

/** Whether clients need a certificate. */
typedef enum uvhttp_tls_clients {
    UVHTTP_TLS_CLIENTS_ANY,    /**< clients are not asked for a certificate (default) */
    UVHTTP_TLS_CLIENTS_VERIFY, /**< clients are asked. An untrusted certificate ends the handshake; a missing one does
                                  not */
    UVHTTP_TLS_CLIENTS_REQUIRE /**< clients need a trusted certificate */
} uvhttp_tls_clients_t;

/** A certificate with its key, each from a PEM file or from PEM text in memory. uvhttp_tls_reload reads files again. */
typedef struct uvhttp_tls_certificate {
    const char *certificate_file; /**< the server's certificate, followed by the intermediate certificates */
    const char *key_file;         /**< its private key, not encrypted */
    const void *certificate;      /**< instead of certificate_file */
    size_t certificate_size;      /**< bytes */
    const void *key;              /**< instead of key_file */
    size_t key_size;              /**< bytes */
    const char *ocsp_file;        /**< an OCSP response (DER, RFC 6960) to staple; default none. A response for another
                                     certificate, or with the status "revoked", is refused. An expired response is not sent */
    const char *names; /**< host names, "example.org, *.example.org". Default: the DNS names of its subjectAltName, else
                          its common name */
    const void *reserved[4]; /**< NULL: for later releases */
} uvhttp_tls_certificate_t;

/** Options of TLS. Zero is the default everywhere. Everything is copied. */
typedef struct uvhttp_tls_options {
    /** Several certificates may serve a name, one per kind of key (ECDSA, RSA, Ed25519); of one kind, the first is
     * used. The client's abilities select. Wildcards match one label. The first certificate also serves clients that
     * send no name or an unknown one. */
    const uvhttp_tls_certificate_t *certificates;
    size_t certificate_count;         /**< 1..10000 */
    uvhttp_tls_version_t min_version; /**< default TLS 1.2, the oldest supported version */
    uvhttp_tls_version_t max_version; /**< default TLS 1.3 */
    const char *alpn; /**< protocols by preference, "h2,http/1.1". NULL (default): h2 (unless http2 is off) and http/1.1
                         for uvhttp_server_t, http/1.1 for uvhttp_tcp_server_t. "none": ALPN is ignored. A client that
                         offers ALPN without a common protocol is refused (RFC 7301 section 3.2) */
    uvhttp_tls_clients_t clients;
    const char
        *client_ca_file;   /**< PEM certificates of the authorities of client certificates; for VERIFY and REQUIRE */
    const void *client_ca; /**< instead of client_ca_file */
    size_t client_ca_size; /**< bytes */
    const char *client_crl_file; /**< PEM revocation lists (RFC 5280), one per authority of client certificates. A
                                    revoked certificate is not trusted, and neither is one whose authority has no valid
                                    list. Default: revocation is not checked */
    const void *client_crl;      /**< instead of client_crl_file */
    size_t client_crl_size;      /**< bytes */
    uint32_t handshake_timeout;  /**< seconds from the accept to the end of the handshake, 1..3600; default 10 */
    uint32_t ticket_period;      /**< seconds for which a ticket key encrypts new tickets, 1..604800; default 43200. It
                                    decrypts old tickets for as long again */
    bool no_tickets;             /**< true: sessions are not resumed */
    bool kernel_tls; /**< true: the kernel encrypts a connection's output from its first file of 64 KiB on, and files
                        are sent by sendfile(2). Requires Linux with the module tls, TLS 1.3 and OpenSSL; otherwise the
                        process encrypts. docs/guide/tls.md has the costs */
} uvhttp_tls_options_t;

UVHTTP_EXPORT UVHTTP_BLOCKING_THREAD uvhttp_tls_t *uvhttp_tls_new_sized(const uvhttp_tls_options_t *options,
                                                                        size_t options_size);
/** Reads and checks everything. Returns NULL when something is wrong, or out of memory; the log names certificate, file
 * and reason. A key that other users can read causes a warning. Reads files: do not call it on a loop's thread. */
static inline uvhttp_tls_t *uvhttp_tls_new(const uvhttp_tls_options_t *options) {
    return uvhttp_tls_new_sized(options, sizeof *options);
}

UVHTTP_EXPORT UVHTTP_BLOCKING_THREAD uvhttp_tls_t *uvhttp_tls_development_sized(const uvhttp_tls_options_t *options,
                                                                                size_t options_size);
/** Creates a self-signed certificate in memory, for development only: ECDSA P-256 for localhost, 127.0.0.1 and ::1,
 * valid for 30 days. Otherwise as uvhttp_tls_new. `options` may be NULL; its certificates are ignored. */
static inline uvhttp_tls_t *uvhttp_tls_development(const uvhttp_tls_options_t *options) {
    return uvhttp_tls_development_sized(options, sizeof *options);
}

/** Creates TLS from the fields tls_* of a configuration (server.h). Works as uvhttp_tls_new, or as
 * uvhttp_tls_development when tls_certificate is empty. uvhttp_server_reload applies the fields of a new configuration
 * to it. */
UVHTTP_EXPORT UVHTTP_BLOCKING_THREAD uvhttp_tls_t *uvhttp_tls_from_config(const struct uvhttp_server_config *config);

/** Adds or releases a reference. Servers that listen with it hold references. uvhttp_tls_release accepts NULL. Any
 * thread.
 */
UVHTTP_EXPORT UVHTTP_ANY_THREAD uvhttp_tls_t *uvhttp_tls_retain(uvhttp_tls_t *tls);
UVHTTP_EXPORT UVHTTP_ANY_THREAD void uvhttp_tls_release(uvhttp_tls_t *tls);

/** Reads all files again. Connections accepted afterwards use the new contents, open connections keep theirs, and
 * tickets stay valid. On failure nothing changes, and the log and uvhttp_tls_error_text name file and reason. Returns
 * 0, UVHTTP_E_TLS_CERTIFICATE, UVHTTP_E_NOMEM or UVHTTP_E_INVALID. Reads files: any thread except a loop's, one call at
 * a time. */
UVHTTP_EXPORT UVHTTP_BLOCKING_THREAD int uvhttp_tls_reload(uvhttp_tls_t *tls);

/** Returns the reason why the last reload failed in one line, or "". Valid until the next reload. */
UVHTTP_EXPORT UVHTTP_BLOCKING_THREAD const char *uvhttp_tls_error_text(const uvhttp_tls_t *tls);

/** Listens with TLS; otherwise as uvhttp_server_listen and uvhttp_tcp_server_listen. A server may listen with and
 * without TLS at the same time. Also returns UVHTTP_E_INVALID (`tls` is NULL) and UVHTTP_E_UNSUPPORTED (a library
 * without TLS). on_open of a TCP server is called after the handshake; connections with a failed handshake are not
 * reported. */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD int uvhttp_server_listen_tls(uvhttp_server_t *server, const char *address,
                                                               uvhttp_tls_t *tls, uint16_t *port);
UVHTTP_EXPORT UVHTTP_SETUP_THREAD int uvhttp_tcp_server_listen_tls(uvhttp_tcp_server_t *server, const char *address,
                                                                   uvhttp_tls_t *tls, uint16_t *port);

/** Returns whether the connection uses TLS. For a connection: loop's thread. For a request: see request.h, also after
 * the client has disconnected. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD bool uvhttp_tcp_is_tls(const uvhttp_tcp_t *tcp);
UVHTTP_EXPORT UVHTTP_OWNER_THREAD bool uvhttp_request_is_tls(const uvhttp_request_t *req);

/** Returns the subject of the verified client certificate in the format of RFC 4514 ("CN=alice,O=Example"). Returns
 * NULL if there is none, or no memory. Of a connection: valid until it is closed; loop's thread. Of a request: a copy,
 * valid as long as the request, also after the client has disconnected (request.h). */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD const char *uvhttp_tcp_client_subject(uvhttp_tcp_t *tcp);
UVHTTP_EXPORT UVHTTP_OWNER_THREAD const char *uvhttp_request_client_subject(uvhttp_request_t *req);

UVHTTP_END_DECLS

#endif
