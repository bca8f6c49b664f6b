/* Owns: what the kernel is told for it to send the records of a connection (kernel TLS). May include: base. */
#include <assert.h>
#include <endian.h>
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

/* What all of the kernel's structures have in this order, without gaps: info, IV, key, salt, record number. */
static_assert(sizeof(struct tls12_crypto_info_aes_gcm_128) == 4 + 8 + 16 + 4 + 8, "kernel ABI");
static_assert(sizeof(struct tls12_crypto_info_aes_gcm_256) == 4 + 8 + 32 + 4 + 8, "kernel ABI");
static_assert(sizeof(struct tls12_crypto_info_chacha20_poly1305) == 4 + 12 + 32 + 0 + 8, "kernel ABI");
#define CRYPTO_SIZE_MAX 56

static unsigned char *put(unsigned char *at, const void *data, size_t size) {
    memcpy(at, data, size);
    return at + size;
}

static uint16_t kernel_cipher(uint8_t cipher) {
    switch (cipher) {
        case UVHTTP__TLS_AES_128_GCM: return TLS_CIPHER_AES_GCM_128;
        case UVHTTP__TLS_AES_256_GCM: return TLS_CIPHER_AES_GCM_256;
        default: return TLS_CIPHER_CHACHA20_POLY1305;
    }
}

/* With AES-GCM the begin of the IV is the salt, as it was in TLS 1.2. Returns bytes. */
static socklen_t describe(const uvhttp__tls_sending_t *sending, unsigned char *crypto) {
    const struct tls_crypto_info info = {.version = TLS_1_3_VERSION, .cipher_type = kernel_cipher(sending->cipher)};
    size_t salt_size = sending->cipher == UVHTTP__TLS_CHACHA20_POLY1305 ? 0 : TLS_CIPHER_AES_GCM_128_SALT_SIZE;
    uint64_t number = htobe64(sending->record);
    unsigned char *at = put(crypto, &info, sizeof info);
    at = put(at, sending->iv + salt_size, sizeof sending->iv - salt_size);
    at = put(at, sending->key, sending->key_size);
    at = put(at, sending->iv, salt_size);
    at = put(at, &number, sizeof number);
    return (socklen_t)(at - crypto);
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
    unsigned char crypto[CRYPTO_SIZE_MAX];
    socklen_t size = describe(sending, crypto);
    bool done = setsockopt(fd, SOL_TLS, TLS_TX, crypto, size) == 0;
    if (!done && is_general(errno)) *refuses = sending->cipher;
    explicit_bzero(crypto, sizeof crypto);
    return done;
}

/* A socket that has taken a record may still keep it back from TCP for lack of room. One that can be written has room
 * for that and for this one. */
int uvhttp__ktls_alert(int fd, const unsigned char *alert) {
    struct pollfd writable = {.fd = fd, .events = POLLOUT};
    if (poll(&writable, 1, 0) <= 0) return UVHTTP_E_AGAIN;
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
