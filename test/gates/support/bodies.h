/* Owns: the handler that gates of bodies share: a body that is consumed as it arrives. For one source file of a
 * program.
 */
#ifndef UVHTTP_TEST_GATES_BODIES_H
#define UVHTTP_TEST_GATES_BODIES_H

#include <stdio.h>
#include <uvhttp.h>

#include "copied.h"

static unsigned long long streamed_bytes; /* one body at a time */
static unsigned long long piece_count;    /* of all */

static void respond(uvhttp_response_t *res, unsigned long long number) {
    char text[32];
    snprintf(text, sizeof text, "%llu", number);
    uvhttp_response_text(res, 200, text);
}

static void take(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user) {
    (void)req, (void)res, (void)user;
    streamed_bytes += data.size;
    piece_count++;
}

static void end(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    (void)req, (void)user;
    if (status == 0) respond(res, streamed_bytes);
}

static void streamed(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)res, (void)user;
    streamed_bytes = 0;
    (void)uvhttp_request_on_body(req, take, end, NULL);
}

#endif
