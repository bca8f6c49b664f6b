/* Owns: session tickets (RFC 5077) on mbedTLS, with our keys. A ticket is the name of its key, an IV, then the time it
 * was made and the session under AES-256-GCM; what it counts for is authenticated with it, so that under another host
 * name, or other demands on clients, it is as good as a forged one. May include: io, base. */
#include <mbedtls/gcm.h>
#include <mbedtls/sha256.h>
#include <string.h>

#include "base/str.h"
#include "tls/mbedtls.h"

#define NAME_SIZE 16
#define IV_SIZE 12
#define TAG_SIZE 16
#define TIME_SIZE 8

static _Thread_local uvhttp__tls_session_t *current;

void uvhttp__tls_tickets_for(uvhttp__tls_session_t *session) {
    current = session;
}

void uvhttp__tls_bind(const uvhttp__tls_contexts_t *contexts, uvhttp_str_t asked,
                      unsigned char binding[UVHTTP__TLS_DIGEST_SIZE]) {
    unsigned char text[UVHTTP__TLS_DIGEST_SIZE + 256];
    size_t size = sizeof contexts->clients_digest;
    memcpy(text, contexts->clients_digest, size);
    /* The name as asked for, not the wildcard: one ticket is not for all that the wildcard covers. */
    if (uvhttp__tls_names_find(&contexts->names, asked))
        for (size_t i = 0; i < asked.size; i++) text[size++] = (unsigned char)uvhttp__char_lower(asked.data[i]);
    if (mbedtls_sha256_ret(text, size, binding, 0) != 0) memset(binding, 0, UVHTTP__TLS_DIGEST_SIZE);
}

/* --- the name in the ClientHello that is being read --- */

typedef struct span {
    const unsigned char *at, *end;
} span_t;

/* The number of `size` bytes at the front, which is taken away; 0 if they are not there. */
static size_t take_number(span_t *from, size_t size) {
    size_t number = 0;
    if ((size_t)(from->end - from->at) < size) {
        from->at = from->end;
        return 0;
    }
    for (size_t i = 0; i < size; i++) number = number << 8 | *from->at++;
    return number;
}

static span_t take(span_t *from, size_t size) {
    size_t left = (size_t)(from->end - from->at);
    span_t piece = {from->at, from->at + (size < left ? size : left)};
    from->at = piece.end;
    return piece;
}

/* server_name (RFC 6066 section 3) may stand behind the ticket, and mbedTLS takes extensions as they come. It has
 * checked that the message is whole. */
static uvhttp_str_t asked_name(const unsigned char *message) {
    span_t hello = {message + 4, message + 4 + ((size_t)message[1] << 16 | (size_t)message[2] << 8 | message[3])};
    take(&hello, 34); /* version, random */
    take(&hello, take_number(&hello, 1));
    take(&hello, take_number(&hello, 2));
    take(&hello, take_number(&hello, 1));
    span_t extensions = take(&hello, take_number(&hello, 2));
    while (extensions.at < extensions.end) {
        size_t type = take_number(&extensions, 2);
        span_t body = take(&extensions, take_number(&extensions, 2));
        if (type != MBEDTLS_TLS_EXT_SERVERNAME) continue;
        take_number(&body, 2);
        if (take_number(&body, 1) != MBEDTLS_TLS_EXT_SERVERNAME_HOSTNAME) break;
        span_t name = take(&body, take_number(&body, 2));
        return (uvhttp_str_t){(const char *)name.at, (size_t)(name.end - name.at)};
    }
    return (uvhttp_str_t){"", 0};
}

/* --- tickets --- */

/* In place. Returns 0 or the code of mbedTLS. */
static int protect(int mode, const uvhttp__ticket_key_t *key, const unsigned char *binding, const unsigned char *iv,
                   unsigned char *data, size_t size, unsigned char *tag) {
    unsigned char bound[NAME_SIZE + UVHTTP__TLS_DIGEST_SIZE];
    memcpy(bound, key->name, NAME_SIZE);
    memcpy(bound + NAME_SIZE, binding, UVHTTP__TLS_DIGEST_SIZE);
    mbedtls_gcm_context gcm;
    mbedtls_gcm_init(&gcm);
    int code = mbedtls_gcm_setkey(&gcm, MBEDTLS_CIPHER_ID_AES, key->cipher, sizeof key->cipher * 8);
    if (code == 0 && mode == MBEDTLS_GCM_ENCRYPT)
        code = mbedtls_gcm_crypt_and_tag(&gcm, mode, size, iv, IV_SIZE, bound, sizeof bound, data, data, TAG_SIZE, tag);
    else if (code == 0)
        code = mbedtls_gcm_auth_decrypt(&gcm, size, iv, IV_SIZE, bound, sizeof bound, tag, TAG_SIZE, data, data);
    mbedtls_gcm_free(&gcm);
    return code;
}

/* Failing means a handshake without a ticket. */
int uvhttp__tls_on_ticket_write(void *arg, const mbedtls_ssl_session *session, unsigned char *start,
                                const unsigned char *end, size_t *size, uint32_t *lifetime) {
    const uvhttp__tls_contexts_t *contexts = arg;
    const size_t overhead = NAME_SIZE + IV_SIZE + TIME_SIZE + TAG_SIZE;
    uint64_t now_ms = current->io->stream->loop->now_ms;
    uvhttp__ticket_key_t key;
    size_t capacity = (size_t)(end - start), session_size;
    if (capacity < overhead) return MBEDTLS_ERR_SSL_BUFFER_TOO_SMALL;
    unsigned char *iv = start + NAME_SIZE, *data = iv + IV_SIZE;
    int code = mbedtls_ssl_session_save(session, data + TIME_SIZE, capacity - overhead, &session_size);
    if (code != 0) return code;
    memcpy(data, &now_ms, TIME_SIZE);
    session_size += TIME_SIZE;
    if (!uvhttp__tls_random(iv, IV_SIZE) || !uvhttp__tickets_current(contexts->tickets, now_ms, &key)) {
        explicit_bzero(data, session_size);
        return MBEDTLS_ERR_SSL_INTERNAL_ERROR;
    }
    memcpy(start, key.name, NAME_SIZE);
    code = protect(MBEDTLS_GCM_ENCRYPT, &key, current->binding, iv, data, session_size, data + session_size);
    explicit_bzero(&key, sizeof key);
    if (code != 0) {
        explicit_bzero(data, session_size);
        return code;
    }
    *size = NAME_SIZE + IV_SIZE + session_size + TAG_SIZE;
    *lifetime = (uint32_t)(contexts->settings->ticket_period_ms / 1000);
    return 0;
}

/* Failing means a full handshake, and a new ticket. */
int uvhttp__tls_on_ticket_parse(void *arg, mbedtls_ssl_session *session, unsigned char *data, size_t size) {
    const uvhttp__tls_contexts_t *contexts = arg;
    uint64_t now_ms = current->io->stream->loop->now_ms, made_ms;
    unsigned char binding[UVHTTP__TLS_DIGEST_SIZE];
    uvhttp__ticket_key_t key;
    bool old;
    if (size < NAME_SIZE + IV_SIZE + TIME_SIZE + TAG_SIZE) return MBEDTLS_ERR_SSL_INVALID_MAC;
    if (!uvhttp__tickets_find(contexts->tickets, now_ms, data, &key, &old)) return MBEDTLS_ERR_SSL_INVALID_MAC;
    uvhttp__tls_bind(contexts, asked_name(current->ssl.in_msg), binding);
    unsigned char *iv = data + NAME_SIZE, *sealed = iv + IV_SIZE;
    size_t sealed_size = size - NAME_SIZE - IV_SIZE - TAG_SIZE;
    int code = protect(MBEDTLS_GCM_DECRYPT, &key, binding, iv, sealed, sealed_size, sealed + sealed_size);
    explicit_bzero(&key, sizeof key);
    if (code != 0) return MBEDTLS_ERR_SSL_INVALID_MAC;
    memcpy(&made_ms, sealed, TIME_SIZE);
    if (now_ms > made_ms && now_ms - made_ms > contexts->settings->ticket_period_ms)
        code = MBEDTLS_ERR_SSL_SESSION_TICKET_EXPIRED;
    else
        code = mbedtls_ssl_session_load(session, sealed + TIME_SIZE, sealed_size - TIME_SIZE);
    explicit_bzero(sealed, sealed_size);
    if (code == 0 && session->peer_cert && !uvhttp__tls_is_trusted(current->contexts, session->peer_cert)) {
        uvhttp__counters_add(current->io->stream->loop->counters, tls_resumption_refused, 1);
        code = MBEDTLS_ERR_SSL_SESSION_TICKET_EXPIRED; /* a full handshake, in which the client is asked again */
    }
    current->resumed = code == 0;
    return code;
}
