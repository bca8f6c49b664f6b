/* Dropping privileges, in a process that this program makes up: users, groups, and what the kernel allows. Its own
 * functions take the place of the C library's. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uvhttp/error.h>
#include <uvhttp/service.h>

#include <cmocka.h>

#include "base/libc.h"
#include "support/failing_allocator.h"
#include "support/run.h"

enum { ROOT = 0, WEB = 33, WEB_GROUP = 34, STAFF = 50, NOBODY = 65534 };

/* --- the process --- */

static struct {
    uid_t uid[3]; /* real, effective, saved */
    gid_t gid[3];
    char groups[32];                        /* where the supplementary ones come from */
    int fail_groups, fail_gid, fail_uid;    /* errno of a change */
    int fail_get_uid, fail_get_gid;         /* of a question */
    int fail_database;                      /* of a search */
    bool keeps_saved_uid, keeps_root_group; /* a kernel that does less than it says, or lets root come back */
    bool in_vain;
} process;

static int result(int error) {
    errno = error;
    return error == 0 ? 0 : -1;
}

static bool may_be(const unsigned ids[3], unsigned id) {
    return ids[0] == ROOT || ids[1] == ROOT || ids[2] == ROOT || ids[0] == id || ids[2] == id;
}

static void set_all(unsigned ids[3], unsigned real, unsigned effective, unsigned saved) {
    if (real != (unsigned)-1) ids[0] = real;
    if (effective != (unsigned)-1) ids[1] = effective;
    if (saved != (unsigned)-1) ids[2] = saved;
}

int setresuid(uid_t real, uid_t effective, uid_t saved) {
    if (process.fail_uid) return result(process.fail_uid);
    if (!may_be(process.uid, effective)) return result(EPERM);
    if (process.in_vain) return 0;
    set_all(process.uid, real, effective, process.keeps_saved_uid ? (unsigned)-1 : saved);
    return 0;
}

int setresgid(gid_t real, gid_t effective, gid_t saved) {
    if (process.fail_gid) return result(process.fail_gid);
    if (effective == ROOT && process.uid[1] != ROOT) return process.keeps_root_group ? 0 : result(EPERM);
    set_all(process.gid, real, effective, saved);
    return 0;
}

int getresuid(uid_t *real, uid_t *effective, uid_t *saved) {
    *real = process.uid[0], *effective = process.uid[1], *saved = process.uid[2];
    return result(process.fail_get_uid);
}

int getresgid(gid_t *real, gid_t *effective, gid_t *saved) {
    *real = process.gid[0], *effective = process.gid[1], *saved = process.gid[2];
    return result(process.fail_get_gid);
}

int initgroups(const char *user, gid_t group) {
    if (process.fail_groups) return result(process.fail_groups);
    snprintf(process.groups, sizeof process.groups, "%s %u", user, group);
    return 0;
}

int setgroups(size_t count, const gid_t *groups) {
    if (process.fail_groups) return result(process.fail_groups);
    snprintf(process.groups, sizeof process.groups, "%zu %u", count, groups[0]);
    return 0;
}

/* --- the databases --- */

static int user_found(bool found, struct passwd *entry, struct passwd **result_) {
    static char name[] = "web";
    *entry = (struct passwd){.pw_name = name, .pw_uid = WEB, .pw_gid = WEB_GROUP};
    *result_ = found && !process.fail_database ? entry : NULL;
    return process.fail_database;
}

int getpwnam_r(const char *name, struct passwd *entry, char *buffer, size_t size, struct passwd **found) {
    (void)buffer, (void)size;
    return user_found(strcmp(name, "web") == 0, entry, found);
}

int getpwuid_r(uid_t id, struct passwd *entry, char *buffer, size_t size, struct passwd **found) {
    (void)buffer, (void)size;
    return user_found(id == WEB, entry, found);
}

int getgrnam_r(const char *name, struct group *entry, char *buffer, size_t size, struct group **found) {
    (void)buffer, (void)size;
    *entry = (struct group){.gr_gid = STAFF};
    *found = strcmp(name, "staff") == 0 && !process.fail_database ? entry : NULL;
    return process.fail_database;
}

/* --- tests --- */

static char message[200];

static int drop(const char *user, const char *group) {
    *message = '\0';
    return uvhttp_service_drop_privileges(user, group, message, sizeof message);
}

static int start_as_root(void **state) {
    (void)state;
    memset(&process, 0, sizeof process);
    return 0;
}

static void expect_ids(uid_t uid, gid_t gid, const char *groups) {
    for (int i = 0; i < 3; i++) {
        assert_int_equal(process.uid[i], uid);
        assert_int_equal(process.gid[i], gid);
    }
    assert_string_equal(process.groups, groups);
}

static void test_a_user_has_the_primary_group_and_the_others_of_its_entry(void **state) {
    (void)state;
    assert_int_equal(drop("web", NULL), UVHTTP_OK);
    expect_ids(WEB, WEB_GROUP, "web 34");
    assert_int_equal(drop("33", ""), UVHTTP_OK); /* already */
    start_as_root(NULL);
    assert_int_equal(drop("33", ""), UVHTTP_OK);
    expect_ids(WEB, WEB_GROUP, "web 34");
}

static void test_a_group_takes_the_place_of_the_primary_one(void **state) {
    (void)state;
    assert_int_equal(drop("web", "staff"), UVHTTP_OK);
    expect_ids(WEB, STAFF, "web 50");
    start_as_root(NULL);
    assert_int_equal(drop("web", "51"), UVHTTP_OK);
    expect_ids(WEB, 51, "web 51");
}

static void test_a_group_alone_leaves_the_user(void **state) {
    (void)state;
    assert_int_equal(drop(NULL, "staff"), UVHTTP_OK);
    expect_ids(ROOT, STAFF, "1 50");
}

static void test_a_number_without_an_entry_needs_a_group_and_has_no_others(void **state) {
    (void)state;
    assert_int_equal(drop("65534", NULL), UVHTTP_E_CONFIG);
    assert_string_equal(message, "user \"65534\" has no entry: give a group, too");
    assert_int_equal(drop("65534", "staff"), UVHTTP_OK);
    expect_ids(NOBODY, STAFF, "1 50");
}

static void test_what_is_no_number_of_a_user_is_a_name(void **state) {
    (void)state;
    static const char *const names[] = {"33x", "-1", "4294967295", "99999999999999999999", ":"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(drop(names[i], "staff"), UVHTTP_E_CONFIG);
        assert_int_equal(drop("web", names[i]), UVHTTP_E_CONFIG);
        assert_non_null(strstr(message, "does not exist"));
    }
    expect_ids(ROOT, ROOT, "");
    assert_int_equal(uvhttp_service_drop_privileges("nobody", NULL, message, 0), UVHTTP_E_CONFIG);
}

/* Not that a user does not exist, and not a number without its groups. */
static void test_a_database_that_cannot_be_read_is_an_error_of_its_own(void **state) {
    (void)state;
    static const char *const wanted[][2] = {{"web", NULL}, {"33", "staff"}, {NULL, "staff"}};
    static const int errors[] = {EMFILE, ENFILE, EIO, ENOMEM, ERANGE, EINTR};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        for (size_t j = 0; j < sizeof errors / sizeof *errors; j++) {
            process.fail_database = errors[j];
            assert_int_equal(drop(wanted[i][0], wanted[i][1]), UVHTTP_E_CONFIG);
            assert_non_null(strstr(message, strerrordesc_np(errors[j])));
            expect_ids(ROOT, ROOT, "");
        }
    process.fail_database = ENOENT; /* getpwnam_r(3): one way to say that there is no such name */
    assert_int_equal(drop("web", NULL), UVHTTP_E_CONFIG);
    assert_string_equal(message, "user \"web\" does not exist");
}

static void test_each_change_that_fails_is_an_error(void **state) {
    (void)state;
    int *const failing[] = {&process.fail_groups, &process.fail_gid, &process.fail_uid};
    for (size_t i = 0; i < sizeof failing / sizeof *failing; i++) {
        start_as_root(NULL);
        *failing[i] = EPERM;
        assert_int_equal(drop("web", "staff"), UVHTTP_E_PERMISSION);
        assert_string_equal(message, "user \"web\", group \"staff\": Operation not permitted");
        assert_int_equal(process.uid[1], ROOT);
    }
    start_as_root(NULL);
    process.fail_gid = EAGAIN;
    assert_int_equal(drop("web", NULL), UVHTTP_E_PERMISSION);
    assert_int_equal(drop(NULL, "staff"), UVHTTP_E_PERMISSION);
    assert_string_equal(message, "user \"\", group \"staff\": Resource temporarily unavailable");
}

/* What was set is looked at again, and root must not come back. */
static void test_privileges_that_were_not_dropped_are_an_error(void **state) {
    (void)state;
    bool *const broken[] = {&process.keeps_saved_uid, &process.in_vain, &process.keeps_root_group};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        start_as_root(NULL);
        *broken[i] = true;
        assert_int_equal(drop("web", NULL), UVHTTP_E_PERMISSION);
        assert_string_equal(message, "user \"web\", group \"\": privileges were not dropped");
    }
    int *const failing[] = {&process.fail_get_uid, &process.fail_get_gid};
    for (size_t i = 0; i < sizeof failing / sizeof *failing; i++) {
        start_as_root(NULL);
        *failing[i] = EFAULT;
        assert_int_equal(drop(NULL, "staff"), UVHTTP_E_PERMISSION);
        assert_string_equal(message, "user \"\", group \"staff\": privileges were not dropped");
    }
}

/* Root as the user, and group 0 of an ordinary one, are what was asked for. */
static void test_there_is_nothing_to_come_back_to_for_root(void **state) {
    (void)state;
    assert_int_equal(drop("0", "staff"), UVHTTP_OK);
    expect_ids(ROOT, STAFF, "1 50");
    start_as_root(NULL);
    assert_int_equal(drop("web", "0"), UVHTTP_OK);
    expect_ids(WEB, ROOT, "web 0");
}

static void drop_once(void *user) {
    (void)user;
    start_as_root(NULL);
    int status = drop("web", NULL);
    assert_int_equal(status, test_allocator_failed() ? UVHTTP_E_NOMEM : UVHTTP_OK);
    if (status != UVHTTP_OK) assert_non_null(strstr(message, "out of memory"));
}

static void test_each_allocation_may_fail(void **state) {
    (void)state;
    assert_int_equal(test_allocator_each_failure(drop_once, NULL), 2);
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS_WITH(start_as_root, NULL, test_a_user_has_the_primary_group_and_the_others_of_its_entry,
                          test_a_group_takes_the_place_of_the_primary_one, test_a_group_alone_leaves_the_user,
                          test_a_number_without_an_entry_needs_a_group_and_has_no_others,
                          test_what_is_no_number_of_a_user_is_a_name,
                          test_a_database_that_cannot_be_read_is_an_error_of_its_own,
                          test_each_change_that_fails_is_an_error, test_privileges_that_were_not_dropped_are_an_error,
                          test_there_is_nothing_to_come_back_to_for_root, test_each_allocation_may_fail);
}
