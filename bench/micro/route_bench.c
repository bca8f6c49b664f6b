/* Owns: the cost of routing a request and making its response, in ns per call on one core. Run manually:
 * build/bench/route_bench. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "measure.h"
#include "message/message.h"
#include "route/router.h"

static void handle(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    (void)uvhttp_response_text(res, 200, "Hello, World!");
}

static uvhttp__router_t *make_router(void) {
    static const char *const patterns[] = {"/",
                                           "/api",
                                           "/users/:id/files/:name",
                                           "/users/:id",
                                           "/users/me",
                                           "/assets/*path",
                                           "/a/:x/c/:y/e/:z",
                                           "/orders",
                                           "/orders/:id",
                                           "/health",
                                           "/metrics",
                                           "/large/100kb"};
    static char many[200][32];
    uvhttp__router_t *router = uvhttp__router_new();
    uvhttp_group_t *root = uvhttp__router_root(router);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; ++i)
        uvhttp__group_add(root, UVHTTP_GET, patterns[i], handle, NULL, 0, NULL);
    for (size_t i = 0; i < 200; ++i) {
        snprintf(many[i], sizeof many[i], "/resource%zu/:id", i);
        uvhttp__group_add(root, UVHTTP_GET, many[i], handle, NULL, 0, NULL);
    }
    if (uvhttp__router_freeze(router) != 0) abort();
    return router;
}

static void bench_match(const uvhttp__router_t *router, uvhttp_method_t method, const char *text) {
    uvhttp__match_t match;
    uvhttp_str_t path = uvhttp__str_from(text);
    char name[64];
    snprintf(name, sizeof name, "match %s %s", uvhttp_method_name(method), text);
    MEASURE(name, uvhttp__router_match(router, method, path, &match));
}

static const uvhttp__request_ops_t request_ops;
static const uvhttp__response_sink_t sink;

static void bench_exchange(const uvhttp__router_t *router) {
    static char first[2048];
    uvhttp__arena_t arena;
    uvhttp_request_t req;
    uvhttp_response_t res;
    uvhttp__match_t match;
    uvhttp__arena_init(&arena, first, sizeof first, 1 << 20);
    uvhttp__request_init(&req, &arena, &request_ops);
    uvhttp__response_init(&res, &req, &arena, &sink);
    static const char head[] = "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n";
    static uvhttp__field_t fields[] = {{{16, 4}, {22, 9}}, {{33, 10}, {45, 5}}, {{52, 6}, {60, 3}}};
    req.base = head;
    req.head.headers = fields;
    req.head.header_count = 3;
    req.head.method = UVHTTP_GET;
    req.head.path = (uvhttp__span_t){4, 1};
    req.head.path_plain = true;
#define RESET() (uvhttp__arena_reset(&arena), uvhttp__request_reset(&req), uvhttp__response_reset(&res))
    MEASURE("reset of arena, request, response", RESET());
    MEASURE("reset + text \"Hello, World!\"", RESET(); (void)uvhttp_response_text(&res, 200, "Hello, World!"));
    MEASURE("reset + header + text", RESET(); (void)uvhttp_response_header(&res, "X-Name", "value");
            (void)uvhttp_response_text(&res, 200, "Hello, World!"));
    MEASURE("header lookup, last of 3", (void)uvhttp_request_header(&req, "accept"));
    MEASURE("reset + route + handler + finish + done", RESET(); (void)uvhttp__router_route(router, &req, &match);
            (void)uvhttp__middleware_cursor_run(
                &(uvhttp__middleware_cursor_t){.chain = match.chain, .route = match.route}, &req, &res);
            uvhttp__response_finish(&res); uvhttp__response_commit(&res); uvhttp__response_done(&res, 0));
    static const char target[] = "/users/a%20b/files/x%2Fy.txt?name=value&other=1%202";
    req.base = target;
    req.head.path = (uvhttp__span_t){0, 28};
    req.head.query = (uvhttp__span_t){29, sizeof target - 30};
    req.head.path_plain = false;
    MEASURE("reset + route with escapes and 2 params", RESET(); (void)uvhttp__router_route(router, &req, &match));
    MEASURE("reset + query of 2 parsed", RESET(); (void)uvhttp_request_query_param(&req, "other", NULL));
    uvhttp__arena_deinit(&arena);
}

int main(void) {
    uvhttp__router_t *router = make_router();
    bench_match(router, UVHTTP_GET, "/");
    bench_match(router, UVHTTP_HEAD, "/");
    bench_match(router, UVHTTP_GET, "/large/100kb");
    bench_match(router, UVHTTP_GET, "/users/42");
    bench_match(router, UVHTTP_GET, "/users/42/posts");
    bench_match(router, UVHTTP_GET, "/users/42/files/a.txt");
    bench_match(router, UVHTTP_GET, "/a/1/c/2/e/3");
    bench_match(router, UVHTTP_GET, "/resource150/7");
    bench_match(router, UVHTTP_GET, "/assets/css/site.css");
    bench_match(router, UVHTTP_GET, "/not/there");
    bench_match(router, UVHTTP_POST, "/users/42");
    bench_exchange(router);
    uvhttp__router_free(router);
    return 0;
}
