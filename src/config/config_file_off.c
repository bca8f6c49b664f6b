/* Owns: the error for configuration files in a build without YAML. */
#include <stdio.h>

#include "config/config.h"

int uvhttp_server_config_load_with(uvhttp_server_config_t *config, const char *path, const char *const *own,
                                   char *message, size_t size) {
    (void)own;
    if (!config || !path) return UVHTTP_E_INVALID;
    char shown[UVHTTP__CONFIG_SHOWN_SIZE];
    if (message && size > 0)
        snprintf(message, size, "%s: this build reads no configuration files: BUILD_WITH_YAML is off",
                 uvhttp__config_shown(path, shown));
    return UVHTTP_E_UNSUPPORTED;
}

int uvhttp_server_config_load(uvhttp_server_config_t *config, const char *path, char *message, size_t size) {
    return uvhttp_server_config_load_with(config, path, NULL, message, size);
}
