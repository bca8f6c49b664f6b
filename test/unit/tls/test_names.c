/* Which certificates serve a name. */
/* Needs: tls. */
#include "tls/names.h"

#include <cmocka.h>
#include <string.h>

#include "base/str.h"
#include "support/failing_allocator.h"
#include "support/run.h"

static void add(uvhttp__tls_names_t *names, const char *name, uint32_t certificate) {
    assert_int_equal(uvhttp__tls_names_add(names, uvhttp__str_from(name), certificate), UVHTTP_OK);
}

static const uvhttp__tls_site_t *find(const uvhttp__tls_names_t *names, const char *host) {
    const uvhttp__tls_name_t *name = uvhttp__tls_names_find(names, uvhttp__str_from(host));
    return name ? &names->sites[name->site] : NULL;
}

static void assert_site(const uvhttp__tls_site_t *site, uint32_t count, uint32_t first, uint32_t second) {
    assert_non_null(site);
    assert_int_equal(site->count, count);
    assert_int_equal(site->certificates[0], first);
    if (count > 1) assert_int_equal(site->certificates[1], second);
}

static void test_a_name_is_served_with_all_its_certificates(void **state) {
    (void)state;
    uvhttp__tls_names_t names = {.names = NULL};
    add(&names, "A.test", 0);
    add(&names, "www.a.test", 0);
    add(&names, "b.test", 1);
    add(&names, "a.test", 2);
    add(&names, "WWW.a.test", 2);
    add(&names, "c.test", 2);
    add(&names, "c.test", 2);
    assert_int_equal(uvhttp__tls_names_build(&names), UVHTTP_OK);
    assert_int_equal(names.site_count, 3);
    assert_site(&names.sites[0], 2, 0, 2); /* the first certificate's */
    assert_site(find(&names, "a.TEST"), 2, 0, 2);
    assert_site(find(&names, "www.a.test"), 2, 0, 2);
    assert_site(find(&names, "b.test."), 1, 1, 0);
    assert_site(find(&names, "c.test"), 1, 2, 0);
    assert_null(find(&names, "d.test"));
    assert_null(find(&names, "test"));
    assert_null(find(&names, ""));
    uvhttp__tls_names_deinit(&names);
}

static void test_the_first_site_is_that_of_the_first_name_in_any_order(void **state) {
    (void)state;
    uvhttp__tls_names_t names = {.names = NULL};
    add(&names, "z.test", 0);
    add(&names, "b.test", 0);
    add(&names, "a.test", 1);
    add(&names, "b.test", 1);
    assert_int_equal(uvhttp__tls_names_build(&names), UVHTTP_OK);
    assert_site(&names.sites[0], 1, 0, 0);
    assert_site(find(&names, "b.test"), 2, 0, 1);
    assert_site(find(&names, "a.test"), 1, 1, 0);
    uvhttp__tls_names_deinit(&names);
}

static void test_a_wildcard_is_one_label(void **state) {
    (void)state;
    uvhttp__tls_names_t names = {.names = NULL};
    add(&names, "*.a.test", 1);
    add(&names, "x.a.test", 2);
    assert_int_equal(uvhttp__tls_names_build(&names), UVHTTP_OK);
    assert_site(&names.sites[0], 1, 0, 0); /* the first certificate has no name */
    assert_site(find(&names, "y.A.test"), 1, 1, 0);
    assert_site(find(&names, "x.a.test"), 1, 2, 0);
    assert_null(find(&names, "a.test"));
    assert_null(find(&names, "x.y.a.test"));
    assert_null(find(&names, "*.a.test"));
    assert_null(find(&names, ".a.test"));
    uvhttp__tls_names_deinit(&names);
}

static void test_no_names_at_all(void **state) {
    (void)state;
    uvhttp__tls_names_t names = {.names = NULL};
    assert_int_equal(uvhttp__tls_names_build(&names), UVHTTP_OK);
    assert_site(&names.sites[0], 1, 0, 0);
    assert_null(find(&names, "a.test"));
    uvhttp__tls_names_deinit(&names);
}

static void test_what_is_no_host_name_is_refused(void **state) {
    (void)state;
    uvhttp__tls_names_t names = {.names = NULL};
    char label[65], longest[260];
    memset(label, 'a', 64);
    label[64] = '\0';
    memset(longest, 0, sizeof longest);
    for (int i = 0; i < 256; i++) longest[i] = i % 2 ? '.' : 'a';
    const char *const wrong[] = {"",    ".",   "a..b", ".a",   "a.",  "*",       "*.",  "a.*",   "*.*.a",
                                 "a b", "a/b", "a:1",  "\xc3", "a,b", "*a.test", label, "[::1]", longest};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(uvhttp__tls_names_add(&names, uvhttp__str_from(wrong[i]), 0), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp__tls_names_add(&names, (uvhttp_str_t){"a\0b", 3}, 0), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp__tls_names_add(&names, (uvhttp_str_t){longest, 255}, 0), UVHTTP_OK);
    assert_int_equal(uvhttp__tls_names_build(&names), UVHTTP_OK);
    assert_non_null(find(&names, longest)); /* with a dot at the end */
    longest[255] = '\0';
    assert_non_null(find(&names, longest));
    memset(longest + 255, 'b', 3);
    assert_null(find(&names, longest));
    uvhttp__tls_names_deinit(&names);
}

static void build_some(void *user) {
    (void)user;
    uvhttp__tls_names_t names = {.names = NULL};
    char name[16];
    int status = UVHTTP_OK;
    for (uint32_t i = 0; i < 40 && status == UVHTTP_OK; i++) {
        name[0] = (char)('a' + i % 20);
        name[1] = '\0';
        status = uvhttp__tls_names_add(&names, uvhttp__str_from(name), i);
    }
    if (status == UVHTTP_OK) status = uvhttp__tls_names_build(&names);
    if (test_allocator_failed()) assert_int_equal(status, UVHTTP_E_NOMEM);
    uvhttp__tls_names_deinit(&names);
}

static void test_each_allocation_may_fail(void **state) {
    (void)state;
    assert_true(test_allocator_each_failure(build_some, NULL) > 40);
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS(test_a_name_is_served_with_all_its_certificates,
                     test_the_first_site_is_that_of_the_first_name_in_any_order, test_a_wildcard_is_one_label,
                     test_no_names_at_all, test_what_is_no_host_name_is_refused, test_each_allocation_may_fail);
}
