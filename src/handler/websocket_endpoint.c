/* Owns: options of a WebSocket route: defaults, ranges, copies. May include: route message exec websocket conn base
 * obs.
 */
#include <inttypes.h>
#include <string.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "base/chars.h"
#include "base/str.h"
#include "handler/websocket.h"

#define TIME_MAX 1000000

typedef struct range {
    const char *name;
    uint64_t value, max;
    bool is_time;
} range_t;

static bool in_range(const range_t *range) {
    return range->value <= range->max || (range->is_time && range->value == UVHTTP_WS_NEVER);
}

static int check_ranges(const uvhttp_ws_options_t *options, const char *pattern) {
    const range_t ranges[] = {{"message_size_max", options->message_size_max, UINT32_MAX, false},
                              {"message_timeout", options->message_timeout, TIME_MAX, true},
                              {"ping_interval", options->ping_interval, TIME_MAX, true},
                              {"idle_timeout", options->idle_timeout, TIME_MAX, true},
                              {"close_timeout", options->close_timeout, TIME_MAX, true}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (in_range(&ranges[i])) continue;
        UVHTTP_LOG_ERROR("websocket: %s: %s is %" PRIu64 ", allowed are 1..%" PRIu64 "%s, or 0 for the default",
                         pattern, ranges[i].name, ranges[i].value, ranges[i].max,
                         ranges[i].is_time ? " seconds, UVHTTP_WS_NEVER" : "");
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
    if (!handlers || !handlers->on_message) {
        UVHTTP_LOG_ERROR("websocket: %s: handlers.on_message is missing", pattern);
        return UVHTTP_E_INVALID;
    }
    int status = check_ranges(options, pattern);
    if (status == UVHTTP_OK)
        status = check_list(options->subprotocols, is_token, "subprotocols", "a token such as \"chat.v1\"", pattern);
    if (status == UVHTTP_OK)
        status = check_list(options->origins, is_origin, "origins", "\"https://example.com\" or \"*\"", pattern);
    return status;
}

static uint32_t or_default(uint32_t value, uint32_t otherwise) {
    return value ? value : otherwise;
}

static void fill_in(uvhttp_ws_options_t *options) {
    if (!options->message_size_max) options->message_size_max = 1 << 20;
    options->fragments_max = or_default(options->fragments_max, 131072);
    options->message_timeout = or_default(options->message_timeout, 300);
    options->ping_interval = or_default(options->ping_interval, 30);
    options->idle_timeout = or_default(options->idle_timeout, 75);
    options->close_timeout = or_default(options->close_timeout, 5);
    options->send_high_watermark = or_default(options->send_high_watermark, 65536);
    options->send_queue_max = or_default(options->send_queue_max, 4 << 20);
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
    fill_in(&options);
    size_t alignment = sizeof(char *);
    size_t first = (list_size(options.subprotocols) + alignment - 1) / alignment * alignment;
    uvhttp__ws_endpoint_t *made = uvhttp__malloc(sizeof *made + first + list_size(options.origins));
    if (!made) return UVHTTP_E_NOMEM;
    *made = (uvhttp__ws_endpoint_t){.handlers = *handlers, .options = options, .user = user};
    made->options.subprotocols = copy_list(options.subprotocols, made->text);
    made->options.origins = copy_list(options.origins, made->text + first);
    made->handlers.options = &made->options;
    *endpoint = made;
    return UVHTTP_OK;
}

void uvhttp__ws_endpoint_free(uvhttp__ws_endpoint_t *endpoint) {
    uvhttp__free(endpoint);
}
