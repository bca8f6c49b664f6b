/* Owns: the configuration: defaults, ranges, and setting fields by name. One table serves all three. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/server_internal.h"

typedef enum kind { U32, U64, BOOL, ENGINE, LEVEL } kind_t;

typedef struct field {
    const char *name;
    kind_t kind;
    size_t offset;
    uint64_t initial, min, max;
    bool power_of_two;
} field_t;

#define AT(member) offsetof(uvhttp_server_config_t, member)
#define NUMBER(member, initial, min, max)                                                                              \
    { #member, U32, AT(member), (initial), (min), (max), false }
#define SECONDS(member, initial) NUMBER(member, initial, 0, 86400 * 7)
#define SWITCH(member, initial)                                                                                        \
    { #member, BOOL, AT(member), (initial), 0, 1, false }

static const field_t fields[] = {
    NUMBER(io_threads, 0, 0, 1024),
    {"engine", ENGINE, AT(engine), UVHTTP_ENGINE_AUTO, 0, UVHTTP_ENGINE_LIBUV, false},
    NUMBER(max_connections, 10000, 1, 10000000),
    NUMBER(backlog, 4096, 1, 65535),
    NUMBER(read_buffer_size, 16384, 1024, 1 << 20),
    {"read_buffer_count", U32, AT(read_buffer_count), 64, 8, 32768, true},
    NUMBER(write_buffer_size, 16384, 1024, 64 << 20),
    {"write_queue_max", U64, AT(write_queue_max), 1 << 20, 4096, UINT32_MAX, false},
    SECONDS(connection_timeout, 30),
    SECONDS(body_timeout, 300),
    SECONDS(keepalive_timeout, 60),
    SECONDS(write_timeout, 300),
    NUMBER(min_receive_rate, 240, 0, 1 << 30),
    NUMBER(min_send_rate, 240, 0, 1 << 30),
    SECONDS(rate_grace, 5),
    SECONDS(drain_timeout, 30),
    NUMBER(request_line_max, 8192, 64, 1 << 20),
    NUMBER(headers_size_max, 32768, 64, 1 << 20),
    NUMBER(header_count_max, 100, 1, 1000),
    {"body_size_max", U64, AT(body_size_max), 1 << 20, 0, SIZE_MAX / 4, false},
    NUMBER(chunk_extension_max, 4096, 0, 1 << 20),
    NUMBER(trailer_size_max, 8192, 0, 1 << 20),
    {"request_memory_max", U64, AT(request_memory_max), 16 << 20, 4096, SIZE_MAX / 4, false},
    NUMBER(keepalive_requests, 0, 0, UINT32_MAX),
    NUMBER(turn_requests_max, 128, 1, UINT32_MAX),
    SWITCH(half_close, false),
    SWITCH(install_signal_handlers, true),
    SWITCH(quiet, false),
    {"performance_mode", BOOL, AT(performance.performance_mode), false, 0, 1, false},
    {"log_level", LEVEL, AT(performance.log_level), 0, 0, UVHTTP_LOG_LEVEL_NONE, false},
    {"enable_statistics", BOOL, AT(performance.enable_statistics), true, 0, 1, false},
    NUMBER(worker_threads, 512, 1, 16384),
    NUMBER(worker_threads_min, 0, 0, 16384),
    NUMBER(max_backlog, 10000, 1, 10000000),
    SECONDS(worker_idle_timeout, 30),
    NUMBER(worker_warn_ms, 10000, 0, 86400000),
    NUMBER(handler_warn_ms, 100, 0, 86400000),
    NUMBER(coroutine_stack_size, 64 << 10, 16 << 10, 64 << 20),
    NUMBER(coroutines_max, 30000, 1, 10000000),
};
#define FIELD_COUNT (sizeof fields / sizeof *fields)

static size_t size_of(const field_t *field) {
    switch (field->kind) {
        case U32: return sizeof(uint32_t);
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
        case U32: *(uint32_t *)(void *)at = (uint32_t)value; break;
        case U64: *(uint64_t *)(void *)at = value; break;
        case BOOL: *(bool *)(void *)at = value != 0; break;
        case ENGINE: *(uvhttp_engine_t *)(void *)at = (uvhttp_engine_t)value; break;
        case LEVEL: *(uvhttp_log_level_t *)(void *)at = (uvhttp_log_level_t)value; break;
    }
}

static uint64_t load(const uvhttp_server_config_t *config, const field_t *field) {
    const char *at = (const char *)config + field->offset;
    switch (field->kind) {
        case U32: return *(const uint32_t *)(const void *)at;
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

static const char *expected(const field_t *field, char *text, size_t size) {
    if (field->kind == BOOL) return "true or false";
    if (field->kind == ENGINE) return "auto, uring or libuv";
    if (field->kind == LEVEL) return "debug, info, warn, error or none";
    snprintf(text, size, "%" PRIu64 "..%" PRIu64 "%s", field->min, field->max,
             field->power_of_two ? ", a power of two" : "");
    return text;
}

static int refuse(const field_t *field, const char *value, char *message, size_t size) {
    char range[80];
    if (message && size > 0)
        snprintf(message, size, "%s is \"%s\": expected %s", field->name, value, expected(field, range, sizeof range));
    return UVHTTP_E_CONFIG;
}

static bool in_range(const field_t *field, uint64_t value) {
    return value >= field->min && value <= field->max && (!field->power_of_two || (value & (value - 1)) == 0);
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
    if (*text < '0' || *text > '9') return false; /* strtoull would take signs and spaces */
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0';
}

int uvhttp_server_config_set(uvhttp_server_config_t *config, const char *name, const char *value, char *message,
                             size_t size) {
    if (!config || !name || !value) return UVHTTP_E_INVALID;
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        if (strcmp(fields[i].name, name) != 0 || !has(config, &fields[i])) continue;
        uint64_t number;
        if (!parse(&fields[i], value, &number) || !in_range(&fields[i], number))
            return refuse(&fields[i], value, message, size);
        store(config, &fields[i], number);
        return UVHTTP_OK;
    }
    if (message && size > 0) snprintf(message, size, "%s: there is no such configuration field", name);
    return UVHTTP_E_CONFIG;
}

int uvhttp_server_config_check(const uvhttp_server_config_t *config, char *message, size_t size) {
    if (!config) return UVHTTP_E_INVALID;
    if (config->struct_size < sizeof config->struct_size || config->struct_size > sizeof *config) {
        if (message && size > 0)
            snprintf(message, size,
                     "struct_size is %" PRIu32
                     ", this library knows up to %zu: call uvhttp_server_config_default first",
                     config->struct_size, sizeof *config);
        return UVHTTP_E_CONFIG;
    }
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        if (!has(config, &fields[i])) continue;
        uint64_t value = load(config, &fields[i]);
        if (in_range(&fields[i], value)) continue;
        char text[24];
        snprintf(text, sizeof text, "%" PRIu64, value);
        return refuse(&fields[i], text, message, size);
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
