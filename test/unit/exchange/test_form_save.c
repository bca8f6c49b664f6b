/* Owns: tests of bodies that a handler on a worker thread has saved to disk: what is there afterwards, and that nothing
 * is when it fails. On each engine. */
/* Needs: forms. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "support/http_server.h"
#include <uvhttp/form.h>

#define BOUNDARY "Content-Type: multipart/form-data; boundary=b\r\n"
#define FIELD(name, value) "--b\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n" value "\r\n"
#define FILE_HEAD(name, file) "--b\r\nContent-Disposition: form-data; name=\"" name "\"; filename=\"" file "\"\r\n\r\n"
#define LARGE (3u << 20)

static struct {
    char path[64];
    int directory;
    uvhttp_form_limits_t limits;
    atomic_int status, handlers;
} seen;

/* Stands in front of the C library's: once a name is free, another upload may have it at once. */
static const char *_Atomic reused_name;

int unlinkat(int directory, const char *name, int flags) {
    int status = (int)syscall(SYS_unlinkat, directory, name, flags);
    const char *wanted = atomic_load(&reused_name);
    if (status != 0 || !wanted || strcmp(name, wanted) != 0) return status;
    atomic_store(&reused_name, NULL);
    int fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    return close(fd);
}

static void seen_make(void) {
    memset(&seen, 0, sizeof seen);
    strcpy(seen.path, "/tmp/uvhttp-save-XXXXXX");
    assert_non_null(mkdtemp(seen.path));
    seen.directory = open(seen.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(seen.directory >= 0);
    atomic_store(&seen.status, 99);
}

/* How many files there are; they are removed. */
static int seen_end(void) {
    DIR *folder = opendir(seen.path);
    int count = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (entry->d_name[0] != '.') count += unlinkat(seen.directory, entry->d_name, 0) == 0;
    if (folder) closedir(folder);
    close(seen.directory);
    assert_int_equal(rmdir(seen.path), 0);
    return count;
}

/* Responds with what the form has: "name=value;", "name:saved name:size;". */
static void save_form(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_form_t *form;
    atomic_fetch_add(&seen.handlers, 1);
    int status = uvhttp_request_save_form(req, seen.directory, &seen.limits, &form);
    atomic_store(&seen.status, status);
    if (status != 0) {
        uvhttp_response_text(res, uvhttp_error_http_status(status), uvhttp_error_name(status));
        return;
    }
    char text[2048];
    size_t used = 0;
    uvhttp_str_t name, value;
    uvhttp_form_file_t file;
    for (size_t i = 0; uvhttp_form_field_at(form, i, &name, &value); i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%.*s=%.*s;", (int)name.size, name.data,
                                 (int)value.size, value.data);
    for (size_t i = 0; uvhttp_form_file_at(form, i, &file); i++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%.*s:%s:%llu;", (int)file.field.size, file.field.data,
                             file.saved.data ? file.saved.data : "-", (unsigned long long)file.saved_size);
    uvhttp_response_text(res, 200, text);
}

/* What on_progress was called with for one body: whether the bytes only grow, and the last. */
typedef struct progress {
    unsigned calls;
    bool grows;
    uint64_t received;
    int64_t total;
} progress_t;

static atomic_uint_fast64_t received_now;

static void on_progress(uvhttp_request_t *req, uint64_t received, int64_t total, void *user) {
    (void)req;
    progress_t *progress = user;
    progress->grows = progress->grows && received > progress->received;
    progress->calls++;
    progress->received = received;
    progress->total = total;
    atomic_store(&received_now, received);
}

static void save_body(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    char saved[UVHTTP_FORM_SAVED_NAME_SIZE], text[300];
    uint64_t size;
    progress_t progress = {.grows = true, .total = -2};
    const uvhttp_save_options_t options = {.name = user, .on_progress = on_progress, .user = &progress};
    int status = uvhttp_request_save_body(req, seen.directory, &options, saved, &size);
    if (status == 0 && (!progress.grows || progress.received != size)) status = UVHTTP_E_STATE;
    if (status == 0)
        snprintf(text, sizeof text, "%s %llu of %lld", saved, (unsigned long long)size, (long long)progress.total);
    else
        snprintf(text, sizeof text, "%s 0", uvhttp_error_name(status));
    uvhttp_response_text(res, status == 0 ? 200 : uvhttp_error_http_status(status), text);
}

static atomic_uint_fast64_t written; /* what the last call of continue_body has said */

/* Appends the body to "part". */
static void continue_body(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uint64_t size = 99;
    progress_t progress = {.grows = true};
    const uvhttp_save_options_t options = {.on_progress = on_progress, .user = &progress};
    int fd = openat(seen.directory, "part", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int status = fd < 0 ? UVHTTP_E_IO : uvhttp_request_write_body(req, fd, &options, &size);
    if (fd >= 0) close(fd);
    atomic_store(&written, size);
    atomic_store(&seen.status, status);
    uvhttp_response_text(res, status == 0 ? 200 : uvhttp_error_http_status(status), uvhttp_error_name(status));
}

static serving_t *start_with(void **state, uvhttp_form_limits_t limits) {
    static const uvhttp_route_options_t live = {.stream_body = true, .live_body = true};
    static const uvhttp_route_options_t spooled = {.stream_body = true};
    serving_t *serving = *state;
    seen_make();
    seen.limits = limits;
    serving_make(serving);
    uvhttp_route_options(uvhttp_route(serving->server, UVHTTP_POST, "/form", save_form, NULL, UVHTTP_EXEC_WORKER),
                         &live);
    uvhttp_route(serving->server, UVHTTP_POST, "/whole", save_form, NULL, UVHTTP_EXEC_WORKER);
    uvhttp_route_options(uvhttp_route(serving->server, UVHTTP_PUT, "/body", save_body, "it.bin", UVHTTP_EXEC_WORKER),
                         &live);
    uvhttp_route_options(uvhttp_route(serving->server, UVHTTP_PUT, "/part", continue_body, NULL, UVHTTP_EXEC_WORKER),
                         &live);
    uvhttp_route_options(uvhttp_route(serving->server, UVHTTP_POST, "/spooled", save_form, NULL, UVHTTP_EXEC_WORKER),
                         &spooled);
    uvhttp_route_options(
        uvhttp_route(serving->server, UVHTTP_PUT, "/spooled_body", save_body, "it.bin", UVHTTP_EXEC_WORKER), &spooled);
    uvhttp_post(serving->server, "/loop", save_form, NULL);
    serving_start(serving);
    return serving;
}

static serving_t *start(void **state) {
    return start_with(state, (uvhttp_form_limits_t){0});
}

static void send_head(int fd, const char *path, size_t size) {
    char head[256];
    snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: a\r\n" BOUNDARY "Content-Length: %zu\r\n\r\n", path, size);
    client_send_text(fd, head);
}

/* The body in two pieces that are cut at `cut`. */
static const client_response_t *ask(serving_t *serving, const char *path, const char *body, size_t cut) {
    int fd = client_connect(serving->port);
    char first[2048];
    assert_true(cut < sizeof first);
    memcpy(first, body, cut);
    first[cut] = '\0';
    send_head(fd, path, strlen(body));
    if (cut > 0) client_send_text(fd, first);
    client_send_text(fd, body + cut);
    const client_response_t *response = client_read(fd);
    close(fd);
    return response;
}

static void expect_file(const char *name, const char *content, size_t size) {
    int fd = openat(seen.directory, name, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    char *got = malloc(size + 1);
    size_t have = 0;
    for (ssize_t n; have <= size && (n = read(fd, got + have, size + 1 - have)) > 0;) have += (size_t)n;
    close(fd);
    assert_int_equal(have, size);
    assert_memory_equal(got, content, size);
    free(got);
}

static const char whole[] = FIELD("title", "green tea") FILE_HEAD("file", "../../a.txt") "first\r\n" FILE_HEAD(
    "file", "a.txt") "second\r\n" FILE_HEAD("none", "") "\r\n" FILE_HEAD("empty", "b.txt") "\r\n" FIELD("", "") "--b--";

static void test_fields_are_reported_and_files_are_on_disk_wherever_the_body_is_cut(void **state) {
    serving_t *serving = start(state);
    for (size_t cut = 0; cut < sizeof whole; cut += 7) {
        const client_response_t *response = ask(serving, cut % 2 ? "/spooled" : "/form", whole, cut);
        assert_int_equal(response->status, 200);
        assert_string_equal(response->body, "title=green tea;=;file:a.txt:5;file:a-1.txt:6;none:-:0;empty:b.txt:0;");
        expect_file("a.txt", "first", 5);
        expect_file("a-1.txt", "second", 6);
        expect_file("b.txt", "", 0);
        assert_int_equal(unlinkat(seen.directory, "a.txt", 0) + unlinkat(seen.directory, "a-1.txt", 0) +
                             unlinkat(seen.directory, "b.txt", 0),
                         0);
    }
    assert_string_equal(ask(serving, "/whole", whole, 0)->body,
                        "title=green tea;=;file:a.txt:5;file:a-1.txt:6;none:-:0;empty:b.txt:0;");
    assert_int_equal(seen_end(), 3);
}

static char *large_text(void) {
    char *text = malloc(LARGE + 1);
    for (size_t i = 0; i < LARGE; i++) text[i] = (char)('a' + (i * 31 + i / 4093) % 26);
    text[LARGE] = '\0';
    return text;
}

static void check_a_large_file(serving_t *serving, const char *form, const char *body) {
    static const char before[] = FILE_HEAD("f", "large.bin"), after[] = "\r\n--b--\r\n";
    char *text = large_text();
    int fd = client_connect(serving->port);
    send_head(fd, form, sizeof before - 1 + LARGE + sizeof after - 1);
    client_send_text(fd, before);
    client_send_text(fd, text);
    client_send_text(fd, after);
    assert_string_equal(client_read(fd)->body, "f:large.bin:3145728;");
    expect_file("large.bin", text, LARGE);
    char head[128];
    snprintf(head, sizeof head, "PUT %s HTTP/1.1\r\nHost: a\r\nContent-Length: %u\r\n\r\n", body, LARGE);
    client_send_text(fd, head);
    client_send_text(fd, text);
    assert_string_equal(client_read(fd)->body, "it.bin 3145728 of 3145728");
    expect_file("it.bin", text, LARGE);
    close(fd);
    free(text);
    assert_int_equal(seen_end(), 2);
}

static void test_a_large_file_is_the_same_on_disk(void **state) {
    check_a_large_file(start(state), "/form", "/body");
}

/* Each piece is sent when the callback has reported the one before. */
static void test_progress_follows_the_client(void **state) {
    serving_t *serving = start(state);
    int fd = client_ask(serving, "PUT /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    atomic_store(&received_now, 0);
    for (unsigned i = 1; i <= 3; i++) {
        client_send_text(fd, "4\r\nfour\r\n");
        WAIT_UNTIL(atomic_load(&received_now) == 4 * i);
    }
    client_send_text(fd, "0\r\n\r\n");
    assert_string_equal(client_read(fd)->body, "it.bin 12 of -1");
    client_send_text(fd, "PUT /spooled_body HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_string_equal(client_read(fd)->body, "it-1.bin 0 of -2"); /* there was no piece to tell of */
    close(fd);
    assert_int_equal(seen_end(), 2);
}

static void test_a_large_file_that_was_spooled_is_the_same_on_disk(void **state) {
    serving_t *serving = start(state);
    check_a_large_file(serving, "/spooled", "/spooled_body");
    assert_int_equal(uvhttp_server_counter(serving->server, "bodies_spooled"), 2);
}

/* The body of a client that has gone is incomplete: no handler runs for it, and nothing is saved. */
static void test_a_client_that_goes_before_its_body_is_spooled_leaves_nothing(void **state) {
    serving_t *serving = start(state);
    int fd = client_connect(serving->port);
    send_head(fd, "/spooled", 1000);
    client_send_text(fd, FILE_HEAD("f", "a.txt") "abc\r\n" FILE_HEAD("g", "b.txt") "abc");
    WAIT_UNTIL(uvhttp_server_counter(serving->server, "requests") == 1);
    close(fd);
    WAIT_UNTIL(uvhttp_server_counter(serving->server, "connections_closed") == 1);
    assert_int_equal(atomic_load(&seen.handlers), 0);
    assert_int_equal(seen_end(), 0);
}

static void test_what_is_malformed_or_beyond_a_limit_leaves_nothing(void **state) {
    static const struct {
        const char *body, *code;
        int status;
    } cases[] = {
        {FILE_HEAD("f", "a.txt") "abc\r\n" FILE_HEAD("g", "b.txt") "abc", "UVHTTP_E_MULTIPART_INCOMPLETE", 400},
        {FILE_HEAD("f", "a.txt") "abc\r\n" FILE_HEAD("g", "b.txt") "123456789\r\n--b--",
         "UVHTTP_E_MULTIPART_PART_TOO_LARGE", 413},
        {FILE_HEAD("f", "a.txt") "abc\r\n" FIELD("a", "") FIELD("b", "") FIELD("c", "") "--b--",
         "UVHTTP_E_FORM_TOO_MANY_FIELDS", 413},
        {FILE_HEAD("f", "a.txt") "abc\r\n--b\r\nwrong\r\n\r\n\r\n--b--", "UVHTTP_E_MULTIPART_HEADER", 400},
    };
    serving_t *serving = start_with(state, (uvhttp_form_limits_t){.part_size_max = 8, .field_count_max = 3});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int spooled = 0; spooled < 2; spooled++) {
            const client_response_t *response = ask(serving, spooled ? "/spooled" : "/form", cases[i].body, 0);
            assert_int_equal(response->status, cases[i].status);
            assert_string_equal(response->body, cases[i].code);
        }
    }
    assert_int_equal(seen_end(), 0);
}

static void test_the_name_of_a_file_that_was_removed_is_another_uploads(void **state) {
    serving_t *serving = start_with(state, (uvhttp_form_limits_t){.part_size_max = 8});
    atomic_store(&reused_name, "b.txt");
    const client_response_t *response =
        ask(serving, "/form", FILE_HEAD("f", "a.txt") "abc\r\n" FILE_HEAD("g", "b.txt") "123456789\r\n--b--", 0);
    assert_int_equal(response->status, 413);
    assert_null(atomic_load(&reused_name));
    assert_int_equal(seen_end(), 1);
}

static void test_a_client_that_goes_leaves_nothing(void **state) {
    serving_t *serving = start(state);
    int fd = client_connect(serving->port);
    send_head(fd, "/form", 1000);
    client_send_text(fd, FILE_HEAD("f", "a.txt") "abc\r\n" FILE_HEAD("g", "b.txt") "abc");
    WAIT_UNTIL(faccessat(seen.directory, "b.txt", F_OK, 0) == 0);
    close(fd);
    WAIT_UNTIL(atomic_load(&seen.status) != 99);
    assert_true(atomic_load(&seen.status) == UVHTTP_E_ABORTED ||
                atomic_load(&seen.status) == UVHTTP_E_HTTP_BODY_INCOMPLETE);
    assert_int_equal(seen_end(), 0);
}

/* An upload is interrupted, and the next one continues it. */
static void test_what_arrived_of_a_body_stays_and_can_be_continued(void **state) {
    serving_t *serving = start(state);
    atomic_store(&received_now, 0);
    int fd = client_ask(serving, "PUT /part HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\nfirst ");
    WAIT_UNTIL(atomic_load(&received_now) == 6);
    close(fd);
    WAIT_UNTIL(atomic_load(&seen.status) != 99);
    assert_true(atomic_load(&seen.status) == UVHTTP_E_ABORTED ||
                atomic_load(&seen.status) == UVHTTP_E_HTTP_BODY_INCOMPLETE);
    assert_int_equal(atomic_load(&written), 6);
    expect_file("part", "first ", 6);
    client_read_last(client_ask(serving, "PUT /part HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nsecond"), 200);
    assert_int_equal(atomic_load(&written), 6);
    expect_file("part", "first second", 12);
    assert_int_equal(seen_end(), 1);
}

/* A limit of the process stands for a full disk: both are 507. */
static void test_no_space_is_reported_and_leaves_nothing(void **state) {
    serving_t *serving = start(state);
    struct rlimit before;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 4, .rlim_max = before.rlim_max}), 0);
    const client_response_t *response =
        ask(serving, "/form", FILE_HEAD("f", "a.txt") "abc\r\n" FILE_HEAD("g", "b.txt") "abcdef\r\n--b--", 0);
    int status = response->status;
    char body[64];
    snprintf(body, sizeof body, "%s", response->body);
    client_read_last(client_ask(serving, "PUT /part HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabcdef"), 507);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, 507);
    assert_string_equal(body, "UVHTTP_E_UPLOAD_NO_SPACE");
    assert_int_equal(atomic_load(&written), 0);
    expect_file("part", "abcd", 4); /* of the piece that did not fit */
    assert_int_equal(seen_end(), 1);
}

static void test_what_is_no_such_form_or_no_such_handler_is_refused(void **state) {
    serving_t *serving = start(state);
    int fd =
        client_ask(serving, "POST /form HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\na");
    client_read_last(fd, 415);
    assert_string_equal(ask(serving, "/loop", whole, 0)->body, "UVHTTP_E_STATE");
    uvhttp_form_t *form;
    assert_int_equal(uvhttp_request_save_form(NULL, 0, NULL, &form), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_request_save_body(NULL, 0, NULL, NULL, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_request_write_body(NULL, 0, NULL, NULL), UVHTTP_E_INVALID);
    assert_int_equal(seen_end(), 0);
}

int main(void) {
    return RUN_ON_EACH(
        test_fields_are_reported_and_files_are_on_disk_wherever_the_body_is_cut, test_a_large_file_is_the_same_on_disk,
        test_progress_follows_the_client, test_a_large_file_that_was_spooled_is_the_same_on_disk,
        test_a_client_that_goes_before_its_body_is_spooled_leaves_nothing,
        test_what_is_malformed_or_beyond_a_limit_leaves_nothing,
        test_the_name_of_a_file_that_was_removed_is_another_uploads, test_a_client_that_goes_leaves_nothing,
        test_what_arrived_of_a_body_stays_and_can_be_continued, test_no_space_is_reported_and_leaves_nothing,
        test_what_is_no_such_form_or_no_such_handler_is_refused);
}
