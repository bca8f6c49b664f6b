/* Owns: what a request to another server looks like. May include: http1, base. */
#include "client/message.h"

#include <string.h>

#include "base/chars.h"
#include "base/str.h"
#include "base/uri.h"
#include "http1/http1.h"

/* --- the url --- */

/* RFC 3986 section 3.3 and 3.4, and what browsers send; never a blank, which would end it, or '#'. */
static bool valid_target(uvhttp_str_t target) {
    for (size_t i = 0; i < target.size; i++)
        if (target.data[i] <= ' ' || target.data[i] >= 0x7f || target.data[i] == '#') return false;
    return true;
}

/* What other clients read as a Unix socket. A URL may come from a user: only the program chooses a local socket. */
static bool names_unix_socket(uvhttp_str_t rest) {
    return uvhttp__str_starts_with_nocase(rest, UVHTTP__STR("unix:/")) ||
           uvhttp__str_starts_with_nocase(rest, UVHTTP__STR("unix:@"));
}

int uvhttp__client_url_parse(uvhttp_str_t text, uvhttp__client_url_t *url) {
    static const uvhttp_str_t scheme = UVHTTP__STR_INIT("http://");
    if (uvhttp__str_starts_with_nocase(text, UVHTTP__STR("https://"))) return UVHTTP_E_UNSUPPORTED;
    if (!uvhttp__str_starts_with_nocase(text, scheme)) return UVHTTP_E_ADDRESS;
    uvhttp_str_t rest = {text.data + scheme.size, text.size - scheme.size};
    if (!valid_target(rest)) return UVHTTP_E_ADDRESS;
    if (names_unix_socket(rest)) return UVHTTP_E_CLIENT_UNIX_URL;
    size_t size = 0;
    while (size < rest.size && rest.data[size] != '/' && rest.data[size] != '?') size++;
    url->authority = (uvhttp_str_t){rest.data, size};
    url->target = (uvhttp_str_t){rest.data + size, rest.size - size};
    return uvhttp__valid_authority(url->authority, false) ? UVHTTP_OK : UVHTTP_E_ADDRESS;
}

int uvhttp__client_url_address(const uvhttp__client_url_t *url, char *out, size_t size) {
    uvhttp_str_t address = url->authority;
    const char *colon = memrchr(address.data, ':', address.size), *bracket = memrchr(address.data, ']', address.size);
    bool has_colon = colon && (!bracket || colon > bracket);
    bool has_port = has_colon && colon + 1 < address.data + address.size;
    if (has_colon && !has_port) address.size--;
    if (address.size + sizeof ":80" > size) return UVHTTP_E_ADDRESS;
    memcpy(out, address.data, address.size);
    memcpy(out + address.size, has_port ? "" : ":80", has_port ? sizeof "" : sizeof ":80");
    return UVHTTP_OK;
}

/* --- the head --- */

/* They frame the message, or steer a connection that is the library's. */
static const uvhttp_str_t reserved[] = {
    UVHTTP__STR_INIT("connection"), UVHTTP__STR_INIT("content-length"),    UVHTTP__STR_INIT("expect"),
    UVHTTP__STR_INIT("keep-alive"), UVHTTP__STR_INIT("proxy-connection"),  UVHTTP__STR_INIT("te"),
    UVHTTP__STR_INIT("trailer"),    UVHTTP__STR_INIT("transfer-encoding"), UVHTTP__STR_INIT("upgrade"),
};

bool uvhttp_field_is_hop_by_hop(uvhttp_str_t name) {
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (uvhttp__str_equal_nocase(name, reserved[i])) return true;
    return false;
}

static int check_field(const uvhttp_client_header_t *header) {
    uvhttp_str_t name = uvhttp__str_from(header->name), value = uvhttp__str_from(header->value);
    if (!uvhttp__valid_header_name(name) || !header->value || !uvhttp__valid_header_value(value))
        return UVHTTP_E_INVALID;
    return uvhttp_field_is_hop_by_hop(name) ? UVHTTP_E_INVALID : UVHTTP_OK;
}

static bool is_host(const char *name) {
    return uvhttp__str_equal_nocase(uvhttp__str_from(name), UVHTTP__STR("host"));
}

int uvhttp__client_check(const uvhttp_client_request_t *request) {
    if (request->method && (!uvhttp__valid_header_name(uvhttp__str_from(request->method)) || /* a token, as they are */
                            strcmp(request->method, "CONNECT") == 0))
        return UVHTTP_E_INVALID;
    if ((!request->headers && request->header_count > 0) || (!request->body && request->body_size > 0))
        return UVHTTP_E_INVALID;
    int hosts = 0;
    for (size_t i = 0; i < request->header_count; i++) {
        if (check_field(&request->headers[i]) != UVHTTP_OK) return UVHTTP_E_INVALID;
        hosts += is_host(request->headers[i].name);
    }
    return hosts <= 1 ? UVHTTP_OK : UVHTTP_E_INVALID;
}

typedef struct writer {
    char *out; /* NULL: nothing is written */
    size_t size;
} writer_t;

static void put(writer_t *writer, uvhttp_str_t text) {
    if (writer->out && text.size > 0) memcpy(writer->out + writer->size, text.data, text.size);
    writer->size += text.size;
}

static void put_field(writer_t *writer, uvhttp_str_t name, uvhttp_str_t value) {
    put(writer, name);
    put(writer, UVHTTP__STR(": "));
    put(writer, value);
    put(writer, UVHTTP__STR("\r\n"));
}

static bool has_field(const uvhttp_client_request_t *request, uvhttp_str_t name) {
    for (size_t i = 0; i < request->header_count; i++)
        if (uvhttp__str_equal_nocase(uvhttp__str_from(request->headers[i].name), name)) return true;
    return false;
}

/* A method that gives a body a meaning says so also when there is none (RFC 9110 section 8.6). */
static bool wants_length(const uvhttp_client_request_t *request) {
    const char *method = request->method ? request->method : "GET";
    return request->body_size > 0 || strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 ||
           strcmp(method, "PATCH") == 0;
}

/* Where the request has one of its fields, that is the caller's: two of them would be read as one list. */
static void put_trace(writer_t *writer, const uvhttp_client_request_t *request, const uvhttp__trace_context_t *trace) {
    if (has_field(request, UVHTTP__STR("traceparent"))) return;
    char text[UVHTTP__TRACEPARENT_SIZE];
    uvhttp__traceparent_write(trace, text);
    put_field(writer, UVHTTP__STR("traceparent"), (uvhttp_str_t){text, sizeof text});
    if (trace->state.size > 0 && !has_field(request, UVHTTP__STR("tracestate")))
        put_field(writer, UVHTTP__STR("tracestate"), trace->state);
}

size_t uvhttp__client_write_head(const uvhttp_client_request_t *request, const uvhttp__client_url_t *url,
                                 const uvhttp__trace_context_t *trace, char *out) {
    writer_t writer = {.out = out};
    bool has_host = has_field(request, UVHTTP__STR("host"));
    put(&writer, uvhttp__str_from(request->method ? request->method : "GET"));
    put(&writer, UVHTTP__STR(" "));
    if (url->target.size == 0 || url->target.data[0] == '?') put(&writer, UVHTTP__STR("/"));
    put(&writer, url->target);
    put(&writer, UVHTTP__STR(" HTTP/1.1\r\n"));
    if (!has_host) put_field(&writer, UVHTTP__STR("Host"), url->authority);
    for (size_t i = 0; i < request->header_count; i++)
        put_field(&writer, uvhttp__str_from(request->headers[i].name), uvhttp__str_from(request->headers[i].value));
    if (trace) put_trace(&writer, request, trace);
    if (wants_length(request)) {
        char digits[UVHTTP__DECIMAL_MAX];
        put_field(&writer, UVHTTP__STR("Content-Length"),
                  (uvhttp_str_t){digits, uvhttp__write_decimal(digits, request->body_size)});
    }
    put(&writer, UVHTTP__STR("Connection: close\r\n\r\n"));
    return writer.size;
}
