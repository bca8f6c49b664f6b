/* Owns: fuzzing of small texts of a peer that have a reader each (libFuzzer): trace contexts, credentials, hosts, what
 * redirects and WebSocket handshakes look at, a client's requests, replies of Redis and of a collector. What is
 * accepted is held against rules that are written down here again. Input: a byte that chooses the reader, the text. */
/* Needs: middleware redis static websocket. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <uvhttp/allowed_hosts.h>
#include <uvhttp/auth.h>

#include "base/str.h"
#include "base/uri.h"
#include "cli/plan.h"
#include "client/connect.h"
#include "client/message.h"
#include "http1/http1.h"
#include "message/message.h"
#include "middleware/rate_limit_redis.h"
#include "obs/trace.h"
#include "trace/span.h"
#include "websocket/handshake.h"

static void die(const char *what) {
    fprintf(stderr, "fuzz_values: %s\n", what);
    abort();
}

static bool has_blank_or_control(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++)
        if ((uint8_t)text[i] <= ' ' || text[i] == 0x7f) return true;
    return false;
}

/* --- traces --- */

static void fuzz_traceparent(uvhttp_str_t text) {
    uvhttp__trace_context_t context = {.flags = 0}, again = {.flags = 0};
    char written[UVHTTP__TRACEPARENT_SIZE];
    if (!uvhttp__traceparent_parse(text, &context)) return;
    uvhttp__traceparent_write(&context, written);
    if (memcmp(written + 2, text.data + 2, UVHTTP__TRACEPARENT_SIZE - 4) != 0) die("a trace has other names");
    if (!uvhttp__traceparent_parse((uvhttp_str_t){written, sizeof written}, &again)) die("a trace is not read back");
    if (memcmp(context.trace_id, again.trace_id, sizeof again.trace_id) != 0 ||
        memcmp(context.span_id, again.span_id, sizeof again.span_id) != 0 || context.flags != again.flags)
        die("a trace is another one when it is read back");
}

/* The text is cut at a comma into two fields, which are one list. */
static void fuzz_tracestate(uvhttp_str_t text) {
    char list[UVHTTP__TRACESTATE_SIZE_MAX], again[UVHTTP__TRACESTATE_SIZE_MAX];
    size_t size = 0, again_size = 0;
    unsigned count = 0, again_count = 0;
    const char *comma = text.size > 0 ? memchr(text.data, ',', text.size) : NULL;
    uvhttp_str_t first = comma ? (uvhttp_str_t){text.data, (size_t)(comma - text.data)} : text, second = {NULL, 0};
    if (comma) second = (uvhttp_str_t){comma + 1, text.size - first.size - 1};
    bool valid = uvhttp__tracestate_add(text, list, &size, &count);
    bool in_two = uvhttp__tracestate_add(first, again, &again_size, &again_count) &&
                  uvhttp__tracestate_add(second, again, &again_size, &again_count);
    if (valid != in_two) die("two fields of tracestate are not one list");
    if (!valid) return;
    if (size != again_size || count != again_count || memcmp(list, again, size) != 0) die("two lists differ");
    again_size = again_count = 0;
    if (!uvhttp__tracestate_add((uvhttp_str_t){list, size}, again, &again_size, &again_count) || again_size != size ||
        memcmp(list, again, size) != 0)
        die("a list is another one when it is read back");
}

static void fuzz_collector(uvhttp_str_t text) {
    uint64_t rejected = uvhttp__otlp_rejected(text);
    if (rejected > UINT64_C(10) * UINT32_MAX + 9) die("more spans than a number has");
    if (rejected > 0 && !memmem(text.data, text.size, "\"rejectedSpans\"", 15)) die("spans from nowhere");
}

/* --- Redis --- */

static uvhttp__redis_parsed_t read_reply(uvhttp_str_t text, size_t size, size_t *used, uvhttp__redis_reply_t *reply) {
    char *copy = malloc(size ? size : 1); /* exactly as large: the sanitizer sees who reads on */
    if (!copy) abort();
    if (size > 0) memcpy(copy, text.data, size);
    const char *at = copy;
    memset(reply, 0, sizeof *reply);
    uvhttp__redis_parsed_t parsed = uvhttp__redis_parse_reply(&at, copy + size, reply);
    *used = (size_t)(at - copy);
    if (parsed != UVHTTP__REDIS_COMPLETE && *used != 0) die("bytes of a reply that is not complete are consumed");
    if (*used > size) die("more than there is was consumed");
    reply->text.data = NULL;
    free(copy);
    return parsed;
}

/* A reply that is not all there is incomplete, or wrong already; what follows it does not matter. */
static void fuzz_redis(uvhttp_str_t text) {
    uvhttp__redis_reply_t whole, cut;
    size_t used, cut_used;
    uvhttp__redis_parsed_t parsed = read_reply(text, text.size, &used, &whole);
    for (size_t size = 0; size < text.size; size++) {
        uvhttp__redis_parsed_t part = read_reply(text, size, &cut_used, &cut);
        if (part == UVHTTP__REDIS_PART) continue;
        if (part != parsed || (part == UVHTTP__REDIS_COMPLETE && cut_used != used)) die("a cut changes a reply");
        if (part == UVHTTP__REDIS_COMPLETE &&
            (whole.type != cut.type || memcmp(whole.numbers, cut.numbers, sizeof cut.numbers) != 0))
            die("a cut changes what a reply says");
    }
}

/* --- one field of a request --- */

typedef struct exchange {
    uvhttp_request_t req;
    uvhttp_response_t res;
    uvhttp__arena_t arena;
    uvhttp__field_t field;
    char *head;
} exchange_t;

static void begin(exchange_t *ex, const char *name, uvhttp_str_t value, size_t memory_max) {
    static const uvhttp__request_ops_t request_ops = {.peer = NULL};
    static const uvhttp__response_sink_t sink = {.begin = NULL};
    uint32_t name_size = (uint32_t)strlen(name);
    memset(ex, 0, sizeof *ex);
    ex->head = malloc(name_size + value.size + 1);
    if (!ex->head) abort();
    memcpy(ex->head, name, name_size);
    if (value.size > 0) memcpy(ex->head + name_size, value.data, value.size);
    ex->field = (uvhttp__field_t){{0, name_size}, {name_size, (uint32_t)value.size}};
    uvhttp__arena_init(&ex->arena, NULL, 0, memory_max);
    uvhttp__request_init(&ex->req, &ex->arena, &request_ops);
    uvhttp__response_init(&ex->res, &ex->req, &ex->arena, &sink);
    ex->req.base = ex->head;
    ex->req.head.headers = &ex->field;
    ex->req.head.header_count = 1;
    ex->req.head.authority = ex->field.value;
}

static void end(exchange_t *ex) {
    uvhttp__response_done(&ex->res, 0);
    uvhttp__arena_deinit(&ex->arena);
    free(ex->head);
}

static bool is_after_scheme(uvhttp_str_t value, const char *scheme, const char *credentials) {
    size_t scheme_size = strlen(scheme), size = strlen(credentials), at = scheme_size;
    if (value.size <= at || strncasecmp(value.data, scheme, scheme_size) != 0 || value.data[at] != ' ') return false;
    while (at < value.size && value.data[at] == ' ') at++;
    return value.size - at == size && memcmp(value.data + at, credentials, size) == 0;
}

/* Only one text has the right to pass. */
static void fuzz_authorization(uvhttp_str_t text, bool basic, bool short_of_memory) {
    static uvhttp_middleware_t basic_auth, bearer_auth;
    static const uvhttp_credential_t pair = {"alice", "wonder:land"}, token = {"alice", "t0ken-._~+/=="};
    if (!basic_auth.run) {
        basic_auth = uvhttp_basic_auth(&(uvhttp_basic_auth_options_t){.credentials = &pair, .credential_count = 1});
        bearer_auth = uvhttp_bearer_auth(&(uvhttp_bearer_auth_options_t){.credentials = &token, .credential_count = 1});
    }
    exchange_t ex;
    uvhttp_middleware_t auth = basic ? basic_auth : bearer_auth;
    begin(&ex, "Authorization", text, short_of_memory ? 64 : SIZE_MAX);
    bool passes = auth.run(&ex.req, &ex.res, auth.user) == UVHTTP_NEXT;
    bool may = basic ? is_after_scheme(text, "Basic", "YWxpY2U6d29uZGVyOmxhbmQ=")
                     : is_after_scheme(text, "Bearer", "t0ken-._~+/==");
    if (passes && !may) die("who has not the password passes");
    if (may && !passes && !short_of_memory) die("who has the password does not pass");
    if (passes && uvhttp_auth_user(&ex.req).size != 5) die("nobody passes");
    if (!passes && uvhttp_response_status(&ex.res) != 401 && !short_of_memory) die("no 401");
    end(&ex);
}

static bool ends_in(const char *text, const char *ending) {
    size_t size = strlen(text), ending_size = strlen(ending);
    return size > ending_size && strcasecmp(text + size - ending_size, ending) == 0;
}

/* However it is written. */
static bool is_ipv6_loopback(const char *host) {
    char text[301];
    struct in6_addr address;
    return sscanf(host, "[%300[^]]", text) == 1 && inet_pton(AF_INET6, text, &address) == 1 &&
           IN6_IS_ADDR_LOOPBACK(&address);
}

static void fuzz_authority(uvhttp_str_t text) {
    static uvhttp_middleware_t allowed;
    if (!allowed.run) {
        const uvhttp_allowed_hosts_options_t options = {.hosts = "example.org,*.example.net", .loopback = true};
        allowed = uvhttp_allowed_hosts(&options);
    }
    if (text.size > 300 || text.size == 0 || !uvhttp__valid_authority(text, false)) return;
    exchange_t ex;
    char host[301];
    begin(&ex, "Host", text, SIZE_MAX);
    bool passes = allowed.run(&ex.req, &ex.res, allowed.user) == UVHTTP_NEXT;
    memcpy(host, text.data, text.size);
    host[text.size] = '\0';
    char *colon = strrchr(host, ':');
    if (colon && strspn(colon + 1, "0123456789") == strlen(colon + 1) && (*host != '[' || colon[-1] == ']'))
        *colon = '\0';
    size_t size = strlen(host);
    if (size > 1 && host[size - 1] == '.') host[size - 1] = '\0';
    bool named = strcasecmp(host, "example.org") == 0 || ends_in(host, ".example.net");
    bool here = strcasecmp(host, "localhost") == 0 || ends_in(host, ".localhost") || is_ipv6_loopback(host) ||
                (strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == strlen(host));
    if (passes && *host && !named && !here) die("another host passes");
    if (named && !passes) die("a host does not pass");
    end(&ex);
}

/* --- where a redirect leads --- */

static void expect_location(const char *location, const char *start) {
    if (!location) return;
    if (strncmp(location, start, strlen(start)) != 0) die("a redirect leads elsewhere");
    if (has_blank_or_control(location, strlen(location))) die("a Location ends early");
}

static void fuzz_redirect(uvhttp_str_t text) {
    static char any[] = "/*", old[] = "/old/*", root[] = "/*", site[] = "https://new.example/b/*";
    static const redirect_t to_root = {.from = old, .to = root}, to_site = {.from = any, .to = site};
    uvhttp__field_t fields[16];
    uvhttp__head_limits_t limits = {8192, 65536, 16};
    uvhttp__http1_scan_t scan = {0};
    exchange_t ex;
    begin(&ex, "", text, SIZE_MAX);
    ex.req.head.headers = fields;
    if (uvhttp__http1_read_request(&scan, ex.head, text.size, &limits, &ex.req.head) == UVHTTP_OK &&
        uvhttp__request_decode_path(&ex.req) == UVHTTP_OK) {
        const char *location = redirect_location(&to_root, &ex.req);
        expect_location(location, "/");
        if (location && (location[1] == '/' || location[1] == '\\')) die("a redirect leads to another host");
        expect_location(redirect_location(&to_site, &ex.req), "https://new.example/b/");
        location = redirect_to_https(&ex.req, 8443);
        expect_location(location, "https://");
        size_t size = location ? strcspn(location + 8, "/?#@\\") : 0; /* of host and port */
        if (location && (size <= 5 || strncmp(location + 8 + size - 5, ":8443", 5) != 0))
            die("a redirect to https leads to another host");
    }
    end(&ex);
}

/* --- what a client sends --- */

enum { HEADERS_MAX = 8 };

static uvhttp_str_t without_blanks(const char *text) {
    uvhttp_str_t value = uvhttp__str_from(text + strspn(text, " \t"));
    while (value.size > 0 && strchr(" \t", value.data[value.size - 1])) value.size--;
    return value;
}

/* The server's reader finds in a head what the client was given for it, and nothing else. */
static void expect_read(char *head, size_t size, const uvhttp_client_request_t *request) {
    const char *method = request->method ? request->method : "GET";
    const uvhttp__head_limits_t limits = {16384, 65536, HEADERS_MAX + 5};
    uvhttp__field_t fields[HEADERS_MAX + 5];
    uvhttp__http1_scan_t scan = {0};
    uvhttp__head_t read;
    memset(&read, 0, sizeof read);
    read.headers = fields;
    int status = uvhttp__http1_read_request(&scan, head, size, &limits, &read);
    bool has_host = false;
    for (size_t i = 0; i < request->header_count; i++) has_host |= strcasecmp(request->headers[i].name, "host") == 0;
    if (status == UVHTTP_OK ? read.size != size : !has_host) die("a head is not read back");
    if (status != UVHTTP_OK) return;
    if (strncmp(head, method, strlen(method)) != 0 || head[strlen(method)] != ' ') die("another method");
    for (size_t i = 0; i < request->header_count; i++) {
        const uvhttp__field_t *field = &fields[i + !has_host];
        uvhttp_str_t name = uvhttp__str_from(request->headers[i].name);
        uvhttp_str_t value = without_blanks(request->headers[i].value);
        if (field->name.size != name.size || memcmp(head + field->name.offset, name.data, name.size) != 0 ||
            field->value.size != value.size || memcmp(head + field->value.offset, value.data, value.size) != 0)
            die("another field");
    }
    size_t more = read.header_count - request->header_count; /* Host, Content-Length, Connection, two of a trace */
    if (more < 1 || more > 5) die("fields from nowhere");
}

/* Lines: the URL, a method, fields ("name:value"); the ninth and what follows is the body. */
static void fuzz_client(uvhttp_str_t text) {
    static const uvhttp__trace_context_t trace = {.trace_id = {1}, .span_id = {2}, .state = {"a=b", 3}};
    uvhttp_client_header_t headers[HEADERS_MAX];
    uvhttp_client_request_t request = {.headers = headers};
    uvhttp__client_url_t url;
    char address[UVHTTP__CONNECT_TEXT_MAX], *next = NULL, *lines = malloc(text.size + 1);
    if (!lines) abort();
    memcpy(lines, text.data, text.size);
    lines[text.size] = '\0';
    char *end_of_url = strchrnul(lines, '\n');
    uvhttp_str_t url_text = {lines, *end_of_url ? (size_t)(end_of_url - lines) : text.size};
    if (url_text.size > 4096 || uvhttp__client_url_parse(url_text, &url) != UVHTTP_OK) {
        free(lines);
        return;
    }
    if (!uvhttp__valid_authority(url.authority, false)) die("a URL has no authority");
    if (7 + url.authority.size + url.target.size != url_text.size) die("a part of a URL is lost");
    if (uvhttp__client_url_address(&url, address, sizeof address) == UVHTTP_OK &&
        has_blank_or_control(address, strlen(address)))
        die("an address is none");
    char *line = *end_of_url ? strtok_r(end_of_url + 1, "\n", &next) : NULL;
    request.method = line;
    while (line && request.header_count < HEADERS_MAX && (line = strtok_r(NULL, "\n", &next))) {
        char *colon = strchr(line, ':');
        if (colon) *colon = '\0';
        headers[request.header_count++] = (uvhttp_client_header_t){line, colon ? colon + 1 : NULL};
    }
    if (line && *next) request.body = next, request.body_size = strlen(next);
    if (uvhttp__client_check(&request) == UVHTTP_OK) {
        const uvhttp__trace_context_t *traced = request.body_size % 2 == 1 ? &trace : NULL;
        size_t size = uvhttp__client_write_head(&request, &url, traced, NULL);
        char *head = malloc(size);
        if (!head || uvhttp__client_write_head(&request, &url, traced, head) != size) die("a head has another size");
        expect_read(head, size, &request);
        free(head);
    }
    free(lines);
}

/* --- WebSocket --- */

static void fuzz_handshake(uvhttp_str_t text) {
    char accept[UVHTTP__WS_ACCEPT_SIZE + 1];
    if (uvhttp__ws_key_valid(text) &&
        (uvhttp__ws_accept(text, accept) != UVHTTP_OK || strlen(accept) != UVHTTP__WS_ACCEPT_SIZE))
        die("a key has no response");
    (void)uvhttp__ws_list_has(text, (uvhttp_str_t){"websocket", 9});
    const uvhttp_str_t host = {"example.org", 11};
    if (!uvhttp__ws_origin_is_host(text, host)) return;
    const char *at = text.data + (text.size > 8 && strncasecmp(text.data, "https", 5) == 0 ? 8 : 7);
    if (text.size < 18 || strncasecmp(at, host.data, host.size) != 0) die("another origin passes");
}

/* --- all --- */

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size) {
    if (input_size < 1 || input_size > 8192) return 0;
    size_t size = input_size - 1;
    char *copy = malloc(size ? size : 1);
    if (!copy) abort();
    memcpy(copy, input + 1, size);
    uvhttp_str_t text = {copy, size};
    switch (input[0] % 12) {
        case 0: fuzz_traceparent(text); break;
        case 1: fuzz_tracestate(text); break;
        case 2: fuzz_collector(text); break;
        case 3: fuzz_redis(text); break;
        case 4: fuzz_authorization(text, true, false); break;
        case 5: fuzz_authorization(text, false, false); break;
        case 6: fuzz_authorization(text, true, true); break;
        case 7: fuzz_authorization(text, false, true); break;
        case 8: fuzz_authority(text); break;
        case 9: fuzz_redirect(text); break;
        case 10: fuzz_client(text); break;
        default: fuzz_handshake(text); break;
    }
    free(copy);
    return 0;
}
