/* Owns: a client of HTTP/2 for unit tests that writes the frames that a test gives it and reads what comes, without a
 * table of header compression of its own: what it sends is literal, and of heads that come it shows the bytes. */
#ifndef UVHTTP_TEST_UNIT_SUPPORT_HTTP2_CLIENT_H
#define UVHTTP_TEST_UNIT_SUPPORT_HTTP2_CLIENT_H

#include "support/http_server.h"

enum { H2_DATA, H2_HEADERS, H2_PRIORITY, H2_RST_STREAM, H2_SETTINGS, H2_PUSH, H2_PING, H2_GOAWAY, H2_WINDOW_UPDATE };
enum { H2_END_STREAM = 1, H2_ACK = 1, H2_END_HEADERS = 4 };

typedef struct h2_frame {
    uint8_t type, flags;
    uint32_t stream, size;
    unsigned char payload[65536];
} h2_frame_t;

typedef struct h2_out {
    size_t size;
    char data[65536];
} h2_out_t;

/* --- what is sent is collected --- */

void h2_put_preface(h2_out_t *out);
void h2_put_frame(h2_out_t *out, uint8_t type, uint8_t flags, uint32_t stream, const void *payload, size_t size);
/* HEADERS of a request; end: without a body. */
void h2_put_request(h2_out_t *out, uint32_t stream, bool post, const char *path, bool end);
/* A field that is not added to the table (RFC 7541 section 6.2.2), into block from `at` on. Returns its end. */
size_t h2_put_field(char *block, size_t at, const char *name, const char *value);
void h2_put_window(h2_out_t *out, uint32_t stream, uint32_t size);
/* SETTINGS with one entry. */
void h2_put_setting(h2_out_t *out, uint16_t name, uint32_t value);

/* --- what comes --- */

/* The next frame; false: the connection has ended, or was reset. */
bool h2_read(int fd, h2_frame_t *frame);
/* Frames up to one of this type, and of this stream unless it is UINT32_MAX. Fails the test if none comes. */
void h2_expect(int fd, uint8_t type, uint32_t stream, h2_frame_t *frame);
uint32_t h2_get32(const unsigned char *at);

#endif
