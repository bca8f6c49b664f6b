/* Owns: what the files of the static handler share. A *file* is one representation of a path, immutable and counted; an
 * *entry* is what a path was found to be; a *cache* has the entries of one loop; a *site* is one mount. May include:
 * route message exec base obs. */
#ifndef UVHTTP_SRC_HANDLER_STATIC_H
#define UVHTTP_SRC_HANDLER_STATIC_H

#include <stdatomic.h>
#include <sys/stat.h>
#include <uvhttp/response.h>
#include <uvhttp/static.h>

#include "base/list.h"
#include "base/ref.h"
#include "exec/work.h"
#include "message/message.h"

#define UVHTTP__STATIC_PATH_MAX 4096 /* bytes of a path below the root, with its terminator */
#define UVHTTP__STATIC_NAME_MAX 255  /* bytes of one name in it */

/* --- paths (static_path.c) --- */

/* Whether `path`, relative, may be asked of the system at all: no empty, dot or overlong names, no NUL and backslash;
 * one '/' at the end is allowed. */
bool uvhttp__static_path_valid(uvhttp_str_t path, bool dot_files);

/* Opens what is at `path` (terminated; "" is the root itself) below the directory `root`, for reading and without
 * waiting for a writer of a FIFO; a directory that may not be read with O_PATH, because its index may. Nothing outside
 * the root is ever opened. walk: name by name, for kernels without openat2; then every symlink is refused. Returns a
 * descriptor or -errno. Blocks. */
int uvhttp__static_open(int root, const char *path, bool no_symlinks, bool walk);

/* Whether this kernel has openat2 and lets us use it. */
bool uvhttp__static_has_openat2(int root);

/* --- ranges (static_range.c) --- */

typedef struct uvhttp__range {
    uint64_t first, size; /* bytes; size is never 0 */
} uvhttp__range_t;

typedef enum uvhttp__range_outcome {
    UVHTTP__RANGE_NONE,          /* nothing that can be understood: the whole file */
    UVHTTP__RANGE_SOME,          /* *count ranges */
    UVHTTP__RANGE_UNSATISFIABLE, /* 416 */
    UVHTTP__RANGE_ABSURD         /* overlapping, or more than max: the whole file */
} uvhttp__range_outcome_t;

/* Reads a Range field (RFC 9110 section 14.2) for `size` bytes into ranges[max]. */
uvhttp__range_outcome_t uvhttp__range_parse(uvhttp_str_t value, uint64_t size, uvhttp__range_t *ranges, uint32_t max,
                                            uint32_t *count);

/* --- conditions (static_condition.c) --- */

/* The request's fields that matter here; data NULL: absent. */
typedef struct uvhttp__static_fields {
    const uvhttp_request_t *req;
    uvhttp_str_t if_match, if_none_match, if_modified_since, if_unmodified_since, if_range, range;
    bool any;             /* one of them is there */
    bool accept_encoding; /* that field is there, too */
} uvhttp__static_fields_t;

void uvhttp__static_fields(const uvhttp_request_t *req, uvhttp__static_fields_t *fields);

/* What is compared with. */
typedef struct uvhttp__validators {
    uvhttp_str_t etag; /* with quotes; strong */
    int64_t modified;  /* Unix seconds */
    int64_t now;       /* the same, for two-digit years and dates in the future */
    bool vary;         /* others in other codings may have the same date */
} uvhttp__validators_t;

/* RFC 9110 section 13.2.2 up to the Range: 200 (continue), 304 or 412. For GET and HEAD. */
int uvhttp__static_condition(const uvhttp__static_fields_t *fields, const uvhttp__validators_t *validators);
/* Whether the Range counts (RFC 9110 section 13.1.5). */
bool uvhttp__static_range_applies(const uvhttp__static_fields_t *fields, const uvhttp__validators_t *validators);

/* --- types and rules (static_type.c) --- */

/* The options, checked, with every default filled in; strings and lists are in one piece of memory. */
typedef struct uvhttp__static_settings {
    uvhttp_static_options_t options;
    char *memory;
} uvhttp__static_settings_t;

/* Returns 0, UVHTTP_E_CONFIG (logged, with the prefix) or UVHTTP_E_NOMEM. */
int uvhttp__static_settings_init(uvhttp__static_settings_t *settings, const uvhttp_static_options_t *options,
                                 const char *prefix);
void uvhttp__static_settings_deinit(uvhttp__static_settings_t *settings);

const char *uvhttp__static_type(const uvhttp_static_options_t *options, const char *path);
/* "" for none. */
const char *uvhttp__static_cache_control(const uvhttp_static_options_t *options, const char *path);
/* '*' stands for any characters. */
bool uvhttp__static_pattern_fits(const char *pattern, const char *text);
/* "app.3f2a9c81.js": 8 or more hex digits between '.', '-' or '_' and the extension. */
bool uvhttp__static_name_is_hashed(const char *path);

/* --- files (static_file.c) --- */

/* How a file is known to be the same. */
typedef struct uvhttp__static_stamp {
    uint64_t device, inode, size;
    int64_t modified_ns, changed_ns;
} uvhttp__static_stamp_t;

typedef enum uvhttp__static_coding {
    UVHTTP__STATIC_PLAIN,
    UVHTTP__STATIC_BROTLI,
    UVHTTP__STATIC_GZIP,
    UVHTTP__STATIC_CODINGS
} uvhttp__static_coding_t;

/* Bytes of content in memory, also of what has left the caches and is still being sent. Outlives the site. */
typedef struct uvhttp__static_memory {
    uvhttp__ref_t ref;
    _Atomic uint64_t size;
} uvhttp__static_memory_t;

typedef struct uvhttp__static_file {
    uvhttp__ref_t ref;
    uvhttp__static_memory_t *memory;
    uvhttp__static_stamp_t stamp;
    int fd; /* -1: there is content */
    uint64_t size;
    _Atomic(uint64_t) found_ms; /* when all of it was in memory last (io/io.h); 0: nobody has looked */
    const char *content;        /* NULL: there is a descriptor */
    int64_t modified;           /* Unix seconds */
    uvhttp_str_t etag;
    uvhttp_str_t fields;         /* header fields as they are sent, all but Content-Type */
    uint32_t shared_fields_size; /* of them, in front, those that a 304 has too */
    const char *type;            /* the settings' or static */
    bool vary;                   /* there are others in other codings */
    bool ahead;                  /* it was modified in the future: Last-Modified is not among the fields */
    bool settled; /* while the stamp is the same, so is the file: it was not changed so shortly before it was
                     read that another change might not show, and nothing was left out for want of memory */
    char text[];
} uvhttp__static_file_t;

void uvhttp__static_file_release(void *file); /* any thread */

typedef struct uvhttp__static_found {
    int status;         /* 200, 301 (a directory without '/'), or the status of an error: 403, 404, 500, 503 */
    bool listed;        /* 200: it is the page of a directory */
    bool no_descriptor; /* descriptors ran out: 503, or incomplete */
    bool incomplete;    /* 200: there may be more variants, for which descriptors or memory are lacking now */
    uvhttp__static_file_t *files[UVHTTP__STATIC_CODINGS]; /* 200: one reference each; NULL: there is none */
} uvhttp__static_found_t;

struct uvhttp__static_site;

/* Looks a path up. view: how the page of a directory is shown, see below. known: what was found last, or NULL. unix_ms:
 * now. Blocks. Any thread. */
void uvhttp__static_look_up(const struct uvhttp__static_site *site, const char *path, const char *view,
                            const uvhttp__static_found_t *known, int64_t unix_ms, uvhttp__static_found_t *found);

/* The page of a directory (static_list.c), `size` bytes from uvhttp__malloc; the descriptor is closed, and info gets
 * the time of the last change of anything in it. Returns a status as in found; without 200 there is no page. */
int uvhttp__static_list(const uvhttp_static_options_t *options, int fd, const char *path, const char *view,
                        struct stat *info, char **page, size_t *size);
/* The only things that such a page may load or send: its own style, and its form back here. The hash is that of the
 * style in static_page.c. */
#define UVHTTP__STATIC_PAGE_POLICY                                                                                     \
    "default-src 'none'; style-src 'sha256-dVjVT0F4u5yNbxenQYwcZou59VahcS1Xfjq7tM2VApE='; form-action 'self'; "        \
    "base-uri 'none'; frame-ancestors 'self'"

/* --- views (static_view.c) --- A view is "" or, of a page that is sorted or filtered otherwise, what stands behind the
 * NUL of its key. */

/* The key in the cache of the view that the query asks for; data NULL: the plain one. The request's memory. */
uvhttp_str_t uvhttp__static_view_key(uvhttp_request_t *req, uvhttp_str_t path);
/* Whether the cache keeps it: there is no end of filters. */
bool uvhttp__static_view_kept(const char *view);

/* --- caches (static_cache.c) --- */

typedef struct uvhttp__static_cache uvhttp__static_cache_t;
typedef struct uvhttp__static_waiter uvhttp__static_waiter_t;

typedef struct uvhttp__static_entry {
    struct uvhttp__static_entry *next; /* same bucket */
    uvhttp__list_t link;               /* of those found, or of those missing: the least recently used first */
    uint64_t hash;
    uint32_t holders; /* the table, the job, waiters */
    bool ready;       /* looked up at least once */
    bool busy;        /* a job is out for it: it must stay in the table */
    bool in_table;
    uvhttp__static_found_t found;
    uint64_t size; /* content that is accounted for */
    uint32_t descriptors;
    uint64_t checked_ms; /* loop time */
    uint64_t asked_ms;   /* busy again: since when */
    uvhttp__static_waiter_t *waiters, **waiters_last;
    uint32_t path_size;
    char path[]; /* terminated */
} uvhttp__static_entry_t;

typedef struct uvhttp__static_limits {
    uint32_t entries_max, missing_max, descriptors_max;
    uint64_t size_max; /* bytes */
} uvhttp__static_limits_t;

struct uvhttp__static_cache {
    uvhttp__static_entry_t **buckets;
    uint32_t bucket_mask;
    uvhttp__static_limits_t limits;
    uvhttp__list_t found, missing;
    uint32_t found_count, missing_count, descriptors;
    uint64_t size; /* bytes of content */
    uint64_t evictions;
    uint64_t seed;
    struct uvhttp__static_site *site; /* from here on: of static.c */
    uvhttp__counters_t *counters;
    uvhttp__work_port_t port;
    bool seeded; /* what was warmed up is in it */
};

/* Returns 0 or UVHTTP_E_NOMEM. */
int uvhttp__static_cache_init(uvhttp__static_cache_t *cache, const uvhttp__static_limits_t *limits);
void uvhttp__static_cache_deinit(uvhttp__static_cache_t *cache);

/* The entry of a path, now the most recently used; NULL if there is none. */
uvhttp__static_entry_t *uvhttp__static_cache_find(uvhttp__static_cache_t *cache, uvhttp_str_t path);
/* Adds one that is not there, not ready. NULL if out of memory. */
uvhttp__static_entry_t *uvhttp__static_cache_add(uvhttp__static_cache_t *cache, uvhttp_str_t path);
/* Stores the result of a lookup in an entry (takes ownership of references), and evicts others if necessary; the entry
 * may leave the table, and does so at once if it alone is beyond a limit. */
void uvhttp__static_cache_put(uvhttp__static_cache_t *cache, uvhttp__static_entry_t *entry,
                              const uvhttp__static_found_t *found, uint64_t now_ms);
void uvhttp__static_cache_remove(uvhttp__static_cache_t *cache, uvhttp__static_entry_t *entry);
/* Takes the least recently used entry with a descriptor out. False if there is none. */
bool uvhttp__static_cache_drop_descriptor(uvhttp__static_cache_t *cache);

/* Gives back the references of what a look-up has found. */
void uvhttp__static_found_release(const uvhttp__static_found_t *found);

static inline void uvhttp__static_entry_hold(uvhttp__static_entry_t *entry) {
    entry->holders++;
}
void uvhttp__static_entry_release(uvhttp__static_entry_t *entry);

/* --- sites (static_site.c, static.c) --- */

typedef struct uvhttp__static_warm {
    struct uvhttp__static_warm *next;
    uvhttp__static_found_t found;
    size_t path_size;
    char path[];
} uvhttp__static_warm_t;

typedef struct uvhttp__static_site {
    struct uvhttp__static_site *next; /* of the same server */
    uvhttp__static_settings_t settings;
    int root;
    bool walk; /* no openat2 */
    uvhttp__static_memory_t *memory;
    uvhttp__work_t *work;
    uvhttp__static_warm_t *warm; /* loaded in advance, for every cache */
    uint64_t warmed_ms;          /* loop time: when that was */
    uint32_t cache_count;
    uvhttp__static_cache_t *caches; /* one a loop */
} uvhttp__static_site_t;

/* Returns 0, UVHTTP_E_STATIC_ROOT, UVHTTP_E_CONFIG, UVHTTP_E_INVALID or UVHTTP_E_NOMEM; text[size] says why. */
int uvhttp__static_site_new(const char *prefix, const char *root, const uvhttp_static_options_t *options,
                            uint32_t loops, char *text, size_t size, uvhttp__static_site_t **site);
/* All caches are closed. NULL is allowed. */
void uvhttp__static_site_free(uvhttp__static_site_t *site);

/* The state that a handler has on its loop. */
typedef struct uvhttp__static_place {
    uvhttp__static_cache_t *cache;
    uvhttp__loop_t *loop;
    uvhttp__counters_t *counters;
} uvhttp__static_place_t;

/* Responds to a request for a directory of a mount without its '/': "/assets" of "/assets/". */
void uvhttp__static_serve_root(uvhttp_request_t *req, uvhttp_response_t *res);
/* Responds to a request of a route whose pattern ends in a wildcard, which is the path below the root. */
void uvhttp__static_serve(const uvhttp__static_place_t *place, uvhttp_request_t *req, uvhttp_response_t *res);
/* Responds to a request whose path below the root begins at `begin` of its path. */
void uvhttp__static_serve_from(const uvhttp__static_place_t *place, uvhttp_request_t *req, uvhttp_response_t *res,
                               size_t begin);
/* The loop ends. */
void uvhttp__static_cache_close(uvhttp__static_cache_t *cache);

/* Responds with one file: conditions, ranges, body (static_response.c). */
void uvhttp__static_respond_file(uvhttp__static_cache_t *cache, const uvhttp__static_found_t *found,
                                 uvhttp_request_t *req, uvhttp_response_t *res);

#endif
