/* What the kernel is given to encrypt a connection, byte for byte, and what its refusals mean. This program's functions
 * take the place of the C library's. On a kernel that has kernel TLS: ./dev kernel ktls. */
/* Needs: tls. */
#include <errno.h>
#include <linux/tls.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "support/run.h"
#include "tls/backend.h"

#ifndef SOL_TLS
#define SOL_TLS 282
#endif
#define SOCKET 77

/* --- the kernel --- */

static struct {
    int fail_ulp, fail_keys; /* errno */
    bool full;
    int send_errors[3]; /* errno of one call each, up to the first 0 */
    int sent_size;
    size_t sends;
    unsigned char keys[sizeof(struct tls12_crypto_info_chacha20_poly1305)];
    socklen_t keys_size;
    unsigned char alert[2], kind;
} kernel;

static int result(int error) {
    errno = error;
    return error == 0 ? 0 : -1;
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t size) {
    assert_int_equal(fd, SOCKET);
    if (level == IPPROTO_TCP) {
        assert_int_equal(name, TCP_ULP);
        assert_memory_equal(value, "tls", size);
        return result(kernel.fail_ulp);
    }
    assert_int_equal(level, SOL_TLS);
    assert_int_equal(name, TLS_TX);
    assert_in_range(size, 1, sizeof kernel.keys);
    memcpy(kernel.keys, value, size);
    kernel.keys_size = size;
    return result(kernel.fail_keys);
}

int poll(struct pollfd *fds, nfds_t count, int timeout) {
    assert_int_equal(count, 1);
    assert_int_equal(fds->fd, SOCKET);
    assert_int_equal(fds->events, POLLOUT);
    assert_int_equal(timeout, 0);
    return kernel.full ? 0 : 1;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    const struct cmsghdr *control = CMSG_FIRSTHDR(message);
    assert_int_equal(fd, SOCKET);
    assert_int_equal(flags, MSG_DONTWAIT | MSG_NOSIGNAL);
    assert_int_equal(control->cmsg_level, SOL_TLS);
    assert_int_equal(control->cmsg_type, TLS_SET_RECORD_TYPE);
    assert_int_equal(control->cmsg_len, CMSG_LEN(1));
    kernel.kind = *CMSG_DATA(control);
    assert_int_equal(message->msg_iovlen, 1);
    assert_int_equal(message->msg_iov[0].iov_len, 2);
    memcpy(kernel.alert, message->msg_iov[0].iov_base, 2);
    errno = kernel.send_errors[kernel.sends];
    return kernel.send_errors[kernel.sends++] ? -1 : kernel.sent_size;
}

static int set_up(void **state) {
    (void)state;
    memset(&kernel, 0, sizeof kernel);
    kernel.sent_size = 2;
    return 0;
}

/* --- tests --- */

#define RECORD 0x0102030405060708u
static const unsigned char record_bytes[] = {1, 2, 3, 4, 5, 6, 7, 8};

static uvhttp__tls_sending_t sending_of(uint8_t cipher, uint8_t key_size) {
    uvhttp__tls_sending_t sending = {.cipher = cipher, .key_size = key_size, .record = RECORD};
    for (unsigned char i = 0; i < sizeof sending.key; i++) sending.key[i] = 100 + i;
    for (unsigned char i = 0; i < sizeof sending.iv; i++) sending.iv[i] = 10 + i;
    return sending;
}

/* The structures that <linux/tls.h> has for it. */
#define ASSERT_KEYS(type, cipher_, cipher_bit, key_size_, salt_size_)                                                  \
    do {                                                                                                               \
        uvhttp__tls_sending_t sending = sending_of(cipher_bit, key_size_);                                             \
        struct type keys;                                                                                              \
        uint8_t refuses = UVHTTP__TLS_ALL_CIPHERS;                                                                     \
        assert_true(uvhttp__ktls_start(SOCKET, &sending, &refuses));                                                   \
        assert_int_equal(refuses, 0);                                                                                  \
        assert_int_equal(kernel.keys_size, sizeof keys);                                                               \
        memcpy(&keys, kernel.keys, sizeof keys);                                                                       \
        assert_int_equal(keys.info.version, TLS_1_3_VERSION);                                                          \
        assert_int_equal(keys.info.cipher_type, cipher_);                                                              \
        assert_memory_equal((unsigned char *)&keys + sizeof keys.info, sending.iv + (salt_size_), 12 - (salt_size_));  \
        assert_memory_equal(keys.key, sending.key, key_size_);                                                         \
        assert_memory_equal(kernel.keys + sizeof keys - 8 - (salt_size_), sending.iv, salt_size_);                     \
        assert_memory_equal(keys.rec_seq, record_bytes, 8);                                                            \
    } while (0)

static void test_each_cipher_has_the_kernels_structure(void **state) {
    (void)state;
    ASSERT_KEYS(tls12_crypto_info_aes_gcm_128, TLS_CIPHER_AES_GCM_128, UVHTTP__TLS_AES_128_GCM, 16, 4);
    ASSERT_KEYS(tls12_crypto_info_aes_gcm_256, TLS_CIPHER_AES_GCM_256, UVHTTP__TLS_AES_256_GCM, 32, 4);
    ASSERT_KEYS(tls12_crypto_info_chacha20_poly1305, TLS_CIPHER_CHACHA20_POLY1305, UVHTTP__TLS_CHACHA20_POLY1305, 32,
                0);
}

static void test_what_the_kernel_lacks_is_not_tried_again(void **state) {
    (void)state;
    static const struct {
        int error;
        bool always;
    } errors[] = {{ENOENT, true}, {EINVAL, true}, {ENOPROTOOPT, true}, {ENOTCONN, false}, {ENOMEM, false}};
    uvhttp__tls_sending_t sending = sending_of(UVHTTP__TLS_AES_256_GCM, 32);
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        uint8_t refuses = 0xff;
        kernel.fail_ulp = errors[i].error;
        assert_false(uvhttp__ktls_start(SOCKET, &sending, &refuses));
        assert_int_equal(refuses, errors[i].always ? UVHTTP__TLS_ALL_CIPHERS : 0);
        assert_int_equal(kernel.keys_size, 0); /* it has not seen the keys */
    }
    kernel.fail_ulp = 0;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        uint8_t refuses = 0xff;
        kernel.fail_keys = errors[i].error;
        assert_false(uvhttp__ktls_start(SOCKET, &sending, &refuses));
        assert_int_equal(refuses, errors[i].always ? UVHTTP__TLS_AES_256_GCM : 0);
    }
}

static void test_an_alert_is_a_record_of_its_kind(void **state) {
    (void)state;
    static const unsigned char close_notify[] = {1, 0};
    assert_int_equal(uvhttp__ktls_alert(SOCKET, close_notify), UVHTTP_OK);
    assert_int_equal(kernel.kind, 21);
    assert_memory_equal(kernel.alert, close_notify, 2);
    assert_int_equal(kernel.sends, 1);
}

static void test_an_alert_waits_for_a_socket_that_is_full(void **state) {
    (void)state;
    static const unsigned char alert[] = {2, 40};
    kernel.full = true;
    assert_int_equal(uvhttp__ktls_alert(SOCKET, alert), UVHTTP_E_AGAIN);
    assert_int_equal(kernel.sends, 0);
    kernel.full = false;
    kernel.send_errors[0] = EAGAIN;
    assert_int_equal(uvhttp__ktls_alert(SOCKET, alert), UVHTTP_E_AGAIN);
    assert_int_equal(kernel.sends, 1);
}

static void test_an_alert_that_is_interrupted_is_sent_again(void **state) {
    (void)state;
    static const unsigned char alert[] = {2, 40};
    kernel.send_errors[0] = EINTR;
    assert_int_equal(uvhttp__ktls_alert(SOCKET, alert), UVHTTP_OK);
    assert_int_equal(kernel.sends, 2);
}

static void test_an_alert_that_is_not_sent_as_one_ends_the_connection(void **state) {
    (void)state;
    static const unsigned char alert[] = {2, 40};
    kernel.send_errors[0] = EPIPE;
    assert_int_equal(uvhttp__ktls_alert(SOCKET, alert), UVHTTP_E_ABORTED);
    kernel.sent_size = 1;
    assert_int_equal(uvhttp__ktls_alert(SOCKET, alert), UVHTTP_E_ABORTED);
}

int main(void) {
    return RUN_TESTS_WITH(
        set_up, NULL, test_each_cipher_has_the_kernels_structure, test_what_the_kernel_lacks_is_not_tried_again,
        test_an_alert_is_a_record_of_its_kind, test_an_alert_waits_for_a_socket_that_is_full,
        test_an_alert_that_is_interrupted_is_sent_again, test_an_alert_that_is_not_sent_as_one_ends_the_connection);
}
