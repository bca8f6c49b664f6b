/* Handlers that block, on threads of the server's own pool, and jobs for that pool: one that is done later, one at a
 * time for each account, one that comes again and again. Nothing has to be sized: threads are made while those that
 * are there are blocked, and end when they are not needed.
 *
 *   build/dist/bin/worker                  # or: worker 127.0.0.1:9000
 *   curl http://127.0.0.1:8080/sleep       # 200 ms; try: wrk -c100 http://127.0.0.1:8080/sleep
 *   curl http://127.0.0.1:8080/lines       # a streamed response, written by a thread that waits for the client
 *   curl -i http://127.0.0.1:8080/page     # 103 Early Hints, and the page when it is made
 *   curl -T FILE http://127.0.0.1:8080/upload  # of any size: what the thread has not read is held back
 *   curl -X POST http://127.0.0.1:8080/accounts/7/deposit; curl http://127.0.0.1:8080/accounts/7
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <uvhttp.h>

#define ACCOUNTS 100

static atomic_long balances[ACCOUNTS]; /* each is changed by jobs of its own tag only: no two of them meet */
static atomic_uint beats;

static void wait_ms(long ms) {
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

/* On a worker thread: it may wait for a database, a file, another server. */
static void sleep200(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    wait_ms(200);
    uvhttp_response_text(res, 200, "slept\n");
}

/* Writing waits for a slow client and says when it has gone. */
static void lines(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_begin(res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN);
    for (int i = 1; i <= 5; ++i) {
        char line[32];
        int size = snprintf(line, sizeof line, "line %d\n", i);
        if (uvhttp_response_write(res, line, (size_t)size) != UVHTTP_OK) return;
        wait_ms(20);
    }
}

/* The browser loads the style sheet while the page is being made. */
static void page(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    static const uvhttp_response_field_t hints[] = {{"Link", "</style.css>; rel=preload; as=style"}};
    (void)uvhttp_response_interim(res, 103, hints, 1);
    wait_ms(100);
    uvhttp_response_send(res, 200, "text/html", "<link rel=stylesheet href=/style.css>A page\n", 44);
}

/* Reads a body of any size in constant memory, and may block between two pieces: the client waits meanwhile. */
static void upload(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    unsigned long long bytes = 0;
    uvhttp_str_t piece;
    int status;
    while ((status = uvhttp_request_read_body(req, &piece, 10000)) == UVHTTP_OK) bytes += piece.size;
    char text[64];
    snprintf(text, sizeof text, "%llu bytes\n", bytes);
    if (status == UVHTTP_E_EOF) uvhttp_response_text(res, 200, text);
    if (status == UVHTTP_E_TIMEOUT) uvhttp_response_text(res, 408, "nothing came for 10 s\n");
}

typedef struct deposit {
    unsigned account;
    uvhttp_deferred_t *later;
} deposit_t;

/* Worker thread, never two at once for one account. */
static void run_deposit(void *user) {
    deposit_t *deposit = user;
    long before = atomic_load(&balances[deposit->account]);
    wait_ms(1);
    atomic_store(&balances[deposit->account], before + 1);
}

/* On the loop that the request came from; status says that it has not been run when the server stops before. */
static void deposited(void *user, int status) {
    deposit_t *deposit = user;
    if (status == UVHTTP_OK)
        uvhttp_deferred_text(deposit->later, 200, "done\n");
    else
        uvhttp_deferred_text(deposit->later, 503, "try again\n");
    uvhttp_deferred_release(deposit->later);
    free(deposit);
}

static unsigned account_of(uvhttp_request_t *req) {
    return (unsigned)strtoul(uvhttp_request_param(req, "id").data, NULL, 10) % ACCOUNTS;
}

/* On the loop: gives the job away and returns. */
static void post_deposit(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    deposit_t *deposit = malloc(sizeof *deposit);
    if (!deposit) return; /* 500 */
    deposit->account = account_of(req);
    deposit->later = uvhttp_response_defer(res);
    const uvhttp_work_options_t options = {.done = deposited, .tag = deposit->account + 1};
    if (!deposit->later || uvhttp_work_with(user, &options, run_deposit, deposit, NULL) != UVHTTP_OK)
        deposited(deposit, UVHTTP_E_WORK_FULL);
}

static void show(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    char text[64];
    snprintf(text, sizeof text, "%ld\n", atomic_load(&balances[account_of(req)]));
    uvhttp_response_text(res, 200, text);
}

static void beat(void *user) {
    (void)user;
    atomic_fetch_add(&beats, 1);
}

static void show_beats(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    char text[64];
    snprintf(text, sizeof text, "%u\n", atomic_load(&beats));
    uvhttp_response_text(res, 200, text);
}

int main(int argc, char **argv) {
    uvhttp_server_t *server = uvhttp_server_new(NULL);
    if (!server) return 1;
    uvhttp_route(server, UVHTTP_GET, "/sleep", sleep200, NULL, UVHTTP_EXEC_WORKER);
    uvhttp_route(server, UVHTTP_GET, "/lines", lines, NULL, UVHTTP_EXEC_WORKER);
    uvhttp_route(server, UVHTTP_GET, "/page", page, NULL, UVHTTP_EXEC_WORKER);
    uvhttp_route_t *route = uvhttp_put(server, "/upload", upload, NULL);
    uvhttp_route_options(route, &(uvhttp_route_options_t){.exec = UVHTTP_EXEC_WORKER, .stream_body = true});
    uvhttp_post(server, "/accounts/:id/deposit", post_deposit, server);
    uvhttp_get(server, "/accounts/:id", show, NULL);
    uvhttp_get(server, "/beats", show_beats, NULL);
    uvhttp_work_with(server, &(uvhttp_work_options_t){.period_ms = 100, .name = "beat"}, beat, NULL, NULL);
    int status = uvhttp_server_run(server, argc > 1 ? argv[1] : "127.0.0.1:8080");
    uvhttp_server_free(server);
    return status == UVHTTP_OK ? 0 : 1;
}
