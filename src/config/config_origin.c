/* Owns: where the values of a configuration come from, and showing it with what enforces each. May include: base. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "config/config.h"

#define ORIGIN_SIZE 320 /* a path with a line */
#define VARIABLE_PREFIX "UVHTTP_"
#define VARIABLE_PREFIX_SIZE (sizeof VARIABLE_PREFIX - 1)

const char *uvhttp__config_variable(const char *name, char *variable) {
    size_t size = 0;
    for (; name[size] && size + 1 < UVHTTP__CONFIG_VARIABLE_SIZE - VARIABLE_PREFIX_SIZE; size++)
        variable[VARIABLE_PREFIX_SIZE + size] = uvhttp__char_upper(name[size]);
    memcpy(variable, VARIABLE_PREFIX, VARIABLE_PREFIX_SIZE);
    variable[VARIABLE_PREFIX_SIZE + size] = '\0';
    return variable;
}

/* An older program's structure ends before its origins. */
static bool has_origins(const uvhttp_server_config_t *config) {
    return config->struct_size >= offsetof(uvhttp_server_config_t, origins) + sizeof config->origins;
}

/* FNV-1a, 32 bits. */
static uint32_t hash_of(const uvhttp_server_config_t *config, size_t index) {
    size_t size;
    const unsigned char *bytes = uvhttp__config_bytes(config, index, &size);
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * 16777619u;
    return hash;
}

static void set_origin(uvhttp_server_config_t *config, size_t index, uvhttp_config_source_t source, size_t line) {
    config->origins.fields[index].value = hash_of(config, index);
    config->origins.fields[index].line = (uint16_t)(line <= UINT16_MAX ? line : 0);
    config->origins.fields[index].source = (uint16_t)source;
}

void uvhttp__config_set_origin(uvhttp_server_config_t *config, size_t index, uvhttp_config_source_t source) {
    if (has_origins(config)) set_origin(config, index, source, 0);
}

void uvhttp__config_set_origin_of(uvhttp_server_config_t *config, const char *name, uvhttp_config_source_t source) {
    const char *group, *own;
    for (size_t i = 0; i < UVHTTP__CONFIG_FIELDS_MAX; i++)
        if ((own = uvhttp__config_name(config, i, &group)) && strcmp(own, name) == 0)
            uvhttp__config_set_origin(config, i, source);
}

/* Lines of a file that was loaded before would look like lines of this one. */
static void change_file(uvhttp_config_origins_t *origins, const char *path) {
    for (size_t i = 0; i < UVHTTP__CONFIG_FIELDS_MAX; i++) origins->fields[i].line = 0;
    memset(origins->file, 0, sizeof origins->file);
    memcpy(origins->file, path, strlen(path));
}

void uvhttp__config_set_origin_line(uvhttp_server_config_t *config, size_t index, const char *path, size_t line) {
    if (!has_origins(config)) return;
    size_t size = strlen(path), capacity = sizeof config->origins.file - 1;
    if (size > capacity) path += size - capacity; /* its end says more */
    if (strcmp(config->origins.file, path) != 0) change_file(&config->origins, path);
    set_origin(config, index, UVHTTP_CONFIG_FROM_FILE, line);
}

void uvhttp__config_take_live(uvhttp_server_config_t *config, const uvhttp_server_config_t *changed) {
    bool same_file = strcmp(config->origins.file, changed->origins.file) == 0;
    const char *group;
    for (size_t i = 0, size; i < UVHTTP__CONFIG_FIELDS_MAX; i++) {
        if (!uvhttp__config_name(changed, i, &group) || !uvhttp__config_is_live(i)) continue;
        char *own = (char *)(uintptr_t)uvhttp__config_bytes(config, i, &size);
        memcpy(own, uvhttp__config_bytes(changed, i, &size), size);
        config->origins.fields[i] = changed->origins.fields[i];
        if (!same_file) config->origins.fields[i].line = 0;
    }
}

static bool is_initial(const uvhttp_server_config_t *config, const uvhttp_server_config_t *initial, size_t index) {
    size_t size;
    const void *value = uvhttp__config_bytes(config, index, &size);
    return memcmp(value, uvhttp__config_bytes(initial, index, &size), size) == 0;
}

static uvhttp_config_source_t source_of(const uvhttp_server_config_t *config, const uvhttp_server_config_t *initial,
                                        size_t index) {
    if (has_origins(config) && config->origins.fields[index].source != UVHTTP_CONFIG_FROM_DEFAULT &&
        config->origins.fields[index].value == hash_of(config, index))
        return (uvhttp_config_source_t)config->origins.fields[index].source;
    return is_initial(config, initial, index) ? UVHTTP_CONFIG_FROM_DEFAULT : UVHTTP_CONFIG_FROM_CODE;
}

static const char *origin_of(const uvhttp_server_config_t *config, size_t index, const char *name,
                             uvhttp_config_source_t source, char *text) {
    switch (source) {
        case UVHTTP_CONFIG_FROM_DEFAULT: return "default";
        case UVHTTP_CONFIG_FROM_FILE:
            if (config->origins.fields[index].line == 0) return "file";
            snprintf(text, ORIGIN_SIZE, "%s:%u", config->origins.file, (unsigned)config->origins.fields[index].line);
            return text;
        case UVHTTP_CONFIG_FROM_ENVIRONMENT: return uvhttp__config_variable(name, text);
        case UVHTTP_CONFIG_FROM_OPTION: return "option";
        case UVHTTP_CONFIG_FROM_CODE: break;
    }
    return "code";
}

void uvhttp_server_config_explain(const uvhttp_server_config_t *config,
                                  void (*each)(const uvhttp_config_setting_t *setting, void *user), void *user) {
    char value[UVHTTP__CONFIG_VALUE_SIZE], initial_value[UVHTTP__CONFIG_VALUE_SIZE];
    char range[UVHTTP__CONFIG_EXPECTED_SIZE], origin[ORIGIN_SIZE];
    uvhttp_server_config_t initial;
    uvhttp_server_config_default(&initial);
    for (size_t i = 0; i < UVHTTP__CONFIG_FIELDS_MAX; i++) {
        uvhttp_config_setting_t setting = {.name = uvhttp__config_name(config, i, &setting.group)};
        if (!setting.name) continue;
        setting.value = uvhttp__config_value(config, i, value);
        setting.initial = uvhttp__config_value(&initial, i, initial_value);
        setting.expected = uvhttp__config_expected(i, range);
        setting.source = source_of(config, &initial, i);
        setting.origin = origin_of(config, i, setting.name, setting.source, origin);
        setting.enforced_by = uvhttp__config_enforced_by(setting.name);
        setting.live = uvhttp__config_is_live(i);
        each(&setting, user);
    }
}
