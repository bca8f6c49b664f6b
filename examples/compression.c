/* Responses that are compressed when the client accepts it: compression ADDRESS (default 127.0.0.1:8080).
 *
 *   curl --compressed -v http://127.0.0.1:8080/primes
 *   curl --compressed -v http://127.0.0.1:8080/count
 */
/* Needs: middleware. */
#include <stdio.h>
#include <stdlib.h>
#include <uvhttp.h>

#define PRIME_MAX 20000

typedef struct page {
    char *text;
    size_t size;
} page_t;

static int make_primes(page_t *page) {
    FILE *out = open_memstream(&page->text, &page->size);
    if (!out) return -1;
    fprintf(out, "[2");
    for (int n = 3; n < PRIME_MAX; n += 2) {
        int d = 3;
        while (d * d <= n && n % d != 0) d += 2;
        if (d * d > n) fprintf(out, ", %d", n);
    }
    fprintf(out, "]\n");
    return fclose(out);
}

static void primes(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    const page_t *page = user;
    (void)req;
    uvhttp_response_header(res, "ETag", "\"primes-1\"");
    uvhttp_response_send_static(res, 200, "application/json", page->text, page->size);
}

/* A streamed response: what each write has written can be decoded as soon as it arrives. */
static void count(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    char line[32];
    uvhttp_response_begin(res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN);
    for (int n = 0; n < 1000; ++n) {
        int size = snprintf(line, sizeof line, "line %d of 1000\n", n);
        if (uvhttp_response_write(res, line, (size_t)size) != UVHTTP_OK) return; /* the client has gone */
    }
}

/* The middleware is the server's: every route has it. */
static void pixels(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    const page_t *page = user;
    (void)req;
    uvhttp_response_send_static(res, 200, "image/png", page->text, page->size); /* a type that is left alone */
}

int main(int argc, char **argv) {
    page_t page = {NULL, 0};
    if (make_primes(&page) != 0) return 1;
    uvhttp_server_t *server = uvhttp_server_new(NULL);
    if (!server) return 1;
    uvhttp_use(server, uvhttp_compression(&(uvhttp_compression_options_t){.gzip_level = 6}));
    uvhttp_get(server, "/primes", primes, &page);
    uvhttp_get(server, "/pixels", pixels, &page);
    uvhttp_get(server, "/count", count, NULL);
    int status = uvhttp_server_run(server, argc > 1 ? argv[1] : "127.0.0.1:8080");
    if (status != UVHTTP_OK) fprintf(stderr, "compression: %s\n", uvhttp_server_error_text(server));
    uvhttp_server_free(server);
    free(page.text);
    return status != UVHTTP_OK;
}
