/* Owns: what a request shows of its connection, and of the time; the protocol is asked while there is one. */
#include "exchange/origin.h"

#include <string.h>

#include "base/alloc.h"

static const uvhttp__exchange_t *exchange_of_request(const uvhttp_request_t *req) {
    return (const uvhttp__exchange_t *)(const void *)((const char *)req - offsetof(uvhttp__exchange_t, request));
}

/* --- what a request shows of its connection; learnt while there is one, see uvhttp__origin_t --- */

/* NULL: the client has gone. */
static uvhttp__conn_t *connection_of(const uvhttp__exchange_t *exchange) {
    const uvhttp__protocol_t *protocol = uvhttp__exchange_protocol(exchange);
    return protocol ? protocol->connection(exchange) : NULL;
}

static void write_peer(const uvhttp_request_t *req, char text[UVHTTP__PEER_TEXT_MAX]) {
    uvhttp__conn_t *conn = connection_of(exchange_of_request(req));
    if (conn) (void)uvhttp__conn_peer(conn, text);
}

/* A proxy that is trusted says of each request who it comes from. */
static bool is_proxy(const uvhttp__exchange_t *exchange, const uvhttp__peer_t *address) {
    const uvhttp__trust_t *trust = &exchange->loop->service->trust;
    return trust->header != UVHTTP__PROXY_HEADER_NONE && uvhttp__ip_ranges_have(trust->ranges, address);
}

static void read_client(uvhttp_request_t *req, uvhttp__client_t *client) {
    const uvhttp__exchange_t *exchange = exchange_of_request(req);
    uvhttp__conn_t *conn = connection_of(exchange);
    if (!conn) return;
    client->address = uvhttp__conn_client(conn);
    client->https = uvhttp_tcp_is_tls(conn);
    if (!is_proxy(exchange, &client->address)) return;
    if (!uvhttp__forwarded_resolve(req, &exchange->loop->service->trust, client))
        uvhttp__counters_add(&exchange->loop->tcp->counters, forwarded_ignored, 1);
}

static bool read_tls(const uvhttp_request_t *req, const char **subject) {
    uvhttp__conn_t *conn = connection_of(exchange_of_request(req));
    if (!conn || !uvhttp_tcp_is_tls(conn)) return false;
    *subject = uvhttp_tcp_client_subject(conn);
    return true;
}

/* --- what all requests of one connection show --- */

static uvhttp__origin_t *make_shared(uvhttp__conn_t *conn) {
    char peer[UVHTTP__PEER_TEXT_MAX] = "unknown", client[UVHTTP__IP_TEXT_MAX];
    (void)uvhttp__conn_peer(conn, peer);
    const uvhttp__peer_t address = uvhttp__conn_client(conn);
    const char *subject = uvhttp_tcp_is_tls(conn) ? uvhttp_tcp_client_subject(conn) : NULL;
    size_t peer_size = strlen(peer), client_size = uvhttp__peer_text(&address, client);
    size_t subject_size = subject ? strlen(subject) + 1 : 0;
    uvhttp__origin_t *origin = uvhttp__calloc(1, sizeof *origin + peer_size + client_size + subject_size + 2);
    if (!origin) return NULL;
    char *text = (char *)(origin + 1), *client_text = text + peer_size + 1,
         *subject_text = client_text + client_size + 1;
    memcpy(text, peer, peer_size);
    memcpy(client_text, client, client_size);
    if (subject) memcpy(subject_text, subject, subject_size);
    *origin = (uvhttp__origin_t){.peer = {text, peer_size},
                                 .client = {.address = address, .https = uvhttp_tcp_is_tls(conn)},
                                 .client_text = {client_text, client_size},
                                 .subject = subject ? subject_text : NULL,
                                 .tls = uvhttp_tcp_is_tls(conn),
                                 .known = UVHTTP__ORIGIN_ALL};
    return origin;
}

void uvhttp__exchange_share_origin(uvhttp__exchange_t *exchange) {
    const uvhttp__protocol_t *protocol = exchange->protocol;
    uvhttp__orphans_t *orphans = protocol && protocol->orphans ? protocol->orphans(exchange) : NULL;
    if (!orphans || exchange->request.origin) return;
    if (!orphans->shared) orphans->shared = make_shared(protocol->connection(exchange));
    uvhttp__origin_t *origin = orphans->shared;
    if (origin && !is_proxy(exchange, &origin->client.address)) exchange->request.origin = origin;
}

/* --- what any thread may ask for, also when the loop is gone: nothing of it is read unless the caller runs on it ---
 */

static uvhttp__counters_t *counters_of(const uvhttp_request_t *req) {
    const uvhttp__exchange_t *exchange = exchange_of_request(req);
    return uvhttp__exchange_is_here(exchange) ? &exchange->loop->tcp->counters : NULL;
}

static uint64_t read_time_ns(const uvhttp_request_t *req) {
    const uvhttp__exchange_t *exchange = exchange_of_request(req);
    return uvhttp__exchange_is_here(exchange) ? exchange->loop->tcp->io->now_ns : uvhttp__clock_ns();
}

static void read_times(const uvhttp_request_t *req, uint64_t *start_ns, uint64_t *now_ns) {
    *start_ns = exchange_of_request(req)->start_ns;
    *now_ns = uvhttp__clock_ns();
}

static int read_refused(const uvhttp_request_t *req) {
    const uvhttp__exchange_t *exchange = exchange_of_request(req);
    return exchange->begun || exchange->responded ? UVHTTP_OK : exchange->failure;
}

const uvhttp__request_ops_t uvhttp__exchange_request_ops = {.peer = write_peer,
                                                            .client = read_client,
                                                            .tls = read_tls,
                                                            .counters = counters_of,
                                                            .time_ns = read_time_ns,
                                                            .times = read_times,
                                                            .refused = read_refused};
