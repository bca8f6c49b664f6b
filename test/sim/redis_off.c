/* Owns: the absence of Redis, in a build without it. */
#include "sim.h"

const bool sim_has_redis = false;
bool sim_redis_is_popular;

int sim_redis_refusal(uint32_t tag) {
    (void)tag;
    return 0;
}

bool sim_redis_may_fail(void) {
    return false;
}

bool sim_redis_is_away(void) {
    return true;
}

sim_actor_t *sim_redis_new(sim_conn_t *conn, uint64_t seed, uint32_t number) {
    (void)conn, (void)seed, (void)number;
    return NULL;
}

void sim_redis_reset(uint64_t seed) {
    (void)seed;
}

int sim_redis_add(struct uvhttp_server *server, sim_handler_t *handler) {
    (void)server, (void)handler;
    return 0;
}

void sim_redis_check_end(void) {}
