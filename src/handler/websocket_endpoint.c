/* Owns: options of a WebSocket route: defaults, ranges, copies. May include: route message exec websocket conn base
 * obs.
 */
#include <inttypes.h>
#include <string.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "base/chars.h"
#include "base/never.h"
#include "base/str.h"
#include "handler/websocket.h"

#define TIME_MAX 1000000

typedef struct range {
    const char *name;
    uint64_t value, min, max;
    const char *unit; /* where UVHTTP_NEVER is allowed, too; NULL: it is not */
} range_t;

static bool in_range(const range_t *range) {
    return range->value == 0 || (range->value >= range->min && range->value <= range->max) ||
           (range->unit && range->value == UVHTTP_NEVER);
}

static int check_ranges(const uvhttp_ws_options_t *options, bool in_pieces, const char *pattern) {
    const range_t ranges[] = {
        {"message_size_max", options->message_size_max, 1, in_pieces ? INT64_MAX : UINT32_MAX, NULL},
        {"message_timeout", options->message_timeout, 1, TIME_MAX, "seconds"},
        {"ping_interval", options->ping_interval, 1, TIME_MAX, "seconds"},
        {"idle_timeout", options->idle_timeout, 1, TIME_MAX, "seconds"},
        {"close_timeout", options->close_timeout, 1, TIME_MAX, "seconds"},
        {"min_send_rate", options->min_send_rate, 1, 1 << 30, "bytes per second"},
        {"rate_grace", options->rate_grace, 1, TIME_MAX, "seconds"},
        {"compression_level", options->compression_level, 1, 9, NULL},
        {"compression_memory_level", options->compression_memory_level, 1, 9, NULL},
        {"server_window_bits", options->server_window_bits, UVHTTP__WS_BITS_MIN, UVHTTP__WS_BITS_MAX, NULL},
        {"client_window_bits", options->client_window_bits, UVHTTP__WS_BITS_MIN, UVHTTP__WS_BITS_MAX, NULL},
        {"topic_size_max", options->topic_size_max, 1, UINT16_MAX, NULL}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (in_range(&ranges[i])) continue;
        UVHTTP_LOG_ERROR("websocket: %s: %s is %" PRIu64 ", allowed are %" PRIu64 "..%" PRIu64 "%s%s%s, or 0 for the "
                         "default",
                         pattern, ranges[i].name, ranges[i].value, ranges[i].min, ranges[i].max,
                         ranges[i].unit ? " " : "", ranges[i].unit ? ranges[i].unit : "",
                         ranges[i].unit ? ", UVHTTP_NEVER" : "");
        return UVHTTP_E_CONFIG;
    }
    return UVHTTP_OK;
}

static bool is_origin(const char *text) {
    uvhttp_str_t origin = uvhttp__str_from(text);
    if (strcmp(text, "*") == 0) return true;
    const char *scheme_end = strstr(text, "://");
    return scheme_end && scheme_end > text && scheme_end[3] && !memchr(origin.data, ' ', origin.size) &&
           !strchr(scheme_end + 3, '/');
}

static bool is_token(const char *text) {
    static const char separators[] = "()<>@,;:\\\"/[]?={} \t";
    if (!*text) return false;
    for (; *text; text++)
        if (*text <= ' ' || *text > '~' || strchr(separators, *text)) return false;
    return true;
}

static int check_list(const char *const *list, bool (*valid)(const char *), const char *name, const char *expected,
                      const char *pattern) {
    for (; list && *list; list++) {
        if (valid(*list)) continue;
        UVHTTP_LOG_ERROR("websocket: %s: %s has \"%s\": expected %s", pattern, name, *list, expected);
        return UVHTTP_E_CONFIG;
    }
    return UVHTTP_OK;
}

static int check(const uvhttp_ws_handlers_t *handlers, const uvhttp_ws_options_t *options, const char *pattern) {
    if (!handlers || !handlers->on_message == !handlers->on_fragment) {
        UVHTTP_LOG_ERROR("websocket: %s: set one of handlers.on_message and handlers.on_fragment", pattern);
        return UVHTTP_E_INVALID;
    }
    int status = check_ranges(options, handlers->on_fragment != NULL, pattern);
    if (status == UVHTTP_OK)
        status = check_list(options->subprotocols, is_token, "subprotocols", "a token such as \"chat.v1\"", pattern);
    if (status == UVHTTP_OK)
        status = check_list(options->origins, is_origin, "origins", "\"https://example.com\" or \"*\"", pattern);
    return status;
}

static uint32_t or_default(uint32_t value, uint32_t otherwise) {
    return value ? value : otherwise;
}

static void fill_in(uvhttp_ws_options_t *options, bool in_pieces) {
    if (!options->message_size_max) options->message_size_max = in_pieces ? 1 << 30 : 1 << 20;
    options->fragments_max = or_default(options->fragments_max, 131072);
    options->message_timeout = or_default(options->message_timeout, 300);
    options->ping_interval = or_default(options->ping_interval, 30);
    options->idle_timeout = or_default(options->idle_timeout, 75);
    options->close_timeout = or_default(options->close_timeout, 5);
    options->send_high_watermark = or_default(options->send_high_watermark, 65536);
    options->send_queue_max = or_default(options->send_queue_max, 4 << 20);
    options->min_send_rate = or_default(options->min_send_rate, 240);
    options->rate_grace = or_default(options->rate_grace, 5);
    options->compression_level = or_default(options->compression_level, 4);
    options->compression_memory_level = or_default(options->compression_memory_level, 8);
    options->compression_size_min = or_default(options->compression_size_min, 256);
    options->server_window_bits = or_default(options->server_window_bits, UVHTTP__WS_BITS_MAX);
    options->client_window_bits = or_default(options->client_window_bits, UVHTTP__WS_BITS_MAX);
    options->topics_max = or_default(options->topics_max, 64);
    options->topic_size_max = or_default(options->topic_size_max, 128);
    options->subscriptions_max = or_default(options->subscriptions_max, 1000000);
}

static uvhttp__rate_limits_t limits_of(const uvhttp_ws_options_t *options) {
    bool none = options->rate_grace == UVHTTP_NEVER;
    return (uvhttp__rate_limits_t){.rate = none ? 0 : uvhttp__or_none(options->min_send_rate),
                                   .grace = uvhttp__or_none(options->rate_grace),
                                   .timeout = uvhttp__or_none(options->idle_timeout)};
}

/* Bytes of a copy: the pointers with the NULL at the end, then the strings. */
static size_t list_size(const char *const *list) {
    size_t size = 0;
    for (; list && *list; list++) size += sizeof *list + strlen(*list) + 1;
    return size + sizeof *list;
}

static const char *const *copy_list(const char *const *list, char *memory) {
    if (!list) return NULL;
    size_t count = 0;
    while (list[count]) count++;
    const char **copy = (const char **)(void *)memory;
    char *text = memory + (count + 1) * sizeof *copy;
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(list[i]) + 1;
        memcpy(text, list[i], size);
        copy[i] = text;
        text += size;
    }
    copy[count] = NULL;
    return copy;
}

int uvhttp__ws_endpoint_new(const uvhttp_ws_handlers_t *handlers, void *user, const char *pattern,
                            uvhttp__ws_endpoint_t **endpoint) {
    uvhttp_ws_options_t options = {0};
    if (handlers && handlers->options) options = *handlers->options;
    int status = check(handlers, &options, pattern ? pattern : "(no pattern)");
    if (status != UVHTTP_OK) return status;
    fill_in(&options, handlers->on_fragment != NULL);
    if (options.compression && !uvhttp__ws_deflate_available) {
        UVHTTP_LOG_WARN("websocket: %s: messages are not compressed: this library was built without it "
                        "(BUILD_WITH_COMPRESSION=OFF)",
                        pattern ? pattern : "(no pattern)");
        options.compression = false;
    }
    size_t alignment = sizeof(char *);
    size_t first = (list_size(options.subprotocols) + alignment - 1) / alignment * alignment;
    uvhttp__ws_endpoint_t *made = uvhttp__malloc(sizeof *made + first + list_size(options.origins));
    if (!made) return UVHTTP_E_NOMEM;
    *made =
        (uvhttp__ws_endpoint_t){.handlers = *handlers, .options = options, .output = limits_of(&options), .user = user};
    made->options.subprotocols = copy_list(options.subprotocols, made->text);
    made->options.origins = copy_list(options.origins, made->text + first);
    made->handlers.options = &made->options;
    *endpoint = made;
    return UVHTTP_OK;
}

void uvhttp__ws_endpoint_free(uvhttp__ws_endpoint_t *endpoint) {
    uvhttp__free(endpoint);
}
