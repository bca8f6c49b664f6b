/* Owns: descriptors that coroutines wait for. May include: io, base, obs. */
#include "exec/coro.h"

void uvhttp__coro_poll_free(uvhttp__coro_sched_t *sched) {
    (void)sched;
}
