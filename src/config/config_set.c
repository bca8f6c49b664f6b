/* Owns: setting a field by its name, as an option of a command line does. May include: base. */
#include <stdio.h>
#include <string.h>

#include "config/config.h"

int uvhttp_server_config_set(uvhttp_server_config_t *config, const char *name, const char *value, char *message,
                             size_t size) {
    if (!config || !name || !value) return UVHTTP_E_INVALID;
    uvhttp__nearest_t nearest = uvhttp__nearest(name);
    const char *own, *group;
    for (size_t i = 0; i < UVHTTP__CONFIG_FIELDS_MAX; i++) {
        if (!(own = uvhttp__config_name(config, i, &group))) continue;
        if (strcmp(own, name) != 0) {
            uvhttp__nearest_offer(&nearest, own);
            continue;
        }
        int status = uvhttp__config_assign(config, i, name, value, message, size);
        if (status == UVHTTP_OK) uvhttp__config_set_origin(config, i, UVHTTP_CONFIG_FROM_OPTION);
        return status;
    }
    char shown[UVHTTP__CONFIG_SHOWN_SIZE], hint[UVHTTP__NEAREST_HINT_SIZE];
    if (message && size > 0)
        snprintf(message, size, "%s: there is no such configuration field%s", uvhttp__config_shown(name, shown),
                 uvhttp__nearest_hint(&nearest, hint));
    return UVHTTP_E_CONFIG;
}
