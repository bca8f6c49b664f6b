/* Owns: dropping the privileges of the process. The C library's functions change all threads; io_uring takes the
 * identity of who makes a ring, so this comes before the loops. May include: everything. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/libc.h"
#include "server/process.h"

enum { ENTRY_SIZE = 65536 }; /* bytes of an entry of the user or group database: a group may have many members */

typedef struct identity {
    uid_t uid;
    gid_t gid;
    char *name; /* NULL: a number without an entry, which has no supplementary groups */
    bool has_uid, has_gid;
    char *buffer;
    char *message;
    size_t size;
} identity_t;

__attribute__((format(printf, 3, 4))) static int fail(const identity_t *identity, int status, const char *format, ...) {
    va_list arguments;
    if (!identity->message || identity->size == 0) return status;
    va_start(arguments, format);
    vsnprintf(identity->message, identity->size, format, arguments);
    va_end(arguments);
    return status;
}

static bool parse_id(const char *text, unsigned long *id) {
    char *end;
    errno = 0;
    if (*text < '0' || *text > '9') return false;
    *id = strtoul(text, &end, 10);
    return errno == 0 && *end == '\0' && *id < (uid_t)-1;
}

/* Whether the database could not be searched: others say that there is no such entry (getpwnam_r(3)). */
static bool is_failure(int error) {
    static const int failures[] = {EINTR, EIO, EMFILE, ENFILE, ENOMEM, ERANGE};
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++)
        if (error == failures[i]) return true;
    return false;
}

static int find_user(identity_t *identity, const char *user) {
    struct passwd entry, *found = NULL;
    unsigned long id = 0;
    bool is_number = parse_id(user, &id);
    int error = is_number ? getpwuid_r((uid_t)id, &entry, identity->buffer, ENTRY_SIZE, &found)
                          : getpwnam_r(user, &entry, identity->buffer, ENTRY_SIZE, &found);
    if (is_failure(error)) return fail(identity, UVHTTP_E_CONFIG, "user \"%.64s\": %s", user, strerrordesc_np(error));
    if (!found && !is_number) return fail(identity, UVHTTP_E_CONFIG, "user \"%.64s\" does not exist", user);
    identity->has_uid = true;
    identity->uid = found ? found->pw_uid : (uid_t)id;
    identity->has_gid = found != NULL;
    if (!found) return UVHTTP_OK;
    identity->gid = found->pw_gid;
    identity->name = uvhttp__malloc(strlen(found->pw_name) + 1);
    if (!identity->name) return fail(identity, UVHTTP_E_NOMEM, "user \"%.64s\": out of memory", user);
    memcpy(identity->name, found->pw_name, strlen(found->pw_name) + 1);
    return UVHTTP_OK;
}

static int find_group(identity_t *identity, const char *group) {
    struct group entry, *found = NULL;
    unsigned long id = 0;
    bool is_number = parse_id(group, &id);
    int error = is_number ? 0 : getgrnam_r(group, &entry, identity->buffer, ENTRY_SIZE, &found);
    if (is_failure(error)) return fail(identity, UVHTTP_E_CONFIG, "group \"%.64s\": %s", group, strerrordesc_np(error));
    if (!found && !is_number) return fail(identity, UVHTTP_E_CONFIG, "group \"%.64s\" does not exist", group);
    identity->has_gid = true;
    identity->gid = found ? found->gr_gid : (gid_t)id;
    return UVHTTP_OK;
}

static int find(identity_t *identity, const char *user, const char *group) {
    int status = user && *user ? find_user(identity, user) : UVHTTP_OK;
    if (status == UVHTTP_OK && group && *group) status = find_group(identity, group);
    if (status == UVHTTP_OK && !identity->has_gid)
        return fail(identity, UVHTTP_E_CONFIG, "user \"%.64s\" has no entry: give a group, too", user);
    return status;
}

/* Real, effective and saved. */
static bool is_already(const identity_t *identity) {
    uid_t real, effective, saved;
    gid_t real_group, effective_group, saved_group;
    if (getresuid(&real, &effective, &saved) != 0) return false;
    if (getresgid(&real_group, &effective_group, &saved_group) != 0) return false;
    bool user = real == identity->uid && effective == identity->uid && saved == identity->uid;
    bool group = real_group == identity->gid && effective_group == identity->gid && saved_group == identity->gid;
    return group && (user || !identity->has_uid);
}

static bool change(const identity_t *identity) {
    int groups = identity->name ? initgroups(identity->name, identity->gid) : setgroups(1, &identity->gid);
    if (groups != 0 || setresgid(identity->gid, identity->gid, identity->gid) != 0) return false;
    return !identity->has_uid || setresuid(identity->uid, identity->uid, identity->uid) == 0;
}

/* An ordinary user that could become root again has dropped nothing. */
static bool is_for_good(const identity_t *identity) {
    if (!is_already(identity)) return false;
    if (!identity->has_uid || identity->uid == 0) return true;
    return setresuid((uid_t)-1, 0, (uid_t)-1) != 0 && (identity->gid == 0 || setresgid((gid_t)-1, 0, (gid_t)-1) != 0);
}

static int drop(identity_t *identity, const char *user, const char *group, bool dry_run) {
    int status = find(identity, user, group);
    if (status != UVHTTP_OK || dry_run || is_already(identity)) return status;
    if (!change(identity))
        return fail(identity, UVHTTP_E_PERMISSION, "user \"%.64s\", group \"%.64s\": %s", user ? user : "",
                    group ? group : "", strerrordesc_np(errno));
    if (!is_for_good(identity))
        return fail(identity, UVHTTP_E_PERMISSION, "user \"%.64s\", group \"%.64s\": privileges were not dropped",
                    user ? user : "", group ? group : "");
    return UVHTTP_OK;
}

int uvhttp__drop_privileges(const char *user, const char *group, bool dry_run, char *message, size_t size) {
    identity_t identity = {.message = message, .size = size};
    if ((!user || !*user) && (!group || !*group))
        return fail(&identity, UVHTTP_E_INVALID, "neither a user nor a group is given");
    identity.buffer = uvhttp__malloc(ENTRY_SIZE);
    if (!identity.buffer) return fail(&identity, UVHTTP_E_NOMEM, "out of memory");
    int status = drop(&identity, user, group, dry_run);
    uvhttp__free(identity.buffer);
    uvhttp__free(identity.name);
    return status;
}

int uvhttp_service_drop_privileges(const char *user, const char *group, char *message, size_t size) {
    return uvhttp__drop_privileges(user, group, false, message, size);
}
