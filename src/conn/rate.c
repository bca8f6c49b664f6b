/* Owns: see rate.h. */
#include "conn/rate.h"

/* A counter that seems to have gained nearly 2^32 has lost a little. */
#define LOST_MAX (UINT32_C(1) << 28)

void uvhttp__rate_start(uvhttp__rate_t *rate, const uvhttp__rate_limits_t *limits, uint32_t bytes, uint64_t now_ms) {
    *rate = (uvhttp__rate_t){
        .bytes = bytes, .looked_ms = (uint32_t)now_ms, .moved_ms = (uint32_t)now_ms, .credit_ms = limits->grace * 1000};
}

void uvhttp__rate_excuse(uvhttp__rate_t *rate, uint64_t ms) {
    rate->looked_ms += (uint32_t)ms;
    rate->moved_ms += (uint32_t)ms;
}

uvhttp__rate_verdict_t uvhttp__rate_look(uvhttp__rate_t *rate, const uvhttp__rate_limits_t *limits, uint32_t bytes,
                                         uint64_t now_ms) {
    uint32_t ms = (uint32_t)now_ms - rate->looked_ms;
    uint32_t moved = bytes - rate->bytes;
    if (moved > UINT32_MAX - LOST_MAX) moved = 0;
    rate->bytes = bytes;
    rate->looked_ms = (uint32_t)now_ms;
    if (moved > 0) rate->moved_ms = (uint32_t)now_ms;
    if (limits->timeout > 0 && (uint32_t)now_ms - rate->moved_ms >= limits->timeout * UINT64_C(1000))
        return UVHTTP__RATE_STALLED;
    if (limits->rate == 0) return UVHTTP__RATE_FINE;
    uint64_t credit = rate->credit_ms + moved * UINT64_C(1000) / limits->rate, grace = limits->grace * UINT64_C(1000);
    if (credit < ms) return UVHTTP__RATE_SLOW;
    credit -= ms;
    rate->credit_ms = (uint32_t)(credit < grace ? credit : grace);
    return UVHTTP__RATE_FINE;
}

uvhttp__rate_verdict_t uvhttp__rate_look_at_output(uvhttp__rate_t *rate, uvhttp__given_t *given,
                                                   const uvhttp__rate_limits_t *limits, uint32_t bytes, uint32_t held,
                                                   uint64_t now_ms) {
    bool caught_up = given->known && (int32_t)(bytes - given->bytes) >= 0;
    *given = (uvhttp__given_t){.bytes = bytes + held, .known = true};
    if (!caught_up) return uvhttp__rate_look(rate, limits, bytes, now_ms);
    uvhttp__rate_start(rate, limits, bytes, now_ms);
    return UVHTTP__RATE_FINE;
}
