/* Owns: what a request shows of its connection, and of the time; the protocol is asked while there is one. */
#include "exchange/origin.h"

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

static void read_client(uvhttp_request_t *req, uvhttp__client_t *client) {
    const uvhttp__exchange_t *exchange = exchange_of_request(req);
    uvhttp__conn_t *conn = connection_of(exchange);
    const uvhttp__trust_t *trust = &exchange->worker->service->trust;
    if (!conn) return;
    client->address = uvhttp__conn_client(conn);
    client->https = uvhttp_tcp_is_tls(conn);
    if (trust->header == UVHTTP__PROXY_HEADER_NONE || !uvhttp__ip_ranges_have(trust->ranges, &client->address)) return;
    if (!uvhttp__forwarded_resolve(req, trust, client))
        uvhttp__counters_add(&exchange->worker->worker->counters, forwarded_ignored, 1);
}

static bool read_tls(const uvhttp_request_t *req, const char **subject) {
    uvhttp__conn_t *conn = connection_of(exchange_of_request(req));
    if (!conn || !uvhttp_tcp_is_tls(conn)) return false;
    *subject = uvhttp_tcp_client_subject(conn);
    return true;
}

/* --- what any thread may ask for, also when the loop is gone: nothing of it is read unless the caller runs on it ---
 */

static uvhttp__counters_t *counters_of(const uvhttp_request_t *req) {
    const uvhttp__exchange_t *exchange = exchange_of_request(req);
    return uvhttp__exchange_is_here(exchange) ? &exchange->worker->worker->counters : NULL;
}

static uint64_t read_time_ns(const uvhttp_request_t *req) {
    const uvhttp__exchange_t *exchange = exchange_of_request(req);
    return uvhttp__exchange_is_here(exchange) ? exchange->worker->worker->loop->now_ns : uvhttp__clock_ns();
}

static void read_times(const uvhttp_request_t *req, uint64_t *begin_ns, uint64_t *now_ns) {
    *begin_ns = exchange_of_request(req)->start_ns;
    *now_ns = uvhttp__clock_ns();
}

const uvhttp__request_ops_t uvhttp__exchange_request_ops = {.peer = write_peer,
                                                            .client = read_client,
                                                            .tls = read_tls,
                                                            .counters = counters_of,
                                                            .time_ns = read_time_ns,
                                                            .times = read_times};
