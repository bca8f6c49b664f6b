/* Owns: http2_connection_memory_max: which seeds have a small one, clients that make the server keep much, and when the
 * limit may be the reason of a reset: what a client has asked for and not received is at least a part of it. */
#include "http2.h"

enum { DEFAULT_MAX = 1 << 20, OVERHEAD = 10000 /* bytes: heads, tables */, HELD_MAX = 32768 };

uint32_t sim_h2_memory_max;

void sim_h2_memory_plan(uint64_t seed) {
    sim_random_t random = sim_random_of(seed, 0x95);
    sim_h2_memory_max = 0;
    if (!sim_one_in(&random, 10) || sim_compresses || sim_crowd) return;
    sim_h2_memory_max = 65536 + (sim_one_in(&random, 2) ? 0 : sim_log_uniform(&random, 200000));
}

/* A handler may hold what belongs to a stream that was reset. */
static uint64_t kept_of(const client_t *client, uint32_t at) {
    const stream_t *stream = &client->h2->streams[at];
    if (stream->done && !stream->reset && !stream->cut_off) return 0;
    uint64_t sent = stream->body_at;
    if (stream->tunnel && sent > HELD_MAX) sent = HELD_MAX;
    return sent + client->requests[at].size;
}

/* Buffers double, so that less than half of the limit may be in use. */
bool sim_h2_is_greedy(const client_t *client) {
    uint64_t kept = sim_ws_outstanding(client), max = sim_h2_memory_max ? sim_h2_memory_max : DEFAULT_MAX;
    for (uint32_t i = 0; i < client->asked; i++) kept += kept_of(client, i);
    return kept + OVERHEAD > max * 2 / 5;
}

bool sim_h2_is_cut_off(client_t *client, stream_t *stream, uint32_t error) {
    bool refused = error == UVHTTP__HTTP2_REFUSED_STREAM || error == UVHTTP__HTTP2_ENHANCE_YOUR_CALM;
    if (!sim_h2_memory_max || !refused || !sim_h2_is_greedy(client)) return false;
    sim_metrics_lawless(); /* whether it counts as a request depends on when it was reset */
    stream->cut_off = true;
    return true;
}
