/* Owns: libwebsockets as a peer: one thread, echoes each message.
 *
 *   lws_echo PORT
 */
#include <libwebsockets.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_MAX 4096

typedef struct session {
    size_t size;
    enum lws_write_protocol type;
    unsigned char buffer[LWS_PRE + MESSAGE_MAX];
} session_t;

static int on_event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *data, size_t size) {
    session_t *session = user;
    switch (reason) {
        case LWS_CALLBACK_RECEIVE:
            if (size > MESSAGE_MAX) return -1;
            memcpy(session->buffer + LWS_PRE, data, size);
            session->size = size;
            session->type = lws_frame_is_binary(wsi) ? LWS_WRITE_BINARY : LWS_WRITE_TEXT;
            lws_callback_on_writable(wsi);
            return 0;
        case LWS_CALLBACK_SERVER_WRITEABLE:
            return lws_write(wsi, session->buffer + LWS_PRE, session->size, session->type) < 0 ? -1 : 0;
        default: return 0;
    }
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fputs("usage: lws_echo PORT\n", stderr);
        return 2;
    }
    static const struct lws_protocols protocols[] = {{"echo", on_event, sizeof(session_t), MESSAGE_MAX, 0, NULL, 0},
                                                     {NULL, NULL, 0, 0, 0, NULL, 0}};
    struct lws_context_creation_info info = {
        .port = atoi(argv[1]), .iface = "127.0.0.1", .protocols = protocols, .gid = (gid_t)-1, .uid = (uid_t)-1};
    lws_set_log_level(LLL_ERR, NULL);
    struct lws_context *context = lws_create_context(&info);
    if (!context) return 1;
    while (lws_service(context, 0) >= 0) {
    }
    return 0;
}
