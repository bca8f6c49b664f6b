/* Owns: the choice of a loop's engine, and what goes from its owner to it. May include: base, obs. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <uvhttp/log.h>

#include "base/libc.h"
#include "base/sigpipe.h"
#include "base/standard_fds.h"
#include "base/str.h"
#include "io/engine.h"

int uvhttp__engine_parse(const char *text, uvhttp__engine_kind_t *kind) {
    static const struct {
        const char *name;
        uvhttp__engine_kind_t kind;
    } names[] = {{"auto", UVHTTP__ENGINE_AUTO},
                 {"uring", UVHTTP__ENGINE_URING},
                 {"epoll", UVHTTP__ENGINE_EPOLL},
                 {"libuv", UVHTTP__ENGINE_EPOLL}}; /* its name up to 0.1 */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!uvhttp__text_equal_nocase(text, names[i].name)) continue;
        *kind = names[i].kind;
        return UVHTTP_OK;
    }
    return UVHTTP_E_INVALID;
}

static int new_with(const uvhttp__engine_t *engine, const uvhttp__loop_options_t *options, const char *why,
                    uvhttp__loop_t **loop) {
    int status = engine->loop_new(options, loop);
    if (status == UVHTTP_OK) snprintf((*loop)->reason, sizeof(*loop)->reason, "%s", why);
    return status;
}

int uvhttp__loop_new(const uvhttp__loop_options_t *options, uvhttp__loop_t **loop) {
    char why[128] = "this build has no io_uring";
    *loop = NULL;
    int held = uvhttp__standard_fds_hold();
    if (held != UVHTTP_OK) return held;
    if (options->engine == UVHTTP__ENGINE_EPOLL) return new_with(&uvhttp__engine_epoll, options, "asked for", loop);
#if UVHTTP_WITH_URING
    if (uvhttp__engine_uring.preflight(why, sizeof why)) {
        bool asked = options->engine == UVHTTP__ENGINE_URING;
        int status = new_with(&uvhttp__engine_uring, options, asked ? "asked for" : "preflight passed", loop);
        if (status != UVHTTP_E_UNSUPPORTED) return status;
        snprintf(why, sizeof why, "io_uring passed its preflight, but a ring could not be made: %s",
                 strerrordesc_np(errno));
    }
#endif
    if (options->engine == UVHTTP__ENGINE_URING) {
        UVHTTP_LOG_ERROR("io: engine io_uring is not available: %s", why);
        return UVHTTP_E_UNSUPPORTED;
    }
    return new_with(&uvhttp__engine_epoll, options, why, loop);
}

int uvhttp__loop_enter(uvhttp__loop_t *loop) {
    return loop->engine->loop_enter ? loop->engine->loop_enter(loop) : UVHTTP_OK;
}

void uvhttp__loop_run(uvhttp__loop_t *loop) {
    uvhttp__pipe_guard_t guard;
    uvhttp__pipe_block(&guard);
    loop->engine->loop_run(loop);
    uvhttp__pipe_restore(&guard);
}

void uvhttp__loop_stop(uvhttp__loop_t *loop) {
    loop->stopping = true;
}

void uvhttp__loop_free(uvhttp__loop_t *loop, void (*on_freed)(void *arg), void *arg) {
    uvhttp__fd_set_close(loop);
    loop->engine->loop_free(loop, on_freed, arg);
}

const char *uvhttp__loop_engine_name(const uvhttp__loop_t *loop) {
    return loop->engine->name;
}

bool uvhttp__io_uring_works(char *why, size_t size) {
#if UVHTTP_WITH_URING
    return uvhttp__engine_uring.preflight(why, size);
#else
    snprintf(why, size, "this build has no io_uring");
    return false;
#endif
}
