/* Static files: opening below a root, loading, and the cache, with time that the test makes. */
/* Needs: static. */
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uvhttp/log.h>

#include "../support/failing_allocator.h"
#include "handler/static.h"
#include "support/process.h"

static char top[] = "/tmp/uvhttp-static-XXXXXX", root[64];

static void write_file(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", top, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    const struct timespec times[] = {{1000000000, 5}, {1000000000, 5}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void make_link(const char *to, const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", top, name);
    assert_int_equal(symlink(to, path), 0);
}

static int make_tree(void **state) {
    (void)state;
    assert_non_null(mkdtemp(top));
    snprintf(root, sizeof root, "%s/root", top);
    assert_int_equal(mkdir(root, 0755), 0);
    char inner[96];
    snprintf(inner, sizeof inner, "%s/dir", root);
    assert_int_equal(mkdir(inner, 0755), 0);
    write_file("secret", "secret");
    write_file("root/a.txt", "aaaa");
    write_file("root/b.txt", "bbbb");
    write_file("root/dir/index.html", "index");
    make_link("a.txt", "root/in");
    make_link("../secret", "root/out");
    make_link("dir", "root/dirlink");
    return 0;
}

static int drop_tree(void **state) {
    (void)state;
    remove_tree(top);
    return 0;
}

static const uvhttp_static_options_t *with(uvhttp_static_options_t options) {
    static uvhttp_static_options_t kept;
    kept = options;
    return &kept;
}

static uvhttp__static_site_t *site_new(const uvhttp_static_options_t *options) {
    char text[256];
    uvhttp__static_site_t *site;
    assert_int_equal(uvhttp__static_site_new("/", root, options, 1, text, sizeof text, &site), UVHTTP_OK);
    return site;
}

/* --- opening --- */

static int open_status(int at, const char *path, bool no_symlinks, bool walk) {
    int fd = uvhttp__static_open(at, path, no_symlinks, walk);
    if (fd < 0) return fd;
    close(fd);
    return 0;
}

static void test_both_ways_of_opening_stay_below_the_root(void **state) {
    (void)state;
    int at = open(root, O_RDONLY | O_DIRECTORY);
    for (int walk = 0; walk < 2; walk++) {
        if (!walk && !uvhttp__static_has_openat2(at)) continue;
        assert_int_equal(open_status(at, "a.txt", false, walk), 0);
        assert_int_equal(open_status(at, "dir/index.html", false, walk), 0);
        assert_int_equal(open_status(at, "dir/", false, walk), 0);
        assert_int_equal(open_status(at, "", false, walk), 0);
        assert_int_equal(open_status(at, "missing", false, walk), -ENOENT);
        assert_int_equal(open_status(at, "a.txt/", false, walk), -ENOTDIR);
        assert_int_equal(open_status(at, "a.txt/b", false, walk), -ENOTDIR);
        assert_true(open_status(at, "out", false, walk) < 0);
        assert_int_equal(open_status(at, "in", false, walk) == 0, !walk);
        assert_int_equal(open_status(at, "dirlink/index.html", false, walk) == 0, !walk);
        assert_true(open_status(at, "in", true, walk) < 0);
        assert_true(open_status(at, "dirlink/index.html", true, walk) < 0);
    }
    assert_true(open_status(at, "../secret", false, false) < 0);
    assert_true(open_status(at, root, false, false) < 0);
    close(at);
}

/* --- loading --- */

#define NOW (uvhttp__clock_unix_ms() + 10000) /* later than everything that the tests do to files */

static void release(uvhttp__static_found_t *found) {
    for (int i = 0; i < UVHTTP__STATIC_CODINGS; i++)
        if (found->files[i]) uvhttp__static_file_release(found->files[i]);
}

static void test_what_has_not_changed_is_not_loaded_again(void **state) {
    (void)state;
    uvhttp__static_site_t *site = site_new(NULL);
    uvhttp__static_found_t first, second;
    uvhttp__static_look_up(site, "a.txt", "", NULL, NOW, &first);
    assert_int_equal(first.status, 200);
    assert_memory_equal(first.files[0]->content, "aaaa", 4);
    assert_int_equal(site->memory->size, 4);
    uvhttp__static_look_up(site, "a.txt", "", &first, NOW, &second);
    assert_ptr_equal(first.files[0], second.files[0]);
    release(&second);
    write_file("root/a.txt", "cccc"); /* the same size and date, another time of change */
    uvhttp__static_look_up(site, "a.txt", "", &first, NOW, &second);
    assert_ptr_not_equal(first.files[0], second.files[0]);
    assert_memory_equal(second.files[0]->content, "cccc", 4);
    assert_string_not_equal(first.files[0]->etag.data, second.files[0]->etag.data);
    release(&first);
    release(&second);
    write_file("root/a.txt", "aaaa");
    assert_int_equal(site->memory->size, 0);
    uvhttp__static_site_free(site);
}

static void test_a_file_that_is_too_fresh_is_loaded_again(void **state) {
    (void)state;
    uvhttp__static_site_t *site = site_new(NULL);
    uvhttp__static_found_t first, second;
    const int64_t same_second = INT64_C(1000000000) * 1000 + 500;
    uvhttp__static_look_up(site, "a.txt", "", NULL, same_second, &first);
    uvhttp__static_look_up(site, "a.txt", "", &first, NOW, &second);
    assert_ptr_not_equal(first.files[0], second.files[0]);
    assert_int_equal(first.files[0]->etag.size, second.files[0]->etag.size);
    assert_memory_equal(first.files[0]->etag.data, second.files[0]->etag.data, first.files[0]->etag.size);
    release(&first);
    release(&second);
    uvhttp__static_site_free(site);
}

/* Archives and copies keep the date of a file: that it has come to be just now shows in the time of its change alone.
 */
static void test_a_file_with_an_old_date_that_has_just_come_is_loaded_again(void **state) {
    (void)state;
    uvhttp__static_site_t *site = site_new(NULL);
    uvhttp__static_found_t first, second;
    write_file("root/a.txt", "aaaa"); /* dated 2001 */
    uvhttp__static_look_up(site, "a.txt", "", NULL, uvhttp__clock_unix_ms(), &first);
    assert_false(first.files[0]->settled);
    uvhttp__static_look_up(site, "a.txt", "", &first, NOW, &second);
    assert_ptr_not_equal(first.files[0], second.files[0]);
    assert_true(second.files[0]->settled);
    release(&first);
    release(&second);
    uvhttp__static_site_free(site);
}

static void test_memory_in_use_beyond_twice_the_budget_is_not_added_to(void **state) {
    (void)state;
    uvhttp__static_site_t *site = site_new(with((uvhttp_static_options_t){.cache_size_max = 5}));
    uvhttp__static_found_t found[4];
    for (int i = 0; i < 4; i++) uvhttp__static_look_up(site, "a.txt", "", NULL, NOW, &found[i]);
    assert_non_null(found[1].files[0]->content);
    assert_null(found[2].files[0]->content);
    assert_true(found[3].files[0]->fd >= 0);
    assert_false(found[3].files[0]->settled);
    for (int i = 0; i < 4; i++) release(&found[i]);
    uvhttp__static_look_up(site, "a.txt", "", NULL, NOW, &found[0]);
    assert_non_null(found[0].files[0]->content);
    release(&found[0]);
    uvhttp__static_site_free(site);
}

static void look_up_everything(void *user) {
    (void)user;
    uvhttp_static_options_t options = {.list_directories = true, .warm_up = true};
    char text[256];
    uvhttp__static_site_t *site;
    int status = uvhttp__static_site_new("/", root, &options, 2, text, sizeof text, &site);
    if (status != UVHTTP_OK) {
        assert_int_equal(status, UVHTTP_E_NOMEM);
        return;
    }
    static const char *const paths[] = {"a.txt", "", "dir/", "dir", "missing"};
    static const int expected[] = {200, 200, 200, 301, 404};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        uvhttp__static_found_t found;
        uvhttp__static_look_up(site, paths[i], "", NULL, NOW, &found);
        assert_true(found.status == expected[i] || found.status == 503);
        release(&found);
    }
    uvhttp__static_site_free(site);
}

static void test_every_allocation_may_fail(void **state) {
    (void)state;
    assert_true(test_allocator_each_failure(look_up_everything, NULL) > 20);
}

static void test_an_unreadable_root_is_named(void **state) {
    (void)state;
    char text[256];
    uvhttp__static_site_t *site = NULL;
    assert_int_equal(uvhttp__static_site_new("/", "/nowhere/at/all", NULL, 1, text, sizeof text, &site),
                     UVHTTP_E_STATIC_ROOT);
    assert_string_equal(text,
                        "static files of /nowhere/at/all: the directory cannot be opened: No such file or directory");
    assert_null(site);
}

/* --- the cache --- */

static uvhttp_str_t str(const char *text) {
    return (uvhttp_str_t){text, strlen(text)};
}

static uvhttp__static_entry_t *put(uvhttp__static_cache_t *cache, uvhttp__static_site_t *site, const char *key,
                                   const char *path, uint64_t now_ms) {
    uvhttp__static_entry_t *entry = uvhttp__static_cache_find(cache, str(key));
    if (!entry) entry = uvhttp__static_cache_add(cache, str(key));
    uvhttp__static_found_t found;
    uvhttp__static_look_up(site, path, "", NULL, NOW, &found);
    uvhttp__static_cache_put(cache, entry, &found, now_ms);
    return entry;
}

static bool has(uvhttp__static_cache_t *cache, const char *key) {
    return uvhttp__static_cache_find(cache, str(key)) != NULL;
}

static void cache_init(uvhttp__static_cache_t *cache, uvhttp__static_limits_t limits) {
    assert_int_equal(uvhttp__static_cache_init(cache, &limits), UVHTTP_OK);
}

static void test_the_least_recently_used_is_evicted(void **state) {
    (void)state;
    uvhttp__static_site_t *site = site_new(NULL);
    uvhttp__static_cache_t cache;
    cache_init(&cache,
               (uvhttp__static_limits_t){.entries_max = 100, .missing_max = 2, .descriptors_max = 1, .size_max = 12});
    put(&cache, site, "1", "a.txt", 7);
    put(&cache, site, "2", "a.txt", 7);
    put(&cache, site, "3", "b.txt", 7);
    assert_int_equal(cache.size, 12);
    assert_true(has(&cache, "1"));
    put(&cache, site, "4", "b.txt", 8);
    assert_true(has(&cache, "1") && has(&cache, "3") && has(&cache, "4"));
    assert_false(has(&cache, "2"));
    assert_int_equal(cache.evictions, 1);
    put(&cache, site, "1", "b.txt", 9); /* again: accounted once */
    assert_int_equal(cache.size, 12);
    assert_int_equal(uvhttp__static_cache_find(&cache, str("1"))->checked_ms, 9);
    for (int i = 0; i < 5; i++) put(&cache, site, (const char *[]){"x", "y", "z", "u", "v"}[i], "missing", 9);
    assert_int_equal(cache.missing_count, 2);
    assert_true(has(&cache, "u") && has(&cache, "v") && has(&cache, "4"));
    put(&cache, site, "u", "a.txt", 10); /* it has come to be */
    assert_int_equal(cache.missing_count, 1);
    uvhttp__static_cache_deinit(&cache);
    assert_int_equal(site->memory->size, 0);
    uvhttp__static_site_free(site);
}

static void test_descriptors_are_limited_and_busy_entries_stay(void **state) {
    (void)state;
    uvhttp__static_site_t *site = site_new(with((uvhttp_static_options_t){.sendfile_min = 1}));
    uvhttp__static_cache_t cache;
    cache_init(&cache,
               (uvhttp__static_limits_t){.entries_max = 3, .missing_max = 9, .descriptors_max = 2, .size_max = 100});
    uvhttp__static_entry_t *busy = put(&cache, site, "1", "a.txt", 0);
    busy->busy = true;
    put(&cache, site, "2", "a.txt", 0);
    put(&cache, site, "3", "b.txt", 0);
    assert_true(has(&cache, "1") && has(&cache, "3"));
    assert_false(has(&cache, "2"));
    assert_int_equal(cache.descriptors, 2);
    busy->busy = false;
    assert_true(uvhttp__static_cache_drop_descriptor(&cache));
    assert_false(has(&cache, "1"));
    for (int i = 0; i < 6; i++) put(&cache, site, (const char *[]){"x", "y", "z", "u", "v", "w"}[i], "missing", 9);
    assert_int_equal(cache.missing_count + cache.found_count, 3);
    uvhttp__static_cache_deinit(&cache);
    uvhttp__static_site_free(site);
}

/* It could not stay itself, when all others are gone. */
static void test_what_is_larger_than_the_cache_evicts_nothing(void **state) {
    (void)state;
    write_file("root/large.txt", "more than 12 bytes");
    write_file("root/a.txt.gz", "g");
    uvhttp__static_site_t *site = site_new(NULL),
                          *open_files = site_new(with((uvhttp_static_options_t){.sendfile_min = 1}));
    uvhttp__static_cache_t cache;
    cache_init(&cache,
               (uvhttp__static_limits_t){.entries_max = 100, .missing_max = 2, .descriptors_max = 1, .size_max = 12});
    put(&cache, site, "1", "a.txt", 7);
    put(&cache, open_files, "2", "b.txt", 7);
    put(&cache, site, "3", "large.txt", 7);
    put(&cache, open_files, "4", "a.txt", 7); /* two descriptors */
    assert_true(has(&cache, "1") && has(&cache, "2"));
    assert_false(has(&cache, "3") || has(&cache, "4"));
    put(&cache, site, "1", "large.txt", 8); /* it has grown */
    assert_false(has(&cache, "1"));
    assert_int_equal(cache.size, 0);
    assert_int_equal(cache.evictions, 0);
    uvhttp__static_cache_deinit(&cache);
    uvhttp__static_site_free(site);
    uvhttp__static_site_free(open_files);
    char path[256];
    snprintf(path, sizeof path, "%s/a.txt.gz", root);
    assert_int_equal(unlink(path), 0);
}

static void test_a_held_entry_outlives_its_place(void **state) {
    (void)state;
    uvhttp__static_site_t *site = site_new(NULL);
    uvhttp__static_cache_t cache;
    cache_init(&cache,
               (uvhttp__static_limits_t){.entries_max = 10, .missing_max = 9, .descriptors_max = 2, .size_max = 100});
    uvhttp__static_entry_t *entry = put(&cache, site, "1", "a.txt", 0);
    uvhttp__static_file_t *file = entry->found.files[0];
    uvhttp__static_entry_hold(entry);
    uvhttp__ref_acquire(&file->ref);
    uvhttp__static_cache_deinit(&cache);
    assert_int_equal(entry->found.status, 200);
    uvhttp__static_entry_release(entry);
    uvhttp__static_site_free(site); /* the file outlives the site as well */
    assert_memory_equal(file->content, "aaaa", 4);
    uvhttp__static_file_release(file);
}

int main(void) {
    test_allocator_install();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_ways_of_opening_stay_below_the_root),
        cmocka_unit_test(test_what_has_not_changed_is_not_loaded_again),
        cmocka_unit_test(test_a_file_that_is_too_fresh_is_loaded_again),
        cmocka_unit_test(test_a_file_with_an_old_date_that_has_just_come_is_loaded_again),
        cmocka_unit_test(test_memory_in_use_beyond_twice_the_budget_is_not_added_to),
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_an_unreadable_root_is_named),
        cmocka_unit_test(test_the_least_recently_used_is_evicted),
        cmocka_unit_test(test_descriptors_are_limited_and_busy_entries_stay),
        cmocka_unit_test(test_what_is_larger_than_the_cache_evicts_nothing),
        cmocka_unit_test(test_a_held_entry_outlives_its_place),
    };
    return cmocka_run_group_tests(tests, make_tree, drop_tree);
}
