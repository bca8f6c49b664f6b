/* Owns: TLS for the HTTP server and the TCP server: certificates, listening, and what a connection knows of its TLS.
 * docs/tls.md. In a library that was built with UVHTTP_TLS=off everything here fails with UVHTTP_E_UNSUPPORTED or NULL
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
    UVHTTP_TLS_DEFAULT = 0, /**< as a minimum TLS 1.2, as a maximum TLS 1.3 */
    UVHTTP_TLS_1_2 = 12,
    UVHTTP_TLS_1_3 = 13
} uvhttp_tls_version_t;

/** What is asked of clients. */
typedef enum uvhttp_tls_clients {
    UVHTTP_TLS_CLIENTS_ANY,    /**< they are not asked for a certificate (default) */
    UVHTTP_TLS_CLIENTS_VERIFY, /**< they are asked; one that is not trusted ends the handshake, none does not */
    UVHTTP_TLS_CLIENTS_REQUIRE /**< they need one that is trusted */
} uvhttp_tls_clients_t;

/** A certificate with its key: each from a file or from memory, both PEM. Files are read again by uvhttp_tls_reload. */
typedef struct uvhttp_tls_certificate {
    const char *certificate_file; /**< the server's certificate, then the intermediate ones */
    const char *key_file;         /**< its private key, not encrypted */
    const void *certificate;      /**< instead of certificate_file */
    size_t certificate_size;      /**< bytes */
    const void *key;              /**< instead of key_file */
    size_t key_size;              /**< bytes */
    const char *ocsp_file;        /**< an OCSP response (DER, RFC 6960) to staple; default none. One that is for another
                                       certificate, or that says "revoked", is refused; one that has expired is not sent */
    const char *names; /**< host names it serves, "example.org, *.example.org"; default: those in it (DNS names
                            of its subjectAltName, else its common name) */
} uvhttp_tls_certificate_t;

/** Zero is the default everywhere. Everything is copied. */
typedef struct uvhttp_tls_options {
    /** A name that several certificates serve is served with all of them: one per kind of key (ECDSA, RSA, Ed25519), of
     * the same kind the first. The client's abilities choose. Wildcards match one label. The first certificate also
     * serves clients that ask for a name that nobody has, or for none. */
    const uvhttp_tls_certificate_t *certificates;
    size_t certificate_count;         /**< 1..10000 */
    uvhttp_tls_version_t min_version; /**< default TLS 1.2, the oldest there is */
    uvhttp_tls_version_t max_version; /**< default TLS 1.3 */
    const char *alpn; /**< protocols by preference, "h2,http/1.1"; default NULL: those that the server speaks, which for
                           uvhttp_server_t is h2 (unless http2 is off) and http/1.1, and for uvhttp_tcp_server_t
                           http/1.1; "none": ALPN is ignored. A client that offers ALPN and has none of them is refused
                           (RFC 7301 section 3.2) */
    uvhttp_tls_clients_t clients;
    const char *client_ca_file;  /**< certificates, PEM, that clients' ones must lead to; for VERIFY and REQUIRE */
    const void *client_ca;       /**< instead of client_ca_file */
    size_t client_ca_size;       /**< bytes */
    const char *client_crl_file; /**< revocation lists, PEM (RFC 5280): one of each authority that clients' certificates
                                    lead to. A certificate that is in one, or whose authority has none that is valid
                                    now, is not trusted. Default: revocation is not checked */
    const void *client_crl;      /**< instead of client_crl_file */
    size_t client_crl_size;      /**< bytes */
    uint32_t handshake_timeout;  /**< seconds from accepting to the end of the handshake, 1..3600; default 10 */
    uint32_t ticket_period;      /**< seconds that a key for session tickets is used for new ones, and as long again for
                                      old ones, 1..604800; default 43200 */
    bool no_tickets;             /**< true: sessions are not resumed */
    bool kernel_tls; /**< true: from a connection's first file of 64 KiB on the kernel encrypts what it is sent, where
                          it can (Linux with the module tls, TLS 1.3, OpenSSL), and files go by sendfile(2); where it
                        cannot, they are read and encrypted in the process. docs/tls.md says what that costs */
} uvhttp_tls_options_t;

/** Reads and checks everything. Returns NULL when something is wrong, or out of memory; the log names the certificate,
 * the file and the reason. A key that others may read is a warning. Reads files: not on a loop's thread. */
UVHTTP_EXPORT uvhttp_tls_t *uvhttp_tls_new(const uvhttp_tls_options_t *options);

/** For development only: as uvhttp_tls_new with a certificate that it makes in memory, ECDSA P-256, signed by itself,
 * for localhost, 127.0.0.1 and ::1, valid for 30 days. options may be NULL; its certificates are ignored. */
UVHTTP_EXPORT uvhttp_tls_t *uvhttp_tls_development(const uvhttp_tls_options_t *options);

/** From the fields tls_* of a configuration (server.h), which may have come from a file, the environment or options. As
 * uvhttp_tls_new, or, when tls_certificate is empty, as uvhttp_tls_development. uvhttp_server_reload gives what it has
 * made the fields of a new configuration. */
UVHTTP_EXPORT uvhttp_tls_t *uvhttp_tls_from_config(const struct uvhttp_server_config *config);

/** Counted: servers that listen with it keep it. Any thread. NULL is allowed in free. */
UVHTTP_EXPORT uvhttp_tls_t *uvhttp_tls_retain(uvhttp_tls_t *tls);
UVHTTP_EXPORT void uvhttp_tls_release(uvhttp_tls_t *tls);

/** Reads all files again: connections accepted from now on get what is in them, others keep what they have, tickets
 * stay valid. All or nothing: on a failure everything stays as it was, and the log and uvhttp_tls_error_text say file
 * and reason. Returns 0, UVHTTP_E_TLS_CERTIFICATE, UVHTTP_E_NOMEM or UVHTTP_E_INVALID. Any thread but a loop's (it
 * reads files), one at a time. */
UVHTTP_EXPORT int uvhttp_tls_reload(uvhttp_tls_t *tls);

/** Why the last reload failed, one line; "" if it did not. Valid until the next one. */
UVHTTP_EXPORT const char *uvhttp_tls_error_text(const uvhttp_tls_t *tls);

/** As uvhttp_server_listen and uvhttp_tcp_server_listen; a server may listen with and without TLS at once. Also
 * UVHTTP_E_INVALID when tls is NULL, and UVHTTP_E_UNSUPPORTED in a library without TLS. on_open of a TCP server comes
 * when the handshake is done; a connection whose handshake fails is never seen. */
UVHTTP_EXPORT int uvhttp_server_listen_tls(uvhttp_server_t *server, const char *address, uvhttp_tls_t *tls,
                                           uint16_t *port);
UVHTTP_EXPORT int uvhttp_tcp_server_listen_tls(uvhttp_tcp_server_t *server, const char *address, uvhttp_tls_t *tls,
                                               uint16_t *port);

/** Whether the connection came through TLS. Of a connection: loop's thread. Of a request: as all that it shows
 * (request.h), also when its client has gone. */
UVHTTP_EXPORT bool uvhttp_tcp_is_tls(const uvhttp_tcp_t *tcp);
UVHTTP_EXPORT bool uvhttp_request_is_tls(const uvhttp_request_t *req);

/** The subject of the client's certificate, which was verified, as in RFC 4514 ("CN=alice,O=Example"); NULL if there is
 * none, or no memory. Of a connection: valid until it is closed; loop's thread. Of a request: a copy, valid as long as
 * the request, also when its client has gone (request.h). */
UVHTTP_EXPORT const char *uvhttp_tcp_client_subject(uvhttp_tcp_t *tcp);
UVHTTP_EXPORT const char *uvhttp_request_client_subject(uvhttp_request_t *req);

UVHTTP_END_DECLS

#endif
