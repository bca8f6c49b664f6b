/* Owns: a client of plain blocking sockets on loopback with time limits, which the test's thread is: it asserts. */
#ifndef UVHTTP_TEST_UNIT_SUPPORT_CLIENT_H
#define UVHTTP_TEST_UNIT_SUPPORT_CLIENT_H

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include "support/process.h"

/* --- connect --- */

void set_limits(int fd);
struct sockaddr_in loopback(int port);
int client_socket(void);
void client_connect_fd(int fd, int port);
/* Its receive buffer is small, so that what it does not read stays with the server. */
int client_connect_narrow(int port, int receive_buffer);
/* Connects to a server that resets each new connection. On a busy machine the reset comes before connect() returns,
 * which then reports it. */
void client_connect_expect_reset(int fd, int port);
int client_connect(int port);
/* One of the test's own; *address is where. */
int loopback_listener(int backlog, struct sockaddr_in *address);

/* --- send and receive --- */

void client_send(int fd, const void *data, size_t size);
void client_send_text(int fd, const char *text);
/* Bytes received, 0 at the end, or -1. */
ssize_t client_receive_some(int fd, void *data, size_t size);
/* Exactly as many. */
void client_receive(int fd, void *data, size_t size);
void client_expect(int fd, const void *data, size_t size);
void client_expect_text(int fd, const char *text);
/* The end of the stream, without a reset. */
void client_expect_eof(int fd);
/* Bytes may come before it. */
void client_expect_reset(int fd);
/* The peer has closed or reset the connection. */
void client_expect_end(int fd);
/* Closes by RST. */
void client_reset(int fd);
bool wait_fd(int fd, short events, int timeout_ms);

/* Bytes whose order shows: no period of a power of two. */
char pattern_at(uint64_t i);
char *pattern_new(size_t size);

#endif
