/* Streams of events, spooled bodies and saved forms on each backend, as each system call and each allocation fails
 * once: a response is right, an error, cut short or missing, and no file is left of what was not saved. */
/* Needs: forms middleware. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uvhttp/events.h>
#include <uvhttp/form.h>

#include <cmocka.h>

#include "support/failing_allocator.h"
#include "support/failing_calls.h"
#include "support/process.h"

#define LARGE 70000
#define BOUNDARY "Content-Type: multipart/form-data; boundary=b\r\n"

static char folder[] = "/tmp/uvhttp-streams-XXXXXX";
static int directory = -1;
static char large[LARGE + 1];

/* --- the server --- */

static void on_close(uvhttp_events_t *events, int status, void *user) {
    (void)status, (void)user;
    uvhttp_events_release(events);
}

static void send_events(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_events_t *events;
    /* Without memory for the close, the heartbeat ends the stream. */
    const uvhttp_events_options_t options = {.on_close = on_close, .heartbeat_ms = 1000};
    if (uvhttp_events_open(res, &options, &events) != UVHTTP_OK) {     /* the client gets 500 */
        if (uvhttp_response_header(res, "X-Open", "yes") == UVHTTP_OK) /* the handler may still respond */
            assert_null(uvhttp_response_header_get(res, "Cache-Control").data);
        return;
    }
    const uvhttp_event_t event = {.event = "tea", .data = {"one\ntwo", 7}};
    if (uvhttp_events_send(events, &event) != UVHTTP_OK) assert_true(test_allocator_failed() || test_call_failed());
    (void)uvhttp_events_close(events);
}

/* What it reads and removes: its own calls never fail. */
static size_t read_saved(const char *name, char *text, size_t size) {
    one_thread_is_client = true;
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t got = read(fd, text, size);
    assert_true(got >= 0);
    close(fd);
    assert_int_equal(unlinkat(directory, name, 0), 0);
    one_thread_is_client = false;
    return (size_t)got;
}

static void send_status(uvhttp_response_t *res, int status) {
    assert_true(test_allocator_failed() || test_call_failed());
    (void)uvhttp_response_text(res, 500, uvhttp_error_name(status));
}

/* Responds with the files of the form, and the fields. */
static void save_form(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_form_t *form;
    int status = uvhttp_request_save_form(req, directory, &(uvhttp_form_limits_t){0}, &form);
    if (status != UVHTTP_OK) {
        send_status(res, status);
        return;
    }
    char text[2048];
    size_t size = 0;
    uvhttp_str_t name, value;
    uvhttp_form_file_t file;
    for (size_t i = 0; uvhttp_form_file_at(form, i, &file); i++)
        size += read_saved(file.saved.data, text + size, sizeof text - size);
    for (size_t i = 0; uvhttp_form_field_at(form, i, &name, &value); i++) {
        memcpy(text + size, value.data, value.size);
        size += value.size;
    }
    (void)uvhttp_response_send(res, 200, "text/plain", text, size);
}

static void save_body(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    static _Thread_local char text[LARGE + 1];
    char saved[UVHTTP_FORM_SAVED_NAME_SIZE];
    uint64_t size;
    int status = uvhttp_request_save_body(req, directory, NULL, saved, &size);
    if (status != UVHTTP_OK) {
        send_status(res, status);
        return;
    }
    assert_int_equal(read_saved(saved, text, sizeof text), size);
    (void)uvhttp_response_send(res, 200, "text/plain", text, size);
}

static void set_up(uvhttp_server_t *server) {
    static const uvhttp_route_options_t spooled = {.stream_body = true};
    static const uvhttp_route_options_t live = {.stream_body = true, .live_body = true};
    (void)uvhttp_get(server, "/events", send_events, NULL);
    static const struct {
        const char *path;
        uvhttp_handler_cb run;
        const uvhttp_route_options_t *options;
    } routes[] = {{"/form", save_form, &spooled}, {"/live", save_form, &live}, {"/body", save_body, &spooled}};
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        uvhttp_route_t *route =
            uvhttp_route(server, UVHTTP_POST, routes[i].path, routes[i].run, NULL, UVHTTP_EXEC_WORKER);
        if (route) (void)uvhttp_route_options(route, routes[i].options);
    }
}

/* --- the client --- */

#define FIELD "--b\r\nContent-Disposition: form-data; name=\"f\"\r\n\r\nvalue\r\n"
#define FILE_PART(name, content)                                                                                       \
    "--b\r\nContent-Disposition: form-data; name=\"x\"; filename=\"" name "\"\r\n\r\n" content "\r\n"
#define FORM FIELD FILE_PART("a.txt", "first") FILE_PART("a.txt", "second") "--b--\r\n"

static int count_files(void) {
    DIR *entries = opendir(folder);
    int count = 0;
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries));) count += entry->d_name[0] != '.';
    closedir(entries);
    return count;
}

static void post(one_thread_t *it, const char *path, const char *fields, const char *body, const char *expected) {
    char *text = malloc(LARGE + 512);
    snprintf(text, LARGE + 512, "POST %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n%sContent-Length: %zu\r\n\r\n%s",
             path, fields, strlen(body), body);
    one_thread_ask(it, &(one_request_t){text, 200, expected, NULL});
    free(text);
    assert_int_equal(count_files(), 0);
}

static void speak(one_thread_t *it) {
    one_thread_ask(it, &(one_request_t){"GET /events HTTP/1.0\r\nHost: a\r\n\r\n", 200,
                                        ":\n\nevent: tea\ndata: one\ndata: two\n\n", NULL});
    post(it, "/form", BOUNDARY, FORM, "firstsecondvalue");
    post(it, "/live", BOUNDARY, FORM, "firstsecondvalue");
    post(it, "/body", "", large, large); /* more than spool_memory: in a file meanwhile */
}

static const failing_call_t calls[] = {
    {FAIL_open, {EMFILE, ENOMEM, EACCES, EOPNOTSUPP}},
    {FAIL_openat, {EMFILE, ENOSPC, EACCES}},
    {FAIL_pwrite, {ENOSPC, EIO, EINTR, FAIL_SHORT}},
    {FAIL_write, {ENOSPC, EIO, EINTR, FAIL_SHORT}},
    {FAIL_pread, {EIO, EINTR}},
    {FAIL_close, {EIO}},
    {FAIL_pthread_create, {EAGAIN}},
    {FAIL_eventfd, {EMFILE}},
};

static const failing_life_t life = {
    .set_up = set_up, .speak = speak, .complete = 4, .calls = calls, .call_count = sizeof calls / sizeof *calls};

static void test_each_system_call_may_fail(void **state) {
    fail_each_call_of(&life, state, 20);
}

static void test_each_allocation_may_fail(void **state) {
    fail_each_allocation_of(&life, state, 20);
}

int main(void) {
    memset(large, 'l', LARGE);
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    if (!mkdtemp(folder)) return 1;
    directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failed = RUN_IN_ONE_THREAD(test_each_system_call_may_fail, test_each_allocation_may_fail);
    close(directory);
    remove_tree(folder);
    return failed;
}
