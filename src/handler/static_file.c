/* Owns: looking paths up and loading files, on helper threads. May include: message exec base obs. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/date.h"
#include "base/hash.h"
#include "handler/static.h"
#include "obs/log.h"

#define READ_TRIES 3
/* A file that was changed so shortly before it was read could change again within the same tick of the clock. */
#define SETTLED_NS 2000000000
/* A precompressed variant may be older than the file by this: archives store times in steps of two seconds. */
#define OLDER_NS 2000000000
#define SECONDS_MAX (INT64_MAX / 1000000000 - 3) /* of a date; less than OLDER_NS may be taken away from it */
#define FIELDS_MAX 1024
#define READAHEAD_SIZE (4 << 20)

/* --- one file --- */

void uvhttp__static_file_release(void *arg) {
    uvhttp__static_file_t *file = arg;
    if (!uvhttp__ref_release(&file->ref)) return;
    if (file->fd >= 0) close(file->fd);
    if (file->content) {
        atomic_fetch_sub_explicit(&file->memory->size, file->size, memory_order_relaxed);
        uvhttp__free((char *)(uintptr_t)file->content);
    }
    if (uvhttp__ref_release(&file->memory->ref)) uvhttp__free(file->memory);
    uvhttp__free(file);
}

/* File systems have dates that 64 bits of nanoseconds do not hold: the years before 1678 and after 2262. */
static int64_t to_ns(struct timespec time) {
    int64_t seconds = time.tv_sec;
    if (seconds > SECONDS_MAX) seconds = SECONDS_MAX;
    if (seconds < -SECONDS_MAX) seconds = -SECONDS_MAX;
    return seconds * 1000000000 + time.tv_nsec;
}

static uvhttp__static_stamp_t stamp_of(const struct stat *info) {
    return (uvhttp__static_stamp_t){.device = info->st_dev,
                                    .inode = info->st_ino,
                                    .size = (uint64_t)info->st_size,
                                    .modified_ns = to_ns(info->st_mtim),
                                    .changed_ns = to_ns(info->st_ctim)};
}

static bool same_stamp(const uvhttp__static_stamp_t *a, const uvhttp__static_stamp_t *b) {
    return a->device == b->device && a->inode == b->inode && a->size == b->size && a->modified_ns == b->modified_ns &&
           a->changed_ns == b->changed_ns;
}

/* What is put together before the file's memory is known to be had. */
typedef struct draft {
    const uvhttp__static_site_t *site;
    const char *path; /* for type and rules; of a page that of its directory, with '/' */
    uvhttp__static_stamp_t stamp;
    uvhttp__static_coding_t coding;
    int fd;
    char *content; /* NULL: the descriptor serves */
    uint64_t size;
    int64_t unix_ms;
    bool vary, settled, listed;
} draft_t;

static int write_etag(const draft_t *draft, char *text, size_t size) {
    static const char *const suffixes[UVHTTP__STATIC_CODINGS] = {"", "-br", "-gz"};
    const uvhttp__static_stamp_t *stamp = &draft->stamp;
    if (draft->content)
        return snprintf(text, size, "\"%016" PRIx64 "-%" PRIx64 "%s\"",
                        uvhttp__hash(draft->content, (size_t)draft->size), draft->size, suffixes[draft->coding]);
    return snprintf(text, size, "\"%" PRIx64 "-%" PRIx64 "-%" PRIx64 "%s\"", (uint64_t)stamp->modified_ns, draft->size,
                    stamp->inode, suffixes[draft->coding]);
}

/* The date is in the future: Last-Modified depends on the time of the response (static_response.c). */
static bool is_ahead(const draft_t *draft) {
    return draft->unix_ms / 1000 < draft->stamp.modified_ns / 1000000000;
}

/* Returns the size of all; *shared: of those in front that a 304 has, too (RFC 9110 section 15.4.5). */
static int write_fields(const draft_t *draft, const char *etag, char *text, uint32_t *shared) {
    static const char *const codings[UVHTTP__STATIC_CODINGS] = {"", "Content-Encoding: br\r\n",
                                                                "Content-Encoding: gzip\r\n"};
    const char *cache_control = uvhttp__static_cache_control(&draft->site->settings.options, draft->path);
    int64_t modified = draft->stamp.modified_ns / 1000000000;
    char date[UVHTTP__DATE_SIZE];
    uvhttp__date_write(date, modified);
    int size = snprintf(text, FIELDS_MAX, "ETag: %s\r\n%s%s%s%s", etag, *cache_control ? "Cache-Control: " : "",
                        cache_control, *cache_control ? "\r\n" : "", draft->vary ? "Vary: Accept-Encoding\r\n" : "");
    *shared = (uint32_t)size;
    if (!is_ahead(draft))
        size += snprintf(text + size, FIELDS_MAX - (size_t)size, "Last-Modified: %.*s\r\n", (int)sizeof date, date);
    size += snprintf(text + size, FIELDS_MAX - (size_t)size,
                     "Accept-Ranges: bytes\r\n%s%sX-Content-Type-Options: nosniff\r\n", codings[draft->coding],
                     draft->listed ? "Content-Security-Policy: " UVHTTP__STATIC_PAGE_POLICY "\r\n" : "");
    return size;
}

static const char *type_of(const draft_t *draft) {
    if (draft->listed) return "text/html; charset=utf-8";
    return uvhttp__static_type(&draft->site->settings.options, draft->path);
}

/* Takes over descriptor and content, also when it returns NULL for want of memory. */
static uvhttp__static_file_t *file_new(const draft_t *draft) {
    char etag[80], fields[FIELDS_MAX];
    uint32_t shared;
    int etag_size = write_etag(draft, etag, sizeof etag), fields_size = write_fields(draft, etag, fields, &shared);
    uvhttp__static_file_t *file = uvhttp__malloc(sizeof *file + (size_t)etag_size + (size_t)fields_size);
    int fd = draft->fd;
    if (fd >= 0 && (draft->content || !file)) {
        close(fd);
        fd = -1;
    }
    if (!file) {
        uvhttp__free(draft->content);
        return NULL;
    }
    *file = (uvhttp__static_file_t){.memory = draft->site->memory,
                                    .stamp = draft->stamp,
                                    .fd = fd,
                                    .size = draft->size,
                                    .content = draft->content,
                                    .modified = draft->stamp.modified_ns / 1000000000,
                                    .etag = {file->text, (size_t)etag_size},
                                    .fields = {file->text + etag_size, (size_t)fields_size},
                                    .shared_fields_size = shared,
                                    .type = type_of(draft),
                                    .vary = draft->vary,
                                    .ahead = is_ahead(draft),
                                    .settled = draft->settled};
    uvhttp__ref_init(&file->ref);
    uvhttp__ref_acquire(&file->memory->ref);
    memcpy(file->text, etag, (size_t)etag_size);
    memcpy(file->text + etag_size, fields, (size_t)fields_size);
    if (file->content) atomic_fetch_add_explicit(&file->memory->size, file->size, memory_order_relaxed);
    return file;
}

/* --- reading --- */

/* Whether this file is to be kept in memory. Files that have left the caches and are still sent to slow clients count
 * too, so that their memory is bounded. */
static bool fits_memory(const uvhttp__static_site_t *site, uint64_t size, bool *pressed) {
    const uvhttp_static_options_t *options = &site->settings.options;
    *pressed = false;
    if (size >= options->sendfile_min || size > options->cache_size_max / site->cache_count) return false;
    uint64_t held = atomic_load_explicit(&site->memory->size, memory_order_relaxed);
    *pressed = held + size > 2 * options->cache_size_max;
    return !*pressed;
}

/* Reads up to `size` bytes from the start. Returns how many, less at the end of the file; -1. */
static int64_t read_whole(int fd, char *content, uint64_t size) {
    uint64_t have = 0;
    while (have < size) {
        ssize_t got = pread(fd, content + have, (size_t)(size - have), (off_t)have);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            uvhttp__log_file_error(fd, NULL, have, errno);
            return -1;
        }
        if (got == 0) break;
        have += (uint64_t)got;
    }
    return (int64_t)have;
}

/* Content and stamp that belong together, as far as a file that is being written allows: what was read is sent with its
 * own size, whatever happens to the file. Returns 0 or a status. */
static int read_content(draft_t *draft, struct stat *info) {
    for (int tries = 0;; tries++) {
        draft->size = (uint64_t)info->st_size;
        draft->content = uvhttp__malloc(draft->size > 0 ? (size_t)draft->size : 1);
        if (!draft->content) return 503;
        int64_t got = read_whole(draft->fd, draft->content, draft->size);
        struct stat after;
        if (got < 0 || fstat(draft->fd, &after) != 0) {
            uvhttp__free(draft->content);
            draft->content = NULL;
            return 500;
        }
        uvhttp__static_stamp_t before = stamp_of(info), now = stamp_of(&after);
        bool same = same_stamp(&before, &now) && (uint64_t)got == draft->size;
        draft->size = (uint64_t)got;
        draft->stamp = now;
        draft->stamp.size = draft->size;
        if (same) return 0;
        draft->settled = false;
        if (tries + 1 == READ_TRIES) return 0;
        uvhttp__free(draft->content);
        draft->content = NULL;
        *info = after;
        draft->settled = true;
    }
}

/* Archives and copies set the date of modification, but nothing sets the time of the change. */
static bool is_settled(const draft_t *draft) {
    const uvhttp__static_stamp_t *stamp = &draft->stamp;
    int64_t last_ns = stamp->modified_ns > stamp->changed_ns ? stamp->modified_ns : stamp->changed_ns;
    return draft->unix_ms * 1000000 - last_ns >= SETTLED_NS;
}

/* A representation from its descriptor, which is taken over. known: what it was, or NULL. Returns 200 or a status. */
static int load(const draft_t *model, struct stat *info, uvhttp__static_file_t *known, uvhttp__static_file_t **file) {
    draft_t draft = *model;
    draft.stamp = stamp_of(info);
    if (known && known->settled && known->vary == draft.vary && same_stamp(&known->stamp, &draft.stamp)) {
        close(draft.fd);
        uvhttp__ref_acquire(&known->ref);
        *file = known;
        return 200;
    }
    bool pressed;
    draft.settled = is_settled(&draft);
    draft.size = draft.stamp.size;
    if (fits_memory(draft.site, draft.size, &pressed)) {
        int status = read_content(&draft, info);
        if (status != 0) {
            close(draft.fd);
            return status;
        }
        draft.settled = draft.settled && is_settled(&draft);
    } else {
        if (pressed) draft.settled = false;
        /* Its begin should be in memory when the loop sends it. */
        (void)posix_fadvise(draft.fd, 0, draft.size < READAHEAD_SIZE ? (off_t)draft.size : READAHEAD_SIZE,
                            POSIX_FADV_WILLNEED);
    }
    *file = file_new(&draft);
    return *file ? 200 : 503;
}

/* --- looking up --- */

/* What an error of the file system is to a client. */
static int status_of(int error, bool *no_descriptor) {
    switch (error) {
        case ENOENT:
        case ENOTDIR:
        case ELOOP:
        case ENAMETOOLONG:
        case EXDEV: /* out of the root */
        case ENXIO: /* a socket, or a device without a driver */
        case ENODEV:
        case EINVAL: return 404;
        case EACCES:
        case EPERM: return 403;
        case EMFILE:
        case ENFILE: *no_descriptor = true; return 503;
        case ENOMEM:
        case EAGAIN: return 503;
        default: return 500;
    }
}

/* Opens and looks. Returns 200 or a status. */
static int open_path(const uvhttp__static_site_t *site, const char *path, int *fd, struct stat *info,
                     bool *no_descriptor) {
    *fd = uvhttp__static_open(site->root, path, site->settings.options.no_symlinks, site->walk);
    if (*fd >= 0 && fstat(*fd, info) == 0) return 200;
    int error = *fd < 0 ? -*fd : errno;
    if (*fd >= 0) close(*fd);
    int status = status_of(error, no_descriptor);
    if (status == 500) uvhttp__log_file_error(-1, path, 0, error);
    return status;
}

typedef struct variant {
    int fd; /* -1: there is none */
    struct stat info;
} variant_t;

/* Finds a precompressed variant of the file at `path`, if it is newer and smaller. */
static void find_variant(const draft_t *draft, const struct stat *info, const char *suffix, variant_t *variant,
                         uvhttp__static_found_t *found) {
    char path[UVHTTP__STATIC_PATH_MAX + 4];
    variant->fd = -1;
    snprintf(path, sizeof path, "%s%s", draft->path, suffix);
    int fd, status = open_path(draft->site, path, &fd, &variant->info, &found->no_descriptor);
    if (status == 503) found->incomplete = true;
    if (status != 200) return;
    const struct stat *its = &variant->info;
    if (S_ISREG(its->st_mode) && its->st_size < info->st_size && to_ns(its->st_mtim) >= to_ns(info->st_mtim) - OLDER_NS)
        variant->fd = fd;
    else
        close(fd);
}

static bool ends_with(const char *text, const char *end) {
    size_t size = strlen(text), end_size = strlen(end);
    return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

/* The page of a directory. */
static void found_list(const uvhttp__static_site_t *site, int fd, const char *path, const char *view,
                       const struct stat *info, int64_t unix_ms, uvhttp__static_found_t *found) {
    struct stat dated = *info;
    draft_t draft = {
        .site = site, .path = *path ? path : "/", .fd = -1, .unix_ms = unix_ms, .settled = true, .listed = true};
    size_t size;
    found->status = uvhttp__static_list(&site->settings.options, fd, path, view, &dated, &draft.content, &size);
    if (found->status != 200) return;
    draft.stamp = stamp_of(&dated);
    draft.size = size;
    found->listed = true;
    found->files[0] = file_new(&draft);
    if (!found->files[0]) found->status = 503;
}

/* A regular file, with its precompressed variants. Of one that cannot be looked for now, Vary says what it said
 * before. */
static void found_file(draft_t *draft, struct stat *info, const uvhttp__static_found_t *known,
                       uvhttp__static_found_t *found) {
    static const char *const suffixes[UVHTTP__STATIC_CODINGS] = {"", ".br", ".gz"};
    variant_t variants[UVHTTP__STATIC_CODINGS] = {{.fd = -1}, {.fd = -1}, {.fd = -1}};
    bool wanted = !draft->site->settings.options.no_precompressed && info->st_size > 0 &&
                  !ends_with(draft->path, ".br") && !ends_with(draft->path, ".gz");
    for (int i = UVHTTP__STATIC_BROTLI; wanted && i < UVHTTP__STATIC_CODINGS; i++) {
        find_variant(draft, info, suffixes[i], &variants[i], found);
        draft->vary |= variants[i].fd >= 0;
    }
    uvhttp__static_file_t *before = known ? known->files[0] : NULL;
    if (found->incomplete) draft->vary |= !before || before->vary;
    found->status = load(draft, info, before, &found->files[0]);
    for (int i = UVHTTP__STATIC_BROTLI; i < UVHTTP__STATIC_CODINGS; i++) {
        if (variants[i].fd < 0) continue;
        draft->coding = (uvhttp__static_coding_t)i;
        draft->fd = variants[i].fd;
        if (found->status != 200)
            close(draft->fd);
        else if (load(draft, &variants[i].info, known ? known->files[i] : NULL, &found->files[i]) == 503)
            found->incomplete = true; /* one that cannot be read is skipped */
    }
}

/* Whether a directory was opened for more than the index in it (static_path.c). */
static bool may_be_read(int fd) {
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && !(flags & O_PATH);
}

/* A directory asked for with its '/'; the descriptor is taken over. */
static void found_directory(draft_t *draft, const char *view, struct stat *info, const uvhttp__static_found_t *known,
                            uvhttp__static_found_t *found) {
    const uvhttp__static_site_t *site = draft->site;
    const char *directory = draft->path;
    int directory_fd = draft->fd;
    found->status = 404;
    for (const char *const *name = site->settings.options.index_files; *name; name++) {
        char path[UVHTTP__STATIC_PATH_MAX];
        struct stat its;
        if ((size_t)snprintf(path, sizeof path, "%s%s", directory, *name) >= sizeof path) continue;
        int status = open_path(site, path, &draft->fd, &its, &found->no_descriptor);
        if (status == 404) continue;
        if (status == 200 && !S_ISREG(its.st_mode)) {
            close(draft->fd);
            continue;
        }
        close(directory_fd);
        draft->path = path;
        found->status = status;
        if (status == 200) found_file(draft, &its, known, found);
        draft->path = directory;
        return;
    }
    /* The page is made anew each time: it says of files what does not show in the times of the directory. */
    if (site->settings.options.list_directories && may_be_read(directory_fd)) {
        found_list(site, directory_fd, directory, view, info, draft->unix_ms, found);
        return;
    }
    if (site->settings.options.list_directories) found->status = 403;
    close(directory_fd);
}

void uvhttp__static_look_up(const uvhttp__static_site_t *site, const char *path, const char *view,
                            const uvhttp__static_found_t *known, int64_t unix_ms, uvhttp__static_found_t *found) {
    *found = (uvhttp__static_found_t){.status = 0};
    size_t size = strlen(path);
    bool slash = size == 0 || path[size - 1] == '/';
    struct stat info;
    draft_t draft = {.site = site, .path = path, .unix_ms = unix_ms};
    found->status = open_path(site, path, &draft.fd, &info, &found->no_descriptor);
    if (found->status != 200) return;
    if (S_ISREG(info.st_mode) && !slash) {
        found_file(&draft, &info, known, found);
    } else if (S_ISDIR(info.st_mode) && slash) {
        found_directory(&draft, view, &info, known, found);
    } else {
        close(draft.fd);
        found->status = S_ISDIR(info.st_mode) ? 301 : 404;
    }
}
