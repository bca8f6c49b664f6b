/* Requests that are traced and timed on each backend, as each system call and each allocation fails once. The collector
 * is not there: spans are lost, and never a response. */
/* Needs: middleware. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <uvhttp/trace.h>

#include <cmocka.h>

#include "support/failing_allocator.h"
#include "support/failing_calls.h"
#include "support/may_fail.h"

static const char *endpoint;

static void configure(uvhttp_server_config_t *config) {
    config->trace = config->server_timing = true;
    config->trace_ratio = 1;
    config->trace_delay_ms = 10;
    snprintf(config->trace_endpoint, sizeof config->trace_endpoint, "%s", endpoint);
}

/* Without memory an attribute is lost. */
static void describe(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    int status = uvhttp_request_trace_text(req, "tea", (uvhttp_str_t){"green", 5});
    if (status == UVHTTP_OK) status = uvhttp_request_trace_int(req, "cups", 2);
    if (status == UVHTTP_OK) status = uvhttp_request_trace_event(req, "poured");
    if (status != UVHTTP_OK) assert_true(test_allocator_failed() || test_call_failed());
    (void)uvhttp_response_text(res, 200, "described");
}

static void set_up(uvhttp_server_t *server) {
    (void)uvhttp_get(server, "/describe", describe, NULL);
    (void)uvhttp_post(server, "/echo", may_fail_echo, NULL);
    (void)uvhttp_get(server, "/later", may_fail_later, NULL);
    (void)uvhttp_route(server, UVHTTP_GET, "/worker", describe, NULL, UVHTTP_EXEC_WORKER);
}

#define CLOSE " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

static void speak(one_thread_t *it) {
    static const one_request_t requests[] = {
        {"GET /describe" CLOSE, 200, "described", NULL},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody", 200, "body", NULL},
        {"GET /later" CLOSE, 200, "later", NULL},
        {"GET /worker" CLOSE, 200, "described", NULL},
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) one_thread_ask(it, &requests[i]);
}

static const failing_call_t calls[] = {
    {FAIL_pthread_create, {EAGAIN}}, {FAIL_getrandom, {EAGAIN}},     {FAIL_eventfd, {EMFILE}},
    {FAIL_socket, {EMFILE}},         {FAIL_connect, {ECONNREFUSED}}, {FAIL_epoll_create1, {EMFILE}},
    {FAIL_getaddrinfo, {EAI_AGAIN}}, {FAIL_getsockopt, {ENOMEM}},
};

static const failing_life_t life = {.configure = configure,
                                    .set_up = set_up,
                                    .speak = speak,
                                    .complete = 4,
                                    .calls = calls,
                                    .call_count = sizeof calls / sizeof *calls};

/* By its number, and by a name that is looked up. */
static void fail_each(void (*each)(const failing_life_t *life, void **state, size_t least), void **state,
                      size_t least) {
    static const char *const endpoints[] = {"http://127.0.0.1:1", "http://localhost:1"};
    for (size_t i = 0; i < 2; i++) {
        endpoint = endpoints[i];
        each(&life, state, least);
    }
}

static void test_each_system_call_may_fail(void **state) {
    fail_each(fail_each_call_of, state, 4);
}

static void test_each_allocation_may_fail(void **state) {
    fail_each(fail_each_allocation_of, state, 20);
}

int main(void) {
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_IN_ONE_THREAD(test_each_system_call_may_fail, test_each_allocation_may_fail);
}
