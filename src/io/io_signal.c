/* Owns: SIGINT, SIGTERM and optionally others on a loop of our own, through the libuv loop that is its guest: libuv
 * shares the process's handlers with other signal handles of the application. And the same signals when the loop has
 * ended, and its server has not. May include: base, io. */
#include <signal.h>
#include <stdatomic.h>
#include <uv.h>

#include "base/alloc.h"
#include "io/io.h"

struct uvhttp__signals {
    uv_signal_t handles[UVHTTP__SIGNALS_MAX];
    struct sigaction before[UVHTTP__SIGNALS_MAX];
    int numbers[UVHTTP__SIGNALS_MAX]; /* libuv forgets them when a handle closes */
    int open, started;
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

static void close_all(struct uvhttp__signals *signals) {
    int open = signals->open; /* the last close callback frees, but only from the loop */
    for (int i = 0; i < open; i++) uv_close((uv_handle_t *)&signals->handles[i], on_closed);
}

/* --- behind the loop --- */

static atomic_bool ended_by_next;

static bool stops(int number) {
    return number == SIGINT || number == SIGTERM;
}

static void on_late_signal(int number) {
    if (!stops(number) || !atomic_exchange(&ended_by_next, true)) return;
    sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    raise(number); /* when this handler has returned */
}

/* libuv has set the default, which ends the process, unless the application has a handle for this signal, too. */
static void handle_late(uvhttp__late_signals_t *late, int number, const struct sigaction *before) {
    struct sigaction now, ours = {.sa_handler = on_late_signal, .sa_flags = SA_RESTART};
    sigaction(number, NULL, &now);
    if (now.sa_handler != SIG_DFL) return;
    bool is_default = before->sa_handler == SIG_DFL;
    sigaction(number, is_default ? &ours : before, NULL);
    if (is_default) late->numbers[late->count++] = number;
}

void uvhttp__loop_signals_stop(uvhttp__loop_t *loop, uvhttp__late_signals_t *late) {
    struct uvhttp__signals *signals = loop->signals;
    if (!signals) return;
    loop->signals = NULL;
    sigset_t held, mask;
    sigemptyset(&held);
    for (int i = 0; i < signals->started; i++) sigaddset(&held, signals->numbers[i]);
    atomic_store(&ended_by_next, false);
    pthread_sigmask(SIG_BLOCK, &held, &mask); /* other threads of the library have no signals */
    close_all(signals);
    for (int i = 0; i < signals->started; i++) handle_late(late, signals->numbers[i], &signals->before[i]);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

void uvhttp__late_signals_end(uvhttp__late_signals_t *late) {
    for (int i = 0; i < late->count; i++) {
        struct sigaction now;
        sigaction(late->numbers[i], NULL, &now);
        if (now.sa_handler == on_late_signal)
            sigaction(late->numbers[i], &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    }
    late->count = 0;
}

/* --- on the loop --- */

/* A handler of libuv's is there for the application's handles, which may have gone at the end. */
static int start_one(struct uvhttp__signals *signals, int number) {
    struct sigaction *before = &signals->before[signals->started], now;
    sigaction(number, NULL, before);
    if (uv_signal_start(&signals->handles[signals->started], on_signal, number) != 0) return UVHTTP_E_IO;
    signals->numbers[signals->started++] = number;
    sigaction(number, NULL, &now);
    if (before->sa_handler == now.sa_handler) before->sa_handler = SIG_DFL;
    return UVHTTP_OK;
}

int uvhttp__loop_signals_start(uvhttp__loop_t *loop, const int others[2], void (*cb)(int signal_number, void *arg),
                               void *arg) {
    int numbers[UVHTTP__SIGNALS_MAX] = {SIGINT, SIGTERM}, count = 2;
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
        if (start_one(signals, numbers[signals->open]) != UVHTTP_OK) {
            signals->open++;
            goto fail;
        }
    }
    return UVHTTP_OK;
fail:
    if (signals->open > 0) {
        uvhttp__late_signals_t late = {.count = 0};
        uvhttp__loop_signals_stop(loop, &late);
        uvhttp__late_signals_end(&late);
    } else {
        loop->signals = NULL;
        uvhttp__free(signals);
    }
    return UVHTTP_E_IO;
}
