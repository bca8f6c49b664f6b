/* Owns: what the files of the admin listener share. May include: as server.h. */
#ifndef UVHTTP_SRC_SERVER_ADMIN_INTERNAL_H
#define UVHTTP_SRC_SERVER_ADMIN_INTERNAL_H

#include <stdatomic.h>
#include <uvhttp/auth.h>
#include <uvhttp/events.h>
#include <uvhttp/metrics.h>
#include <uvhttp/timer.h>

#include "base/writer.h"
#include "server/admin.h"
#include "server/server.h"

#define UVHTTP__ADMIN_CONNECTIONS_MAX 64u /* of the listener */
#define UVHTTP__ADMIN_EVENTS_MAX 16u      /* open event streams; above: 503 */
#define UVHTTP__ADMIN_HISTORY 120u        /* seconds that a new event stream gets at once */
#define UVHTTP__ADMIN_ROUTES_MAX 64u      /* routes in an event; the rest is counted */
#define UVHTTP__ADMIN_LIST_DEFAULT 100u   /* connections in a list, ... */
#define UVHTTP__ADMIN_LIST_MAX 1000u      /* ... at most */
#define UVHTTP__ADMIN_LOOP_WAIT_MS 500u   /* for the reply of a loop */
#define UVHTTP__ADMIN_QUESTIONS_MAX 32u   /* questions to a loop without a reply; above: it is not asked again */
#define UVHTTP__ADMIN_TOKEN_SIZE_MIN 16u  /* characters */
#define UVHTTP__ADMIN_HEAT_ROWS 32u       /* of the heat map: 4 per decade from 100 ns on */

/* A second of the server's life. */
typedef struct uvhttp__admin_ticks {
    uvhttp_timer_t timer;
    uvhttp_metrics_snapshot_t *last; /* NULL: none yet */
    uvhttp__writer_t history[UVHTTP__ADMIN_HISTORY];
    uint32_t history_count; /* points so far; those from UVHTTP__ADMIN_HISTORY on replace the oldest */
    uvhttp_events_t *streams[UVHTTP__ADMIN_EVENTS_MAX];
    uint32_t stream_count;
} uvhttp__admin_ticks_t;

struct uvhttp__admin {
    uvhttp_server_t *server; /* that is shown */
    uvhttp_server_t *own;    /* the listener's */
    const uvhttp__admin_life_t *life;
    char address[UVHTTP__ADDRESS_TEXT_MAX];
    pthread_t thread;
    bool started;                 /* the thread is to be joined */
    pthread_mutex_t lock;         /* of the next three */
    pthread_cond_t changed;       /* runs or ended */
    bool runs, ended;             /* its loop runs, or its thread has ended */
    int status;                   /* of the end */
    atomic_bool ending;           /* `finish` has been posted */
    uvhttp__post_t begin, finish; /* to the own loop: ticks start and end */
    uvhttp__admin_ticks_t ticks;  /* own loop's thread */
};

/* --- admin_respond.c --- */
/* Sends it, or 503 if it could not be made. */
void uvhttp__admin_respond(uvhttp_response_t *res, int status, const uvhttp__writer_t *json);
/* What the server is doing: "starting", "running", "grace", "draining" or "stopped". Any thread. */
const char *uvhttp__admin_state(const uvhttp__admin_t *admin);

/* --- admin_routes.c --- */
/* Registers endpoints and their protection. Returns 0 or the code of a registration. */
int uvhttp__admin_add_routes(uvhttp__admin_t *admin, bool loopback);

/* --- admin_loops.c: handlers that ask the loops of the server. user: the admin --- */
void uvhttp__admin_get_health(uvhttp_request_t *req, uvhttp_response_t *res, void *user);
void uvhttp__admin_get_connections(uvhttp_request_t *req, uvhttp_response_t *res, void *user);

/* --- admin_page.c: the dashboard. user: nothing --- */
void uvhttp__admin_get_page(uvhttp_request_t *req, uvhttp_response_t *res, void *user);

/* --- admin_ticks.c --- */
void uvhttp__admin_get_events(uvhttp_request_t *req, uvhttp_response_t *res, void *user);
/* Own loop's thread. */
void uvhttp__admin_ticks_begin(uvhttp__admin_t *admin);
void uvhttp__admin_ticks_finish(uvhttp__admin_t *admin);
/* The own loop has ended. */
void uvhttp__admin_ticks_free(uvhttp__admin_ticks_t *ticks);

/* --- admin_point.c: what changed between two snapshots, as JSON --- */
/* One point of the charts. */
void uvhttp__admin_write_point(uvhttp__writer_t *json, const uvhttp_metrics_snapshot_t *before,
                               const uvhttp_metrics_snapshot_t *now);
/* Members "loops", "routes" and "totals" of an object. */
void uvhttp__admin_write_details(uvhttp__writer_t *json, const uvhttp_metrics_snapshot_t *before,
                                 const uvhttp_metrics_snapshot_t *now);

#endif
