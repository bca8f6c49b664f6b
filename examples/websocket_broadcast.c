/* A ticker: a thread of the program's own publishes, and every client gets it.
 *
 *   build/dist/bin/websocket_broadcast 127.0.0.1:9002
 *   python3 -m websockets ws://127.0.0.1:9002/ticks          # the time, every second
 *   python3 -m websockets ws://127.0.0.1:9002/ticks?fast     # ten times a second
 */
/* Needs: websocket. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <uvhttp.h>

static atomic_bool stopping;

/* Any thread may publish. A client that does not keep up misses ticks: each says it all again. */
static void *tick(void *arg) {
    uvhttp_server_t *server = arg;
    for (unsigned count = 0; !atomic_load(&stopping); count++) {
        char text[64];
        int size = snprintf(text, sizeof text, "{\"tick\": %u, \"time\": %lld}", count, (long long)time(NULL));
        (void)uvhttp_websocket_publish(server, "fast", UVHTTP_WS_TEXT, text, (size_t)size);
        if (count % 10 == 0) (void)uvhttp_websocket_publish(server, "slow", UVHTTP_WS_TEXT, text, (size_t)size);
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    return NULL;
}

/* The topic that the client has asked for becomes its data. */
static uvhttp_flow_t choose_topic(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    static char fast[] = "fast", slow[] = "slow";
    (void)res, (void)user;
    uvhttp_str_t query = uvhttp_request_query(req);
    uvhttp_request_set_data(req, query.size == 4 && memcmp(query.data, "fast", 4) == 0 ? fast : slow);
    return UVHTTP_NEXT;
}

static void on_open(uvhttp_ws_t *ws, void *user) {
    (void)user;
    if (uvhttp_ws_subscribe(ws, uvhttp_ws_data(ws)) != 0) uvhttp_ws_close(ws, UVHTTP_WS_TRY_LATER, "no room");
}

static void ignore(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)ws, (void)message, (void)user;
}

int main(int argc, char **argv) {
    uvhttp_server_t *server = uvhttp_server_new(NULL);
    if (!server) return 1; /* what is wrong has been logged, here and below */
    uvhttp_websocket(server, "/ticks",
                     &(uvhttp_ws_handlers_t){.on_upgrade = choose_topic, .on_open = on_open, .on_message = ignore},
                     NULL);
    pthread_t thread;
    if (pthread_create(&thread, NULL, tick, server) != 0) return 1;
    int status = uvhttp_server_run(server, argc > 1 ? argv[1] : "127.0.0.1:9002");
    atomic_store(&stopping, true); /* the server may be freed only when nobody publishes any more */
    pthread_join(thread, NULL);
    uvhttp_server_free(server);
    return status != 0;
}
