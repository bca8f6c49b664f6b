/* The floor for a libuv server: one thread, uv_tcp_t streams, one static buffer, a canned response per "\r\n\r\n" seen;
 * no parsing, no limits, no timeouts. Not a server: the yardstick for a server on libuv streams. Build: cc -O2
 * -D_GNU_SOURCE libuv_limit.c -o libuv_limit -luv; run: ./libuv_limit PORT (0: any; it is printed) */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

static const char response[] = "HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n\r\nHello, World!";
static char in[65536], out[2 << 20];

static void on_closed(uv_handle_t *handle) {
    free(handle);
}

static void on_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
    (void)handle, (void)suggested;
    *buffer = uv_buf_init(in, sizeof in);
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer) {
    if (got == 0) return; /* EAGAIN */
    if (got < 0) {
        uv_close((uv_handle_t *)stream, on_closed);
        return;
    }
    size_t size = 0;
    const char *end = buffer->base + got;
    for (char *at = in; (at = memmem(at, (size_t)(end - at), "\r\n\r\n", 4)); at += 4) {
        memcpy(out + size, response, sizeof response - 1);
        size += sizeof response - 1;
    }
    uv_buf_t bytes = uv_buf_init(out, (unsigned)size);
    if (size > 0 && uv_try_write(stream, &bytes, 1) != (int)size) uv_close((uv_handle_t *)stream, on_closed);
}

static void on_connection(uv_stream_t *listener, int status) {
    uv_tcp_t *client = status == 0 ? malloc(sizeof *client) : NULL;
    if (!client) return;
    uv_tcp_init(listener->loop, client);
    if (uv_accept(listener, (uv_stream_t *)client) == 0 &&
        uv_read_start((uv_stream_t *)client, on_buffer, on_read) == 0) {
        return;
    }
    uv_close((uv_handle_t *)client, on_closed);
}

int main(int argc, char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)(argc > 1 ? atoi(argv[1]) : 9001)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uv_loop_t *loop = uv_default_loop();
    uv_tcp_t listener;
    int size = sizeof address;
    uv_tcp_init(loop, &listener);
    uv_tcp_nodelay(&listener, 1); /* inherited by accepted sockets */
    if (uv_tcp_bind(&listener, (const struct sockaddr *)&address, 0) != 0 ||
        uv_listen((uv_stream_t *)&listener, 4096, on_connection) != 0 ||
        uv_tcp_getsockname(&listener, (struct sockaddr *)&address, &size) != 0) {
        fprintf(stderr, "libuv_limit: cannot listen\n");
        return 1;
    }
    printf("port %d\n", ntohs(address.sin_port));
    fflush(stdout);
    return uv_run(loop, UV_RUN_DEFAULT);
}
