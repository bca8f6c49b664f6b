/* Owns: tests of static files under windows of a protocol with many streams: files, pieces of them and bodies in parts
 * are pulled as the windows open, and released once. On each engine. */
/* Needs: static. */
#include <fcntl.h>
#include <sys/stat.h>
#include <uvhttp/static.h>

#include "support/fake_script.h"

#define LARGE 200000
#define SMALL 3000

static char folder[] = "/tmp/uvhttp-streams-XXXXXX";

static void make_file(const char *name, size_t size) {
    char path[128], *bytes = fake_bytes(fake_byte_out, 0, size);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
    free(bytes);
}

static int make_folder(void **state) {
    (void)state;
    assert_non_null(mkdtemp(folder));
    make_file("large", LARGE);
    make_file("small", SMALL);
    return 0;
}

static int drop_folder(void **state) {
    (void)state;
    remove_tree(folder);
    return 0;
}

static void test_files_are_pulled_as_windows_open(void **state) {
    static const struct {
        const char *path, *range;
        int status;
        size_t from, size;
    } cases[] = {
        {"/files/large", NULL, 200, 0, LARGE},
        {"/files/small", NULL, 200, 0, SMALL},
        {"/files/large", "Range: bytes=70000-179999\n", 206, 70000, 110000},
        {"/files/small", "Range: bytes=-5\n", 206, SMALL - 5, 5},
    };
    fake_server_t server;
    fake_server_make(&server, state);
    assert_int_equal(uvhttp_static(server.serving->server, "/files", folder, NULL), UVHTTP_OK);
    fake_server_start(&server);
    enum { COUNT = sizeof cases / sizeof *cases };
    fake_script_t *scripts[2 * COUNT];
    for (int i = 0; i < 2 * COUNT; i++) { /* the second of each is aborted */
        scripts[i] = fake_script_for(&server, UVHTTP_GET, cases[i / 2].path, NULL);
        scripts[i]->request.fields = cases[i / 2].range;
        scripts[i]->send_window = 0;
        fake_script_start(scripts[i]);
    }
    for (int i = 0; i < 2 * COUNT; i++) {
        WAIT_UNTIL(fake_script_look(scripts[i])->responded);
        assert_int_equal(scripts[i]->seen.announced, cases[i / 2].size);
    }
    for (int i = 0; i < 2 * COUNT; i++) fake_script_send(scripts[i], cases[i / 2].size / 2);
    for (int i = 1; i < 2 * COUNT; i += 2) fake_script_abort(scripts[i]);
    for (int i = 0; i < 2 * COUNT; i++) {
        if (i % 2 == 0) {
            assert_false(fake_script_is_over(scripts[i]));
            fake_script_send(scripts[i], cases[i / 2].size);
            fake_script_expect_status(scripts[i], cases[i / 2].status);
            const fake_stream_t *seen = &scripts[i]->seen;
            assert_int_equal(seen->body_consumed, cases[i / 2].size);
            for (size_t at = 0; at < seen->body_consumed; at++)
                assert_int_equal(seen->body[at], fake_byte_out(0, cases[i / 2].from + at));
        } else {
            fake_script_expect_abort(scripts[i]);
        }
        fake_script_free(scripts[i]);
    }
    fake_server_stop(&server);
}

/* Whether the bytes [from, from + size) of the file stand somewhere in the body. */
static bool holds(const fake_stream_t *stream, size_t from, size_t size) {
    char *bytes = fake_bytes(fake_byte_out, 0, from + size);
    bool found = false;
    for (size_t at = 0; at + size <= stream->body_consumed && !found; at++)
        found = memcmp(stream->body + at, bytes + from, size) == 0;
    free(bytes);
    return found;
}

static void test_several_ranges_are_one_body(void **state) {
    fake_server_t server;
    fake_server_make(&server, state);
    assert_int_equal(uvhttp_static(server.serving->server, "/files", folder, NULL), UVHTTP_OK);
    fake_server_start(&server);
    static const char *const paths[] = {"/files/large", "/files/small"};
    for (int i = 0; i < 2; i++) {
        fake_script_t *script = fake_script_for(&server, UVHTTP_GET, paths[i], NULL);
        script->request.fields = "Range: bytes=0-99,1000-1999\n";
        script->send_window = 0;
        fake_script_start(script);
        WAIT_UNTIL(fake_script_look(script)->responded);
        for (int piece = 0; piece < 100 && !fake_script_is_over(script); piece++) fake_script_send(script, 7);
        assert_false(fake_script_is_over(script));
        fake_script_send(script, 10000);
        fake_script_expect_status(script, 206);
        assert_int_equal(script->seen.body_consumed, script->seen.announced);
        assert_true(holds(&script->seen, 0, 100));
        assert_true(holds(&script->seen, 1000, 1000));
        fake_script_free(script);
    }
    fake_server_stop(&server);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_EACH(test_files_are_pulled_as_windows_open),
        ON_EACH(test_several_ranges_are_one_body),
    };
    run_only_chosen();
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
