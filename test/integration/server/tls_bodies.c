/* Owns: routes of the test server for bodies that come and go by TLS: /tls/files/ (--tls-static DIR), PUT /tls/sum,
 * which takes its body part by part, with ?hold=1 only as POST /tls/proceed says, and POST /tls/form, which counts
 * parts. */
#include <stdio.h>

#include "tls.h"

typedef struct sum {
    uint64_t bytes, sum, parts;
} sum_t;

static uvhttp_request_t *held; /* one loop, one test */

static void add(sum_t *sum, uvhttp_str_t data) {
    sum->bytes += data.size;
    for (size_t i = 0; i < data.size; i++) sum->sum += (unsigned char)data.data[i];
}

static void on_data(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user) {
    (void)req, (void)res;
    add(user, data);
}

static void on_part(uvhttp_request_t *req, uvhttp_response_t *res, const uvhttp_multipart_event_t *event, void *user) {
    (void)req, (void)res;
    sum_t *sum = user;
    if (event->kind == UVHTTP_MULTIPART_PART) sum->parts++;
    if (event->kind == UVHTTP_MULTIPART_DATA) add(sum, event->data);
}

static void on_end(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    const sum_t *sum = user;
    char text[96];
    if (held == req) held = NULL;
    if (status != UVHTTP_OK) return;
    int size = snprintf(text, sizeof text, "{\"bytes\":%llu,\"sum\":%llu,\"parts\":%llu}",
                        (unsigned long long)sum->bytes, (unsigned long long)sum->sum, (unsigned long long)sum->parts);
    uvhttp_response_send(res, 200, "application/json", text, (size_t)size);
}

static void take(uvhttp_request_t *req, uvhttp_response_t *res, void *form) {
    sum_t *sum = uvhttp_request_alloc(req, sizeof *sum);
    int status = UVHTTP_E_NOMEM;
    if (sum) {
        *sum = (sum_t){.bytes = 0};
        status = form ? uvhttp_request_on_multipart(req, NULL, on_part, on_end, sum)
                      : uvhttp_request_on_body(req, on_data, on_end, sum);
    }
    if (status != UVHTTP_OK) {
        uvhttp_response_empty(res, 503);
    } else if (uvhttp_request_query_param(req, "hold", NULL)) {
        held = req;
        (void)uvhttp_request_pause_body(req);
    }
}

static void proceed(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    int status = held ? uvhttp_request_resume_body(held) : UVHTTP_E_STATE;
    uvhttp_response_empty(res, status == UVHTTP_OK ? 204 : 409);
}

void tls_body_routes(uvhttp_server_t *server, const char *directory) {
    static const uvhttp_route_options_t streamed = {.stream_body = true, .body_size_max = UINT64_C(1) << 30};
    static char form;
    uvhttp_route_options(uvhttp_put(server, "/tls/sum", take, NULL), &streamed);
    uvhttp_route_options(uvhttp_post(server, "/tls/form", take, &form), &streamed);
    uvhttp_post(server, "/tls/proceed", proceed, NULL);
    if (directory) uvhttp_static(server, "/tls/files", directory, NULL);
}
