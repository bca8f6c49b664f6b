/* Owns: HTTP/1 as a client speaks it: requests, and the model of the responses. Every byte of a response is checked
 * against the tag of the request that it belongs to. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "client.h"
#include "forms.h"

enum { TIMER_MS = 150 }; /* a loop that is late */

/* --- requests --- */

static size_t put_text(char *out, const char *text) {
    size_t size = strlen(text);
    memcpy(out, text, size);
    return size;
}

void sim_http_fill(const request_t *request, char *out, uint32_t offset, uint32_t size) {
    if (request->form)
        memcpy(out, request->form + offset, size);
    else
        sim_fill(out, SIM_REQUEST_TAG(request->tag), offset, size);
}

void sim_http_free(request_t *request) {
    free(request->form);
    request->form = NULL;
    sim_ranges_free(request->ranges);
    request->ranges = NULL;
    free(request->edited);
    request->edited = NULL;
    sim_coding_free(request);
}

static size_t put_chunked(client_t *client, char *out, const request_t *request, uint32_t body) {
    size_t at = 0;
    for (uint32_t done = 0; done < body;) {
        uint32_t part = sim_log_uniform(&client->random, body - done);
        at += (size_t)sprintf(out + at, sim_one_in(&client->random, 8) ? "%x;x=\"y z\"\r\n" : "%x\r\n", part);
        sim_http_fill(request, out + at, done, part);
        at += part;
        at += put_text(out + at, "\r\n");
        done += part;
    }
    return at + put_text(out + at, sim_one_in(&client->random, 4) ? "0\r\nX-Trailer: t\r\n\r\n" : "0\r\n\r\n");
}

static size_t put_line(char *out, const op_t *op, uint32_t tag) {
    const char *method = op->head ? "HEAD" : op->route >= ECHO ? "POST" : "GET";
    if (op->route != FILES)
        return (size_t)sprintf(out, "%s /%s/%x/%u/%u HTTP/1.1\r\nHost: sim\r\n", method, sim_route_names[op->route],
                               tag, op->size, op->ms);
    size_t at = (size_t)sprintf(out, "%s /files/%c%u?%x HTTP/1.1\r\nHost: sim\r\n", method, op->edited ? 'e' : 'f',
                                op->file, tag);
    if (op->ranges) at += (size_t)sprintf(out + at, "Range: %s\r\n", sim_ranges_text(op));
    return at;
}

static size_t put_head(const client_t *client, char *out, const op_t *op, uint32_t tag) {
    size_t at = put_line(out, op, tag);
    const request_t *request = &client->requests[client->asked];
    char value[96];
    const char *name;
    for (uint32_t i = 0; op->edited && sim_edited_field(op, request, i, &name, value, sizeof value); i++)
        at += (size_t)sprintf(out + at, "%s: %s\r\n", name, value);
    if (client->transport.proxy) {
        uint32_t ip = client->transport.address;
        at += (size_t)sprintf(out + at, "X-From: %u.%u.%u.%u\r\n", ip >> 24, ip >> 16 & 255, ip >> 8 & 255, ip & 255);
    }
    if (op->wait_ms) at += (size_t)sprintf(out + at, "X-Wait: %u\r\n", op->wait_ms);
    if (op->expect) at += put_text(out + at, "Expect: 100-continue\r\n");
    if (op->accepts) at += (size_t)sprintf(out + at, "Accept-Encoding: %s\r\n", sim_coding_accept(op));
    if (op->close) at += put_text(out + at, "Connection: close\r\n");
    if (op->route == HINTED || op->route == WHINTED) at += put_text(out + at, "TE: trailers\r\nConnection: TE\r\n");
    if (sim_is_form(op->route)) at += (size_t)sprintf(out + at, "Content-Type: %s\r\n", sim_form_type);
    if (op->route >= ECHO && op->chunked) at += put_text(out + at, "Transfer-Encoding: chunked\r\n");
    if (op->route >= ECHO && !op->chunked) at += (size_t)sprintf(out + at, "Content-Length: %u\r\n", op->body);
    return at + put_text(out + at, "\r\n");
}

request_t sim_http_request_of(const op_t *op, uint32_t tag) {
    bool file = op->route == FILES, on_disk = op->route == SPOOL || op->route == SAVE || sim_is_form(op->route);
    bool on_thread = op->route == WORK || op->route == SPOOL || op->route == FORM || op->route == BFORM ||
                     op->route == WHINTED || op->route == WSHARED || op->route == WPART;
    bool asks = op->route == GATE || op->route == COGATE, broken = asks && SIM_ORIGIN_PORT(tag) != SIM_ORIGIN_WHOLE;
    broken |= asks && tag % 3 == 0 && (!sim_threads_are_patient || sim_crowd); /* its name is not looked up */
    broken |= (op->route == DIAL || op->route == CODIAL) && sim_dial_may_fail(tag);
    bool handle = op->route == HANDLE || op->route == WHANDLE || op->route == BHANDLE;
    int malformed = sim_is_form(op->route) ? sim_form_refusal(op->size, op->ms) : 0;
    bool timed = sim_response_timeout_ms && (op->route == DEFER || op->route == CORO || op->route == WORK),
         may_be_late = timed && (op->route == WORK || op->ms + op->wait_ms + TIMER_MS > sim_response_timeout_ms);
    bool may_wait =
        op->route == LIVE || op->route == SAVE || op->route == LFORM || (on_thread && !sim_threads_are_patient);
    request_t request = {.tag = file ? SIM_FILE_TAG(op->file) : tag,
                         .size = op->size,
                         .from = file ? op->from : 0,
                         .status = file && op->ranges ? 206 : 200, /* of the handler */
                         .head = op->head,
                         .refusal = op->route == LIMIT                             ? 429
                                    : op->route == QUOTA                           ? sim_redis_refusal(tag)
                                    : broken                                       ? 502
                                    : malformed                                    ? malformed
                                    : may_wait                                     ? 503
                                    : handle                                       ? 500
                                    : op->route == JOB && !sim_threads_are_patient ? 500
                                                                                   : 0,
                         .may_break = op->route == BROKEN,
                         .events = op->route == EVENTS,
                         .may_be_503 = may_be_late || (file && !sim_look_ups_wait) || (malformed && may_wait) ||
                                       ((op->route == WHANDLE || op->route == WJOBS) && !sim_threads_are_patient) ||
                                       (op->route == QUOTA && sim_redis_may_fail()),
                         .on_disk = on_disk,
                         .spooled = op->route == SPOOL || op->route == FORM ? op->body : 0,
                         .form = sim_is_form(op->route) ? sim_form_new(tag, op->size, op->ms) : NULL,
                         .ranges = file && !op->edited ? sim_ranges_new(op) : NULL,
                         .edited = op->edited ? sim_edited_new(op) : NULL,
                         .prompt = op->prompt,
                         .kind = (uint8_t)(op->route + 1),
                         .untagged = file};
    sim_coding_of(&request, op);
    sim_reply_of(&request, op);
    return request;
}

void sim_http_request(client_t *client, const op_t *op) {
    if (client->h2) {
        sim_h2_request(client, op);
        return;
    }
    if (client->asked == REQUESTS_MAX) return;
    uint32_t tag = (client->id << 8 | client->asked) + 0x1000;
    request_t *request = &client->requests[client->asked];
    *request = sim_http_request_of(op, tag);
    free(client->out);
    char *out = client->out = malloc(1024 + (size_t)op->body * 24);
    if (!out) abort();
    size_t at = put_head(client, out, op, tag);
    if (op->chunked) {
        at += put_chunked(client, out + at, request, op->body);
    } else if (op->route >= ECHO) {
        sim_http_fill(request, out + at, 0, op->body);
        at += op->body;
    }
    client->out_size = at;
    client->out_at = 0;
    sim_metrics_asked(&client->requests[client->asked], op->body, op->ms);
    sim_transport_encode(client);
    if (op->cut) {
        client->out_size = sim_below(&client->random, (uint32_t)client->out_size);
        client->owed = !client->wild;
        client->wild = true;
        client->lingers = op->ms > 0 && op->route >= ECHO;
        sim_http_free(request);
    } else {
        client->asked++;
    }
}

void sim_http_raw(client_t *client, const op_t *op) {
    static const char *const bad[] = {
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "POST /echo/1/1/0 HTTP/1.1\r\nHost: s\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET /mem HTTP/9.9\r\nHost: s\r\n\r\n",
        "POST /upload/1/1/0 HTTP/1.1\r\nHost: s\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "GET /mem/1/1/0 HTTP/1.1\r\nHost: s\r\nX Y: z\r\n\r\n",
    };
    if (client->h2) {
        sim_h2_raw(client, op);
        return;
    }
    client->owed = !client->wild && !client->transport.tls;
    client->wild = true;
    sim_metrics_strayed();
    free(client->out);
    client->out_size = op->raw ? strlen(bad[op->raw - 1]) : op->size;
    client->out_at = 0;
    client->out = malloc(client->out_size + 1);
    if (!client->out) abort();
    if (op->raw)
        memcpy(client->out, bad[op->raw - 1], client->out_size);
    else
        for (size_t i = 0; i < client->out_size; i++) client->out[i] = (char)sim_random(&client->random);
    if (op->raw || sim_one_in(&client->random, 2)) sim_transport_encode(client); /* else garbage for the transport */
}

/* --- responses --- */

static request_t *expected(client_t *client) {
    return client->responded < client->asked ? &client->requests[client->responded] : NULL;
}

const request_t *sim_http_pending(const client_t *client) {
    bool pending = client->responded < client->asked && client->requests[client->responded].sent_ns;
    return pending ? &client->requests[client->responded] : NULL;
}

static char *field(client_t *client, const char *name) {
    size_t size = strlen(name);
    for (char *line = strstr(client->head, "\r\n"); line && line[2] != '\r'; line = strstr(line + 2, "\r\n")) {
        if (strncasecmp(line + 2, name, size) != 0 || line[2 + size] != ':') continue;
        char *value = line + 2 + size + 1;
        while (*value == ' ') value++;
        return value;
    }
    return NULL;
}

static void response_ended(client_t *client) {
    request_t *request = expected(client);
    sim_trace("response", client->id, (uint64_t)client->status);
    if (client->tagged) sim_body_ended(client, request, client->at_body);
    if (client->tagged && !request->untagged) sim_access_log_expect(request->tag, client->status, request->received);
    sim_metrics_responded(client, request, client->status, client->tagged);
    client->responded += client->tagged || client->responded < client->asked;
    client->head_size = 0;
    client->state = HEAD;
    if (!client->ends) return;
    client->closes = true;
    client->closes_ns = sim_now_ns;
}

/* The 101: frames follow, whose model is another. */
static bool upgraded(client_t *client, const request_t *request) {
    if (client->status != 101) return false;
    if (!request || !request->upgrade) sim_fail("client %u: 101 for what was no upgrade", client->id);
    const char *accept = field(client, "Sec-WebSocket-Accept");
    if (!request->raw && (!accept || strncmp(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n", 30) != 0))
        sim_fail("client %u: 101 without the right Sec-WebSocket-Accept", client->id);
    sim_access_log_expect(request->tag, 101, SIM_NEVER);
    sim_metrics_responded(client, request, 101, true);
    char *agreed = field(client, "Sec-WebSocket-Extensions");
    if (agreed) *strstr(agreed, "\r\n") = '\0';
    if (!request->raw) sim_ws_opened(client->tunnels[0], agreed);
    client->responded++;
    client->head_size = 0;
    client->state = request->raw ? RAW : FRAMES;
    return true;
}

/* Content-Encoding as a text of its own; "": there is none. */
static const char *coding_of(client_t *client) {
    static char text[16];
    const char *value = field(client, "Content-Encoding");
    snprintf(text, sizeof text, "%.*s", value ? (int)strcspn(value, "\r") : 0, value ? value : "");
    return text;
}

static bool varies(client_t *client) {
    const char *value = field(client, "Vary");
    return value && memmem(value, strcspn(value, "\r"), "Accept-Encoding", 15);
}

static void check_tagged(client_t *client, request_t *request, const char *tag, bool sized) {
    if (!request) sim_fail("client %u: a response that nobody has asked for, tag %.8s", client->id, tag);
    if (client->status != request->status)
        sim_fail("client %u: a handler's response has status %d", client->id, client->status);
    if (!request->untagged && strtoul(tag, NULL, 16) != request->tag)
        sim_fail("client %u: the response to request %x has tag %.8s", client->id, request->tag, tag);
    const char *coding = coding_of(client);
    sim_coding_begin(client, request, client->status, coding, varies(client));
    if (sized && (*coding && !request->edited ? client->left >= request->size : client->left != request->size))
        sim_fail("client %u: %llu bytes announced, %u asked for", client->id, (unsigned long long)client->left,
                 request->size);
}

static void edited_came(client_t *client, request_t *request, const char *length) {
    sim_edited_head_t head = {
        .status = client->status, .size = length ? strtoull(length, NULL, 10) : 0, .coded = *coding_of(client) != '\0'};
    const char *etag = field(client, "ETag"), *range = field(client, "Content-Range");
    snprintf(head.etag, sizeof head.etag, "%.*s", etag ? (int)strcspn(etag, "\r") : 0, etag ? etag : "");
    snprintf(head.range, sizeof head.range, "%.*s", range ? (int)strcspn(range, "\r") : 0, range ? range : "");
    sim_edited_came(client, request, &head);
}

static void head_ended(client_t *client) {
    request_t *request = expected(client);
    if (sscanf(client->head, "HTTP/1.1 %d ", &client->status) != 1)
        sim_fail("client %u: this is no response: %.60s", client->id, client->head);
    bool interim = client->status == 100 || client->status == 103;
    if (client->status == 103) sim_reply_hint(client, request, field(client, "Link"));
    if (interim) client->head_size = 0;
    if (interim || upgraded(client, request)) return;
    const char *tag = field(client, "X-Tag"), *length = field(client, "Content-Length"),
               *coding = field(client, "Transfer-Encoding"), *connection = field(client, "Connection");
    client->ends = connection && strncasecmp(connection, "close", 5) == 0;
    if (request && request->edited) edited_came(client, request, length);
    if (request && request->untagged && client->status == request->status) tag = "";
    if (sim_failing && client->status >= 300) tag = NULL; /* the handler came no further than the field */
    client->tagged = tag != NULL;
    client->chunked = coding != NULL;
    client->left = length && client->status != 304 ? strtoull(length, NULL, 10) : 0;
    client->at_body = 0;
    if (coding && length) sim_fail("client %u: Content-Length and Transfer-Encoding", client->id);
    if (client->closes) sim_fail("client %u: a response behind the last one", client->id);
    if (tag)
        check_tagged(client, request, tag, length != NULL);
    else if (!client->wild && !sim_failing && !(request && sim_may_be_refused(request, client->status)))
        sim_fail("client %u: status %d for request %x", client->id, client->status, request ? request->tag : 0);
    if (!coding && !length && client->status != 204 && client->status != 304)
        sim_fail("client %u: a response without an end (status %d)", client->id, client->status);
    if (request && request->head) client->left = 0;
    client->state = coding && !(request && request->head) ? CHUNK_SIZE : BODY;
    client->head_size = 0;
    if (client->state == BODY && client->left == 0) response_ended(client);
}

static void take_line_byte(client_t *client, char byte) {
    if (client->head_size + 1 >= HEAD_MAX) sim_fail("client %u: a head or line without an end", client->id);
    client->head[client->head_size++] = byte;
    client->head[client->head_size] = '\0';
}

static bool ends_with(const client_t *client, const char *end) {
    size_t size = strlen(end);
    return client->head_size >= size && memcmp(client->head + client->head_size - size, end, size) == 0;
}

static void check_body(client_t *client, const char *data, size_t size) {
    if (expected(client)) expected(client)->received += size;
    client->at_body += client->tagged ? sim_body_take(client, expected(client), client->at_body, data, size) : size;
    client->left -= size;
}

static void take_byte(client_t *client, char byte) {
    take_line_byte(client, byte);
    switch (client->state) {
        case HEAD:
            if (ends_with(client, "\r\n\r\n")) head_ended(client);
            break;
        case CHUNK_SIZE:
            if (!ends_with(client, "\r\n")) break;
            client->left = strtoull(client->head, NULL, 16);
            client->head_size = 0;
            client->state = client->left ? CHUNK_DATA : TRAILER;
            break;
        case CHUNK_END:
            if (!ends_with(client, "\r\n")) break;
            if (client->head_size != 2) sim_fail("client %u: a chunk that does not end", client->id);
            client->head_size = 0;
            client->state = CHUNK_SIZE;
            break;
        case TRAILER:
            if (!ends_with(client, "\r\n")) break;
            if (client->head_size == 2)
                response_ended(client);
            else if (client->tagged && strncmp(client->head, "X-Sum: ", 7) == 0)
                sim_reply_trailer(client, expected(client), client->head + 7);
            client->head_size = 0;
            break;
        default: break;
    }
}

static size_t take_body(client_t *client, const char *data, size_t size) {
    size_t part = client->left < size ? (size_t)client->left : size;
    check_body(client, data, part);
    if (client->left > 0) return part;
    if (client->state == BODY)
        response_ended(client);
    else
        client->state = CHUNK_END;
    return part;
}

void sim_http_take(client_t *client, const char *data, size_t size) {
    if (client->h2) {
        sim_h2_take(client, data, size);
        return;
    }
    for (size_t i = 0; i < size;) {
        if (client->state == RAW) {
            sim_tcp_take(client, data + i, size - i);
            return;
        }
        if (client->state == FRAMES) {
            sim_ws_take(client->tunnels[0], data + i, size - i);
            return;
        }
        if (client->state == BODY || client->state == CHUNK_DATA)
            i += take_body(client, data + i, size - i);
        else
            take_byte(client, data[i++]);
    }
}
