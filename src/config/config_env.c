/* Owns: the configuration from the environment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"

#define PREFIX "UVHTTP_"
#define PREFIX_SIZE (sizeof PREFIX - 1)
#define TYPING_ERRORS 2 /* a variable that differs by so many letters is meant for a field */

/* Other variables that begin with UVHTTP_ are somebody else's, unless they look like a field with a typing error. */
static void check_variable(const uvhttp_server_config_t *config, const char *entry, uvhttp__problems_t *problems) {
    char variable[UVHTTP__CONFIG_VARIABLE_SIZE];
    size_t size = strcspn(entry, "=");
    if (strncmp(entry, PREFIX, PREFIX_SIZE) != 0 || size >= sizeof variable) return;
    memcpy(variable, entry, size);
    variable[size] = '\0';
    uvhttp__nearest_t nearest = uvhttp__nearest(variable + PREFIX_SIZE);
    if (nearest.distance > TYPING_ERRORS + 1) nearest.distance = TYPING_ERRORS + 1;
    const char *name, *group;
    for (size_t i = 0; i < UVHTTP__CONFIG_FIELDS_MAX; i++) {
        if ((name = uvhttp__config_name(config, i, &group))) uvhttp__nearest_offer(&nearest, name);
    }
    if (!nearest.name) return;
    char meant[UVHTTP__CONFIG_VARIABLE_SIZE];
    uvhttp__config_variable(nearest.name, meant);
    if (strcmp(variable, meant) != 0)
        uvhttp__problems_add(problems, "environment: there is no %s, did you mean %s?", variable, meant);
}

int uvhttp_server_config_env(uvhttp_server_config_t *config, char *message, size_t size) {
    if (!config) return UVHTTP_E_INVALID;
    int status = uvhttp__config_check_size(config, message, size);
    if (status != UVHTTP_OK) return status;
    uvhttp_server_config_t made = {0};
    memcpy(&made, config, config->struct_size);
    uvhttp__problems_t problems = uvhttp__problems(message, size);
    const char *name, *group;
    for (size_t i = 0; i < UVHTTP__CONFIG_FIELDS_MAX; i++) {
        char variable[UVHTTP__CONFIG_VARIABLE_SIZE], problem[256];
        if (!(name = uvhttp__config_name(config, i, &group))) continue;
        uvhttp__config_variable(name, variable);
        const char *value = getenv(variable);
        if (!value || !*value) continue;
        if (uvhttp__config_assign(&made, i, variable, value, problem, sizeof problem) == UVHTTP_OK)
            uvhttp__config_set_origin(&made, i, UVHTTP_CONFIG_FROM_ENVIRONMENT);
        else
            uvhttp__problems_add(&problems, "environment: %s", problem);
    }
    for (char **entry = environ; entry && *entry; entry++) check_variable(config, *entry, &problems);
    status = uvhttp__problems_end(&problems);
    if (status == UVHTTP_OK) memcpy(config, &made, config->struct_size);
    return status;
}
