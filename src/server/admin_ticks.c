/* Owns: the second of the admin listener: a snapshot, the history of the charts, and the event streams that show both.
 * May include: everything. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "server/admin_internal.h"

#define TICK_MS 1000u

/* --- streams --- */

static void send_event(uvhttp_events_t *stream, const char *event, const uvhttp__writer_t *json) {
    if (json->failed || json->size == 0) return;
    (void)uvhttp_events_send(stream, &(uvhttp_event_t){.event = event, .data = {json->data, json->size}});
}

static void on_close(uvhttp_events_t *stream, int status, void *user) {
    (void)status;
    uvhttp__admin_ticks_t *ticks = &((uvhttp__admin_t *)user)->ticks;
    for (uint32_t i = 0; i < ticks->stream_count; i++) {
        if (ticks->streams[i] != stream) continue;
        ticks->streams[i] = ticks->streams[--ticks->stream_count];
        uvhttp_events_release(stream);
        return;
    }
}

/* The points from the oldest one on, and what does not change. */
static void write_history(uvhttp__writer_t *json, const uvhttp__admin_t *admin) {
    const uvhttp__admin_ticks_t *ticks = &admin->ticks;
    uint32_t first = ticks->history_count > UVHTTP__ADMIN_HISTORY ? ticks->history_count - UVHTTP__ADMIN_HISTORY : 0;
    const char *reason = NULL, *engine = uvhttp__tcp_server_engine(admin->server->tcp_server, &reason);
    char addresses[512];
    uvhttp__tcp_server_addresses(admin->server->tcp_server, addresses, sizeof addresses);
    uvhttp__write_text(json, "{");
    uvhttp__write_member(json, "version", uvhttp_version());
    uvhttp__write_member(json, "engine", engine ? engine : "");
    uvhttp__write_member(json, "engine_reason", reason ? reason : "");
    uvhttp__write_member(json, "addresses", engine ? addresses : "");
    uvhttp__write_format(json, ",\"max_connections\":%" PRIu32 ",\"points\":[",
                         admin->server->service.config.max_connections);
    for (uint32_t i = first; i < ticks->history_count; i++) {
        uvhttp__write_comma(json);
        uvhttp__write_other(json, &ticks->history[i % UVHTTP__ADMIN_HISTORY]);
    }
    uvhttp__write_text(json, "]}");
}

void uvhttp__admin_get_events(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    uvhttp__admin_t *admin = user;
    uvhttp__admin_ticks_t *ticks = &admin->ticks;
    uvhttp_events_t *stream;
    if (ticks->stream_count == UVHTTP__ADMIN_EVENTS_MAX) {
        (void)uvhttp_response_header(res, "Retry-After", "5");
        (void)uvhttp_response_json(res, 503, "{\"error\":\"too many event streams are open\"}\n");
        return;
    }
    if (uvhttp_events_open(res, &(uvhttp_events_options_t){.on_close = on_close, .user = admin}, &stream) !=
        UVHTTP_OK) {
        uvhttp__admin_respond(res, 503, &(uvhttp__writer_t){.failed = true});
        return;
    }
    ticks->streams[ticks->stream_count++] = stream;
    uvhttp__writer_t json = {0};
    write_history(&json, admin);
    send_event(stream, "history", &json);
    uvhttp__writer_free(&json);
}

/* --- ticks --- */

static void write_tick(uvhttp__writer_t *json, const uvhttp__admin_t *admin, const uvhttp__writer_t *point,
                       const uvhttp_metrics_snapshot_t *now) {
    uvhttp__write_format(json, "{\"state\":\"%s\",\"point\":", uvhttp__admin_state(admin));
    uvhttp__write_other(json, point);
    uvhttp__write_text(json, ",");
    uvhttp__admin_write_details(json, admin->ticks.last, now);
    uvhttp__write_text(json, "}");
}

/* on_close changes the list in a later iteration only. */
static void tick(uvhttp__admin_t *admin) {
    uvhttp__admin_ticks_t *ticks = &admin->ticks;
    uvhttp_metrics_snapshot_t *now = uvhttp_metrics_take(admin->server);
    if (!now) return; /* out of memory: the next point covers two seconds */
    if (ticks->last) {
        uvhttp__writer_t *point = &ticks->history[ticks->history_count++ % UVHTTP__ADMIN_HISTORY];
        uvhttp__writer_t json = {0};
        uvhttp__writer_clear(point);
        uvhttp__admin_write_point(point, ticks->last, now);
        if (point->failed) {
            uvhttp__writer_clear(point);
            uvhttp__write_text(point, "null");
        }
        uvhttp__writer_trim(point);
        if (ticks->stream_count > 0) write_tick(&json, admin, point, now);
        for (uint32_t i = 0; i < ticks->stream_count; i++) send_event(ticks->streams[i], "tick", &json);
        uvhttp__writer_free(&json);
    }
    uvhttp_metrics_free(ticks->last);
    ticks->last = now;
}

static void on_timer(uvhttp_timer_t *timer, void *user) {
    (void)uvhttp_timer_start(timer, TICK_MS, on_timer, user);
    tick(user);
}

void uvhttp__admin_ticks_begin(uvhttp__admin_t *admin) {
    on_timer(&admin->ticks.timer, admin);
}

void uvhttp__admin_ticks_finish(uvhttp__admin_t *admin) {
    uvhttp_timer_stop(&admin->ticks.timer);
}

void uvhttp__admin_ticks_free(uvhttp__admin_ticks_t *ticks) {
    uvhttp_metrics_free(ticks->last);
    for (uint32_t i = 0; i < UVHTTP__ADMIN_HISTORY; i++) uvhttp__writer_free(&ticks->history[i]);
}
