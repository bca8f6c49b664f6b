/* Owns: handlers that ask another server (origin.c) before they respond, on the loop and in a coroutine, and what the
 * client may make of each of its behaviours. Requests share nothing but the code: every byte is of its own tag. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp.h>

#include "sim.h"

enum { TIMEOUT_MS = 20000 };

typedef struct gate {
    uint32_t tag, size, ms;
    uvhttp_deferred_t *deferred;
    uvhttp_client_response_t *origin;
} gate_t;

static atomic_uint gates_open;

static gate_t read_gate(const uvhttp_request_t *req) {
    return (gate_t){.tag = sim_request_number(req, "tag", 16),
                    .size = sim_request_number(req, "size", 10),
                    .ms = sim_request_number(req, "ms", 10)};
}

static void put_url(const gate_t *gate, char *url, size_t size) {
    const char *name = gate->tag % 3 ? "127.0.0.1" : SIM_NAME;
    snprintf(url, size, "http://%s:%u/%x/%u/%u", name, SIM_ORIGIN_PORT(gate->tag), gate->tag, gate->size, gate->ms);
}

/* Whether the response is the handler's to pass on. */
static bool check_origin(const gate_t *gate, int status, const uvhttp_client_response_t *response) {
    const uint16_t port = SIM_ORIGIN_PORT(gate->tag);
    sim_trace("asked", gate->tag, (uint64_t)-status);
    if (status != UVHTTP_OK) {
        bool named = gate->tag % 3 == 0;
        bool full = named &&
                    (status == UVHTTP_E_WORK_FULL ? !sim_threads_are_patient : status == UVHTTP_E_TIMEOUT && sim_crowd);
        bool wrong = port == SIM_ORIGIN_WHOLE || (port == SIM_ORIGIN_REFUSES && status != UVHTTP_E_PEER_UNREACHABLE);
        if (wrong && status != UVHTTP_E_ABORTED && status != UVHTTP_E_WORK_CANCELLED && !full && !sim_failing)
            sim_fail("the other server's response to %x: %s", gate->tag, uvhttp_error_name(status));
        return false;
    }
    uvhttp_str_t body = uvhttp_client_response_body(response),
                 tag = uvhttp_client_response_header(response, "X-Origin");
    if (port != SIM_ORIGIN_WHOLE) sim_fail("a broken response to %x is accepted as a complete one", gate->tag);
    if (uvhttp_client_response_status(response) != 200 || body.size != gate->size || tag.size == 0 ||
        sim_number(tag.data, tag.size, 16) != gate->tag)
        sim_fail("the other server's response to %x has %zu bytes", gate->tag, body.size);
    if (sim_mismatch(body.data, SIM_ORIGIN_TAG(gate->tag), 0, body.size) < body.size)
        sim_fail("the other server's response to %x has wrong bytes", gate->tag);
    return true;
}

static char *body_of(uint32_t tag, uint32_t size) {
    char *body = malloc(size + 1);
    if (!body) abort();
    sim_fill(body, tag, 0, size);
    return body;
}

void sim_pass_on(uvhttp_response_t *res, uint32_t tag, uint32_t size) {
    char *body = body_of(tag, size), text[16];
    snprintf(text, sizeof text, "%x", tag);
    if (uvhttp_response_header(res, "X-Tag", text) == UVHTTP_OK) (void)uvhttp_response_send(res, 200, NULL, body, size);
    free(body);
}

void sim_give_up(uvhttp_deferred_t **deferred) {
    uvhttp_deferred_t *given_up = *deferred;
    *deferred = NULL;
    uvhttp_deferred_release(given_up);
}

void sim_pass_on_deferred(uvhttp_deferred_t *deferred, uint32_t tag, uint32_t size) {
    char *body = body_of(tag, size), text[16];
    snprintf(text, sizeof text, "%x", tag);
    if (uvhttp_deferred_header(deferred, "X-Tag", text) == UVHTTP_OK)
        (void)uvhttp_deferred_send(deferred, 200, NULL, body, size);
    free(body);
}

/* --- on the loop --- */

static void gate_end(gate_t *gate) {
    uvhttp_client_response_free(gate->origin);
    if (gate->deferred) uvhttp_deferred_release(gate->deferred);
    free(gate);
    gates_open--;
}

static void on_abort(uvhttp_deferred_t *deferred, void *user) {
    (void)deferred;
    gate_end(user);
}

static void refuse(gate_t *gate) {
    (void)uvhttp_deferred_send(gate->deferred, 502, NULL, "", 0);
    gate_end(gate);
}

static void on_origin(uvhttp_client_response_t *response, int status, void *user) {
    gate_t *gate = user;
    if (!check_origin(gate, status, response)) {
        refuse(gate);
        return;
    }
    sim_pass_on_deferred(gate->deferred, gate->tag, gate->size);
    gate_end(gate);
}

static void on_gate(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    char url[100];
    gate_t *gate = calloc(1, sizeof *gate);
    if (!gate) abort();
    *gate = read_gate(req);
    gates_open++;
    gate->deferred = uvhttp_response_defer(res);
    if (!gate->deferred) {
        gate_end(gate);
        return;
    }
    uvhttp_deferred_on_abort(gate->deferred, on_abort, gate);
    put_url(gate, url, sizeof url);
    const uvhttp_client_request_t request = {.url = url, .timeout_ms = TIMEOUT_MS};
    int status = uvhttp_client_send(&request, on_origin, gate, &gate->origin);
    if (status == UVHTTP_OK) return;
    (void)check_origin(gate, status, NULL);
    refuse(gate);
}

/* --- in a coroutine --- */

static void on_cogate(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    char url[100];
    gate_t gate = read_gate(req);
    uvhttp_client_response_t *response;
    put_url(&gate, url, sizeof url);
    int status = uvhttp_coro_request(&(uvhttp_client_request_t){.url = url, .timeout_ms = TIMEOUT_MS}, &response);
    bool good = check_origin(&gate, status, response);
    uvhttp_client_response_free(response);
    if (!good) {
        (void)uvhttp_response_send(res, 502, NULL, "", 0);
        return;
    }
    sim_pass_on(res, gate.tag, gate.size);
}

void sim_gateway_add(uvhttp_server_t *server) {
    gates_open = 0;
    uvhttp_get(server, "/gate/:tag/:size/:ms", on_gate, NULL);
    uvhttp_route(server, UVHTTP_GET, "/cogate/:tag/:size/:ms", on_cogate, NULL, UVHTTP_EXEC_COROUTINE);
}

void sim_gateway_check_end(void) {
    if (gates_open) sim_fail("%u requests to another server have no end", gates_open);
}
