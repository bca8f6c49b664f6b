/* Owns: the response to a kernel that refuses the call by which a loop submits or waits: the delay before the next try,
 * when to log, and when to abort. May include: base, obs, io. */
#include <errno.h>
#include <string.h>
#include <uvhttp/log.h>

#include "base/libc.h"
#include "io/engine.h"

enum {
    RETRY_MS_MAX = 20,
    REFUSALS_MIN = 8, /* however long it took: a process that was stopped for a while has not tried */
    REPORT_AFTER = 8, /* consecutive refusals, about 50 ms */
};
#define MAY_PASS_NS_MAX UINT64_C(10000000000) /* lack of memory and the like */
#define FORBIDDEN_NS_MAX UINT64_C(1000000000) /* errors that are not known to pass: EPERM, EINVAL, ... */
#define REPORT_INTERVAL_NS UINT64_C(10000000000)

static bool may_pass(int error_number) {
    switch (error_number) {
        case EAGAIN:
        case EBUSY:
        case ENOMEM:
        case ENOBUFS:
        case EINTR: return true;
        default: return false;
    }
}

static void report(uvhttp__refusals_t *refusals, const char *call, int error_number, uint64_t now_ns) {
    if (refusals->count != REPORT_AFTER) return;
    if (refusals->reported_ns > 0 && now_ns < refusals->reported_ns + REPORT_INTERVAL_NS) return;
    refusals->reported_ns = now_ns;
    UVHTTP_LOG_WARN("io: the kernel refuses %s (%s): it is retried, and nothing is lost (counter engine_refusals)",
                    call, strerrordesc_np(error_number));
}

bool uvhttp__refusals_add(uvhttp__refusals_t *refusals, uvhttp__loop_t *loop, const char *call, int error_number) {
    uint64_t now_ns = uvhttp__clock_ns();
    uvhttp__counters_add(loop->counters, engine_refusals, 1);
    if (refusals->count++ == 0) {
        refusals->since_ns = now_ns;
        refusals->forbidden_since_ns = 0;
    }
    if (may_pass(error_number))
        refusals->forbidden_since_ns = 0;
    else if (refusals->forbidden_since_ns == 0)
        refusals->forbidden_since_ns = now_ns;
    report(refusals, call, error_number, now_ns);
    if (refusals->count < REFUSALS_MIN) return false;
    return now_ns - refusals->since_ns >= MAY_PASS_NS_MAX ||
           (refusals->forbidden_since_ns > 0 && now_ns - refusals->forbidden_since_ns >= FORBIDDEN_NS_MAX);
}

int uvhttp__refusals_backoff_ms(const uvhttp__refusals_t *refusals) {
    if (refusals->count < 2) return 0;
    uint32_t doublings = refusals->count - 2;
    return doublings < 5 ? 1 << doublings : RETRY_MS_MAX;
}

void uvhttp__loop_fail(uvhttp__loop_t *loop, const char *call, int error_number) {
    UVHTTP_LOG_ERROR("io: the kernel no longer allows %s (%s): the loop closes its connections and stops", call,
                     strerrordesc_np(error_number));
    loop->failure = error_number;
    if (loop->on_failed)
        loop->on_failed(loop, loop->arg);
    else
        loop->stopping = true;
}
