/* Owns: spans as the collector wants them: OTLP 1.x in its JSON mapping (ids in hex, 64-bit numbers as strings), with
 * the names of OpenTelemetry's stable semantic conventions for HTTP. May include: message, base, obs. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <uvhttp/str.h>

#include "base/str.h"
#include "base/writer.h"
#include "build_info.h"
#include "trace/span.h"

enum { KIND_SERVER = 2, FLAG_HAS_IS_REMOTE = 0x100, FLAG_IS_REMOTE = 0x200 };

static void put_id(uvhttp__writer_t *out, const char *name, const uint8_t *id, size_t size) {
    char text[2 * UVHTTP__TRACE_ID_SIZE + 1] = "";
    uvhttp__trace_hex(id, size, text);
    uvhttp__write_member(out, name, text);
}

/* --- attributes --- */

static void open_attribute(uvhttp__writer_t *out, uvhttp_str_t name) {
    uvhttp__write_comma(out);
    uvhttp__write_text(out, "{\"key\":");
    uvhttp__write_json_string(out, name);
    uvhttp__write_text(out, ",\"value\":{");
}

static void put_text(uvhttp__writer_t *out, const char *name, uvhttp_str_t text) {
    open_attribute(out, uvhttp_str(name));
    uvhttp__write_text(out, "\"stringValue\":");
    uvhttp__write_json_string(out, text);
    uvhttp__write_text(out, "}}");
}

static void put_known_text(uvhttp__writer_t *out, const char *name, uvhttp_str_t text) {
    if (text.size > 0) put_text(out, name, text);
}

static void put_int_value(uvhttp__writer_t *out, int64_t value) {
    uvhttp__write_format(out, "\"intValue\":\"%" PRId64 "\"}}", value);
}

static void put_int(uvhttp__writer_t *out, const char *name, int64_t value) {
    open_attribute(out, uvhttp_str(name));
    put_int_value(out, value);
}

/* The names of what JSON has no number for are those of the Protobuf mapping. */
static void put_double_value(uvhttp__writer_t *out, double value) {
    if (isfinite(value)) {
        uvhttp__write_format(out, "\"doubleValue\":%.17g}}", value);
    } else {
        const char *infinity = value > 0 ? "Infinity" : "-Infinity";
        uvhttp__write_format(out, "\"doubleValue\":\"%s\"}}", isnan(value) ? "NaN" : infinity);
    }
}

/* --- a span --- */

/* "example.com:8080", "[::1]:80", "::1" as it stands in a PROXY header or a wrong Host. */
static void put_server(uvhttp__writer_t *out, uvhttp_str_t server, bool https) {
    if (server.size == 0) return;
    const char *colon = memrchr(server.data, ':', server.size), *bracket = memrchr(server.data, ']', server.size);
    bool has_port = colon && (!bracket || colon > bracket) && memchr(server.data, ':', server.size) == colon;
    if (bracket && colon && colon > bracket) has_port = true;
    uvhttp_str_t host = {server.data, has_port ? (size_t)(colon - server.data) : server.size};
    int64_t port;
    if (!has_port || uvhttp_str_to_int64((uvhttp_str_t){colon + 1, server.size - host.size - 1}, &port) != UVHTTP_OK)
        port = https ? 443 : 80; /* "host:" has none, too */
    if (host.size > 2 && host.data[0] == '[') host = (uvhttp_str_t){host.data + 1, host.size - 2};
    put_text(out, "server.address", host);
    put_int(out, "server.port", port);
}

static void put_client(uvhttp__writer_t *out, const uvhttp__peer_t *client) {
    char text[UVHTTP__IP_TEXT_MAX];
    if (client->kind != UVHTTP__PEER_IPV4 && client->kind != UVHTTP__PEER_IPV6) return;
    put_text(out, "client.address", (uvhttp_str_t){text, uvhttp__peer_text(client, text)});
}

/* "500", or the name of a code: what has cut off the response is more than its status. */
static void put_error_type(uvhttp__writer_t *out, const uvhttp__span_record_t *record) {
    char text[64] = "";
    if (record->error != UVHTTP_OK) {
        snprintf(text, sizeof text, "%s", uvhttp_error_name(record->error) + sizeof "UVHTTP_E_" - 1);
        uvhttp__text_lower(text);
    } else if (record->status >= 500) {
        snprintf(text, sizeof text, "%u", record->status);
    }
    put_known_text(out, "error.type", uvhttp_str(text));
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

static void put_own_attributes(uvhttp__writer_t *out, const uvhttp__span_view_t *view) {
    const uvhttp__span_record_t *record = view->record;
    const uvhttp_str_t *fields = view->fields;
    bool known = *uvhttp_method_name((uvhttp_method_t)record->method);
    put_text(out, "http.request.method", uvhttp_str(method_text(record)));
    if (!known) put_known_text(out, "http.request.method_original", fields[UVHTTP__SPAN_METHOD]);
    put_known_text(out, "http.route", fields[UVHTTP__SPAN_ROUTE]);
    put_known_text(out, "url.path", fields[UVHTTP__SPAN_PATH]);
    put_text(out, "url.scheme", uvhttp_str(record->https ? "https" : "http"));
    if (record->status > 0) put_int(out, "http.response.status_code", record->status);
    put_server(out, fields[UVHTTP__SPAN_SERVER], record->https);
    put_client(out, &record->client);
    put_text(out, "network.protocol.version", uvhttp_str(version_text(record->version)));
    put_known_text(out, "user_agent.original", fields[UVHTTP__SPAN_AGENT]);
    put_error_type(out, record);
}

static void put_value(uvhttp__writer_t *out, const uvhttp__addition_t *addition, uvhttp_str_t text) {
    switch ((uvhttp__addition_kind_t)addition->kind) {
        case UVHTTP__ADDITION_TEXT:
            uvhttp__write_text(out, "\"stringValue\":");
            uvhttp__write_json_string(out, text);
            uvhttp__write_text(out, "}}");
            break;
        case UVHTTP__ADDITION_INT: put_int_value(out, addition->number); break;
        case UVHTTP__ADDITION_DOUBLE: put_double_value(out, addition->real); break;
        case UVHTTP__ADDITION_BOOL:
            uvhttp__write_text(out, addition->number ? "\"boolValue\":true}}" : "\"boolValue\":false}}");
            break;
        case UVHTTP__ADDITION_EVENT: break;
    }
}

static void put_event(uvhttp__otlp_t *otlp, const uvhttp__addition_t *event, uvhttp_str_t name) {
    uvhttp__write_comma(&otlp->out);
    uvhttp__write_format(
        &otlp->out, "{\"timeUnixNano\":\"%" PRIu64 "\",\"name\":", event->time_ns + (uint64_t)otlp->real_offset_ns);
    uvhttp__write_json_string(&otlp->out, name);
    uvhttp__write_text(&otlp->out, "}");
}

/* Those of the application that are attributes, or those that are events. */
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
        open_attribute(&otlp->out, name);
        put_value(&otlp->out, &addition, text);
    }
}

static void put_times_and_name(uvhttp__otlp_t *otlp, const uvhttp__span_view_t *view) {
    const uvhttp__span_record_t *record = view->record;
    char name[UVHTTP__SPAN_FIELD_COUNT + 1200];
    const char *method = method_text(record);
    uvhttp_str_t route = view->fields[UVHTTP__SPAN_ROUTE];
    int size = snprintf(name, sizeof name, "%s%s%.*s", strcmp(method, "_OTHER") == 0 ? "HTTP" : method,
                        route.size > 0 ? " " : "", (int)route.size, route.data);
    uvhttp__write_text(&otlp->out, ",\"name\":");
    uvhttp__write_json_string(&otlp->out, (uvhttp_str_t){name, (size_t)size});
    uvhttp__write_format(&otlp->out,
                         ",\"kind\":%d,\"startTimeUnixNano\":\"%" PRIu64 "\",\"endTimeUnixNano\":\"%" PRIu64 "\"",
                         KIND_SERVER, record->start_ns + (uint64_t)otlp->real_offset_ns,
                         record->end_ns + (uint64_t)otlp->real_offset_ns);
}

static void put_context(uvhttp__writer_t *out, const uvhttp__span_view_t *view) {
    const uvhttp__span_record_t *record = view->record;
    uvhttp__write_comma(out);
    uvhttp__write_text(out, "{");
    put_id(out, "traceId", record->trace_id, sizeof record->trace_id);
    put_id(out, "spanId", record->span_id, sizeof record->span_id);
    if (record->has_parent) put_id(out, "parentSpanId", record->parent_id, sizeof record->parent_id);
    if (view->fields[UVHTTP__SPAN_STATE].size > 0) {
        uvhttp__write_key(out, "traceState");
        uvhttp__write_json_string(out, view->fields[UVHTTP__SPAN_STATE]);
    }
    int remote = record->has_parent ? FLAG_HAS_IS_REMOTE | FLAG_IS_REMOTE : FLAG_HAS_IS_REMOTE;
    uvhttp__write_format(out, ",\"flags\":%d", record->flags | remote);
}

void uvhttp__otlp_span(uvhttp__otlp_t *otlp, const uvhttp__span_record_t *record) {
    uvhttp__span_view_t view;
    uvhttp__span_view(record, &view);
    uvhttp__writer_t *out = &otlp->out;
    put_context(out, &view);
    put_times_and_name(otlp, &view);
    uvhttp__write_text(out, ",\"attributes\":[");
    put_own_attributes(out, &view);
    put_additions(otlp, &view, false);
    uvhttp__write_text(out, "],\"events\":[");
    put_additions(otlp, &view, true);
    uvhttp__write_format(out, "],\"droppedAttributesCount\":%" PRIu32 ",\"droppedEventsCount\":%" PRIu32,
                         record->attributes_dropped, record->events_dropped);
    uvhttp__write_format(out, ",\"status\":{%.*s}}", is_error(record) ? 8 : 0, "\"code\":2");
    otlp->spans++;
}

/* --- the request --- */

void uvhttp__otlp_begin(uvhttp__otlp_t *otlp, const char *service_name, int64_t real_offset_ns) {
    uvhttp__writer_t *out = &otlp->out;
    uvhttp__writer_clear(out);
    otlp->spans = 0;
    otlp->real_offset_ns = real_offset_ns;
    uvhttp__write_text(out, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
    put_text(out, "service.name", uvhttp_str(service_name));
    put_text(out, "telemetry.sdk.name", uvhttp_str("uvhttp"));
    put_text(out, "telemetry.sdk.language", uvhttp_str("c"));
    put_text(out, "telemetry.sdk.version", uvhttp_str(UVHTTP_BUILD_VERSION));
    uvhttp__write_text(out, "]},\"scopeSpans\":[{\"scope\":{\"name\":\"uvhttp\"},\"spans\":[");
}

void uvhttp__otlp_end(uvhttp__otlp_t *otlp) {
    uvhttp__write_text(&otlp->out, "]}]}]}");
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
