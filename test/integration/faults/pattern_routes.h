/* Owns: what the files of pattern_server share. */
#ifndef UVHTTP_TEST_PATTERN_ROUTES_H
#define UVHTTP_TEST_PATTERN_ROUTES_H

#include <stdint.h>
#include <uvhttp.h>

#define PATTERN_TYPE "application/octet-stream"
#define PATTERN_SIZE_MAX (64u * 1024 * 1024)

typedef struct pattern_options {
    const char *upstream; /* "127.0.0.1:port" that the client asks */
    const char *directory, *uploads, *access_log, *redis;
} pattern_options_t;

/* A parameter of the request's path. */
uint64_t pattern_number(uvhttp_request_t *req, const char *name);
/* The bytes that the path asks for, to be freed, with X-Seed set; NULL: none. */
char *pattern_body_of(uvhttp_request_t *req, uvhttp_response_t *res, size_t *size);
/* A handler that sends them from memory of the response. */
void pattern_copy(uvhttp_request_t *req, uvhttp_response_t *res, void *user);
/* Middleware goes first, hence an access log before all routes. Return a status. */
int pattern_middleware(uvhttp_server_t *server, const pattern_options_t *options);
int pattern_routes(uvhttp_server_t *server, const pattern_options_t *options);
void pattern_routes_end(void);

#endif
