/* Owns: spans as the collector wants them: OTLP 1.x in its JSON mapping (ids in hex, 64-bit numbers as strings), with
 * the names of OpenTelemetry's stable semantic conventions for HTTP. May include: message, base, obs. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <uvhttp/str.h>

#include "base/alloc.h"
#include "build_info.h"
#include "trace/span.h"

enum { KIND_SERVER = 2, FLAG_HAS_IS_REMOTE = 0x100, FLAG_IS_REMOTE = 0x200 };

/* --- a text that grows --- */

static bool grow(uvhttp__otlp_t *otlp, size_t more) {
    if (otlp->failed) return false;
    if (otlp->size + more <= otlp->capacity) return true;
    size_t capacity = 2 * otlp->capacity + more + 4096;
    char *text = uvhttp__realloc(otlp->text, capacity);
    otlp->failed = !text;
    if (!text) return false;
    otlp->text = text;
    otlp->capacity = capacity;
    return true;
}

static void put(uvhttp__otlp_t *otlp, const char *text) {
    size_t size = strlen(text);
    if (!grow(otlp, size)) return;
    memcpy(otlp->text + otlp->size, text, size);
    otlp->size += size;
}

static void put_format(uvhttp__otlp_t *otlp, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* For numbers and names of ours. */
static void put_format(uvhttp__otlp_t *otlp, const char *format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    put(otlp, text);
}

static void put_string(uvhttp__otlp_t *otlp, uvhttp_str_t text) {
    size_t capacity = 6 * text.size + 3, written; /* every byte may take six, between quotes, with a NUL */
    if (!grow(otlp, capacity)) return;
    if (uvhttp_json_string(otlp->text + otlp->size, capacity, text, &written) == UVHTTP_OK) otlp->size += written;
}

static void put_id(uvhttp__otlp_t *otlp, const char *name, const uint8_t *id, size_t size) {
    char text[2 * UVHTTP__TRACE_ID_SIZE + 1] = "";
    uvhttp__trace_hex(id, size, text);
    put_format(otlp, "\"%s\":\"%s\"", name, text);
}

/* --- attributes: the first is preceded by what opens the list, the others by a comma --- */

static void open_attribute(uvhttp__otlp_t *otlp, uvhttp_str_t name) {
    put(otlp, ",{\"key\":");
    put_string(otlp, name);
    put(otlp, ",\"value\":{");
}

static void put_text(uvhttp__otlp_t *otlp, const char *name, uvhttp_str_t text) {
    open_attribute(otlp, uvhttp_str(name));
    put(otlp, "\"stringValue\":");
    put_string(otlp, text);
    put(otlp, "}}");
}

static void put_known_text(uvhttp__otlp_t *otlp, const char *name, uvhttp_str_t text) {
    if (text.size > 0) put_text(otlp, name, text);
}

static void put_int_value(uvhttp__otlp_t *otlp, int64_t value) {
    put_format(otlp, "\"intValue\":\"%" PRId64 "\"}}", value);
}

static void put_int(uvhttp__otlp_t *otlp, const char *name, int64_t value) {
    open_attribute(otlp, uvhttp_str(name));
    put_int_value(otlp, value);
}

/* The names of what JSON has no number for are those of the Protobuf mapping. */
static void put_double_value(uvhttp__otlp_t *otlp, double value) {
    if (isfinite(value)) {
        char text[64];
        (void)snprintf(text, sizeof text, "%.17g", value);
        for (char *at = text; *at; at++)
            if (*at == ',') *at = '.'; /* the decimal point of a locale */
        put_format(otlp, "\"doubleValue\":%s}}", text);
    } else {
        const char *infinity = value > 0 ? "Infinity" : "-Infinity";
        put_format(otlp, "\"doubleValue\":\"%s\"}}", isnan(value) ? "NaN" : infinity);
    }
}

/* --- a span --- */

/* "example.com:8080", "[::1]:80", "::1" as it stands in a PROXY header or a wrong Host. */
static void put_server(uvhttp__otlp_t *otlp, uvhttp_str_t server, bool https) {
    if (server.size == 0) return;
    const char *colon = memrchr(server.data, ':', server.size), *bracket = memrchr(server.data, ']', server.size);
    bool has_port = colon && (!bracket || colon > bracket) && memchr(server.data, ':', server.size) == colon;
    if (bracket && colon && colon > bracket) has_port = true;
    uvhttp_str_t host = {server.data, has_port ? (size_t)(colon - server.data) : server.size};
    int64_t port;
    if (!has_port || uvhttp_str_to_int64((uvhttp_str_t){colon + 1, server.size - host.size - 1}, &port) != UVHTTP_OK)
        port = https ? 443 : 80; /* "host:" has none, too */
    if (host.size > 2 && host.data[0] == '[') host = (uvhttp_str_t){host.data + 1, host.size - 2};
    put_text(otlp, "server.address", host);
    put_int(otlp, "server.port", port);
}

static void put_client(uvhttp__otlp_t *otlp, const uvhttp__peer_t *client) {
    char text[UVHTTP__IP_TEXT_MAX];
    if (client->kind != UVHTTP__PEER_IPV4 && client->kind != UVHTTP__PEER_IPV6) return;
    put_text(otlp, "client.address", (uvhttp_str_t){text, uvhttp__peer_text(client, text)});
}

/* "500", or the name of a code: what has cut off the response is more than its status. */
static void put_error_type(uvhttp__otlp_t *otlp, const uvhttp__span_record_t *record) {
    char text[64] = "";
    if (record->error != UVHTTP_OK) {
        snprintf(text, sizeof text, "%s", uvhttp_error_name(record->error) + sizeof "UVHTTP_E_" - 1);
        for (char *at = text; *at; at++) *at = (char)tolower((unsigned char)*at);
    } else if (record->status >= 500) {
        snprintf(text, sizeof text, "%u", record->status);
    }
    put_known_text(otlp, "error.type", uvhttp_str(text));
}

static bool is_error(const uvhttp__span_record_t *record) {
    return record->error != UVHTTP_OK || record->status >= 500;
}

static const char *version_text(uint8_t version) {
    switch ((uvhttp_http_version_t)version) {
        case UVHTTP_HTTP_1_0: return "1.0";
        case UVHTTP_HTTP_2: return "2";
        default: return "1.1";
    }
}

static const char *method_text(const uvhttp__span_record_t *record) {
    const char *name = uvhttp_method_name((uvhttp_method_t)record->method);
    return *name ? name : "_OTHER";
}

static void put_own_attributes(uvhttp__otlp_t *otlp, const uvhttp__span_view_t *view) {
    const uvhttp__span_record_t *record = view->record;
    const uvhttp_str_t *fields = view->fields;
    bool known = *uvhttp_method_name((uvhttp_method_t)record->method);
    put_text(otlp, "http.request.method", uvhttp_str(method_text(record)));
    if (!known) put_known_text(otlp, "http.request.method_original", fields[UVHTTP__SPAN_METHOD]);
    put_known_text(otlp, "http.route", fields[UVHTTP__SPAN_ROUTE]);
    put_known_text(otlp, "url.path", fields[UVHTTP__SPAN_PATH]);
    put_text(otlp, "url.scheme", uvhttp_str(record->https ? "https" : "http"));
    if (record->status > 0) put_int(otlp, "http.response.status_code", record->status);
    put_server(otlp, fields[UVHTTP__SPAN_SERVER], record->https);
    put_client(otlp, &record->client);
    put_text(otlp, "network.protocol.version", uvhttp_str(version_text(record->version)));
    put_known_text(otlp, "user_agent.original", fields[UVHTTP__SPAN_AGENT]);
    put_error_type(otlp, record);
}

static void put_value(uvhttp__otlp_t *otlp, const uvhttp__addition_t *addition, uvhttp_str_t text) {
    switch ((uvhttp__addition_kind_t)addition->kind) {
        case UVHTTP__ADDITION_TEXT:
            put(otlp, "\"stringValue\":");
            put_string(otlp, text);
            put(otlp, "}}");
            break;
        case UVHTTP__ADDITION_INT: put_int_value(otlp, addition->number); break;
        case UVHTTP__ADDITION_DOUBLE: put_double_value(otlp, addition->real); break;
        case UVHTTP__ADDITION_BOOL:
            put(otlp, addition->number ? "\"boolValue\":true}}" : "\"boolValue\":false}}");
            break;
        case UVHTTP__ADDITION_EVENT: break;
    }
}

static void put_event(uvhttp__otlp_t *otlp, const uvhttp__addition_t *event, uvhttp_str_t name) {
    put_format(otlp, ",{\"timeUnixNano\":\"%" PRIu64 "\",\"name\":", event->time_ns + (uint64_t)otlp->real_offset_ns);
    put_string(otlp, name);
    put(otlp, "}");
}

/* Those of the application that are attributes, or those that are events. Each begins with a comma. */
static void put_additions(uvhttp__otlp_t *otlp, const uvhttp__span_view_t *view, bool events) {
    const char *at = view->additions;
    for (uint32_t i = 0; i < view->record->additions; i++) {
        uvhttp__addition_t addition;
        uvhttp_str_t name, text;
        uvhttp__addition_read(&at, &addition, &name, &text);
        if ((addition.kind == UVHTTP__ADDITION_EVENT) != events) continue;
        if (events) {
            put_event(otlp, &addition, name);
            continue;
        }
        open_attribute(otlp, name);
        put_value(otlp, &addition, text);
    }
}

/* Makes a list of what follows, each with a comma before it: the first comma becomes the bracket. */
static size_t open_list(uvhttp__otlp_t *otlp, const char *name) {
    put_format(otlp, ",\"%s\":", name);
    return otlp->size;
}

static void close_list(uvhttp__otlp_t *otlp, size_t start) {
    if (otlp->failed) return;
    if (otlp->size == start)
        put(otlp, "[");
    else
        otlp->text[start] = '[';
    put(otlp, "]");
}

static void put_times_and_name(uvhttp__otlp_t *otlp, const uvhttp__span_view_t *view) {
    const uvhttp__span_record_t *record = view->record;
    char name[UVHTTP__SPAN_FIELD_COUNT + 1200];
    const char *method = method_text(record);
    uvhttp_str_t route = view->fields[UVHTTP__SPAN_ROUTE];
    int size = snprintf(name, sizeof name, "%s%s%.*s", strcmp(method, "_OTHER") == 0 ? "HTTP" : method,
                        route.size > 0 ? " " : "", (int)route.size, route.data);
    put(otlp, ",\"name\":");
    put_string(otlp, (uvhttp_str_t){name, (size_t)size});
    put_format(otlp, ",\"kind\":%d,\"startTimeUnixNano\":\"%" PRIu64 "\",\"endTimeUnixNano\":\"%" PRIu64 "\"",
               KIND_SERVER, record->start_ns + (uint64_t)otlp->real_offset_ns,
               record->end_ns + (uint64_t)otlp->real_offset_ns);
}

static void put_context(uvhttp__otlp_t *otlp, const uvhttp__span_view_t *view) {
    const uvhttp__span_record_t *record = view->record;
    put(otlp, otlp->spans > 0 ? ",{" : "{");
    put_id(otlp, "traceId", record->trace_id, sizeof record->trace_id);
    put(otlp, ",");
    put_id(otlp, "spanId", record->span_id, sizeof record->span_id);
    if (record->has_parent) {
        put(otlp, ",");
        put_id(otlp, "parentSpanId", record->parent_id, sizeof record->parent_id);
    }
    if (view->fields[UVHTTP__SPAN_STATE].size > 0) {
        put(otlp, ",\"traceState\":");
        put_string(otlp, view->fields[UVHTTP__SPAN_STATE]);
    }
    int remote = record->has_parent ? FLAG_HAS_IS_REMOTE | FLAG_IS_REMOTE : FLAG_HAS_IS_REMOTE;
    put_format(otlp, ",\"flags\":%d", record->flags | remote);
}

void uvhttp__otlp_span(uvhttp__otlp_t *otlp, const uvhttp__span_record_t *record) {
    uvhttp__span_view_t view;
    uvhttp__span_view(record, &view);
    put_context(otlp, &view);
    put_times_and_name(otlp, &view);
    size_t start = open_list(otlp, "attributes");
    put_own_attributes(otlp, &view);
    put_additions(otlp, &view, false);
    close_list(otlp, start);
    start = open_list(otlp, "events");
    put_additions(otlp, &view, true);
    close_list(otlp, start);
    put_format(otlp, ",\"droppedAttributesCount\":%" PRIu32 ",\"droppedEventsCount\":%" PRIu32,
               record->attributes_dropped, record->events_dropped);
    put_format(otlp, ",\"status\":{%.*s}}", is_error(record) ? 8 : 0, "\"code\":2");
    otlp->spans++;
}

/* --- the request --- */

void uvhttp__otlp_begin(uvhttp__otlp_t *otlp, const char *service_name, int64_t real_offset_ns) {
    otlp->size = 0;
    otlp->spans = 0;
    otlp->failed = false;
    otlp->real_offset_ns = real_offset_ns;
    put(otlp, "{\"resourceSpans\":[{\"resource\":{\"attributes\":");
    size_t start = otlp->size;
    put_text(otlp, "service.name", uvhttp_str(service_name));
    put_text(otlp, "telemetry.sdk.name", uvhttp_str("uvhttp"));
    put_text(otlp, "telemetry.sdk.language", uvhttp_str("c"));
    put_text(otlp, "telemetry.sdk.version", uvhttp_str(UVHTTP_BUILD_VERSION));
    close_list(otlp, start);
    put(otlp, "},\"scopeSpans\":[{\"scope\":{\"name\":\"uvhttp\"},\"spans\":[");
}

void uvhttp__otlp_end(uvhttp__otlp_t *otlp) {
    put(otlp, "]}]}]}");
}

/* {"partialSuccess":{"rejectedSpans":"3","errorMessage":"..."}}: the number may be without quotes. A message that
 * contains the name is of no harm: the first place counts, and what is no number is 0. */
uint64_t uvhttp__otlp_rejected(uvhttp_str_t response) {
    static const char name[] = "\"rejectedSpans\"";
    const char *at = response.size > 0 ? memmem(response.data, response.size, name, sizeof name - 1) : NULL;
    if (!at) return 0;
    const char *end = response.data + response.size;
    uint64_t number = 0;
    for (at += sizeof name - 1; at < end && memchr(" \t\r\n:\"", *at, 6); at++) {
    }
    for (; at < end && *at >= '0' && *at <= '9' && number < UINT32_MAX; at++)
        number = 10 * number + (uint64_t)(*at - '0');
    return number;
}
