/* Owns: what the kernel is told for it to send the records of a connection (kernel TLS). May include: base. */
#include <assert.h>
#include <errno.h>
#include <linux/tls.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "tls/backend.h"

#ifndef SOL_TLS
#define SOL_TLS 282 /* kernel ABI; missing in older C libraries */
#endif
#define RECORD_ALERT 21 /* RFC 8446 section 5.1 */

typedef union crypto {
    struct tls_crypto_info info;
    struct tls12_crypto_info_aes_gcm_128 aes_128;
    struct tls12_crypto_info_aes_gcm_256 aes_256;
    struct tls12_crypto_info_chacha20_poly1305 chacha20;
} crypto_t;

static void put_number(unsigned char *to, uint64_t number) {
    for (int i = 7; i >= 0; i--, number >>= 8) to[i] = (unsigned char)number;
}

/* The kernel splits the IV of AES-GCM in two, as TLS 1.2 does. Returns bytes. */
static socklen_t describe(const uvhttp__tls_sending_t *sending, crypto_t *crypto) {
    const unsigned char *iv = sending->iv;
    memset(crypto, 0, sizeof *crypto);
    crypto->info.version = TLS_1_3_VERSION;
    switch (sending->cipher) {
        case UVHTTP__TLS_AES_128_GCM:
            crypto->info.cipher_type = TLS_CIPHER_AES_GCM_128;
            memcpy(crypto->aes_128.salt, iv, sizeof crypto->aes_128.salt);
            memcpy(crypto->aes_128.iv, iv + sizeof crypto->aes_128.salt, sizeof crypto->aes_128.iv);
            memcpy(crypto->aes_128.key, sending->key, sizeof crypto->aes_128.key);
            put_number(crypto->aes_128.rec_seq, sending->record);
            return sizeof crypto->aes_128;
        case UVHTTP__TLS_AES_256_GCM:
            crypto->info.cipher_type = TLS_CIPHER_AES_GCM_256;
            memcpy(crypto->aes_256.salt, iv, sizeof crypto->aes_256.salt);
            memcpy(crypto->aes_256.iv, iv + sizeof crypto->aes_256.salt, sizeof crypto->aes_256.iv);
            memcpy(crypto->aes_256.key, sending->key, sizeof crypto->aes_256.key);
            put_number(crypto->aes_256.rec_seq, sending->record);
            return sizeof crypto->aes_256;
        default:
            assert(sending->cipher == UVHTTP__TLS_CHACHA20_POLY1305);
            crypto->info.cipher_type = TLS_CIPHER_CHACHA20_POLY1305;
            memcpy(crypto->chacha20.iv, iv, sizeof crypto->chacha20.iv);
            memcpy(crypto->chacha20.key, sending->key, sizeof crypto->chacha20.key);
            put_number(crypto->chacha20.rec_seq, sending->record);
            return sizeof crypto->chacha20;
    }
}

/* What depends on the kernel and its modules, not on the connection. */
static bool is_general(int error) {
    return error == ENOENT || error == EINVAL || error == ENOPROTOOPT;
}

bool uvhttp__ktls_start(int fd, const uvhttp__tls_sending_t *sending, uint8_t *refuses) {
    *refuses = 0;
    if (setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", sizeof "tls") != 0) {
        if (is_general(errno)) *refuses = UVHTTP__TLS_ALL_CIPHERS;
        return false;
    }
    /* Until this is done, and if it fails, the socket sends as it did. */
    crypto_t crypto;
    socklen_t size = describe(sending, &crypto);
    bool done = setsockopt(fd, SOL_TLS, TLS_TX, &crypto, size) == 0;
    if (!done && is_general(errno)) *refuses = sending->cipher;
    explicit_bzero(&crypto, sizeof crypto);
    return done;
}

/* A socket that has taken a record may still keep it back from TCP for lack of room. One that can be written has room
 * for that and for this one. */
int uvhttp__ktls_alert(int fd, const unsigned char *alert) {
    struct pollfd room = {.fd = fd, .events = POLLOUT};
    if (poll(&room, 1, 0) <= 0) return UVHTTP_E_AGAIN;
    union {
        struct cmsghdr header;
        char memory[CMSG_SPACE(1)];
    } control = {.header = {.cmsg_len = CMSG_LEN(1), .cmsg_level = SOL_TLS, .cmsg_type = TLS_SET_RECORD_TYPE}};
    *CMSG_DATA(&control.header) = RECORD_ALERT;
    struct iovec data = {.iov_base = (void *)(uintptr_t)alert, .iov_len = 2};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.memory};
    ssize_t sent;
    do {
        sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return UVHTTP_E_AGAIN;
    return sent == 2 ? UVHTTP_OK : UVHTTP_E_ABORTED;
}
