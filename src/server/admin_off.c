/* Owns: the admin listener of a build without middleware, which it needs: there is none. May include: everything. */
#include "server/admin.h"
#include "server/server.h"
#include "server/server_config.h"

int uvhttp__admin_listen(uvhttp_server_t *server, const uvhttp__admin_life_t *life) {
    (void)life;
    if (*server->service.config.admin == '\0') return UVHTTP_OK;
    return uvhttp__server_remember(server, UVHTTP_E_UNSUPPORTED,
                                   "admin: this build has no admin listener: BUILD_WITH_MIDDLEWARE is off");
}

int uvhttp__admin_start(uvhttp__admin_t *admin) {
    (void)admin;
    return UVHTTP_OK;
}

void uvhttp__admin_stop(uvhttp__admin_t *admin) {
    (void)admin;
}

void uvhttp__admin_free(uvhttp__admin_t *admin) {
    (void)admin;
}

int uvhttp__admin_each_socket(uvhttp__admin_t *admin, void (*each)(const char *text, int fd, bool more, void *arg),
                              void *arg) {
    (void)admin, (void)each, (void)arg;
    return UVHTTP_OK;
}

void uvhttp__admin_pass_on(uvhttp__admin_t *admin) {
    (void)admin;
}

const char *uvhttp__admin_address(const uvhttp__admin_t *admin) {
    (void)admin;
    return "";
}
