/* Owns: SIGINT, SIGTERM and optionally others on a loop of our own, through the libuv loop that is its guest: libuv
 * shares the process's handlers with other signal handles of the application. May include: base, io. */
#include <signal.h>
#include <uv.h>

#include "base/alloc.h"
#include "io/io.h"

struct uvhttp__signals {
    uv_signal_t handles[4];
    int open;
    void (*cb)(int signal_number, void *arg);
    void *arg;
};

static void on_signal(uv_signal_t *handle, int signal_number) {
    struct uvhttp__signals *signals = handle->data;
    signals->cb(signal_number, signals->arg);
}

static void on_closed(uv_handle_t *handle) {
    struct uvhttp__signals *signals = handle->data;
    if (--signals->open == 0) uvhttp__free(signals);
}

void uvhttp__loop_signals_stop(uvhttp__loop_t *loop) {
    struct uvhttp__signals *signals = loop->signals;
    if (!signals) return;
    loop->signals = NULL;
    int open = signals->open; /* the last close callback frees, but only from the loop */
    for (int i = 0; i < open; i++) uv_close((uv_handle_t *)&signals->handles[i], on_closed);
}

int uvhttp__loop_signals_start(uvhttp__loop_t *loop, const int others[2], void (*cb)(int signal_number, void *arg),
                               void *arg) {
    int numbers[4] = {SIGINT, SIGTERM}, count = 2;
    for (int i = 0; i < 2; i++)
        if (others[i]) numbers[count++] = others[i];
    struct uvhttp__signals *signals = uvhttp__calloc(1, sizeof *signals);
    if (!signals) return UVHTTP_E_NOMEM;
    signals->cb = cb;
    signals->arg = arg;
    loop->signals = signals;
    for (; signals->open < count; signals->open++) {
        uv_signal_t *handle = &signals->handles[signals->open];
        handle->data = signals;
        if (uv_signal_init(loop->uv, handle) != 0) goto fail;
        uv_unref((uv_handle_t *)handle);
        if (uv_signal_start(handle, on_signal, numbers[signals->open]) != 0) {
            signals->open++;
            goto fail;
        }
    }
    return UVHTTP_OK;
fail:
    if (signals->open > 0)
        uvhttp__loop_signals_stop(loop);
    else
        uvhttp__free(signals);
    loop->signals = NULL;
    return UVHTTP_E_IO;
}
