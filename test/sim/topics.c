/* Owns: WebSocket topics in a run. Clients of /topic subscribe to one topic. What one of them sends is published to
 * all, itself included, by its loop or by a thread of the pool. websocket.c knows what a subscriber may see. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp.h>

#include "sim.h"

static atomic_uint jobs_open;

typedef struct publication {
    uvhttp_server_t *server;
    size_t size;
    char data[]; /* tag, size, bytes of the tag */
} publication_t;

static publication_t *publication_new(uint32_t tag, uint32_t size) {
    publication_t *publication = malloc(sizeof *publication + 8 + size);
    if (!publication) abort();
    publication->server = sim_server;
    publication->size = 8 + (size_t)size;
    sim_put32(publication->data, tag);
    sim_put32(publication->data + 4, size);
    sim_ws_fill(publication->data + 8, tag, 0, size);
    return publication;
}

/* On a thread of the pool. Without memory nobody may get it. */
static void publish_from_thread(void *user) {
    publication_t *it = user;
    int status = uvhttp_websocket_publish(it->server, SIM_TOPIC, UVHTTP_WS_BINARY, it->data, it->size);
    if (status != UVHTTP_OK && !sim_failing) sim_fail("a publication of a thread: %s", uvhttp_error_name(status));
}

static void on_published(void *user, int status) {
    if (status != UVHTTP_OK && status != UVHTTP_E_WORK_CANCELLED) sim_fail("a job: %s", uvhttp_error_name(status));
    free(user);
    jobs_open--;
}

/* Returns 0, or why it is not published. */
static int publish(uvhttp_ws_t *ws, uint32_t tag, publication_t *publication) {
    if (!SIM_PUBLISHED_BY_THREAD(tag)) {
        int status = uvhttp_ws_publish(ws, SIM_TOPIC, UVHTTP_WS_BINARY, publication->data, publication->size);
        free(publication);
        return status;
    }
    jobs_open++;
    int status = uvhttp_work(sim_server, publish_from_thread, on_published, publication);
    if (status == UVHTTP_OK) return UVHTTP_OK;
    free(publication);
    jobs_open--;
    return status;
}

static void on_open(uvhttp_ws_t *ws, void *user) {
    (void)user;
    sim_ws_app_opened((uint32_t)(uintptr_t)uvhttp_ws_data(ws));
    int status = uvhttp_ws_subscribe(ws, SIM_TOPIC);
    if (status != UVHTTP_OK && !sim_failing) sim_fail("subscribe: %s", uvhttp_error_name(status));
    if (status != UVHTTP_OK) uvhttp_ws_close(ws, UVHTTP_WS_INTERNAL_ERROR, NULL);
}

static void on_message(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)user;
    if (message.type != UVHTTP_WS_BINARY || message.size < 8) sim_fail("a message of %zu bytes", message.size);
    const uint32_t tag = sim_get32(message.data), size = sim_get32(message.data + 4);
    int status = publish(ws, tag, publication_new(tag, size));
    bool excused =
        sim_failing || status == UVHTTP_E_WORK_CANCELLED || status == UVHTTP_E_WORK_FULL || status == UVHTTP_E_STATE;
    if (status != UVHTTP_OK && !excused) sim_fail("publication %x: %s", tag, uvhttp_error_name(status));
    if (status != UVHTTP_OK) uvhttp_ws_close(ws, UVHTTP_WS_INTERNAL_ERROR, NULL);
}

static void on_close(uvhttp_ws_t *ws, int code, uvhttp_str_t reason, void *user) {
    (void)reason, (void)user;
    sim_ws_app_closed((uint32_t)(uintptr_t)uvhttp_ws_data(ws), code);
}

void sim_topics_add(uvhttp_server_t *server) {
    jobs_open = 0;
    uvhttp_ws_options_t options = sim_ws_options();
    options.publish_to_self = true;
    uvhttp_websocket(server, "/topic/:tag",
                     &(uvhttp_ws_handlers_t){.on_upgrade = sim_ws_upgrade_request,
                                             .on_open = on_open,
                                             .on_message = on_message,
                                             .on_close = on_close,
                                             .options = &options},
                     NULL);
}

/* Nobody is so slow that a publication had to be left out. */
void sim_topics_check_counters(const uvhttp_server_t *server) {
    uint64_t skipped = uvhttp_server_counter(server, "ws_publications_skipped");
    sim_trace("publications", uvhttp_server_counter(server, "ws_publications"), skipped);
    if (skipped && !sim_failing) sim_fail("%llu publications were left out", (unsigned long long)skipped);
}

void sim_topics_check_end(void) {
    if (jobs_open) sim_fail("%u publications of threads have not been made", jobs_open);
}
