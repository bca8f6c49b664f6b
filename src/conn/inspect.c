/* Owns: see inspect.h. May include: io, base, obs. */
#include "conn/inspect.h"

#include <string.h>

#include "base/alloc.h"

bool uvhttp__tcp_server_post(uvhttp__tcp_server_t *tcp_server, uint32_t index, uvhttp__post_t *post) {
    pthread_mutex_lock(&tcp_server->stop_lock);
    bool reachable = tcp_server->loops[index].reachable;
    if (reachable) uvhttp__loop_post(tcp_server->loops[index].io, post);
    pthread_mutex_unlock(&tcp_server->stop_lock);
    return reachable;
}

/* --- ages --- by descriptor, because a connection has no byte left; in the clock's grain of idle connections. */

#define CAPACITY_MIN 64u

/* Out of memory: the ages stay unknown. */
static bool grow(uvhttp__tcp_loop_t *loop, uint32_t fd) {
    uint32_t capacity = loop->accepted_capacity ? loop->accepted_capacity : CAPACITY_MIN;
    while (capacity <= fd) capacity *= 2;
    uint32_t *accepted = uvhttp__realloc(loop->accepted, capacity * sizeof *accepted);
    if (!accepted) return false;
    memset(accepted + loop->accepted_capacity, 0, (capacity - loop->accepted_capacity) * sizeof *accepted);
    loop->accepted = accepted;
    loop->accepted_capacity = capacity;
    return true;
}

void uvhttp__conn_keep_age(uvhttp__conn_t *conn) {
    uvhttp__tcp_loop_t *loop = conn->loop;
    uint32_t fd = (uint32_t)conn->stream.fd;
    if (fd < loop->accepted_capacity || grow(loop, fd)) loop->accepted[fd] = uvhttp__conn_idle_clock(conn);
}

uint64_t uvhttp__conn_age_ms(const uvhttp__conn_t *conn) {
    const uvhttp__tcp_loop_t *loop = conn->loop;
    uint32_t fd = (uint32_t)conn->stream.fd;
    if (fd >= loop->accepted_capacity || loop->accepted[fd] == 0) return UVHTTP__AGE_UNKNOWN;
    return (uint64_t)(uvhttp__conn_idle_clock(conn) - loop->accepted[fd]) * UVHTTP__CONN_IDLE_GRAIN_MS;
}

/* --- connections --- */

typedef struct visit {
    size_t max, count;
    void (*each)(uvhttp__conn_t *conn, void *user);
    void *user;
} visit_t;

static void visit_list(uvhttp__list_t *list, visit_t *visit) {
    uvhttp__list_t *node, *after;
    UVHTTP__LIST_FOREACH_SAFE(node, after, list) {
        if (visit->count++ < visit->max) visit->each(UVHTTP__CONTAINER_OF(node, uvhttp__conn_t, link), visit->user);
    }
}

size_t uvhttp__tcp_loop_each(uvhttp__tcp_loop_t *loop, size_t max, void (*each)(uvhttp__conn_t *conn, void *user),
                             void *user) {
    visit_t visit = {.max = max, .each = each, .user = user};
    visit_list(&loop->conns, &visit);
    visit_list(&loop->idle, &visit);
    return visit.count;
}
