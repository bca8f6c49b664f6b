/* Owns: the rate limiter in a run: requests to /limit share one bucket. A model of that bucket is asked in front of the
 * limiter. With one loop both decide alike; with more, two requests of one moment may change places between the two. */
#include <stdint.h>
#include <uvhttp.h>

#include "sim.h"

enum { BURST = 3 };
#define INTERVAL_NS (250 * SIM_MS)

static uvhttp_middleware_t limiter; /* .run is NULL: there is none */
static uint64_t full_at_ns, admitted, refused, served;
static uint32_t loops;

static uvhttp_flow_t ask_model(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)res, (void)user;
    uint64_t now_ns = uvhttp_request_time_ns(req), start_ns = full_at_ns > now_ns ? full_at_ns : now_ns;
    if (start_ns - now_ns > (BURST - 1) * INTERVAL_NS) {
        refused++;
    } else {
        admitted++;
        full_at_ns = start_ns + INTERVAL_NS;
    }
    return UVHTTP_NEXT;
}

int sim_limiter_add(uvhttp_server_t *server, uvhttp_handler_cb handler, uint32_t loop_count) {
    loops = loop_count;
    full_at_ns = admitted = refused = served = 0;
    limiter = uvhttp_rate_limit(&(uvhttp_rate_limit_options_t){
        .per_second = 1e9 / INTERVAL_NS, .burst = BURST, .by = UVHTTP_RATE_LIMIT_BY_ROUTE, .keys_max = 64});
    if (!limiter.run) return UVHTTP_E_NOMEM;
    uvhttp_group_t *group = uvhttp_group(server, "/limit");
    int modelled = uvhttp_group_use(group, (uvhttp_middleware_t){.run = ask_model});
    int status = uvhttp_group_use(group, limiter); /* in any case: it is the server's then */
    if (status == UVHTTP_OK) status = modelled;
    if (status == UVHTTP_OK && !uvhttp_group_get(group, "/:tag/:size/:ms", handler, NULL))
        status = uvhttp_server_error(server);
    if (status != UVHTTP_OK) limiter.run = NULL;
    return status;
}

void sim_limiter_served(void) {
    served++;
}

/* How far two counts may be apart. */
static bool differ(uint64_t a, uint64_t b) {
    uint64_t off = a < b ? b - a : a - b;
    return off > loops - 1;
}

void sim_limiter_check_end(void) {
    uvhttp_rate_limit_stats_t stats;
    if (!limiter.run || uvhttp_rate_limit_stats(limiter, &stats) != UVHTTP_OK) return;
    sim_trace("rate limiter", stats.allowed, stats.refused);
    bool wrong = differ(stats.allowed, admitted) || differ(stats.refused, refused) || stats.allowed != served ||
                 stats.allowed + stats.refused != admitted + refused;
    if (wrong)
        sim_fail("the rate limiter has admitted %llu and refused %llu, not %llu and %llu, and %llu were served",
                 (unsigned long long)stats.allowed, (unsigned long long)stats.refused, (unsigned long long)admitted,
                 (unsigned long long)refused, (unsigned long long)served);
}
