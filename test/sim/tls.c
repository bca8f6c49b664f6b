/* Owns: TLS of the simulation, both ends. The library's filter (src/tls/filter.c) always runs; behind it stands, in
 * most seeds, a null cipher in place of the library's sessions (--wrap, CMakeLists.txt): records of TLS, a handshake of
 * two round trips, bytes that are moved by the client's number and their place in the connection, and the number of
 * each record behind it, so that what is lost, doubled or another's does not go unseen. In the others it is OpenSSL
 * with random numbers of the seed. */
#define OPENSSL_SUPPRESS_DEPRECATED /* the way to give OpenSSL random numbers */
#include "tls.h"

#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp/tls.h>

#include "base/alloc.h"
#include "tls/backend.h"

enum { HANDSHAKE = 0x16, DATA = 0x17, ALERT = 0x15, HEAD_SIZE = 5, PIECE_MAX = 16384, RECORD_MAX = PIECE_MAX + 256 };

uvhttp_tls_t *sim_tls_server;

static bool real_now;
static sim_random_t numbers; /* OpenSSL's */
static SSL_CTX *client_context;

/* --- records of the null cipher --- */

typedef struct null_cipher {
    uint32_t key;
    uint64_t in_at, out_at; /* bytes of content so far */
    uint32_t in_records, out_records;
    unsigned char record[HEAD_SIZE + RECORD_MAX];
    uint32_t have;     /* bytes of it */
    uint32_t consumed; /* of its content, by who reads */
    bool ready;        /* its content is there: `have` is its size with the head */
    bool keyed;        /* the key is known */
} null_cipher_t;

static void move(uint32_t key, uint64_t at, const char *from, char *to, size_t size) {
    for (size_t i = 0; i < size; i++)
        to[i] = (char)((unsigned char)from[i] ^ (unsigned char)(key * 29 + ((at + i) >> 8) * 17 + (at + i)));
}

static void put_head(unsigned char *record, int type, size_t size) {
    record[0] = (unsigned char)type;
    record[1] = record[2] = 3;
    record[3] = (unsigned char)(size >> 8);
    record[4] = (unsigned char)size;
}

static uint32_t mark_of(const null_cipher_t *null, uint32_t number) {
    return (number + 1) * UINT32_C(0x9E3779B1) ^ null->key;
}

/* A record of at most PIECE_MAX bytes; returns its size. */
static size_t make_record(null_cipher_t *null, int type, const char *data, size_t size, char *out) {
    uint32_t mark = mark_of(null, null->out_records++);
    put_head((unsigned char *)out, type, size + sizeof mark);
    move(null->key, null->out_at, data, out + HEAD_SIZE, size);
    null->out_at += size;
    memcpy(out + HEAD_SIZE + size, &mark, sizeof mark);
    return HEAD_SIZE + size + sizeof mark;
}

static size_t record_size(const null_cipher_t *null) {
    return HEAD_SIZE + ((size_t)null->record[3] << 8 | null->record[4]);
}

/* Takes bytes up to the end of a record. Returns how many; *wrong is set if it is no record. */
static size_t gather(null_cipher_t *null, const char *data, size_t size, const char **wrong) {
    size_t used = 0;
    while (used < size && !null->ready && !*wrong) {
        size_t want = null->have < HEAD_SIZE ? HEAD_SIZE : record_size(null);
        size_t part = want - null->have < size - used ? want - null->have : size - used;
        memcpy(null->record + null->have, data + used, part);
        null->have += (uint32_t)part;
        used += part;
        if (null->have == HEAD_SIZE && (record_size(null) > sizeof null->record || null->record[1] != 3))
            *wrong = "this is no record";
        null->ready = null->have > HEAD_SIZE && null->have == record_size(null);
    }
    return used;
}

static const char *open_record(null_cipher_t *null) {
    uint32_t mark;
    size_t size = null->have - HEAD_SIZE;
    if (size < sizeof mark) return "a short record";
    memcpy(&mark, null->record + null->have - sizeof mark, sizeof mark);
    null->have -= (uint32_t)sizeof mark;
    size -= sizeof mark;
    if (!null->keyed) return NULL; /* the key is in it */
    if (mark != mark_of(null, null->in_records)) return "a record in the wrong place";
    null->in_records++;
    char *content = (char *)null->record + HEAD_SIZE;
    move(null->key, null->in_at, content, content, size);
    null->in_at += size;
    return NULL;
}

static void next_record(null_cipher_t *null) {
    null->have = null->consumed = 0;
    null->ready = false;
}

/* --- the server's end --- */

typedef struct server_end {
    null_cipher_t null;
    uvhttp__tls_io_t *io;
    uint8_t step; /* of the handshake; 2: done */
    bool failed;
    bool h2; /* the client asks for HTTP/2, and gets it */
} server_end_t;

/* In the client's first record, next to how much it wants to receive. */
#define ASKS_FOR_H2 (UINT32_C(1) << 31)

uvhttp__tls_session_t *__real_uvhttp__tls_session_new(uvhttp__tls_contexts_t *contexts, uvhttp__tls_io_t *io);
void __real_uvhttp__tls_session_free(uvhttp__tls_session_t *session);
int __real_uvhttp__tls_session_handshake(uvhttp__tls_session_t *session);
bool __real_uvhttp__tls_session_chose_h2(const uvhttp__tls_session_t *session);
bool __real_uvhttp__tls_session_resumed(const uvhttp__tls_session_t *session);
const char *__real_uvhttp__tls_session_version(const uvhttp__tls_session_t *session);
int __real_uvhttp__tls_session_read(uvhttp__tls_session_t *session, char *data, size_t size, size_t *got);
bool __real_uvhttp__tls_session_pending(const uvhttp__tls_session_t *session);
int __real_uvhttp__tls_session_write(uvhttp__tls_session_t *session, const char *data, size_t size);
void __real_uvhttp__tls_session_close(uvhttp__tls_session_t *session);
char *__real_uvhttp__tls_session_subject(const uvhttp__tls_session_t *session);

static server_end_t *end_of(const uvhttp__tls_session_t *session) {
    return (server_end_t *)(uintptr_t)session;
}

uvhttp__tls_session_t *__wrap_uvhttp__tls_session_new(uvhttp__tls_contexts_t *contexts, uvhttp__tls_io_t *io) {
    if (real_now) return __real_uvhttp__tls_session_new(contexts, io);
    server_end_t *end = uvhttp__calloc(1, sizeof *end);
    if (end) *end = (server_end_t){.io = io};
    return (uvhttp__tls_session_t *)(void *)end;
}

void __wrap_uvhttp__tls_session_free(uvhttp__tls_session_t *session) {
    if (real_now)
        __real_uvhttp__tls_session_free(session);
    else
        uvhttp__free(session);
}

static int write_record(server_end_t *end, int type, const char *data, size_t size) {
    char record[HEAD_SIZE + RECORD_MAX];
    return end->io->write(end->io, record, make_record(&end->null, type, data, size, record));
}

static int fail_with_alert(server_end_t *end, int code) {
    if (!end->failed) (void)write_record(end, ALERT, "\2\50", 2);
    end->failed = true;
    return code;
}

/* The next record whole, or why not. */
static int receive_record(server_end_t *end) {
    const char *wrong = NULL;
    size_t used = gather(&end->null, end->io->in, end->io->in_size, &wrong);
    end->io->in += used;
    end->io->in_size -= used;
    if (wrong) return UVHTTP_E_TLS_HANDSHAKE;
    return end->null.ready ? UVHTTP_OK : UVHTTP_E_AGAIN;
}

/* The client's first record has its number and how much it wants to receive; the second ends the handshake. */
static int take_handshake(server_end_t *end) {
    null_cipher_t *null = &end->null;
    char hello[PIECE_MAX];
    uint32_t asked[2];
    if (null->record[0] != HANDSHAKE || null->have < HEAD_SIZE + sizeof asked + 4) return UVHTTP_E_TLS_HANDSHAKE;
    if (end->step == 0) memcpy(asked, null->record + HEAD_SIZE, sizeof asked);
    if (end->step == 0) {
        null->key = asked[0];
        end->h2 = end->io->speaks_h2 && (asked[1] & ASKS_FOR_H2);
    }
    if (open_record(null)) return UVHTTP_E_TLS_HANDSHAKE;
    int status = UVHTTP_OK;
    if (end->step == 0) {
        null->in_records = 1;
        null->keyed = true;
        memset(hello, 'h', sizeof hello);
        status = write_record(end, HANDSHAKE, hello, (asked[1] & ~ASKS_FOR_H2) % PIECE_MAX);
    }
    end->step++;
    next_record(null);
    return status;
}

int __wrap_uvhttp__tls_session_handshake(uvhttp__tls_session_t *session) {
    if (real_now) return __real_uvhttp__tls_session_handshake(session);
    server_end_t *end = end_of(session);
    while (end->step < 2) {
        int status = receive_record(end);
        if (status == UVHTTP_OK) status = take_handshake(end);
        if (status == UVHTTP_E_AGAIN || status == UVHTTP_E_NOMEM) return status;
        if (status != UVHTTP_OK) return fail_with_alert(end, UVHTTP_E_TLS_HANDSHAKE);
    }
    return UVHTTP_OK;
}

bool __wrap_uvhttp__tls_session_chose_h2(const uvhttp__tls_session_t *session) {
    return real_now ? __real_uvhttp__tls_session_chose_h2(session) : end_of(session)->h2;
}

bool __wrap_uvhttp__tls_session_resumed(const uvhttp__tls_session_t *session) {
    return real_now && __real_uvhttp__tls_session_resumed(session);
}

const char *__wrap_uvhttp__tls_session_version(const uvhttp__tls_session_t *session) {
    return real_now ? __real_uvhttp__tls_session_version(session) : "TLSv1.3";
}

bool __wrap_uvhttp__tls_session_pending(const uvhttp__tls_session_t *session) {
    return real_now ? __real_uvhttp__tls_session_pending(session) : end_of(session)->null.ready;
}

/* Content of a record that has been opened, or the next one's. */
int __wrap_uvhttp__tls_session_read(uvhttp__tls_session_t *session, char *data, size_t size, size_t *got) {
    if (real_now) return __real_uvhttp__tls_session_read(session, data, size, got);
    server_end_t *end = end_of(session);
    null_cipher_t *null = &end->null;
    if (!null->ready) {
        int status = receive_record(end);
        if (status == UVHTTP_E_AGAIN) return status;
        const char *wrong = status == UVHTTP_OK ? open_record(null) : "";
        if (wrong && *wrong && !sim_may_misbehave(null->key)) sim_fail("TLS of client %u: %s", null->key, wrong);
        if (wrong) return fail_with_alert(end, UVHTTP_E_TLS_HANDSHAKE);
    }
    if (null->record[0] == ALERT) return UVHTTP_E_EOF;
    if (null->record[0] != DATA) return fail_with_alert(end, UVHTTP_E_TLS_HANDSHAKE);
    size_t left = null->have - HEAD_SIZE - null->consumed;
    *got = left < size ? left : size;
    memcpy(data, null->record + HEAD_SIZE + null->consumed, *got);
    null->consumed += (uint32_t)*got;
    if (*got == left) next_record(null);
    return UVHTTP_OK;
}

int __wrap_uvhttp__tls_session_write(uvhttp__tls_session_t *session, const char *data, size_t size) {
    if (real_now) return __real_uvhttp__tls_session_write(session, data, size);
    if (end_of(session)->failed) return UVHTTP_E_ABORTED; /* as OpenSSL, which writes nothing behind an alert */
    return write_record(end_of(session), DATA, data, size);
}

void __wrap_uvhttp__tls_session_close(uvhttp__tls_session_t *session) {
    if (real_now)
        __real_uvhttp__tls_session_close(session);
    else if (!end_of(session)->failed)
        (void)write_record(end_of(session), ALERT, "\1\0", 2);
}

char *__wrap_uvhttp__tls_session_subject(const uvhttp__tls_session_t *session) {
    if (real_now) return __real_uvhttp__tls_session_subject(session);
    char *text = uvhttp__malloc(SIM_SUBJECT_SIZE);
    if (text) snprintf(text, SIM_SUBJECT_SIZE, SIM_SUBJECT, end_of(session)->null.key);
    return text;
}

/* --- the client's end --- */

struct sim_tls {
    null_cipher_t null;
    SSL *ssl; /* NULL: the null cipher */
    sim_random_t *random;
    sim_tls_sink put;
    void *arg;
    bool open, ended, broken; /* broken: what comes is not looked at any more */
};

static void flush_real(sim_tls_t *tls) {
    char data[8192];
    for (int size; (size = BIO_read(SSL_get_wbio(tls->ssl), data, sizeof data)) > 0;)
        tls->put(tls->arg, data, (size_t)size);
}

static void open_real(sim_tls_t *tls, bool h2) {
    tls->ssl = SSL_new(client_context);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    if (!tls->ssl || !in || !out) abort();
    SSL_set_bio(tls->ssl, in, out);
    if (h2 && SSL_set_alpn_protos(tls->ssl, (const unsigned char *)"\2h2", 3) != 0) abort();
    SSL_set_connect_state(tls->ssl);
    ERR_clear_error();
    (void)SSL_do_handshake(tls->ssl);
    flush_real(tls);
}

static void put_record(sim_tls_t *tls, int type, const char *data, size_t size) {
    char record[HEAD_SIZE + RECORD_MAX];
    tls->put(tls->arg, record, make_record(&tls->null, type, data, size, record));
}

sim_tls_t *sim_tls_new(uint32_t client, bool h2, sim_random_t *random, sim_tls_sink put, void *arg) {
    sim_tls_t *tls = calloc(1, sizeof *tls);
    if (!tls) abort();
    *tls = (sim_tls_t){.random = random, .put = put, .arg = arg};
    if (real_now) {
        open_real(tls, h2);
        return tls;
    }
    /* The first record goes as it is. */
    uint32_t hello[128] = {client, sim_log_uniform(random, 6000) | (h2 ? ASKS_FOR_H2 : 0)};
    char record[HEAD_SIZE + sizeof hello + 4] = {0};
    size_t size = sizeof(uint32_t) * (2 + sim_below(random, 126));
    put_head((unsigned char *)record, HANDSHAKE, size + 4);
    memcpy(record + HEAD_SIZE, hello, size);
    put(arg, record, HEAD_SIZE + size + 4);
    tls->null.key = client;
    tls->null.keyed = true;
    tls->null.out_records = 1;
    return tls;
}

void sim_tls_free(sim_tls_t *tls) {
    if (tls) SSL_free(tls->ssl);
    free(tls);
}

bool sim_tls_is_open(const sim_tls_t *tls) {
    return tls->open;
}

/* In records as large as they may be, of any size, or so small that a loop iteration does not decode all of them. */
void sim_tls_write(sim_tls_t *tls, const char *data, size_t size) {
    uint32_t way = sim_below(tls->random, 8), most = way == 0 && size <= 8192 ? 3 : 16000;
    for (size_t done = 0; done < size;) {
        uint32_t left = size - done < most ? (uint32_t)(size - done) : most;
        uint32_t part = way > 3 ? left : 1 + sim_below(tls->random, left);
        if (!tls->ssl)
            put_record(tls, DATA, data + done, part);
        else if (SSL_write(tls->ssl, data + done, (int)part) != (int)part)
            sim_fail("a client's SSL_write fails");
        done += part;
    }
    if (tls->ssl) flush_real(tls);
}

void sim_tls_end(sim_tls_t *tls) {
    if (!tls->open) return;
    if (!tls->ssl)
        put_record(tls, ALERT, "\1\0", 2);
    else if (SSL_shutdown(tls->ssl) >= 0)
        flush_real(tls);
}

static const char *read_real(sim_tls_t *tls, const char *data, size_t size, sim_tls_sink take, void *arg) {
    if (BIO_write(SSL_get_rbio(tls->ssl), data, (int)size) != (int)size) abort();
    if (!tls->open) {
        bool open = SSL_do_handshake(tls->ssl) == 1;
        flush_real(tls);
        tls->open = open;
    }
    char plain[PIECE_MAX];
    int got = 0;
    ERR_clear_error(); /* the queue of errors is the thread's, whose server this is */
    while (tls->open && (got = SSL_read(tls->ssl, plain, sizeof plain)) > 0) take(arg, plain, (size_t)got);
    int error = tls->open ? SSL_get_error(tls->ssl, got) : SSL_ERROR_WANT_READ;
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_ZERO_RETURN ? NULL : "a client's SSL_read fails";
}

static const char *take_record(sim_tls_t *tls, sim_tls_sink take, void *arg) {
    null_cipher_t *null = &tls->null;
    const char *content = (const char *)null->record + HEAD_SIZE;
    const char *wrong = open_record(null);
    if (wrong) return wrong;
    if (tls->ended) return "a record behind the last";
    if (null->record[0] == DATA && tls->open) {
        take(arg, content, null->have - HEAD_SIZE);
    } else if (null->record[0] == ALERT) {
        tls->ended = true;
        if (content[0] != 1) wrong = "a fatal alert";
    } else if (null->record[0] == HANDSHAKE && !tls->open) {
        put_record(tls, HANDSHAKE, "finished", 8);
        tls->open = true;
    } else {
        wrong = "a record of the wrong type";
    }
    next_record(null);
    return wrong;
}

const char *sim_tls_read(sim_tls_t *tls, const char *data, size_t size, sim_tls_sink take, void *arg) {
    const char *wrong = NULL;
    if (tls->broken) return NULL;
    if (tls->ssl) wrong = read_real(tls, data, size, take, arg);
    if (tls->ssl) size = 0;
    for (size_t at = 0; at < size && !wrong;) {
        at += gather(&tls->null, data + at, size - at, &wrong);
        if (!wrong && tls->null.ready) wrong = take_record(tls, take, arg);
    }
    tls->broken = wrong;
    return wrong;
}

/* --- a process, a run --- */

/* Ed25519, whose signatures have one size, and dates that do not change: what is sent is the same in each process. */
static const char certificate[] = "-----BEGIN CERTIFICATE-----\n"
                                  "MIIBMjCB5aADAgECAhREIJRQs+himKw99nDpp6DnmgYSpTAFBgMrZXAwDjEMMAoG\n"
                                  "A1UEAwwDc2ltMCAXDTI2MTEyMzE5MDM1NVoYDzIxMjYxMDMwMTkwMzU1WjAOMQww\n"
                                  "CgYDVQQDDANzaW0wKjAFBgMrZXADIQCtLx59MI9yvQJ6k7DwGqbziH0f6cpbHGpS\n"
                                  "vAE+R7c4aqNTMFEwHQYDVR0OBBYEFJWdmUiwA435qbCAtYnzPlvJeAXiMB8GA1Ud\n"
                                  "IwQYMBaAFJWdmUiwA435qbCAtYnzPlvJeAXiMA8GA1UdEwEB/wQFMAMBAf8wBQYD\n"
                                  "K2VwA0EAzAag+kUpFqMYoHcdxSS3QXYItkZrPTlIvvUmk2dyeFZ/m3J2gQiZimfK\n"
                                  "eiiToVWRTRFOL4XiiJyUqmCmvKRyCg==\n"
                                  "-----END CERTIFICATE-----\n";
static const char key[] = "-----BEGIN PRIVATE KEY-----\n"
                          "MC4CAQAwBQYDK2VwBCIEIKHGugGBwHhfG/hRbuSlmDiTD01/zbiK8wKW9EdIHTBT\n"
                          "-----END PRIVATE KEY-----\n";

static int random_bytes(unsigned char *data, int size) {
    for (int i = 0; i < size; i++) data[i] = (unsigned char)sim_random(&numbers);
    return 1;
}

static int random_status(void) {
    return 1;
}

bool sim_tls_init(void) {
    static const RAND_METHOD method = {.bytes = random_bytes, .pseudorand = random_bytes, .status = random_status};
    numbers = sim_random_of(0, 0x7e);
    if (RAND_set_rand_method(&method) != 1) return false;
    client_context = SSL_CTX_new(TLS_client_method());
    const uvhttp_tls_certificate_t own = {.certificate = certificate,
                                          .certificate_size = sizeof certificate - 1,
                                          .key = key,
                                          .key_size = sizeof key - 1,
                                          .names = "sim"};
    sim_tls_server = uvhttp_tls_new(&(uvhttp_tls_options_t){
        .certificates = &own, .certificate_count = 1, .no_tickets = true, .handshake_timeout = SIM_KEEPALIVE_S});
    return client_context && sim_tls_server;
}

void sim_tls_reset(uint64_t seed, bool real) {
    real_now = real;
    numbers = sim_random_of(seed, 0x7f);
}
