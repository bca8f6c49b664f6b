/* Owns: reading the counters. May include: base. */
#include "obs/counters.h"

#include <string.h>

static const uvhttp__counter_row_t rows[UVHTTP__COUNTER_COUNT] = {
#define ROW(name, type, family, labels, help) {#name, "uvhttp_" #family, labels, help, UVHTTP__COUNTER_TYPE_##type},
    UVHTTP__COUNTER_MAP(ROW)
#undef ROW
};

const uvhttp__counter_row_t *uvhttp__counter_row(unsigned index) {
    assert(index < UVHTTP__COUNTER_COUNT);
    return &rows[index];
}

const char *uvhttp__counter_family_help(const uvhttp__counter_row_t *row) {
    static const struct {
        const char *family, *help;
    } families[] = {
#define FAMILY(family, help) {"uvhttp_" #family, help},
        UVHTTP__COUNTER_FAMILIES(FAMILY)
#undef FAMILY
    };
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].family, row->family) == 0) return families[i].help;
    return row->help;
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
