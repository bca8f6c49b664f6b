/* Owns: who is at the other end of a connection: by its socket, asked for once, and by the PROXY protocol, whose header
 * is read before anybody else sees a byte. May include: io, base, obs. */
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "conn/address_limit.h"
#include "conn/proxy_protocol.h"
#include "conn/tcp_server_internal.h"

struct uvhttp__conn_peer {
    uvhttp__peer_t socket;
    uvhttp__peer_t source;  /* whom a proxy speaks for; of kind UNKNOWN: nobody but itself */
    uvhttp__proxy_t *proxy; /* while its header is awaited */
    char *text;             /* what only the kernel knows (see needs_kernel), once it was asked for; NULL until then */
    uvhttp__address_count_t *count; /* NULL: its address has no limit */
    uint32_t address_index;         /* of the address that it came to */
};

static bool ask_socket(const uvhttp__conn_t *conn, uvhttp__address_t *address, socklen_t *size) {
    *size = sizeof *address;
    return getpeername(conn->stream.fd, &address->any, size) == 0;
}

static uvhttp__peer_t read_socket(const uvhttp__conn_t *conn) {
    uvhttp__address_t address;
    socklen_t size;
    if (!ask_socket(conn, &address, &size)) return (uvhttp__peer_t){.kind = UVHTTP__PEER_UNKNOWN};
    switch (address.any.sa_family) {
        case AF_INET: return uvhttp__peer_of_ip(&address.v4.sin_addr, 4, ntohs(address.v4.sin_port));
        case AF_INET6: return uvhttp__peer_of_ip(&address.v6.sin6_addr, 16, ntohs(address.v6.sin6_port));
        case AF_UNIX: return (uvhttp__peer_t){.kind = UVHTTP__PEER_UNIX};
        default: return (uvhttp__peer_t){.kind = UVHTTP__PEER_UNKNOWN};
    }
}

/* NULL if out of memory. */
static uvhttp__conn_peer_t *remembered(uvhttp__conn_t *conn) {
    if (conn->peer) return conn->peer;
    uvhttp__conn_peer_t *peer = uvhttp__calloc(1, sizeof *peer);
    if (!peer) return NULL;
    peer->socket = read_socket(conn);
    peer->source.kind = UVHTTP__PEER_UNKNOWN;
    return conn->peer = peer;
}

uvhttp__peer_t uvhttp__conn_client(uvhttp__conn_t *conn) {
    const uvhttp__conn_peer_t *peer = remembered(conn);
    if (!peer) return read_socket(conn);
    return peer->source.kind == UVHTTP__PEER_UNKNOWN ? peer->socket : peer->source;
}

/* What the kernel knows and the remembered bytes do not: paths, and the zones of link-local addresses. */
static bool needs_kernel(const uvhttp__peer_t *peer) {
    return peer->ip.size == 0 ||
           (peer->ip.size == 16 && peer->ip.bytes[0] == 0xfe && (peer->ip.bytes[1] & 0xc0) == 0x80);
}

static void write_text(const uvhttp__peer_t *peer, char *text) {
    bool v6 = peer->ip.size == 16;
    if (v6) *text++ = '[';
    text += uvhttp__peer_text(peer, text);
    if (v6) *text++ = ']';
    *text++ = ':';
    text += uvhttp__write_decimal(text, peer->port);
    *text = '\0';
}

static void remember_text(uvhttp__conn_peer_t *peer, const char *text) {
    size_t size = strlen(text) + 1;
    peer->text = uvhttp__malloc(size);
    if (peer->text) memcpy(peer->text, text, size);
}

bool uvhttp__conn_peer(uvhttp__conn_t *conn, char *text) {
    uvhttp__address_t address;
    socklen_t size;
    uvhttp__conn_peer_t *peer = remembered(conn);
    if (peer && !needs_kernel(&peer->socket)) {
        write_text(&peer->socket, text);
        return true;
    }
    if (peer && peer->text) {
        memcpy(text, peer->text, strlen(peer->text) + 1);
        return true;
    }
    if (!ask_socket(conn, &address, &size)) {
        memcpy(text, "unknown", sizeof "unknown");
        return false;
    }
    uvhttp__address_format(&address, size, text);
    if (peer) remember_text(peer, text); /* without memory it is asked for again */
    return true;
}

void uvhttp__conn_forget_peer(uvhttp__conn_t *conn) {
    if (!conn->peer) return;
    if (conn->peer->count) uvhttp__address_limit_give(conn->loop->tcp_server->addresses, conn->peer->count);
    uvhttp__free(conn->peer->proxy);
    uvhttp__free(conn->peer->text);
    uvhttp__free(conn->peer);
    conn->peer = NULL;
}

/* --- connections per address --- */

int uvhttp__conn_count_address(uvhttp__conn_t *conn) {
    const uvhttp__tcp_server_t *tcp_server = conn->loop->tcp_server;
    uvhttp__conn_peer_t *peer = remembered(conn);
    if (!peer) return UVHTTP_E_NOMEM;
    const uvhttp__peer_t *client = peer->source.kind == UVHTTP__PEER_UNKNOWN ? &peer->socket : &peer->source;
    if (client->ip.size == 0 || uvhttp__ip_ranges_have(tcp_server->proxies, client)) return UVHTTP_OK;
    return uvhttp__address_limit_take(tcp_server->addresses, &client->ip, &peer->count);
}

/* --- the PROXY protocol --- */

int uvhttp__conn_proxy_begin(uvhttp__conn_t *conn, uint32_t address_index) {
    conn->flags |= UVHTTP__CONN_PROXY;
    uvhttp__conn_peer_t *peer = remembered(conn);
    if (peer) peer->proxy = uvhttp__calloc(1, sizeof *peer->proxy);
    if (!peer || !peer->proxy) return UVHTTP_E_NOMEM;
    if (!uvhttp__ip_ranges_have(conn->loop->tcp_server->proxies, &peer->socket)) return UVHTTP_E_PROXY_UNTRUSTED;
    peer->address_index = address_index;
    uint32_t seconds = conn->loop->tcp_server->options.proxy_timeout;
    if (seconds > 0) uvhttp__conn_timer_set(conn, uvhttp__conn_now_ms(conn) + (uint64_t)seconds * 1000);
    return UVHTTP_OK;
}

int uvhttp__conn_proxy_read(uvhttp__conn_t *conn, const char *data, size_t size, size_t *used,
                            uint32_t *address_index) {
    uvhttp__conn_peer_t *peer = conn->peer;
    int status = uvhttp__proxy_read(peer->proxy, data, size, used, &peer->source);
    if (status != UVHTTP_OK) return status;
    uvhttp__free(peer->proxy);
    peer->proxy = NULL;
    uvhttp__conn_timer_stop(conn);
    conn->flags &= (uint16_t)~UVHTTP__CONN_PROXY;
    *address_index = peer->address_index;
    return UVHTTP_OK;
}

bool uvhttp__conn_proxy_has_bytes(const uvhttp__conn_t *conn) {
    return conn->peer->proxy->have > 0;
}
