/* Owns: what is between a client and its connection: the header of the PROXY protocol, and TLS, whose records the
 * client makes of what it sends (tls.c), so that they are cut where bytes are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "tls.h"

void sim_transport_plan(client_t *client) {
    transport_t *transport = &client->transport;
    transport->tls = sim_tls_listens && sim_one_in(&client->plan, 2);
    transport->proxy = sim_proxy_listens && sim_one_in(&client->plan, 2);
    transport->port =
        (uint16_t)(SIM_PORT + (transport->tls ? SIM_PORT_TLS : 0) + (transport->proxy ? SIM_PORT_PROXY : 0));
    transport->address = UINT32_C(10) << 24 | (uint32_t)sim_random(&client->plan) % 0xffffff;
    if (sim_address_max) transport->address = sim_address_of(client->id);
}

bool sim_is_proxied(uint32_t client) {
    return sim_client(client) && sim_client(client)->transport.proxy;
}

static void append(client_t *client, const char *data, size_t size) {
    char *grown = malloc(client->out_size + size + 1);
    if (!grown) abort();
    if (client->out_size > 0) memcpy(grown, client->out, client->out_size);
    memcpy(grown + client->out_size, data, size);
    free(client->out);
    client->out = grown;
    client->out_size += size;
}

/* What the session writes of its own accord, in the handshake, follows what has not been sent yet. */
static void append_record(void *arg, const char *data, size_t size) {
    client_t *client = arg;
    if (client->out_at >= client->out_size) client->out_size = client->out_at = 0;
    append(client, data, size);
    if (sim_transport_busy(client) || !client->transport.session) client->flushing = true;
}

static void put_proxy_header(client_t *client) {
    uint32_t ip = client->transport.address;
    char text[128];
    if (sim_one_in(&client->random, 30)) {
        client->wild = true;
        append(client, "PROXY TCP4 nobody\r\n", 19);
    } else if (sim_one_in(&client->random, 2)) {
        int size = snprintf(text, sizeof text, "PROXY TCP4 %u.%u.%u.%u 127.0.0.1 %u 8080\r\n", ip >> 24, ip >> 16 & 255,
                            ip >> 8 & 255, ip & 255, 1 + client->id);
        append(client, text, (size_t)size);
    } else { /* addresses, and a field of 5 bytes that nobody knows */
        static const char begin[] = "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x11";
        memcpy(text, begin, 16);
        for (int i = 0; i < 4; i++) text[16 + i] = (char)(ip >> (24 - 8 * i));
        memcpy(text + 20, "\x7f\0\0\1\0\1\x1f\x90\xee\0\2xx", 13);
        append(client, text, 33);
    }
}

bool sim_transport_begin(client_t *client) {
    transport_t *transport = &client->transport;
    client->out_size = client->out_at = 0;
    if (transport->proxy) put_proxy_header(client);
    sim_client_announces(client->conn, (uint32_t)client->out_size);
    if (client->h2) client->control_size = sim_h2_begin(client, client->control);
    if (transport->tls)
        transport->session = sim_tls_new(client->id, client->h2 != NULL, &client->random, append_record, client);
    return client->out_size > 0;
}

bool sim_transport_busy(const client_t *client) {
    return client->transport.session && !sim_tls_is_open(client->transport.session);
}

void sim_transport_encode(client_t *client) {
    if (!client->transport.session) return;
    char *plain = client->out;
    size_t size = client->out_size;
    client->out = NULL;
    client->out_size = 0;
    sim_tls_write(client->transport.session, plain, size);
    free(plain);
}

void sim_transport_out(client_t *client, const char *data, size_t size) {
    client->out_size = client->out_at = 0;
    append(client, data, size);
    sim_transport_encode(client);
}

void sim_transport_end(client_t *client) {
    if (client->transport.session) sim_tls_end(client->transport.session);
}

typedef struct receiver {
    client_t *client;
    void (*take)(client_t *client, const char *data, size_t size);
} receiver_t;

static void pass_on(void *arg, const char *data, size_t size) {
    const receiver_t *receiver = arg;
    sim_traffic.handshakes += !receiver->client->transport.heard && !receiver->client->tcp.direct;
    receiver->client->transport.heard = true;
    receiver->take(receiver->client, data, size);
}

void sim_transport_decode(client_t *client, const char *data, size_t size,
                          void (*take)(client_t *client, const char *data, size_t size)) {
    if (!client->transport.session) {
        take(client, data, size);
        return;
    }
    receiver_t receiver = {client, take};
    const char *wrong = sim_tls_read(client->transport.session, data, size, pass_on, &receiver);
    if (wrong && !client->wild && !sim_failing) sim_fail("client %u: TLS: %s", client->id, wrong);
}

void sim_transport_free(client_t *client) {
    sim_tls_free(client->transport.session);
    client->transport.session = NULL;
}
