/* Server-sent events: what one client says, all others see at once. One page, no library in the browser.
 *
 *   build/dist/bin/events                  # or: events 127.0.0.1:9000
 *   curl -N http://127.0.0.1:8080/events &
 *   curl -d hello http://127.0.0.1:8080/say
 *
 * An event stream is a response that does not end: a deferred handle, begun once and written to from wherever something
 * happens. A client that does not read is cut off when its queue is full; the browser then connects again by itself.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp.h>

#define TEXT_MAX 500 /* bytes of what may be said at once */

typedef struct listener {
    struct listener *next, **at; /* in the list, while the client is there */
    uvhttp_deferred_t *stream;
} listener_t;

/* Handlers run on several loop threads. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static listener_t *listeners;

static const char page[] =
    "<!DOCTYPE html><meta charset=utf-8><title>uvhttp events</title>"
    "<form><input name=text autofocus placeholder='say something' maxlength=500></form><ul></ul><script>"
    "const list = document.querySelector('ul'), form = document.querySelector('form');"
    "new EventSource('/events').onmessage = event => {"
    " const item = document.createElement('li'); item.textContent = event.data; list.prepend(item); };"
    "form.onsubmit = event => { event.preventDefault();"
    " fetch('/say', {method: 'POST', body: form.text.value}); form.reset(); };</script>";

static void home(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_send_static(res, 200, "text/html; charset=utf-8", page, sizeof page - 1);
}

/* The stream has ended, or the client has gone. */
static void leave(uvhttp_response_t *res, int status, void *user) {
    listener_t *listener = user;
    (void)res, (void)status;
    pthread_mutex_lock(&lock);
    *listener->at = listener->next;
    if (listener->next) listener->next->at = listener->at;
    pthread_mutex_unlock(&lock);
    uvhttp_deferred_release(listener->stream);
    free(listener);
}

static void open_stream(uvhttp_response_t *res, void *user) {
    (void)user;
    if (!res) return;
    uvhttp_response_header(res, "Cache-Control", "no-store");
    uvhttp_response_begin(res, 200, "text/event-stream", UVHTTP_SIZE_UNKNOWN);
    uvhttp_response_write(res, ": welcome\n\n", 11);
}

/* The server stops: without this it would wait for the streams until its drain_timeout. */
static void end_stream(uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_response_write(res, "event: bye\ndata:\n\n", 18);
    uvhttp_response_end(res);
}

static void listen_to_events(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    listener_t *listener = malloc(sizeof *listener);
    uvhttp_deferred_t *stream = listener ? uvhttp_response_defer(res) : NULL;
    if (!stream || uvhttp_response_on_done(res, leave, listener) != UVHTTP_OK) {
        free(listener);
        uvhttp_deferred_release(stream); /* the client gets an error */
        return;
    }
    listener->stream = stream;
    uvhttp_deferred_run(stream, open_stream, NULL); /* comes before anything that is said from now on */
    uvhttp_deferred_on_stop(stream, end_stream, NULL);
    pthread_mutex_lock(&lock);
    listener->next = listeners;
    if (listeners) listeners->at = &listener->next;
    listener->at = &listeners;
    listeners = listener;
    pthread_mutex_unlock(&lock);
}

/* On the listener's loop. */
static void write_event(uvhttp_response_t *res, void *user) {
    char *event = user;
    if (res && uvhttp_response_write(res, event, strlen(event)) == UVHTTP_E_LIMIT) {
        uvhttp_response_close(res);
        uvhttp_response_end(res);
    }
    free(event);
}

/* "data: text" LF LF, where a line break in the text begins another data line. */
static char *make_event(uvhttp_str_t text) {
    char *event = malloc(6 + text.size * 7 + 3), *out = event;
    if (!event) return NULL;
    out = stpcpy(out, "data: ");
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] == '\r' || text.data[i] == '\0') continue;
        if (text.data[i] == '\n')
            out = stpcpy(out, "\ndata: ");
        else
            *out++ = text.data[i];
    }
    stpcpy(out, "\n\n");
    return event;
}

static void say(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t text = uvhttp_request_body(req);
    if (text.size == 0 || text.size > TEXT_MAX) {
        uvhttp_response_text(res, 422, "say between 1 and 500 bytes\n");
        return;
    }
    pthread_mutex_lock(&lock);
    for (listener_t *listener = listeners; listener; listener = listener->next) {
        char *event = make_event(text);
        if (event && uvhttp_deferred_run(listener->stream, write_event, event) != UVHTTP_OK) free(event);
    }
    pthread_mutex_unlock(&lock);
    uvhttp_response_empty(res, 204);
}

int main(int argc, char **argv) {
    uvhttp_server_t *server = uvhttp_server_new(NULL);
    uvhttp_get(server, "/", home, NULL);
    uvhttp_get(server, "/events", listen_to_events, NULL);
    uvhttp_post(server, "/say", say, NULL);
    int status = uvhttp_server_run(server, argc > 1 ? argv[1] : "127.0.0.1:8080");
    uvhttp_server_free(server);
    return status != 0; /* what went wrong has been logged */
}
