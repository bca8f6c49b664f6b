/* Owns: the example of a gateway: routes that ask other servers while their thread serves others. Two servers of its
 * own stand in when none are given.
 *
 *   gateway [ADDRESS [URL URL]]
 *   curl http://127.0.0.1:8080/both          asks both at once, and shows what they have said
 *   curl -d text http://127.0.0.1:8080/first passes the request on to the first
 */
/* Needs: coroutines. */
#include <stdio.h>
#include <stdlib.h>
#include <uvhttp.h>

typedef struct upstreams {
    const char *urls[2];
} upstreams_t;

/* What the client of the gateway gets for a server that cannot be asked. */
static void respond_error(uvhttp_response_t *res, int error) {
    uvhttp_response_text(res, error == UVHTTP_E_TIMEOUT ? 504 : 502, uvhttp_error_message(error));
}

typedef struct part {
    const char *url;
    int error;
    uvhttp_client_response_t *response;
} part_t;

static void ask_part(void *arg) {
    part_t *part = arg;
    const uvhttp_client_request_t request = {.url = part->url, .timeout_ms = 2000};
    part->error = uvhttp_coro_request(&request, &part->response);
}

static void respond_both(uvhttp_response_t *res, const part_t parts[2]) {
    for (int i = 0; i < 2; i++) {
        if (parts[i].error == UVHTTP_OK) continue;
        respond_error(res, parts[i].error);
        return;
    }
    char text[512];
    uvhttp_str_t first = uvhttp_client_response_body(parts[0].response);
    uvhttp_str_t second = uvhttp_client_response_body(parts[1].response);
    snprintf(text, sizeof text, "%d %.200s%d %.200s", uvhttp_client_response_status(parts[0].response), first.data,
             uvhttp_client_response_status(parts[1].response), second.data);
    uvhttp_response_text(res, 200, text);
}

static void both(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    const upstreams_t *upstreams = user;
    part_t parts[2] = {{.url = upstreams->urls[0]}, {.url = upstreams->urls[1]}};
    uvhttp_coro_t *coros[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) /* they run when this one waits */
        parts[i].error = uvhttp_coro_spawn(ask_part, &parts[i], &coros[i]);
    for (int i = 0; i < 2; i++)
        if (coros[i]) (void)uvhttp_coro_join(coros[i], UVHTTP_NEVER);
    respond_both(res, parts);
    for (int i = 0; i < 2; i++) uvhttp_client_response_free(parts[i].response);
}

static void free_response(void *response) {
    uvhttp_client_response_free(response);
}

static void first(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    const upstreams_t *upstreams = user;
    uvhttp_str_t sent = uvhttp_request_body(req);
    const uvhttp_client_header_t headers[] = {{"Content-Type", "text/plain"}, {"Via", "1.1 gateway"}};
    const uvhttp_client_request_t request = {
        .url = upstreams->urls[0],
        .method = "POST",
        .headers = headers,
        .header_count = 2,
        .body = sent.data,
        .body_size = sent.size,
        .timeout_ms = 2000,
    };
    uvhttp_client_response_t *response;
    int error = uvhttp_coro_request(&request, &response);
    if (error != UVHTTP_OK) {
        respond_error(res, error);
        return;
    }
    uvhttp_str_t body = uvhttp_client_response_body(response); /* not copied: freed when it has been sent */
    uvhttp_response_send_ref(res, uvhttp_client_response_status(response), "text/plain", body.data, body.size,
                             free_response, response);
}

/* --- the servers that stand in --- */

static void slow(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_coro_sleep(100);
    uvhttp_response_text(res, 200, "slow\n");
}

static void echo(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t body = uvhttp_request_body(req);
    uvhttp_response_send(res, 200, "text/plain", body.data, body.size);
}

int main(int argc, char **argv) {
    const char *address = argc > 1 ? argv[1] : "127.0.0.1:8080";
    char own[2][128];
    snprintf(own[0], sizeof own[0], "http://%s/slow", address);
    snprintf(own[1], sizeof own[1], "http://%s/slow?again", address);
    upstreams_t upstreams = {{argc > 3 ? argv[2] : own[0], argc > 3 ? argv[3] : own[1]}};
    uvhttp_server_t *server = uvhttp_server_new(NULL);
    if (!server) return EXIT_FAILURE;
    uvhttp_route(server, UVHTTP_GET, "/both", both, &upstreams, UVHTTP_EXEC_COROUTINE);
    uvhttp_route(server, UVHTTP_POST, "/first", first, &upstreams, UVHTTP_EXEC_COROUTINE);
    uvhttp_route(server, UVHTTP_GET, "/slow", slow, NULL, UVHTTP_EXEC_COROUTINE);
    uvhttp_route(server, UVHTTP_POST, "/slow", echo, NULL, UVHTTP_EXEC_LOOP);
    int status = uvhttp_server_run(server, address);
    uvhttp_server_free(server);
    return status == UVHTTP_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
