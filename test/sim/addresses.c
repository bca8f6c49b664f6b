/* Owns: the addresses of clients, which are few in some seeds, and the model of connections_per_address_max: a
 * connection is refused, unread and by a reset, only while its address has as many as it may have. A client of the
 * PROXY protocol has the address that its header says, and counts once that was read. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "kernel.h"

enum {
    ADDRESSES = 3,
    FIRST_ADDRESS = 0x0a090001, /* 10.9.0.1 */
    LATE_MS = 3,                /* a connection that has been closed for so long counts no more */
    CLOSED_MAX = 64
};

uint32_t sim_address_max;
static struct {
    uint32_t open;               /* connections that count */
    uint64_t above_ns;           /* since when they are too many; SIM_NEVER: they are not */
    uint64_t closed[CLOSED_MAX]; /* when the last ones were closed */
    uint32_t closed_count;
} addresses[ADDRESSES];
static uint64_t refused, perhaps_refused;

void sim_addresses_plan(uint64_t seed) {
    sim_random_t random = sim_random_of(seed, 0xadd);
    bool limited = sim_one_in(&random, 10) && seed % SIM_CROWD_EVERY != SIM_CROWD_EVERY - 1;
    sim_address_max = limited ? 1 + sim_below(&random, 4) : 0;
    refused = perhaps_refused = 0;
    for (uint32_t i = 0; i < ADDRESSES; i++) {
        addresses[i].open = addresses[i].closed_count = 0;
        addresses[i].above_ns = SIM_NEVER;
    }
}

static uint32_t index_of(uint32_t client) {
    return client * 7 / 3 % ADDRESSES;
}

uint32_t sim_address_of(uint32_t client) {
    return FIRST_ADDRESS + index_of(client);
}

uint32_t sim_socket_address_of(uint32_t client, uint16_t port) {
    bool proxied = port >= SIM_PORT && port <= SIM_PORT + 3 && (port - SIM_PORT) & SIM_PORT_PROXY;
    return sim_address_max && !proxied && client < SIM_CLIENTS_MAX ? sim_address_of(client) : SIM_ADDRESS_GOOD;
}

void sim_peer_text(uint32_t client, char *text, size_t size) {
    uint32_t ip = sim_is_proxied(client) ? SIM_ADDRESS_GOOD : sim_socket_address_of(client, 0);
    snprintf(text, size, "%u.%u.%u.%u:%u", ip >> 24, ip >> 16 & 255, ip >> 8 & 255, ip & 255, SIM_PEER_PORT + client);
}

/* --- what connections do --- */

void sim_client_announces(sim_conn_t *conn, uint32_t header_size) {
    conn->header_size = header_size;
}

void sim_address_look(sim_conn_t *conn) {
    if (!sim_address_max || !conn->takes_place || conn->counts || conn->to_server.passed < conn->header_size) return;
    conn->counts = true;
    addresses[index_of(conn->client)].open++;
}

/* So many others count, or may do so: a loop may have closed one and not have counted that. */
static uint32_t others(uint32_t index) {
    uint32_t count = addresses[index].open;
    for (uint32_t i = 0; i < addresses[index].closed_count && i < CLOSED_MAX; i++)
        count += sim_now_ns - addresses[index].closed[i] <= LATE_MS * SIM_MS;
    return count;
}

void sim_address_closed(sim_conn_t *conn) {
    if (!conn->counts) return;
    uint32_t index = index_of(conn->client);
    conn->counts = false;
    addresses[index].open--;
    bool unread = conn->header_size == 0 && conn->to_server.passed == 0, legal = others(index) >= sim_address_max;
    bool unsent = conn->linger_zero && conn->to_client.passed + conn->to_client.size == 0,
         silent = unsent && !conn->client_rst;
    if (silent && unread && !legal && !sim_failing && !sim_clients_have_stopped())
        sim_fail("client %u was refused, and its address has %u other connections, of %u", conn->client, others(index),
                 sim_address_max);
    conn->refused = silent && legal;
    refused += conn->refused && unread;
    perhaps_refused += unsent && legal && (!unread || conn->client_rst); /* who resets cannot know */
    if (!conn->refused || !unread) addresses[index].closed[addresses[index].closed_count++ % CLOSED_MAX] = sim_now_ns;
}

bool sim_was_refused(const sim_conn_t *conn) {
    return conn->refused;
}

/* --- names of sockets --- */

static int name_of(uint32_t ip, uint16_t port, struct sockaddr *address, socklen_t *size) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(ip)};
    memcpy(address, &name, *size < sizeof name ? *size : sizeof name);
    *size = sizeof name;
    return 0;
}

int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *size) {
    return name_of(INADDR_LOOPBACK, sim_find(fd, "getsockname")->port, address, size);
}

int __wrap_getpeername(int fd, struct sockaddr *address, socklen_t *size) {
    descriptor_t *it = sim_find(fd, "getpeername");
    if (it->kind != STREAM || it->conn->client_rst) {
        errno = ENOTCONN;
        return -1;
    }
    return name_of(it->conn->ip, it->conn->port, address, size);
}

/* --- while nobody runs --- */

void sim_addresses_check_quiet(uint64_t next_ns) {
    for (uint32_t i = 0; i < ADDRESSES && sim_address_max; i++) {
        if (addresses[i].open <= sim_address_max)
            addresses[i].above_ns = SIM_NEVER;
        else if (addresses[i].above_ns == SIM_NEVER)
            addresses[i].above_ns = sim_now_ns;
        else if (next_ns - addresses[i].above_ns > LATE_MS * SIM_MS)
            sim_fail("address %u has %u connections, of %u", i, addresses[i].open, sim_address_max);
    }
}

void sim_addresses_check_end(void) {
    uint64_t counted = sim_metrics_last("connections_refused_address");
    if (!sim_failing && (counted < refused || counted > refused + perhaps_refused))
        sim_fail("%llu connections count as refused for their address, and %llu to %llu were",
                 (unsigned long long)counted, (unsigned long long)refused,
                 (unsigned long long)(refused + perhaps_refused));
}
