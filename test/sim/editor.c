/* Owns: files that somebody changes while they are served: puts others in their place, removes them, cuts them, appends
 * to them. Some have a precompressed variant (.gz), which is one more file that somebody changes. It knows which
 * versions of a file and of its variant a response may have, from the moments of the changes and from what the client
 * has asked for, and each byte of each version. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client.h"

enum {
    FILES_EDITED = 4,
    FILES_MAX = 2 * FILES_EDITED, /* behind them, at the same distance, their variants */
    SMALL_FILES = 2,              /* of them, in front: kept in memory if the caches have place */
    VERSIONS_MAX = 24,
    SIZE_LEAST = 64,
    SMALL_SIZE = 4000,
    LARGE_SIZE = 90000,
    ETAG_SIZE = 64,
    EDITS_MAX = 40,
    LATE_MS = 300,
    MARK_S = 1000 /* the real date of modification says which file and version it is: from here on */
};

#define OLDER_NS (2000 * SIM_MS) /* a variant that is sent, than its file */

typedef struct version {
    uint64_t from_ns, to_ns; /* when it was the file; to_ns SIM_NEVER: it is */
    uint32_t size, content;  /* content: the version that began with these bytes, which those that continue it have */
    uint64_t modified_ns;    /* by the wall clock, as the file system says */
    uint32_t inode;
    bool absent;
    bool cut;             /* a part of its bytes has gone from the disk */
    char etag[ETAG_SIZE]; /* as it came last; "": never */
} version_t;

typedef struct file {
    version_t versions[VERSIONS_MAX];
    uint32_t count;
} file_t;

struct sim_edited {
    uint8_t file, shown;     /* shown: what the response is about: the file or its variant */
    uint32_t candidates;     /* versions of that which the response may have, a bit for each */
    uint64_t begun_ns;       /* nobody can have looked for it before */
    bool resumes;            /* If-Range */
    uint8_t known_of, known; /* the version whose etag the request has, and what it is one of; VERSIONS_MAX: none */
    char etag[ETAG_SIZE], came[ETAG_SIZE];
};

bool sim_edits;
bool sim_inodes_are_reused;
uint32_t sim_edit_revalidate_ms;

static file_t files[FILES_MAX]; /* without a version: there is no such variant */
static sim_random_t random_of_edits;
static sim_actor_t editor;
static uint32_t edits_left, edited_last;
static uint32_t files_used; /* the first ones; the others stay as they are, and nobody asks for them */
static uint64_t tick_ns;    /* of the clock of the file system */
static bool written;        /* there are files on the disk */
static sim_random_t random_of_requests;

/* --- the disk --- */

static void path_of(char *path, size_t size, uint32_t file) {
    snprintf(path, size, "%s/e%u%s", sim_files_root(), file % FILES_EDITED, file < FILES_EDITED ? "" : ".gz");
}

static uint32_t tag_of(uint32_t file, uint32_t content) {
    return SIM_EDITED_TAG(file * VERSIONS_MAX + content);
}

static version_t *now_of(uint32_t file) {
    return &files[file].versions[files[file].count - 1];
}

static void mark(const char *path, uint32_t file, uint32_t version) {
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = MARK_S + file, .tv_nsec = version}};
    if (utimensat(AT_FDCWD, path, times, 0) != 0) sim_fail("%s cannot be marked", path);
}

/* Bytes of the version from `from` on. */
static void append(const char *path, uint32_t file, const version_t *version, uint32_t from) {
    uint32_t size = version->size - from;
    char *content = malloc(size + 1);
    FILE *out = fopen(path, "abe");
    if (!content || !out) sim_fail("no file %s", path);
    sim_fill(content, tag_of(file, version->content), from, size);
    bool done = fwrite(content, 1, size, out) == size;
    if (fclose(out) != 0 || !done) sim_fail("%s cannot be written", path);
    free(content);
}

static void put(uint32_t file, uint32_t number) {
    char path[96], fresh[104];
    path_of(path, sizeof path, file);
    snprintf(fresh, sizeof fresh, "%s.new", path);
    append(fresh, file, &files[file].versions[number], 0);
    mark(fresh, file, number);
    if (rename(fresh, path) != 0) sim_fail("no file %s", path);
}

/* In place: who has it open has that, too. */
static void change(uint32_t file, uint32_t number, uint32_t size_before) {
    const version_t *version = &files[file].versions[number];
    char path[96];
    path_of(path, sizeof path, file);
    if (version->size < size_before && truncate(path, version->size) != 0) sim_fail("%s cannot be cut", path);
    if (version->size > size_before) append(path, file, version, size_before);
    mark(path, file, number);
}

static bool is_small(uint32_t file) {
    return file % FILES_EDITED < SMALL_FILES;
}

/* The number of one that is gone is given again at once, as ext4 does. */
static uint32_t free_inode(uint32_t file) {
    if (!sim_inodes_are_reused || !is_small(file)) return files[file].count + 1;
    return files[file].count > 0 && now_of(file)->inode == 1 ? 2 : 1;
}

static uint32_t any_size(uint32_t file) {
    return SIZE_LEAST + sim_log_uniform(&random_of_edits, is_small(file) ? SMALL_SIZE : LARGE_SIZE);
}

bool sim_edited_level(struct stat *info) {
    uint64_t file = (uint64_t)info->st_mtim.tv_sec - MARK_S, number = (uint64_t)info->st_mtim.tv_nsec;
    if (!sim_edits || file >= FILES_MAX || number >= files[file].count) return false;
    const version_t *version = &files[file].versions[number];
    struct timespec time = {.tv_sec = (time_t)(version->modified_ns / 1000000000u),
                            .tv_nsec = (long)(version->modified_ns % 1000000000u)};
    info->st_dev = 2;
    info->st_ino = 100 * (ino_t)(file + 1) + version->inode;
    info->st_mtim = info->st_ctim = time;
    return true;
}

/* --- edits --- */

static void add_version(uint32_t file, version_t version) {
    file_t *its = &files[file];
    uint64_t now_ns = sim_wall_ns();
    version.from_ns = sim_now_ns;
    version.to_ns = SIM_NEVER;
    version.modified_ns = now_ns / tick_ns * tick_ns;
    version.etag[0] = '\0';
    if (its->count > 0) now_of(file)->to_ns = sim_now_ns;
    its->versions[its->count++] = version;
}

static void replace_by(uint32_t file, uint32_t size) {
    const file_t *its = &files[file];
    add_version(file, (version_t){.size = size, .content = its->count, .inode = free_inode(file)});
    put(file, its->count - 1);
}

static void replace(uint32_t file) {
    bool same = files[file].count > 0 && !now_of(file)->absent && sim_one_in(&random_of_edits, 2);
    replace_by(file, same ? now_of(file)->size : any_size(file));
}

/* So that one of the same size, and perhaps with the same inode, is where it was. */
static void replace_twice(uint32_t file) {
    uint32_t size = now_of(file)->size;
    replace_by(file, any_size(file));
    replace_by(file, size);
}

static void take_away(uint32_t file) {
    char path[96];
    path_of(path, sizeof path, file);
    if (unlink(path) != 0) sim_fail("%s cannot be removed", path);
    add_version(file, (version_t){.absent = true});
}

static void resize(uint32_t file) {
    version_t before = *now_of(file), after = before;
    after.size = any_size(file);
    if (after.size == before.size) return;
    add_version(file, after);
    for (uint32_t i = 0; i < files[file].count; i++) {
        version_t *version = &files[file].versions[i];
        if (!version->absent && version->content == after.content && version->size > after.size) version->cut = true;
    }
    change(file, files[file].count - 1, before.size);
}

static void edit(uint32_t file) {
    if (files[file].count == 0 || files[file].count + 1 >= VERSIONS_MAX) return;
    uint32_t kind = sim_below(&random_of_edits, 8);
    sim_trace("an edit", file, kind);
    if (now_of(file)->absent || kind < 3)
        replace(file);
    else if (kind == 3)
        replace_twice(file);
    else if (kind < 6)
        resize(file);
    else
        take_away(file);
}

static uint64_t soon_ns(void) {
    return sim_now_ns + sim_log_uniform(&random_of_edits, 1500000) * UINT64_C(1000);
}

static uint32_t any_file(void) {
    return sim_below(&random_of_edits, files_used) + (sim_one_in(&random_of_edits, 3) ? FILES_EDITED : 0);
}

/* Some come within a tick, others behind what they change has been looked up. */
static void step(sim_actor_t *actor) {
    if (!sim_one_in(&random_of_edits, 3)) edited_last = any_file();
    edit(edited_last);
    actor->next_ns = soon_ns();
    if (--edits_left > 0) return;
    actor->next_ns = SIM_NEVER;
    actor->done = true;
}

static void ignore(sim_actor_t *actor) {
    (void)actor;
}

void sim_editor_end(void) {
    char path[96];
    for (uint32_t i = 0; written && i < FILES_MAX; i++) {
        path_of(path, sizeof path, i);
        (void)unlink(path);
    }
    written = false;
}

void sim_editor_reset(uint64_t seed) {
    static const uint32_t ticks_ms[] = {4, 100, 1000}; /* ext4, and older ones */
    sim_editor_end();
    random_of_edits = sim_random_of(seed, 0xed);
    random_of_requests = sim_random_of(seed, 0xee);
    sim_edits = sim_one_in(&random_of_edits, 8);
    sim_inodes_are_reused = false;
    memset(files, 0, sizeof files);
    edited_last = 0;
    tick_ns = ticks_ms[sim_below(&random_of_edits, 3)] * SIM_MS;
    if (!sim_edits) return;
    files_used = sim_one_in(&random_of_edits, 2) ? 1 : FILES_EDITED;
    edits_left = 1 + sim_below(&random_of_edits, EDITS_MAX);
    sim_edit_revalidate_ms = sim_one_in(&random_of_edits, 2) ? 0 : 200 + sim_log_uniform(&random_of_edits, 2000);
}

void sim_editor_new(void) {
    if (!sim_edits) return;
    written = true;
    for (uint32_t i = 0; i < FILES_MAX; i++) {
        bool variant = i >= FILES_EDITED;
        if (variant && (sim_compresses || sim_one_in(&random_of_edits, 2))) continue;
        if (sim_one_in(&random_of_edits, variant ? 3 : 6))
            add_version(i, (version_t){.absent = true});
        else
            replace(i);
    }
    editor = (sim_actor_t){.next_ns = soon_ns(), .step = step, .free = ignore, .woken = ignore};
    sim_actor_add(&editor);
}

/* --- requests --- */

void sim_edited_plan(op_t *op, sim_random_t *r, bool slow) {
    op->edited = true;
    op->file = (uint8_t)sim_below(r, slow && files_used > SMALL_FILES ? SMALL_FILES : files_used);
    op->size = op->from = 0;
    op->ranges = 0;
    op->raw = (uint8_t)sim_below(r, SIM_EDITED_ASKS);
    if (op->raw == SIM_EDITED_PART || op->raw == SIM_EDITED_RESUMES) {
        op->from = sim_below(r, SIZE_LEAST);
        op->size = 1 + sim_log_uniform(r, LARGE_SIZE);
    }
    op->head = op->raw <= SIM_EDITED_UNLESS && sim_one_in(r, 6);
    op->accepts = sim_compresses ? op->accepts : !sim_one_in(r, 3);
}

/* One that somebody has got, rather a recent one. */
static uint8_t some_known(const file_t *file) {
    for (uint32_t i = file->count; i-- > 0;)
        if (file->versions[i].etag[0] && !sim_one_in(&random_of_requests, 3)) return (uint8_t)i;
    return VERSIONS_MAX;
}

struct sim_edited *sim_edited_new(const op_t *op) {
    struct sim_edited *edited = calloc(1, sizeof *edited);
    if (!edited) abort();
    const bool asks = op->raw == SIM_EDITED_UNLESS || op->raw == SIM_EDITED_RESUMES;
    *edited = (struct sim_edited){.file = op->file, .begun_ns = sim_now_ns, .known = VERSIONS_MAX};
    edited->known_of = op->file + (op->accepts && sim_one_in(&random_of_requests, 2) ? FILES_EDITED : 0);
    if (asks) edited->known = some_known(&files[edited->known_of]);
    if (edited->known < VERSIONS_MAX)
        snprintf(edited->etag, sizeof edited->etag, "%s", files[edited->known_of].versions[edited->known].etag);
    edited->resumes = op->raw == SIM_EDITED_RESUMES && edited->known < VERSIONS_MAX;
    return edited;
}

bool sim_edited_field(const op_t *op, const request_t *request, uint32_t number, const char **name, char *value,
                      size_t size) {
    const struct sim_edited *edited = request->edited;
    const bool part = op->raw == SIM_EDITED_PART || op->raw == SIM_EDITED_RESUMES;
    if (part && number-- == 0) {
        *name = "range";
        snprintf(value, size, "bytes=%u-%u", op->from, op->from + op->size - 1);
        return true;
    }
    if (edited->known == VERSIONS_MAX || number > 0) return false;
    *name = edited->resumes ? "if-range" : "if-none-match";
    snprintf(value, size, "%s", edited->etag);
    return true;
}

/* --- responses --- */

/* What a response may be about: the file as it was a moment before its request, or later. How long a moment is, is the
 * promise of uvhttp/static.h. */
static uint64_t moment_ns(void) {
    uint64_t interval_ms = sim_edit_revalidate_ms ? sim_edit_revalidate_ms : 1000;
    return (2 * interval_ms + LATE_MS) * SIM_MS;
}

static bool may_be(const struct sim_edited *edited, const version_t *version) {
    return sim_failing || !sim_look_ups_wait || version->to_ns == SIM_NEVER ||
           version->to_ns + moment_ns() > edited->begun_ns;
}

/* A variant is sent if it is smaller than the file, and at most two seconds older. */
static bool may_stand_for(const version_t *variant, const version_t *version) {
    return !variant->absent && !version->absent && variant->size < version->size &&
           variant->modified_ns + OLDER_NS >= version->modified_ns;
}

static bool may_be_sent(const struct sim_edited *edited, const version_t *variant) {
    const file_t *file = &files[edited->file];
    for (uint32_t i = 0; i < file->count; i++)
        if (may_be(edited, &file->versions[i]) && may_stand_for(variant, &file->versions[i])) return true;
    return false;
}

/* Nothing has changed for so long that everybody knows it. */
static bool has_variant(const struct sim_edited *edited) {
    const file_t *variant = &files[edited->file + FILES_EDITED];
    if (sim_failing || !sim_look_ups_wait || variant->count == 0) return false;
    const version_t *of_both[] = {now_of(edited->file), now_of(edited->file + FILES_EDITED)};
    for (int i = 0; i < 2; i++)
        if (of_both[i]->from_ns + moment_ns() > edited->begun_ns) return false;
    return may_stand_for(of_both[1], of_both[0]);
}

static uint32_t all_that(const struct sim_edited *edited, bool absent, uint64_t size) {
    const file_t *file = &files[edited->shown];
    uint32_t found = 0;
    for (uint32_t i = 0; i < file->count; i++) {
        const version_t *version = &file->versions[i];
        bool fits = version->absent == absent && (absent || version->size == size) && may_be(edited, version);
        if (fits && (edited->shown == edited->file || may_be_sent(edited, version))) found |= UINT32_C(1) << i;
    }
    return found;
}

bool sim_edited_may_break(const request_t *request) {
    if (!request->edited) return false;
    const uint32_t both[] = {request->edited->file, request->edited->file + FILES_EDITED};
    for (uint32_t i = 0; i < 2 * VERSIONS_MAX; i++) {
        const file_t *file = &files[both[i % 2]];
        const version_t *version = &file->versions[i / 2];
        if (i / 2 < file->count && version->cut && may_be(request->edited, version)) return true;
    }
    return false;
}

bool sim_edited_any_may_break(const client_t *client) {
    if (client->h2) return false; /* it loses the stream only */
    for (uint32_t i = client->responded; i < client->asked; i++)
        if (sim_edited_may_break(&client->requests[i])) return true;
    return false;
}

static void took_part(const client_t *client, request_t *request, const sim_edited_head_t *head) {
    unsigned long long first, last, all;
    struct sim_edited *edited = request->edited;
    if (sscanf(head->range, "bytes %llu-%llu/%llu", &first, &last, &all) != 3 || first != request->from ||
        last < first || last >= all)
        sim_fail("client %u: %x is a part without a range: %s", client->id, request->tag, head->range);
    edited->candidates = all_that(edited, false, all);
    if (edited->resumes) edited->candidates &= edited->shown == edited->known_of ? UINT32_C(1) << edited->known : 0;
    request->status = 206;
    request->size = (uint32_t)(last + 1 - first);
}

void sim_edited_came(const client_t *client, request_t *request, const sim_edited_head_t *head) {
    struct sim_edited *edited = request->edited;
    snprintf(edited->came, sizeof edited->came, "%s", head->etag);
    edited->shown = edited->file + (head->coded ? FILES_EDITED : 0);
    if ((head->status == 200 || head->status == 206) && request->accepts && !head->coded && has_variant(edited))
        sim_fail("client %u: the response to %x is not about the variant of e%u", client->id, request->tag,
                 edited->file);
    switch (head->status) {
        case 200:
            edited->candidates = all_that(edited, false, head->size);
            request->from = 0;
            request->size = (uint32_t)head->size;
            request->status = 200;
            break;
        case 206: took_part(client, request, head); break;
        case 304:
            edited->candidates =
                edited->known < VERSIONS_MAX && may_be(edited, &files[edited->known_of].versions[edited->known]);
            request->refusal = 304;
            break;
        case 404:
            edited->candidates = all_that(edited, true, 0);
            request->refusal = 404;
            break;
        default: return;
    }
    if (!edited->candidates)
        sim_fail("client %u: the response to %x (status %d, %llu bytes, ETag %s) is about no version of e%u%s that "
                 "it may be about",
                 client->id, request->tag, head->status, (unsigned long long)head->size, head->etag, edited->file,
                 head->coded ? ".gz" : "");
}

void sim_edited_take(const client_t *client, request_t *request, uint64_t at, const char *data, size_t size) {
    struct sim_edited *edited = request->edited;
    for (uint32_t i = 0; i < VERSIONS_MAX; i++) {
        if (!(edited->candidates >> i & 1)) continue;
        uint32_t tag = tag_of(edited->shown, files[edited->shown].versions[i].content);
        if (sim_mismatch(data, tag, request->from + at, size) < size) edited->candidates &= ~(UINT32_C(1) << i);
    }
    if (!edited->candidates)
        sim_fail("client %u: the body of %x has bytes of several versions of e%u, or none", client->id, request->tag,
                 edited->file);
}

static void check_etag(const client_t *client, uint32_t file, uint32_t number, const char *etag, uint32_t other) {
    for (uint32_t i = 0; i < files[other].count; i++)
        if ((other != file || i != number) && strcmp(files[other].versions[i].etag, etag) == 0)
            sim_fail("client %u: version %u of e%u and version %u of e%u have the same ETag, %s (those from %d on are "
                     "variants)",
                     client->id, number, file, i, other, etag, FILES_EDITED);
}

/* It is a strong one: no other bytes have it. */
void sim_edited_ended(const client_t *client, const request_t *request) {
    const struct sim_edited *edited = request->edited;
    if (request->head || (edited->candidates & (edited->candidates - 1))) return; /* nobody knows which it is */
    uint32_t number = (uint32_t)__builtin_ctz(edited->candidates);
    snprintf(files[edited->shown].versions[number].etag, ETAG_SIZE, "%s", edited->came);
    check_etag(client, edited->shown, number, edited->came, edited->file);
    check_etag(client, edited->shown, number, edited->came, edited->file + FILES_EDITED);
}
