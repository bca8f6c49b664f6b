/* Owns: tests of the access log's lines about requests to which the server responds in place of the application. */
/* Needs: middleware. */
#include <pthread.h>
#include <uvhttp/access_log.h>

#include "support/http_server.h"

static struct {
    pthread_mutex_t lock;
    char text[1024];
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void keep(const char *lines, size_t size, void *user) {
    (void)user;
    pthread_mutex_lock(&kept.lock);
    strncat(kept.text, lines, size < 512 ? size : 512);
    pthread_mutex_unlock(&kept.lock);
}

static _Atomic(uvhttp_deferred_t *) waiting;

static void wait(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    waiting = uvhttp_response_defer(res);
}

static void test_a_response_that_is_late_has_the_status_that_the_client_got(void **state) {
    serving_t *serving = *state;
    *kept.text = '\0';
    serving_make(serving);
    uvhttp_use(serving->server, uvhttp_access_log(&(uvhttp_access_log_options_t){
                                    .format = UVHTTP_ACCESS_LOG_JSON, .write = keep, .flush_ms = 1}));
    const uvhttp_route_options_t late = {.response_timeout_ms = 30};
    uvhttp_route_options(uvhttp_get(serving->server, "/late", wait, NULL), &late);
    serving_start(serving);
    client_read_last(client_ask(serving, GET("/late")), 503);
    uvhttp_deferred_release(waiting);
    serving_stop(serving);
    uvhttp_server_free(serving->server); /* with the log, which writes its last line */
    serving->server = NULL;
    assert_non_null(strstr(kept.text, "\"target\":\"/late\",\"host\":\"a\",\"status\":503,\"bytes\":0,"));
    assert_null(strstr(kept.text, "aborted"));
}

int main(void) {
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_ON_EACH(test_a_response_that_is_late_has_the_status_that_the_client_got);
}
