/* Owns: reading the counters. May include: base. */
#include "obs/counters.h"

static const struct {
    const char *name;
    const char *help;
} counters[UVHTTP__COUNTER_COUNT] = {
#define COUNTER_ROW(name, help) {#name, help},
    UVHTTP__COUNTER_MAP(COUNTER_ROW)
#undef COUNTER_ROW
};

const char *uvhttp__counter_name(unsigned index) {
    assert(index < UVHTTP__COUNTER_COUNT);
    return counters[index].name;
}

const char *uvhttp__counter_help(unsigned index) {
    assert(index < UVHTTP__COUNTER_COUNT);
    return counters[index].help;
}

static_assert(UVHTTP__COUNTER_responses_5xx == UVHTTP__COUNTER_responses_1xx + 4, "the classes stand in order");

void uvhttp__counters_read(const uvhttp__counters_t *shard, uvhttp__counter_sums_t *sums) {
    for (unsigned i = 0; i < UVHTTP__COUNTER_COUNT; i++)
        sums->values[i] += atomic_load_explicit(&shard->values[i], memory_order_relaxed);
    for (unsigned i = 0; i < UVHTTP__ERROR_COUNT; i++)
        sums->errors[i] += atomic_load_explicit(&shard->errors[i], memory_order_relaxed);
}

uint64_t uvhttp__counters_connections(const uvhttp__counter_sums_t *sums) {
    uint64_t accepted = UVHTTP__COUNTER(sums, connections_accepted), closed = UVHTTP__COUNTER(sums, connections_closed);
    /* A connection may be accepted and closed between the two readings. */
    return accepted > closed ? accepted - closed : 0;
}
