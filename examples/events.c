/* Server-sent events: what one client says, all others see at once. One page, no library in the browser.
 *
 *   build/dist/bin/events                  # or: events 127.0.0.1:9000
 *   curl -N http://127.0.0.1:8080/events &
 *   curl -d hello http://127.0.0.1:8080/say
 *
 * An event stream is a response that does not end, to which any thread sends events. A client that does not read is cut
 * off; the browser then connects again by itself.
 */
#include <pthread.h>
#include <stdlib.h>
#include <uvhttp.h>

#define TEXT_MAX 500 /* bytes of what may be said at once */

typedef struct listener {
    struct listener *next, **at; /* in the list, while the client is there */
    uvhttp_events_t *events;
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

/* The client has gone, or the server stops: it ends all streams. */
static void leave(uvhttp_events_t *events, int status, void *user) {
    listener_t *listener = user;
    (void)status;
    pthread_mutex_lock(&lock);
    *listener->at = listener->next;
    if (listener->next) listener->next->at = listener->at;
    pthread_mutex_unlock(&lock);
    uvhttp_events_release(events);
    free(listener);
}

static void listen_to_events(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    listener_t *listener = malloc(sizeof *listener);
    const uvhttp_events_options_t options = {.on_close = leave, .user = listener};
    if (!listener || uvhttp_events_open(res, &options, &listener->events) != UVHTTP_OK) {
        free(listener);
        uvhttp_response_empty(res, 503);
        return;
    }
    pthread_mutex_lock(&lock);
    listener->next = listeners;
    if (listeners) listeners->at = &listener->next;
    listener->at = &listeners;
    listeners = listener;
    pthread_mutex_unlock(&lock);
}

static void say(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t text = uvhttp_request_body(req);
    if (text.size == 0 || text.size > TEXT_MAX) {
        uvhttp_response_text(res, 422, "say between 1 and 500 bytes\n");
        return;
    }
    pthread_mutex_lock(&lock);
    for (listener_t *listener = listeners; listener; listener = listener->next)
        uvhttp_events_send(listener->events, &(uvhttp_event_t){.data = text});
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
