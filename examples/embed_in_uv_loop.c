/* The server as a guest of a libuv loop that the application runs: here a timer of the application ticks next to it.
 * All runs on one thread, so handlers and the timer share data without a lock.
 *
 *   build/dist/bin/embed_in_uv_loop        # or: embed_in_uv_loop 127.0.0.1:9000
 *   curl http://127.0.0.1:8080/            # says how often the timer has ticked
 *   Ctrl-C drains the server, and then the loop has nothing left to do and returns
 */
#include <stdio.h>
#include <uv.h>
#include <uvhttp.h>

typedef struct app {
    uvhttp_server_t *server;
    uv_timer_t timer;
    uv_signal_t interrupt, terminate;
    unsigned ticks;
} app_t;

static void show_ticks(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    const app_t *app = user;
    char text[64];
    snprintf(text, sizeof text, "%u ticks\n", app->ticks);
    uvhttp_response_text(res, 200, text);
}

static void on_tick(uv_timer_t *timer) {
    app_t *app = timer->data;
    ++app->ticks;
}

static void on_signal(uv_signal_t *handle, int number) {
    (void)number;
    app_t *app = handle->data;
    uvhttp_server_stop(app->server);
}

/* The drain is over: what would keep the loop running goes. */
static void on_stopped(uvhttp_server_t *server, void *user) {
    app_t *app = user;
    uv_close((uv_handle_t *)&app->timer, NULL);
    uv_close((uv_handle_t *)&app->interrupt, NULL);
    uv_close((uv_handle_t *)&app->terminate, NULL);
    uvhttp_server_free(server);
}

int main(int argc, char **argv) {
    uv_loop_t *loop = uv_default_loop();
    app_t app = {.server = uvhttp_server_new(NULL)};
    if (!app.server) return 1;
    uvhttp_get(app.server, "/", show_ticks, &app);
    uvhttp_server_on_stopped(app.server, on_stopped, &app);

    int status = uvhttp_server_attach(app.server, loop);
    if (status == 0) status = uvhttp_server_listen(app.server, argc > 1 ? argv[1] : "127.0.0.1:8080", NULL);
    if (status != 0) {
        uvhttp_server_free(app.server); /* what went wrong has been logged */
        uv_run(loop, UV_RUN_DEFAULT);   /* lets what was opened so far close */
        uv_loop_close(loop);
        return 1;
    }

    app.timer.data = app.interrupt.data = app.terminate.data = &app;
    uv_timer_init(loop, &app.timer);
    uv_timer_start(&app.timer, on_tick, 100, 100); /* ms */
    uv_signal_init(loop, &app.interrupt);
    uv_signal_start(&app.interrupt, on_signal, SIGINT);
    uv_signal_init(loop, &app.terminate);
    uv_signal_start(&app.terminate, on_signal, SIGTERM);

    uv_run(loop, UV_RUN_DEFAULT);
    return uv_loop_close(loop) != 0;
}
