/* Owns: the configuration: defaults, ranges, and setting fields by name. One table serves all three. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/config.h"
#include "server/server_internal.h"

/* POWER is a U32 that is a power of two. */
typedef enum kind { U32, POWER, U64, BOOL, ENGINE, LEVEL } kind_t;

typedef struct field {
    const char *name;
    kind_t kind;
    size_t offset;
    uint64_t initial, min, max;
    const char *unit; /* of a number, for messages; NULL: it is a count */
} field_t;

#define AT(member) offsetof(uvhttp_server_config_t, member)
#define NUMBER_OF(unit, member, initial, min, max)                                                                     \
    { #member, U32, AT(member), (initial), (min), (max), unit }
#define NUMBER(member, initial, min, max) NUMBER_OF(NULL, member, initial, min, max)
#define BYTES(member, initial, min, max) NUMBER_OF("bytes", member, initial, min, max)
#define BYTES64(member, initial, min, max)                                                                             \
    { #member, U64, AT(member), (initial), (min), (max), "bytes" }
#define RATE(member, initial) NUMBER_OF("bytes per second", member, initial, 0, 1 << 30)
#define SECONDS(member, initial) NUMBER_OF("seconds", member, initial, 0, 86400 * 7)
#define SWITCH(member, initial)                                                                                        \
    { #member, BOOL, AT(member), (initial), 0, 1, NULL }

static const field_t fields[] = {
    NUMBER(io_threads, 0, 0, 1024),
    {"engine", ENGINE, AT(engine), UVHTTP_ENGINE_AUTO, 0, UVHTTP_ENGINE_LIBUV, NULL},
    NUMBER(max_connections, 10000, 1, 10000000),
    NUMBER(backlog, 4096, 1, 65535),
    BYTES(read_buffer_size, 16384, 1024, 1 << 20),
    {"read_buffer_count", POWER, AT(read_buffer_count), 64, 8, 32768, NULL},
    BYTES(write_buffer_size, 16384, 1024, 64 << 20),
    BYTES64(write_queue_max, 1 << 20, 4096, UINT32_MAX),
    SECONDS(connection_timeout, 30),
    SECONDS(body_timeout, 300),
    SECONDS(keepalive_timeout, 60),
    SECONDS(write_timeout, 300),
    RATE(min_receive_rate, 240),
    RATE(min_send_rate, 240),
    SECONDS(rate_grace, 5),
    SECONDS(drain_timeout, 30),
    BYTES(request_line_max, 8192, 64, 1 << 20),
    BYTES(headers_size_max, 32768, 64, 1 << 20),
    NUMBER(header_count_max, 100, 1, 1000),
    BYTES64(body_size_max, 1 << 20, 0, SIZE_MAX / 4),
    BYTES(chunk_extension_max, 4096, 0, 1 << 20),
    BYTES(trailer_size_max, 8192, 0, 1 << 20),
    BYTES64(request_memory_max, 16 << 20, 4096, SIZE_MAX / 4),
    NUMBER(keepalive_requests, 0, 0, UINT32_MAX),
    NUMBER(turn_requests_max, 128, 1, UINT32_MAX),
    SWITCH(half_close, false),
    SWITCH(install_signal_handlers, true),
    SWITCH(quiet, false),
    {"performance_mode", BOOL, AT(performance.performance_mode), false, 0, 1, NULL},
    {"log_level", LEVEL, AT(performance.log_level), 0, 0, UVHTTP_LOG_LEVEL_NONE, NULL},
    {"enable_statistics", BOOL, AT(performance.enable_statistics), true, 0, 1, NULL},
    NUMBER(worker_threads, 512, 1, 16384),
    NUMBER(worker_threads_min, 0, 0, 16384),
    NUMBER(max_backlog, 10000, 1, 10000000),
    SECONDS(worker_idle_timeout, 30),
    NUMBER_OF("milliseconds", worker_warn_ms, 10000, 0, 86400000),
    NUMBER_OF("milliseconds", handler_warn_ms, 100, 0, 86400000),
    BYTES(coroutine_stack_size, 64 << 10, 16 << 10, 64 << 20),
    NUMBER(coroutines_max, 30000, 1, 10000000),
    NUMBER(max_connections_per_address, 0, 0, 10000000),
    NUMBER(descriptors_reserved, 512, 0, 1000000),
    SWITCH(raise_descriptor_limit, true),
};
#define FIELD_COUNT (sizeof fields / sizeof *fields)
static_assert(FIELD_COUNT <= UVHTTP__CONFIG_FIELDS_MAX, "room for every field");

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
        case POWER: return sizeof(uint32_t);
        case U64: return sizeof(uint64_t);
        case BOOL: return sizeof(bool);
        case ENGINE: return sizeof(uvhttp_engine_t);
        case LEVEL: return sizeof(uvhttp_log_level_t);
    }
    return 0;
}

/* A program that was compiled with an older header has a shorter structure: what lies beyond is not its memory. */
static bool has(const uvhttp_server_config_t *config, const field_t *field) {
    return field->offset + size_of(field) <= config->struct_size;
}

static void store(uvhttp_server_config_t *config, const field_t *field, uint64_t value) {
    char *at = (char *)config + field->offset;
    switch (field->kind) {
        case U32:
        case POWER: *(uint32_t *)(void *)at = (uint32_t)value; break;
        case U64: *(uint64_t *)(void *)at = value; break;
        case BOOL: *(bool *)(void *)at = value != 0; break;
        case ENGINE: *(uvhttp_engine_t *)(void *)at = (uvhttp_engine_t)value; break;
        case LEVEL: *(uvhttp_log_level_t *)(void *)at = (uvhttp_log_level_t)value; break;
    }
}

static uint64_t load(const uvhttp_server_config_t *config, const field_t *field) {
    const char *at = (const char *)config + field->offset;
    switch (field->kind) {
        case U32:
        case POWER: return *(const uint32_t *)(const void *)at;
        case U64: return *(const uint64_t *)(const void *)at;
        case BOOL: return *(const unsigned char *)at;
        case ENGINE: return (uint64_t) * (const uvhttp_engine_t *)(const void *)at;
        case LEVEL: return (uint64_t) * (const uvhttp_log_level_t *)(const void *)at;
    }
    return 0;
}

void uvhttp_server_config_init(uvhttp_server_config_t *config, size_t struct_size) {
    uvhttp_server_config_t defaults;
    memset(&defaults, 0, sizeof defaults);
    for (size_t i = 0; i < FIELD_COUNT; i++) store(&defaults, &fields[i], fields[i].initial);
    defaults.performance.log_level = uvhttp_log_get_level();
    defaults.struct_size = (uint32_t)struct_size;
    memcpy(config, &defaults, struct_size < sizeof defaults ? struct_size : sizeof defaults);
}

static bool in_range(const field_t *field, uint64_t value) {
    return value >= field->min && value <= field->max && (field->kind != POWER || (value & (value - 1)) == 0);
}

static const char *expected(const field_t *field, char *text, size_t size) {
    if (field->kind == BOOL) return "true or false";
    if (field->kind == ENGINE) return "auto, uring or libuv";
    if (field->kind == LEVEL) return "debug, info, warn, error or none";
    snprintf(text, size, "%" PRIu64 "..%" PRIu64 "%s%s%s", field->min, field->max,
             field->kind == POWER ? ", a power of two" : "", field->unit ? " " : "", field->unit ? field->unit : "");
    return text;
}

static int refuse(const field_t *field, const char *name, const char *value, char *message, size_t size) {
    char range[UVHTTP__CONFIG_EXPECTED_SIZE], shown[UVHTTP__CONFIG_SHOWN_SIZE];
    if (message && size > 0)
        snprintf(message, size, "%s is \"%s\": expected %s", name, uvhttp__config_shown(value, shown),
                 expected(field, range, sizeof range));
    return UVHTTP_E_CONFIG;
}

static bool parse_bool(const char *text, uint64_t *value) {
    static const char *const words[] = {"false", "true", "0", "1", "off", "on", "no", "yes"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcasecmp(text, words[i]) != 0) continue;
        *value = i % 2;
        return true;
    }
    return false;
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
    if (*text < '0' || *text > '9') return false;        /* strtoull would take signs and spaces */
    if (text[0] == '0' && text[1] != '\0') return false; /* octal for some readers, decimal for others */
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0';
}

static void print_value(const field_t *field, uint64_t value, char *text, size_t size) {
    static const char *const engines[] = {"auto", "uring", "libuv"};
    switch (field->kind) {
        case BOOL: snprintf(text, size, "%s", value ? "true" : "false"); break;
        case ENGINE: snprintf(text, size, "%s", engines[value]); break;
        case LEVEL: {
            snprintf(text, size, "%s", uvhttp_log_level_name((uvhttp_log_level_t)value));
            for (char *at = text; *at; at++) *at = (char)tolower((unsigned char)*at);
            break;
        }
        default: snprintf(text, size, "%" PRIu64, value); break;
    }
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

bool uvhttp__config_takes_words(size_t index) {
    return fields[index].kind == ENGINE || fields[index].kind == LEVEL;
}

const char *uvhttp__config_expected(size_t index, char *text) {
    return expected(&fields[index], text, UVHTTP__CONFIG_EXPECTED_SIZE);
}

int uvhttp__config_assign(uvhttp_server_config_t *config, size_t index, const char *name, const char *value,
                          char *message, size_t size) {
    uint64_t number;
    if (!parse(&fields[index], value, &number) || !in_range(&fields[index], number))
        return refuse(&fields[index], name, value, message, size);
    store(config, &fields[index], number);
    return UVHTTP_OK;
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

int uvhttp_server_config_set(uvhttp_server_config_t *config, const char *name, const char *value, char *message,
                             size_t size) {
    if (!config || !name || !value) return UVHTTP_E_INVALID;
    uvhttp__nearest_t nearest = uvhttp__nearest(name);
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        if (!has(config, &fields[i])) continue;
        if (strcmp(fields[i].name, name) == 0) return uvhttp__config_assign(config, i, name, value, message, size);
        uvhttp__nearest_offer(&nearest, fields[i].name);
    }
    char shown[UVHTTP__CONFIG_SHOWN_SIZE], hint[UVHTTP__NEAREST_HINT_SIZE];
    if (message && size > 0)
        snprintf(message, size, "%s: there is no such configuration field%s", uvhttp__config_shown(name, shown),
                 uvhttp__nearest_hint(&nearest, hint));
    return UVHTTP_E_CONFIG;
}

int uvhttp_server_config_check(const uvhttp_server_config_t *config, char *message, size_t size) {
    if (!config) return UVHTTP_E_INVALID;
    int status = uvhttp__config_check_size(config, message, size);
    if (status != UVHTTP_OK) return status;
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        if (!has(config, &fields[i])) continue;
        uint64_t value = load(config, &fields[i]);
        if (in_range(&fields[i], value)) continue;
        char text[24];
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
    char value[24], range[UVHTTP__CONFIG_EXPECTED_SIZE];
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        if (!(name = uvhttp__config_name(config, i, &group))) continue;
        print_value(&fields[i], load(config, &fields[i]), value, sizeof value);
        each(name, group, value, expected(&fields[i], range, sizeof range), user);
    }
}
