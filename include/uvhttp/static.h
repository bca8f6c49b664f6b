/* Owns: static files: a directory served below a prefix, with validators, ranges, precompressed variants and a cache
 * (docs/guide/static_files.md). No file is opened, read or looked up on a loop's thread. */
#ifndef UVHTTP_STATIC_H
#define UVHTTP_STATIC_H

#include <uvhttp/error.h>
#include <uvhttp/route.h>
#include <uvhttp/types.h>

UVHTTP_BEGIN_DECLS

struct uvhttp_server;

/** The Content-Type of a file name extension. */
typedef struct uvhttp_static_type {
    const char *extension; /**< without the dot, "md"; the case of ASCII letters is ignored */
    const char *type;      /**< "text/markdown; charset=utf-8" */
} uvhttp_static_type_t;

/** The Cache-Control of paths below the prefix. An index file has its own path ("docs/index.html"), the listing of a
 * directory that of the directory ("docs/"; "/" for the root). */
typedef struct uvhttp_static_rule {
    const char *pattern;       /**< "*.css", "fonts*", "*"; '*' matches any characters, including '/' */
    const char *cache_control; /**< "public, max-age=3600"; "" for none */
} uvhttp_static_rule_t;

/** Options. Zero them and set what matters: 0, NULL and false mean the default, and so does NULL for the whole
 * structure. Everything is copied. The maximum sizes of the cache are those of this call, shared evenly among the
 * loops. */
typedef struct uvhttp_static_options {
    const char *const *
        index_files; /**< names to try for a directory, terminated by NULL; default "index.html". An empty list: none */
    const uvhttp_static_type_t *types; /**< searched before the library's own table; terminated by {NULL, NULL} */
    const char *default_type;          /**< for unknown extensions; default "application/octet-stream" */
    const uvhttp_static_rule_t
        *rules;            /**< the first match applies; terminated by {NULL, NULL}. Default: no Cache-Control */
    const char *fallback;  /**< path below the root of a file that is sent, with 200, for missing paths without an
                              extension (single-page applications); default none */
    bool immutable_hashed; /**< send "max-age=31536000, immutable" for names with 8 or more hex digits before
                              the extension ("app.3f2a9c81.js"); applied before the rules */
    bool list_directories; /**< send an HTML page for directories without an index file */
    bool dot_files;        /**< serve names that start with a dot; default 404 */
    bool no_symlinks;      /**< 404 for every symlink. Default: symlinks that stay below the root work */
    bool no_precompressed; /**< ignore "name.br" and "name.gz". Default: they are sent to clients that accept them */
    bool no_sendfile;      /**< helper threads read large files, as they do for TLS */
    bool warm_up;          /**< load the whole directory in this call, as far as it fits into the cache */
    uint32_t sendfile_min; /**< bytes, 1..64 MiB; default 65536. Files of this size or more are sent by sendfile(2),
                              smaller ones from memory */
    uint32_t cache_entries_max; /**< cached paths, 1..10,000,000; default 4096 */
    uint32_t cache_missing_max; /**< maximum of negative cache entries, 1..10,000,000; default 512 */
    uint32_t open_files_max;    /**< open descriptors, 1..1,000,000; default 256 */
    uint64_t cache_size_max;    /**< bytes of cached files, 1..2^50; default 64 MiB */
    uint32_t revalidate_ms;     /**< ms for which a cached file is not checked again, 1..86,400,000 or UVHTTP_NEVER;
                                   default 1000. After twice as long it is checked before it is sent */
    uint32_t ranges_max;        /**< ranges of a request, 1..1000; above, they are ignored; default 16 */
    uint32_t list_entries_max;  /**< names in the page of a directory, 1..100,000; default 1000 */
    uint32_t helper_threads;    /**< maximum of threads that wait for the disk, 1..64; default 4 */
    uint32_t backlog_max;   /**< lookups that wait for a helper thread, 1..1,000,000; above: 503; default 1024. Reads of
                               responses that have begun wait in addition */
    bool fallback_for_html; /**< send `fallback` for every missing path, also with an extension, but only to requests
                               whose Accept names text/html, as that of a navigation does; with Vary: Accept */
} uvhttp_static_options_t;

UVHTTP_EXPORT UVHTTP_SETUP_THREAD int uvhttp_static_sized(struct uvhttp_server *server, const char *prefix,
                                                          const char *root, const uvhttp_static_options_t *options,
                                                          size_t options_size);
/** Serves the files below the directory `root`, for GET and HEAD of `prefix` ("/", "/assets") and all paths below it.
 * Call it before the first listen or run. Returns 0, UVHTTP_E_STATIC_ROOT (the directory cannot be opened),
 * UVHTTP_E_CONFIG (an option), UVHTTP_E_INVALID, UVHTTP_E_NOMEM or a code of uvhttp_route. The reason is logged. The
 * server keeps the first error, and listen and run return it. */
static inline int uvhttp_static(struct uvhttp_server *server, const char *prefix, const char *root,
                                const uvhttp_static_options_t *options) {
    return uvhttp_static_sized(server, prefix, root, options, sizeof *options);
}
UVHTTP_EXPORT UVHTTP_SETUP_THREAD int uvhttp_group_static_sized(uvhttp_group_t *group, const char *prefix,
                                                                const char *root,
                                                                const uvhttp_static_options_t *options,
                                                                size_t options_size);
/** Serves files below the prefix of a group, with its middleware. Group and prefix may have parameters
 * ("/tenants/:id"); all their values show the same files. */
static inline int uvhttp_group_static(uvhttp_group_t *group, const char *prefix, const char *root,
                                      const uvhttp_static_options_t *options) {
    return uvhttp_group_static_sized(group, prefix, root, options, sizeof *options);
}

/** A directory for handlers of the program that choose files themselves, for example by the host of a request. Owned by
 * the server, and valid until uvhttp_server_free. */
typedef struct uvhttp_static_files_s uvhttp_static_files_t;

UVHTTP_EXPORT UVHTTP_SETUP_THREAD uvhttp_static_files_t *
uvhttp_static_files_sized(struct uvhttp_server *server, const char *root, const uvhttp_static_options_t *options,
                          size_t options_size);
/** Opens the directory `root` for uvhttp_static_respond, with a cache and helper threads of its own. Call it before the
 * first listen or run. NULL: an error as of uvhttp_static, which is logged, kept by the server and returned by listen
 * and run. */
static inline uvhttp_static_files_t *uvhttp_static_files(struct uvhttp_server *server, const char *root,
                                                         const uvhttp_static_options_t *options) {
    return uvhttp_static_files_sized(server, root, options, sizeof *options);
}

/** Responds to a request as uvhttp_static does for its routes; other methods than GET and HEAD get 405. The path below
 * the root follows the first `prefix_size` bytes of uvhttp_request_path and a '/': 0 for a directory at "/", 7 for one
 * at "/assets". Where no '/' follows, the client is redirected to the path with one. Call it once, from a handler with
 * UVHTTP_EXEC_LOOP, which then returns. Returns 0, UVHTTP_E_INVALID (an argument is NULL, or the path is shorter than
 * `prefix_size`) or UVHTTP_E_STATE (not on the loop's thread). */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD int uvhttp_static_respond(uvhttp_static_files_t *files, uvhttp_request_t *req,
                                                           uvhttp_response_t *res, size_t prefix_size);

UVHTTP_END_DECLS

#endif
