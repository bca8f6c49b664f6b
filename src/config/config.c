/* Owns: the configuration: defaults and ranges of its fields. One table serves all its sources. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uvhttp/proxy.h>
#include <uvhttp/str.h>

#include "base/format.h"
#include "base/str.h"
#include "config/config.h"
#include "io/io.h"
#include "message/message.h"
#include "obs/log_settings.h"

/* POWER is a U32 that is a power of two. WORD is an enumeration: `min` is the number of the first of its words. */
/* ... A RATIO is a double of 0..1; its number is in millionths. */
typedef enum kind { U32, POWER, U64, BOOL, ENGINE, LEVEL, WORD, TEXT, PROXY_FIELDS, RATIO } kind_t;

typedef struct field {
    const char *name;
    kind_t kind;
    size_t offset;
    uint64_t initial, min, max;
    const char *unit; /* of a number, for messages; NULL: it is a count. Of a TEXT and a WORD: what is expected */
    const char *const *words; /* of a WORD */
    const char *initial_text; /* of a TEXT; NULL: none */
    const char *never;        /* of a U32: the word for UVHTTP_NEVER; NULL: it always has a value of the range */
    const char *zero;         /* of a number: what 0 is, an amount or the default; NULL: it is out of range */
    bool live;                /* a server that runs takes it, too (uvhttp_server_reload) */
    bool secret;              /* its value is not shown */
} field_t;

#define MILLION 1000000u

static const char *const clients_words[] = {"any", "verify", "require"};
static const char *const version_words[] = {"1.2", "1.3"};
static const char *const format_words[] = {"text", "json"};

#define AT(member) offsetof(uvhttp_server_config_t, member)

/* 0 never means "off" or "unlimited". A number is one of three kinds: it starts at a minimum above 0 (the compiler
 * refuses another one), it starts at 0 and the table says what 0 is, or it has a word for UVHTTP_NEVER. */
#define ABOVE_0(min) ((min) + 0 * sizeof(char[(min) > 0 ? 1 : -1]))
#define NUMBER_OF(of, member, initial, min, max)                                                                       \
    { #member, U32, AT(member), (initial), ABOVE_0(min), (max), .unit = (of) }
#define NUMBER(member, initial, min, max) NUMBER_OF(NULL, member, initial, min, max)
#define BYTES(member, initial, min, max) NUMBER_OF("bytes", member, initial, min, max)
#define BYTES64(member, initial, min, max)                                                                             \
    { #member, U64, AT(member), (initial), ABOVE_0(min), (max), .unit = "bytes" }
#define FROM_0(of, member, initial, max, what)                                                                         \
    { #member, U32, AT(member), (initial), 0, (max), .unit = (of), .zero = "" what }
#define BYTES64_FROM_0(member, initial, max, what)                                                                     \
    { #member, U64, AT(member), (initial), 0, (max), .unit = "bytes", .zero = "" what }
#define OR_NEVER(of, member, initial, max, word)                                                                       \
    { #member, U32, AT(member), (initial), 1, (max), .unit = (of), .never = (word) }
#define SECONDS_MAX (86400 * 7)
#define MS_MAX 86400000
#define SECONDS_OR_NEVER(member, initial) OR_NEVER("seconds", member, initial, SECONDS_MAX, "never")
#define MS_OR_NEVER(member, initial) OR_NEVER("milliseconds", member, initial, MS_MAX, "never")
#define RATE_OR_NEVER(member, initial) OR_NEVER("bytes per second", member, initial, 1 << 30, "never")
#define OR_UNLIMITED(member, initial, max) OR_NEVER(NULL, member, initial, max, "unlimited")
#define SWITCH(member, initial)                                                                                        \
    { #member, BOOL, AT(member), (initial), 0, 1, .unit = NULL }
#define LIVE_NUMBER(of, member, initial, min, max)                                                                     \
    { #member, U32, AT(member), (initial), (min), (max), .unit = (of), .live = true }
#define LIVE_SWITCH(member, initial)                                                                                   \
    { #member, BOOL, AT(member), (initial), 0, 1, .live = true }
#define TEXTUAL .unit = "text of at most 1023 bytes"
#define LIVE_TEXT(member, initial)                                                                                     \
    { #member, TEXT, AT(member), 0, 0, 0, TEXTUAL, .initial_text = (initial), .live = true }
#define STARTUP_TEXT(member)                                                                                           \
    { #member, TEXT, AT(member), 0, 0, 0, TEXTUAL }
#define LIVE_WORD(member, initial, min, max, of, list)                                                                 \
    { #member, WORD, AT(member), (initial), (min), (max), .unit = (of), .words = (list), .live = true }

static const field_t fields[] = {
    FROM_0(NULL, io_threads, 0, 1024, "one per CPU"),
    {"engine", ENGINE, AT(engine), UVHTTP_ENGINE_AUTO, 0, UVHTTP_ENGINE_EPOLL, .unit = NULL},
    NUMBER(max_connections, 10000, 1, 10000000),
    NUMBER(backlog, 4096, 1, 65535),
    BYTES(read_buffer_size, 16384, 1024, 1 << 20),
    {"read_buffer_count", POWER, AT(read_buffer_count), 64, 8, 32768, .unit = NULL},
    BYTES(write_buffer_size, 16384, 1024, 64 << 20),
    BYTES64(write_queue_max, 1 << 20, 4096, UINT32_MAX),
    SECONDS_OR_NEVER(connection_timeout, 30),
    SECONDS_OR_NEVER(body_timeout, 300),
    SECONDS_OR_NEVER(keepalive_timeout, 60),
    SECONDS_OR_NEVER(write_timeout, 300),
    RATE_OR_NEVER(min_receive_rate, 240),
    RATE_OR_NEVER(min_send_rate, 240),
    FROM_0("seconds", rate_grace, 5, SECONDS_MAX, "none"),
    FROM_0("seconds", drain_timeout, 30, SECONDS_MAX, "at once"),
    BYTES(request_line_max, 8192, 64, 1 << 20),
    BYTES(headers_size_max, 32768, 64, 1 << 20),
    NUMBER(header_count_max, 100, 1, 1000),
    BYTES64_FROM_0(body_size_max, 1 << 20, SIZE_MAX / 4, "no bodies"),
    FROM_0("bytes", chunk_extension_max, 4096, 1 << 20, "none"),
    FROM_0("bytes", trailer_size_max, 8192, 1 << 20, "none"),
    BYTES64(request_memory_max, 16 << 20, 4096, SIZE_MAX / 4),
    OR_UNLIMITED(keepalive_requests_max, UVHTTP_NEVER, UVHTTP_NEVER - 1),
    NUMBER(iteration_requests_max, 128, 1, UINT32_MAX),
    SWITCH(half_close, false),
    SWITCH(install_signal_handlers, true),
    SWITCH(quiet, false),
    {"performance_mode", BOOL, AT(performance.performance_mode), false, 0, 1, .live = true},
    {"log_level", LEVEL, AT(performance.log_level), 0, 0, UVHTTP_LOG_LEVEL_NONE, .live = true},
    {"enable_statistics", BOOL, AT(performance.enable_statistics), true, 0, 1, .unit = NULL},
    NUMBER(worker_threads, 512, 1, 16384),
    FROM_0(NULL, worker_threads_min, 0, 16384, "none"),
    NUMBER(max_backlog, 10000, 1, 10000000),
    SECONDS_OR_NEVER(worker_idle_timeout, 30),
    MS_OR_NEVER(worker_warn_ms, 10000),
    MS_OR_NEVER(handler_warn_ms, 100),
    BYTES(coroutine_stack_size, 64 << 10, 16 << 10, 64 << 20),
    NUMBER(coroutines_max, 30000, 1, 10000000),
    FROM_0("milliseconds", drain_idle_ms, 1000, MS_MAX, "at once"),
    LIVE_TEXT(tls_certificate, NULL),
    LIVE_TEXT(tls_key, NULL),
    LIVE_TEXT(tls_ocsp, NULL),
    LIVE_TEXT(tls_client_ca, NULL),
    LIVE_TEXT(tls_client_crl, NULL),
    LIVE_WORD(tls_clients, UVHTTP_TLS_CLIENTS_ANY, UVHTTP_TLS_CLIENTS_ANY, UVHTTP_TLS_CLIENTS_REQUIRE,
              "any, verify or require", clients_words),
    LIVE_WORD(tls_min_version, UVHTTP_TLS_1_2, UVHTTP_TLS_1_2, UVHTTP_TLS_1_3, "1.2 or 1.3", version_words),
    LIVE_WORD(tls_max_version, UVHTTP_TLS_1_3, UVHTTP_TLS_1_2, UVHTTP_TLS_1_3, "1.2 or 1.3", version_words),
    LIVE_TEXT(tls_alpn, NULL),
    LIVE_NUMBER("seconds", tls_handshake_timeout, 10, 1, 3600),
    LIVE_SWITCH(tls_tickets, true),
    LIVE_NUMBER("seconds", tls_ticket_period, 43200, 1, 604800),
    LIVE_SWITCH(tls_kernel, false),
    MS_OR_NEVER(worker_queue_timeout_ms, 10000),
    FROM_0(NULL, worker_live_max, 0, 16384, "half of worker_threads"),
    BYTES(spool_memory, 65536, 4096, 64 << 20),
    BYTES64_FROM_0(spool_size_max, UINT64_C(16) << 30, INT64_MAX, "no files"),
    {"proxy_fields", PROXY_FIELDS, AT(proxy_fields), UVHTTP_PROXY_FOR, 1, UVHTTP__PROXY_FIELDS_ALL, .unit = NULL},
    OR_UNLIMITED(connections_per_address_max, UVHTTP_NEVER, 10000000),
    FROM_0(NULL, descriptors_reserved, 512, 1000000, "none"),
    SWITCH(raise_descriptor_limit, true),
    STARTUP_TEXT(spool_directory),
    {"tcp_congestion_control", TEXT, AT(tcp_congestion_control), 0, 0, 0, .unit = "system, or a name such as reno"},
    SWITCH(http2, true),
    NUMBER(http2_concurrent_streams_max, 100, 1, 32768),
    BYTES(http2_header_list_size_max, 32768, 1024, 1 << 20),
    FROM_0("bytes", http2_table_size_max, 4096, 4096, "no table"),
    BYTES(http2_stream_window, 262144, 16384, 262144),
    BYTES(http2_connection_window, 1 << 20, 65535, 1 << 20),
    BYTES64(http2_connection_memory_max, 1 << 20, 65536, UINT32_MAX),
    NUMBER(http2_resets_max, 200, 1, 1000000),
    SWITCH(metrics, false),
    NUMBER(metrics_series_max, 1000, 1, 65535),
    {"admin", TEXT, AT(admin), 0, 0, 0, .unit = "host:port, or unix:/path"},
    {"admin_token", TEXT, AT(admin_token), 0, 0, 0, .unit = "text of at most 1023 bytes", .secret = true},
    LIVE_WORD(log_format, UVHTTP_LOG_FORMAT_TEXT, UVHTTP_LOG_FORMAT_TEXT, UVHTTP_LOG_FORMAT_JSON, "text or json",
              format_words),
    FROM_0("milliseconds", drain_grace_ms, 0, MS_MAX, "none"),
    STARTUP_TEXT(pid_file),
    STARTUP_TEXT(user),
    STARTUP_TEXT(group),
    {"umask", TEXT, AT(umask), 0, 0, 0, .unit = "octal digits, 000..777"},
    FROM_0(NULL, descriptor_limit, 0, 1 << 30, "as it was started"),
    NUMBER_OF("seconds", upgrade_timeout, 60, 1, 86400),
    SWITCH(trace, false),
    {"trace_ratio", RATIO, AT(trace_ratio), MILLION, 0, MILLION, .unit = NULL},
    {"trace_endpoint", TEXT, AT(trace_endpoint), 0, 0, 0, .unit = "http://name[:port][/path]",
     .initial_text = "http://localhost:4318"},
    {"trace_service", TEXT, AT(trace_service), 0, 0, 0, TEXTUAL, .initial_text = "unknown_service:uvhttp"},
    NUMBER_OF("milliseconds", trace_delay_ms, 5000, 1, 600000),
    {"trace_queue_size", POWER, AT(trace_queue_size), 1 << 20, 65536, 1 << 30, .unit = "bytes"},
    SWITCH(server_timing, false),
};
#define FIELD_COUNT (sizeof fields / sizeof *fields)
static_assert(FIELD_COUNT <= UVHTTP__CONFIG_FIELDS_MAX, "capacity for every field");

/* Structures inside the structure: a file has a mapping of that name for each. Names are unique all the same. */
static const struct group {
    const char *name;
    size_t offset, size;
} groups[] = {
    {"performance", AT(performance), sizeof(uvhttp_performance_config_t)},
};
static_assert(sizeof groups / sizeof *groups == UVHTTP__CONFIG_GROUPS, "as many as config.h says");

static size_t size_of(const field_t *field) {
    switch (field->kind) {
        case U32:
        case POWER:
        case PROXY_FIELDS: return sizeof(uint32_t);
        case U64: return sizeof(uint64_t);
        case BOOL: return sizeof(bool);
        case ENGINE: return sizeof(uvhttp_engine_t);
        case LEVEL: return sizeof(uvhttp_log_level_t);
        case WORD: return sizeof(unsigned);
        case TEXT: return UVHTTP_CONFIG_TEXT_SIZE;
        case RATIO: return sizeof(double);
    }
    return 0;
}
static_assert(sizeof(uvhttp_tls_clients_t) == sizeof(unsigned) && sizeof(uvhttp_tls_version_t) == sizeof(unsigned),
              "a WORD is as large as an enumeration");

/* A program that was compiled with an older header has a shorter structure: what lies beyond is not its memory. */
static bool has(const uvhttp_server_config_t *config, const field_t *field) {
    return field->offset + size_of(field) <= config->struct_size;
}

static void store(uvhttp_server_config_t *config, const field_t *field, uint64_t value) {
    char *at = (char *)config + field->offset;
    switch (field->kind) {
        case U32:
        case POWER:
        case PROXY_FIELDS: *(uint32_t *)(void *)at = (uint32_t)value; break;
        case U64: *(uint64_t *)(void *)at = value; break;
        case BOOL: *(bool *)(void *)at = value != 0; break;
        case ENGINE: *(uvhttp_engine_t *)(void *)at = (uvhttp_engine_t)value; break;
        case LEVEL: *(uvhttp_log_level_t *)(void *)at = (uvhttp_log_level_t)value; break;
        case WORD: {
            unsigned number = (unsigned)value;
            memcpy(at, &number, sizeof number);
            break;
        }
        case RATIO: *(double *)(void *)at = (double)value / MILLION; break;
        case TEXT: break;
    }
}

static const char *text_of(const uvhttp_server_config_t *config, const field_t *field) {
    return (const char *)config + field->offset;
}

/* The whole field is written: configurations that are equal have equal bytes. */
static void store_text(uvhttp_server_config_t *config, const field_t *field, const char *text) {
    char *at = (char *)config + field->offset;
    memset(at, 0, UVHTTP_CONFIG_TEXT_SIZE);
    memcpy(at, text, strlen(text));
}

static uint64_t load(const uvhttp_server_config_t *config, const field_t *field) {
    const char *at = (const char *)config + field->offset;
    switch (field->kind) {
        case U32:
        case POWER:
        case PROXY_FIELDS: return *(const uint32_t *)(const void *)at;
        case U64: return *(const uint64_t *)(const void *)at;
        case BOOL: return *(const unsigned char *)at;
        case ENGINE: return (uint64_t) * (const uvhttp_engine_t *)(const void *)at;
        case LEVEL: return (uint64_t) * (const uvhttp_log_level_t *)(const void *)at;
        case WORD: {
            unsigned number;
            memcpy(&number, at, sizeof number);
            return number;
        }
        case RATIO: {
            double ratio = *(const double *)(const void *)at;
            return ratio >= 0 && ratio <= 1 ? (uint64_t)(ratio * MILLION + 0.5) : UINT64_MAX; /* NaN is no ratio */
        }
        case TEXT: return 0;
    }
    return 0;
}

void uvhttp_server_config_init(uvhttp_server_config_t *config, size_t struct_size) {
    uvhttp_server_config_t defaults;
    memset(&defaults, 0, sizeof defaults);
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        store(&defaults, &fields[i], fields[i].initial);
        if (fields[i].initial_text) store_text(&defaults, &fields[i], fields[i].initial_text);
    }
    defaults.performance.log_level = uvhttp__log_level_default();
    defaults.log_format = uvhttp__log_format_default();
    defaults.struct_size = (uint32_t)struct_size;
    memcpy(config, &defaults, struct_size < sizeof defaults ? struct_size : sizeof defaults);
}

static bool in_range(const field_t *field, uint64_t value) {
    if (field->never && value == UVHTTP_NEVER) return true;
    return value >= field->min && value <= field->max && (field->kind != POWER || (value & (value - 1)) == 0);
}

static const char *expected(const field_t *field, char *text, size_t size) {
    if (field->kind == BOOL) return "true or false";
    if (field->kind == WORD || field->kind == TEXT) return field->unit;
    if (field->kind == ENGINE) return "auto, uring or epoll";
    if (field->kind == RATIO) return "0..1, such as 0.05";
    if (field->kind == LEVEL) return "debug, info, warn, error or none";
    if (field->kind == PROXY_FIELDS) return "one or more of for, proto and host, with commas between";
    snprintf(text, size, "%" PRIu64 "..%" PRIu64 "%s%s%s%s%s", field->min, field->max,
             field->kind == POWER ? ", a power of two" : "", field->unit ? " " : "", field->unit ? field->unit : "",
             field->never ? " or " : "", field->never ? field->never : "");
    return text;
}

#define SECRET "***" /* in place of one that is set */

static int refuse(const field_t *field, const char *name, const char *value, char *message, size_t size) {
    char range[UVHTTP__CONFIG_EXPECTED_SIZE], shown[UVHTTP__CONFIG_SHOWN_SIZE];
    bool meant_never = field->never && strcmp(value, "0") == 0; /* up to 0.1 */
    if (message && size > 0)
        snprintf(message, size, "%s is \"%s\": expected %s%s%s%s", name,
                 field->secret ? SECRET : uvhttp__config_shown(value, shown), expected(field, range, sizeof range),
                 meant_never ? "; what 0 meant before 0.2 is " : "", meant_never ? field->never : "",
                 meant_never ? " now (UVHTTP_NEVER in a program)" : "");
    return UVHTTP_E_CONFIG;
}

static bool parse_bool(const char *text, uint64_t *value) {
    static const char *const words[] = {"false", "true", "0", "1", "off", "on", "no", "yes"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!uvhttp__text_equal_nocase(text, words[i])) continue;
        *value = i % 2;
        return true;
    }
    return false;
}

static const char *const proxy_words[] = {"for", "proto", "host"}; /* bit by bit */

static bool parse_proxy_fields(const char *text, uint64_t *value) {
    *value = 0;
    for (;; text++) {
        size_t size = strcspn(text, ","), i = 0;
        while (i < 3 && !uvhttp__str_equal_nocase((uvhttp_str_t){text, size}, uvhttp__str_from(proxy_words[i]))) i++;
        if (i == 3) return false;
        *value |= UINT64_C(1) << i;
        text += size;
        if (*text == '\0') return true;
    }
}

static void print_proxy_fields(uint64_t value, char *text, size_t size) {
    size_t used = 0;
    *text = '\0';
    for (size_t i = 0; i < 3; i++)
        if (value >> i & 1)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? "," : "", proxy_words[i]);
}

static bool parse_ratio(const char *text, uint64_t *value) {
    double ratio;
    if (*text == '-' || uvhttp_str_to_double(uvhttp_str(text), &ratio) != UVHTTP_OK || ratio > 1) return false;
    *value = (uint64_t)(ratio * MILLION + 0.5);
    return true;
}

/* As short as it can be: "0.05", "1". */
static void print_ratio(uint64_t millionths, char *text, size_t size) {
    snprintf(text, size, "%" PRIu64 ".%06" PRIu64, millionths / MILLION, millionths % MILLION);
    size_t end = strlen(text);
    while (text[end - 1] == '0') end--;
    if (text[end - 1] == '.') end--;
    text[end] = '\0';
}

static bool parse(const field_t *field, const char *text, uint64_t *value) {
    if (field->kind == BOOL) return parse_bool(text, value);
    if (field->kind == ENGINE) {
        uvhttp__engine_kind_t engine;
        if (uvhttp__engine_parse(text, &engine) != UVHTTP_OK) return false;
        *value = (uint64_t)engine;
        return true;
    }
    if (field->kind == LEVEL) {
        uvhttp_log_level_t level;
        if (uvhttp_log_level_parse(text, &level) != UVHTTP_OK) return false;
        *value = (uint64_t)level;
        return true;
    }
    if (field->kind == WORD) {
        for (*value = field->min; *value <= field->max; ++*value)
            if (uvhttp__text_equal_nocase(field->words[*value - field->min], text)) return true;
        return false;
    }
    if (field->kind == PROXY_FIELDS) return parse_proxy_fields(text, value);
    if (field->kind == RATIO) return parse_ratio(text, value);
    if (field->never && uvhttp__text_equal_nocase(text, field->never)) {
        *value = UVHTTP_NEVER;
        return true;
    }
    if (*text < '0' || *text > '9') return false;        /* strtoull would take signs and spaces */
    if (text[0] == '0' && text[1] != '\0') return false; /* octal for some readers, decimal for others */
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' && !(field->never && *value == UVHTTP_NEVER); /* there is a word for it */
}

static void print_value(const field_t *field, uint64_t value, char *text, size_t size) {
    static const char *const engines[] = {"auto", "uring", "epoll"};
    switch (field->kind) {
        case BOOL: snprintf(text, size, "%s", value ? "true" : "false"); break;
        case ENGINE: snprintf(text, size, "%s", engines[value]); break;
        case LEVEL: {
            snprintf(text, size, "%s", uvhttp_log_level_name((uvhttp_log_level_t)value));
            uvhttp__text_lower(text);
            break;
        }
        case WORD: snprintf(text, size, "%s", field->words[value - field->min]); break;
        case PROXY_FIELDS: print_proxy_fields(value, text, size); break;
        case RATIO: print_ratio(value, text, size); break;
        default:
            if (field->never && value == UVHTTP_NEVER)
                snprintf(text, size, "%s", field->never);
            else
                snprintf(text, size, "%" PRIu64, value);
    }
}

/* Names of files and protocols: any bytes but control characters. */
static bool is_text(const char *text) {
    size_t size = strnlen(text, UVHTTP_CONFIG_TEXT_SIZE);
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) return false;
    return size < UVHTTP_CONFIG_TEXT_SIZE;
}

/* --- for the other sources --- */

const char *uvhttp__config_name(const uvhttp_server_config_t *config, size_t index, const char **group) {
    if (index >= FIELD_COUNT || !has(config, &fields[index])) return NULL;
    *group = NULL;
    for (size_t i = 0; i < UVHTTP__CONFIG_GROUPS; i++) {
        if (fields[index].offset - groups[i].offset < groups[i].size) *group = groups[i].name;
    }
    return fields[index].name;
}

const char *uvhttp__config_group(size_t index) {
    return groups[index].name;
}

bool uvhttp__config_expects_words(size_t index) {
    kind_t kind = fields[index].kind;
    return kind == ENGINE || kind == LEVEL || kind == WORD || kind == TEXT || kind == PROXY_FIELDS;
}

bool uvhttp__config_expects_nothing(size_t index) {
    return fields[index].kind == TEXT;
}

const char *uvhttp__config_expected(size_t index, char *text) {
    return expected(&fields[index], text, UVHTTP__CONFIG_EXPECTED_SIZE);
}

const char *uvhttp__config_zero(size_t index) {
    return index < FIELD_COUNT ? fields[index].zero : NULL;
}

const void *uvhttp__config_bytes(const uvhttp_server_config_t *config, size_t index, size_t *size) {
    *size = size_of(&fields[index]);
    return (const char *)config + fields[index].offset;
}

const char *uvhttp__config_value(const uvhttp_server_config_t *config, size_t index, char *text) {
    const field_t *field = &fields[index];
    if (field->kind == TEXT && field->secret && *text_of(config, field)) return SECRET;
    if (field->kind == TEXT) return text_of(config, field);
    print_value(field, load(config, field), text, UVHTTP__CONFIG_VALUE_SIZE);
    return text;
}

bool uvhttp__config_is_live(size_t index) {
    return fields[index].live;
}

int uvhttp__config_assign(uvhttp_server_config_t *config, size_t index, const char *name, const char *value,
                          char *message, size_t size) {
    uint64_t number;
    if (fields[index].kind == TEXT) {
        if (!is_text(value)) return refuse(&fields[index], name, value, message, size);
        store_text(config, &fields[index], value);
        return UVHTTP_OK;
    }
    if (!parse(&fields[index], value, &number) || !in_range(&fields[index], number))
        return refuse(&fields[index], name, value, message, size);
    store(config, &fields[index], number);
    return UVHTTP_OK;
}

static bool is_same(const uvhttp_server_config_t *a, const uvhttp_server_config_t *b, const field_t *field) {
    return memcmp((const char *)a + field->offset, (const char *)b + field->offset, size_of(field)) == 0;
}

const char *uvhttp__config_frozen(const uvhttp_server_config_t *config, const uvhttp_server_config_t *changed,
                                  size_t index) {
    if (index >= FIELD_COUNT) return NULL;
    const field_t *field = &fields[index];
    return field->live || !has(changed, field) || is_same(config, changed, field) ? NULL : field->name;
}

static void show(const uvhttp_server_config_t *config, const field_t *field, char shown[UVHTTP__CONFIG_SHOWN_SIZE]) {
    if (field->kind == TEXT)
        (void)uvhttp__config_shown(text_of(config, field), shown);
    else
        print_value(field, load(config, field), shown, UVHTTP__CONFIG_SHOWN_SIZE);
}

bool uvhttp__config_applied(const uvhttp_server_config_t *config, const uvhttp_server_config_t *changed, size_t index,
                            char text[UVHTTP__CONFIG_CHANGE_SIZE]) {
    if (index >= FIELD_COUNT) return false;
    const field_t *field = &fields[index];
    if (!field->live || !has(changed, field) || is_same(config, changed, field)) return false;
    char before[UVHTTP__CONFIG_SHOWN_SIZE], after[UVHTTP__CONFIG_SHOWN_SIZE];
    show(config, field, before);
    show(changed, field, after);
    const char *quote = field->kind == TEXT ? "\"" : "";
    snprintf(text, UVHTTP__CONFIG_CHANGE_SIZE, "%s: %s%s%s -> %s%s%s", field->name, quote, before, quote, quote, after,
             quote);
    return true;
}

int uvhttp__config_check_size(const uvhttp_server_config_t *config, char *message, size_t size) {
    if (config->struct_size >= sizeof config->struct_size && config->struct_size <= sizeof *config) return UVHTTP_OK;
    if (message && size > 0)
        snprintf(message, size,
                 "struct_size is %" PRIu32 ", this library knows up to %zu: call uvhttp_server_config_default first",
                 config->struct_size, sizeof *config);
    return UVHTTP_E_CONFIG;
}

/* --- public --- */

int uvhttp_server_config_check(const uvhttp_server_config_t *config, char *message, size_t size) {
    if (!config) return UVHTTP_E_INVALID;
    int status = uvhttp__config_check_size(config, message, size);
    if (status != UVHTTP_OK) return status;
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        if (!has(config, &fields[i])) continue;
        if (fields[i].kind == TEXT) {
            if (is_text(text_of(config, &fields[i]))) continue;
            return refuse(&fields[i], fields[i].name, "...", message, size);
        }
        uint64_t value = load(config, &fields[i]);
        if (in_range(&fields[i], value)) continue;
        char text[24];
        if (fields[i].kind == RATIO)
            uvhttp__format(text, sizeof text, "%g", *(const double *)(const void *)text_of(config, &fields[i]));
        else
            snprintf(text, sizeof text, "%" PRIu64, value);
        return refuse(&fields[i], fields[i].name, text, message, size);
    }
    bool has_pool = config->struct_size >= AT(worker_threads_min) + sizeof config->worker_threads_min;
    if (has_pool && config->worker_threads_min > config->worker_threads) {
        if (message && size > 0)
            snprintf(message, size, "worker_threads_min is %" PRIu32 ": expected at most worker_threads, %" PRIu32,
                     config->worker_threads_min, config->worker_threads);
        return UVHTTP_E_CONFIG;
    }
    return UVHTTP_OK;
}

void uvhttp_server_config_fields(const uvhttp_server_config_t *config,
                                 void (*each)(const char *name, const char *group, const char *value,
                                              const char *expected, void *user),
                                 void *user) {
    const char *name, *group;
    char value[UVHTTP__CONFIG_VALUE_SIZE], range[UVHTTP__CONFIG_EXPECTED_SIZE];
    for (size_t i = 0; i < FIELD_COUNT; i++)
        if ((name = uvhttp__config_name(config, i, &group)))
            each(name, group, uvhttp__config_value(config, i, value), uvhttp__config_expected(i, range), user);
}
