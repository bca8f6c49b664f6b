/* Owns: what our HTTP/1 reads out of streams of requests, for other parsers that get the same (test_http1_oracle.py).
 * Reads lines of hexadecimal digits, a stream each. Of each stream it writes lines, with texts in hexadecimal digits,
 * "-" if they are empty: request METHOD TARGET MINOR KEEP_ALIVE BODY NAME VALUE NAME VALUE ...   of each that is
 * complete end           between two requests, or behind one that closes the connection more          inside a request
 *   error NAME    what is wrong with the next one */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp/error.h>
#include <uvhttp/request.h>

#include "http1/http1.h"

enum { FIELDS_MAX = 64, LINE_MAX_SIZE = 1 << 17 };

static void print_text(const char *data, size_t size) {
    putchar(' ');
    if (size == 0) putchar('-');
    for (size_t i = 0; i < size; i++) printf("%02x", (uint8_t)data[i]);
}

static void print_span(const char *base, uvhttp__span_t span) {
    print_text(base + span.offset, span.size);
}

/* Takes the body into `body`. Returns 0, UVHTTP_E_AGAIN or what is wrong with it. */
static int read_body(const uvhttp__head_t *head, const char *data, size_t size, char *body, size_t *body_size,
                     size_t *used) {
    *body_size = *used = 0;
    if (!head->chunked) {
        if (head->content_length > size) return UVHTTP_E_AGAIN;
        memcpy(body, data, head->content_length);
        *body_size = *used = head->content_length;
        return UVHTTP_OK;
    }
    uvhttp__http1_chunked_t chunked;
    uvhttp__http1_chunked_init(&chunked, 4096, 4096);
    int status = UVHTTP_E_AGAIN;
    while (status == UVHTTP_E_AGAIN && *used < size) {
        size_t consumed;
        uvhttp_str_t run;
        status = uvhttp__http1_chunked_decode(&chunked, data + *used, size - *used, &consumed, &run);
        memcpy(body + *body_size, run.data ? run.data : "", run.size);
        *body_size += run.size;
        *used += consumed;
    }
    return status;
}

static void print_request(const char *base, const uvhttp__head_t *head, const char *body, size_t body_size) {
    printf("request");
    print_span(base, head->method_text);
    print_span(base, head->target);
    printf(" %d %d", head->version == UVHTTP_HTTP_1_1, head->keep_alive);
    print_text(body, body_size);
    for (uint32_t i = 0; i < head->header_count; i++) {
        print_span(base, head->headers[i].name);
        print_span(base, head->headers[i].value);
    }
    putchar('\n');
}

static void read_stream(const char *data, size_t size) {
    static const uvhttp__head_limits_t limits = {8192, 16384, FIELDS_MAX};
    static char body[LINE_MAX_SIZE];
    uvhttp__field_t fields[FIELDS_MAX];
    size_t at = 0;
    for (bool open = true; open && at < size;) {
        uvhttp__http1_scan_t scan = {0};
        uvhttp__head_t head = {.headers = fields};
        int status = uvhttp__http1_read_request(&scan, data + at, size - at, &limits, &head);
        size_t body_size, used;
        if (status == UVHTTP_OK)
            status = read_body(&head, data + at + head.size, size - at - head.size, body, &body_size, &used);
        if (status == UVHTTP_E_AGAIN) {
            printf("more\n");
            return;
        }
        if (status != UVHTTP_OK) {
            printf("error %s\n", uvhttp_error_name(status));
            return;
        }
        print_request(data + at, &head, body, body_size);
        at += head.size + used;
        open = head.keep_alive && !head.upgrade && head.method != UVHTTP_CONNECT;
    }
    printf("end\n");
}

int main(void) {
    static char line[2 * LINE_MAX_SIZE + 2], data[LINE_MAX_SIZE];
    while (fgets(line, sizeof line, stdin)) {
        size_t size = strcspn(line, "\n") / 2;
        for (size_t i = 0; i < size; i++) {
            unsigned byte;
            if (sscanf(line + 2 * i, "%2x", &byte) != 1) return 1;
            data[i] = (char)byte;
        }
        char *exact = malloc(size > 0 ? size : 1); /* who reads on is seen by AddressSanitizer */
        if (!exact) return 1;
        memcpy(exact, data, size);
        read_stream(exact, size);
        free(exact);
    }
    return 0;
}
