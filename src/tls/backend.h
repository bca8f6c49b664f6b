/* Owns: what the filter and the public functions need of a TLS library. One backend is compiled in; what it includes of
 * its library stays in its own files. May include: io, base. */
#ifndef UVHTTP_SRC_TLS_BACKEND_H
#define UVHTTP_SRC_TLS_BACKEND_H

#include <stdatomic.h>
#include <time.h>
#include <uvhttp/tls.h>

#include "base/arena.h"
#include "base/ref.h"
#include "io/io.h"
#include "tls/names.h"
#include "tls/tickets.h"

/* The options, checked and copied. Reference-counted: the contexts that were made from them hold a reference. */
typedef struct uvhttp__tls_settings {
    uvhttp__ref_t count;
    uvhttp__arena_t arena; /* all that is pointed to */
    uvhttp_tls_certificate_t *certificates;
    uint32_t certificate_count;
    uvhttp_tls_version_t min_version, max_version; /* never DEFAULT */
    uint8_t *alpn;                                 /* as on the wire: each protocol behind its size */
    size_t alpn_size;                              /* bytes; 0: ALPN is ignored */
    bool alpn_is_default;                          /* h2, then http/1.1: h2 only for who speaks it */
    uvhttp_tls_clients_t clients;
    const char *client_ca_file;
    const void *client_ca;
    size_t client_ca_size;
    const char *client_crl_file;
    const void *client_crl;
    size_t client_crl_size;
    uint64_t handshake_timeout_ms;
    uint64_t ticket_period_ms;
    bool no_tickets;
    bool kernel_tls;
} uvhttp__tls_settings_t;

/* Why something was refused. */
typedef struct uvhttp__tls_error {
    char text[512];
} uvhttp__tls_error_t;

/* Returns `status`. */
int uvhttp__tls_fail(uvhttp__tls_error_t *error, int status, const char *format, ...) UVHTTP_PRINTF(3, 4);

#define UVHTTP__TLS_FILE_SIZE_MAX (16u << 20)
/* Bytes received in a handshake. A ClientHello and a client's certificates come in less. */
#define UVHTTP__TLS_HANDSHAKE_SIZE_MAX (64u * 1024)

/* settings.c. Returns 0, UVHTTP_E_NOMEM or UVHTTP_E_CONFIG, with the reason. */
int uvhttp__tls_settings_new(const uvhttp_tls_options_t *options, uvhttp__tls_settings_t **settings,
                             uvhttp__tls_error_t *error);
void uvhttp__tls_settings_release(uvhttp__tls_settings_t *settings);

/* --- load.c: for backends --- */

/* A file's bytes and a NUL behind them, uvhttp__free them. Returns 0, UVHTTP_E_NOMEM, or UVHTTP_E_TLS_CERTIFICATE with
 * the reason. */
int uvhttp__tls_read_file(const char *path, char **data, size_t *size, uvhttp__tls_error_t *error);
/* What `file` is called in messages, if it is one. */
const char *uvhttp__tls_label(const char *file);

/* The bytes of a file, or memory of the settings. */
typedef struct uvhttp__tls_source {
    const char *name; /* for messages */
    const char *data; /* a NUL behind it */
    size_t size;      /* bytes, without the NUL */
    char *owned;
} uvhttp__tls_source_t;

/* As uvhttp__tls_read_file. Close it after success; it is wiped. */
int uvhttp__tls_source_open(uvhttp__tls_source_t *source, const char *file, const void *memory, size_t size,
                            uvhttp__tls_error_t *error);
void uvhttp__tls_source_close(uvhttp__tls_source_t *source);

/* Adds the names of an option. Returns 0, UVHTTP_E_CONFIG with the reason, or UVHTTP_E_NOMEM. */
int uvhttp__tls_add_given_names(uvhttp__tls_names_t *names, const char *list, uint32_t index,
                                uvhttp__tls_error_t *error);
void uvhttp__tls_warn_of_key(const uvhttp_tls_certificate_t *from);
/* Logs when a certificate is valid (UTC). It is a warning when it is loaded with less than a third of its time left,
 * and less than so many days. */
#define UVHTTP__TLS_EXPIRY_WARN_DAYS 30
void uvhttp__tls_log_dates(const uvhttp_tls_certificate_t *from, const struct tm *since, const struct tm *until);

/* --- contexts.c --- */

#define UVHTTP__TLS_DIGEST_SIZE 32

/* What the backend has of it: as it was read, and as the TLS library wants it. */
typedef struct uvhttp__tls_library uvhttp__tls_library_t;

/* Everything that comes from files: certificates, keys, CAs. Reference-counted, immutable except for the kernel's
 * replies. */
typedef struct uvhttp__tls_contexts {
    uvhttp__ref_t count;
    uvhttp__tls_settings_t *settings;
    uvhttp__tickets_t *tickets;
    uvhttp__tls_names_t names;
    unsigned char clients_digest[UVHTTP__TLS_DIGEST_SIZE]; /* of what clients are asked for */
    uvhttp__tls_library_t *library;
    _Atomic uint8_t kernel_refuses; /* bits, by cipher: what the kernel need not be asked again */
} uvhttp__tls_contexts_t;

/* The contexts hold a reference to the settings; tickets must live as long as the contexts. Returns 0, UVHTTP_E_NOMEM,
 * UVHTTP_E_CONFIG or UVHTTP_E_TLS_CERTIFICATE, with the reason. */
int uvhttp__tls_contexts_new(uvhttp__tls_settings_t *settings, uvhttp__tickets_t *tickets,
                             uvhttp__tls_contexts_t **contexts, uvhttp__tls_error_t *error);
uvhttp__tls_contexts_t *uvhttp__tls_contexts_retain(uvhttp__tls_contexts_t *contexts);
void uvhttp__tls_contexts_release(uvhttp__tls_contexts_t *contexts);

/* --- what a backend provides --- */

typedef struct uvhttp__tls_session uvhttp__tls_session_t;

/* Where a session's bytes come from and go to. */
typedef struct uvhttp__tls_io {
    uvhttp__stream_t *stream;
    const char *in; /* received bytes that the session has not consumed yet; only inside on_data */
    size_t in_size;
    int (*write)(struct uvhttp__tls_io *io, const char *data, size_t size); /* returns 0 or what broke */
    bool speaks_h2; /* the upper layer does: h2 is chosen if the default protocols are in force */
} uvhttp__tls_io_t;

/* False: there is none to be had. */
bool uvhttp__tls_random(void *memory, size_t size);

/* The steps of uvhttp__tls_contexts_new, in this order; each returns what that returns. */
/* Checks for settings that this library does not support, and makes contexts->library with space for every certificate.
 */
int uvhttp__tls_library_new(uvhttp__tls_contexts_t *contexts, uvhttp__tls_error_t *error);
/* Reads settings->certificates[index] and adds its names. */
int uvhttp__tls_load(uvhttp__tls_contexts_t *contexts, uint32_t index, uvhttp__tls_error_t *error);
/* Reads the authorities of clients and their revocation lists, if clients are asked, and sets clients_digest. */
int uvhttp__tls_load_clients(uvhttp__tls_contexts_t *contexts, uvhttp__tls_error_t *error);
/* The names are built: configures the library with everything that was read. */
int uvhttp__tls_library_configure(uvhttp__tls_contexts_t *contexts, uvhttp__tls_error_t *error);
/* After any of the steps; contexts->library may be NULL. */
void uvhttp__tls_library_free(uvhttp__tls_contexts_t *contexts);

/* contexts and io must live as long as the session. NULL: out of memory. */
uvhttp__tls_session_t *uvhttp__tls_session_new(uvhttp__tls_contexts_t *contexts, uvhttp__tls_io_t *io);
void uvhttp__tls_session_free(uvhttp__tls_session_t *session);
/* 0: done. UVHTTP_E_AGAIN: needs more bytes. Others: it has failed, the alert is written. */
int uvhttp__tls_session_handshake(uvhttp__tls_session_t *session);
bool uvhttp__tls_session_resumed(const uvhttp__tls_session_t *session);
/* After the handshake, for the log: version and cipher suite. Static storage, or the session's. */
const char *uvhttp__tls_session_version(const uvhttp__tls_session_t *session);
const char *uvhttp__tls_session_cipher(const uvhttp__tls_session_t *session);
/* After the handshake: whether ALPN has chosen h2 (RFC 9113 section 3.2). */
bool uvhttp__tls_session_chose_h2(const uvhttp__tls_session_t *session);
/* 0: *got bytes. UVHTTP_E_AGAIN: needs more bytes. UVHTTP_E_EOF: close_notify. Others: it has failed. */
int uvhttp__tls_session_read(uvhttp__tls_session_t *session, char *data, size_t size, size_t *got);
/* Whether read has bytes without new ones from the peer. */
bool uvhttp__tls_session_pending(const uvhttp__tls_session_t *session);
/* All of it (at most UVHTTP__FILTER_PIECE_MAX), as one record. Returns 0 or what broke. */
int uvhttp__tls_session_write(uvhttp__tls_session_t *session, const char *data, size_t size);
/* Writes close_notify. */
void uvhttp__tls_session_close(uvhttp__tls_session_t *session);
/* The subject of the peer's certificate, uvhttp__free it; NULL if there is none, or no memory. */
char *uvhttp__tls_session_subject(const uvhttp__tls_session_t *session);

/* --- kernel TLS --- */

/* Bits. */
enum {
    UVHTTP__TLS_AES_128_GCM = 1 << 0,
    UVHTTP__TLS_AES_256_GCM = 1 << 1,
    UVHTTP__TLS_CHACHA20_POLY1305 = 1 << 2,
    UVHTTP__TLS_ALL_CIPHERS = UVHTTP__TLS_AES_128_GCM | UVHTTP__TLS_AES_256_GCM | UVHTTP__TLS_CHACHA20_POLY1305,
};

/* State needed to continue writing where a session has stopped (TLS 1.3). A secret: wipe it. */
typedef struct uvhttp__tls_sending {
    uint8_t cipher;   /* one of the bits */
    uint8_t key_size; /* bytes: 16 or 32 */
    uint64_t record;  /* the number of the next one */
    unsigned char key[32], iv[12];
} uvhttp__tls_sending_t;

/* What a session records about itself, so that the kernel can continue. */
typedef struct uvhttp__tls_notes_ops {
    /* Before the handshake: begins. Returns false without memory. */
    bool (*begin)(uvhttp__tls_session_t *session);
    void (*end)(uvhttp__tls_session_t *session);
    /* After the handshake: the cipher if the kernel could continue this session, else 0. */
    uint8_t (*cipher)(const uvhttp__tls_session_t *session);
    /* The state needed for that. Returns false if it is unavailable. Once; what the session writes from then on is
     * discarded. */
    bool (*take)(uvhttp__tls_session_t *session, uvhttp__tls_sending_t *sending);
    /* Whether the peer has asked for new keys, or the session has changed them by itself. */
    bool (*rekeyed)(const uvhttp__tls_session_t *session);
    /* The last alert that the session has written, or NULL. */
    const unsigned char *(*alert)(const uvhttp__tls_session_t *session);
} uvhttp__tls_notes_ops_t;

/* NULL: this backend does not support it. */
extern const uvhttp__tls_notes_ops_t *const uvhttp__tls_notes;

/* ktls.c */
/* Has the kernel encrypt what is sent on a socket from now on. Returns false if it refuses; then *refuses says with
 * which ciphers it always will. */
bool uvhttp__ktls_start(int fd, const uvhttp__tls_sending_t *sending, uint8_t *refuses);
/* Sends an alert, level and description (RFC 8446 section 6), after everything that was sent. Returns 0, UVHTTP_E_AGAIN
 * (the socket is full) or UVHTTP_E_ABORTED. */
int uvhttp__ktls_alert(int fd, const unsigned char *alert);

/* A certificate for development with its key, PEM, uvhttp__free them. Returns 0 or UVHTTP_E_NOMEM. */
int uvhttp__tls_development_pem(char **certificate, char **key);

#endif
