/* Owns: telling the service manager (sd_notify(3)): one datagram to the socket that NOTIFY_SOCKET names. May include:
 * everything. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/process.h"

/* "/path", or "@name" for an abstract one. */
static socklen_t address_of(const char *name, struct sockaddr_un *address) {
    size_t size = strlen(name);
    memset(address, 0, sizeof *address);
    if ((name[0] != '/' && name[0] != '@') || size < 2 || size >= sizeof address->sun_path) return 0;
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, name, size);
    if (name[0] == '@') address->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
}

/* It does not block: a loop may call it, and a manager that does not read has worse problems. */
int uvhttp_service_notify(const char *state) {
    struct sockaddr_un address;
    const char *name = getenv("NOTIFY_SOCKET");
    if (!state) return UVHTTP_E_INVALID;
    if (!name || !*name) return 0;
    socklen_t size = address_of(name, &address);
    if (size == 0) return UVHTTP_E_ADDRESS;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return UVHTTP_E_IO;
    ssize_t sent = sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address, size);
    close(fd);
    return sent >= 0 ? 1 : UVHTTP_E_IO;
}
