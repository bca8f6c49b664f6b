/* Owns: static files: a directory served below a prefix, with validators, ranges, precompressed variants and a cache
 * (docs/static.md). No file is opened, read or looked up on a loop's thread. */
#ifndef UVHTTP_STATIC_H
#define UVHTTP_STATIC_H

#include <uvhttp/error.h>
#include <uvhttp/route.h>
#include <uvhttp/types.h>

UVHTTP_BEGIN_DECLS

struct uvhttp_server;

/** A Content-Type by the end of the name. */
typedef struct uvhttp_static_type {
    const char *extension; /**< without the dot, "md"; the case of ASCII letters does not matter */
    const char *type;      /**< "text/markdown; charset=utf-8" */
} uvhttp_static_type_t;

/** A Cache-Control by the path below the prefix. */
typedef struct uvhttp_static_rule {
    const char *pattern;       /**< "*.css", "fonts*", "*": '*' stands for any characters, '/' too */
    const char *cache_control; /**< "public, max-age=3600"; "" for none */
} uvhttp_static_rule_t;

/** Zero it and set what matters: 0, NULL and false mean the default, and so does a NULL pointer to the whole.
 * Everything is copied. The limits of the cache are those of this call and shared out evenly among the loops. */
typedef struct uvhttp_static_options {
    const char *const *index_files;    /**< names to try for a directory, NULL at the end; default "index.html"; an
                                            empty list: none */
    const uvhttp_static_type_t *types; /**< tried before the library's own table; {NULL, NULL} at the end */
    const char *default_type;          /**< for unknown extensions; default "application/octet-stream" */
    const uvhttp_static_rule_t *rules; /**< the first that fits counts; {NULL, NULL} at the end. Default: no
                                            Cache-Control */
    const char *fallback;              /**< path below the root that answers, with 200, for what is missing and has no
                                            extension (single-page applications); default none */
    bool immutable_hashed;             /**< "public, max-age=31536000, immutable" for names with 8 or more hex digits
                                            before the extension ("app.3f2a9c81.js"), before the rules */
    bool list_directories;             /**< an HTML page for directories without an index file */
    bool dot_files;                    /**< serve names that begin with a dot; default 404 */
    bool no_symlinks;                  /**< 404 for every symlink; default: those that stay below the root work */
    bool no_precompressed;             /**< leave "name.br" and "name.gz" alone; default: sent to who accepts them */
    bool no_sendfile;                  /**< large files are read by helper threads instead, as they are for TLS */
    bool warm_up;                      /**< load the whole directory, as far as the cache goes, in this call */
    uint32_t sendfile_min;      /**< bytes, 1..64 MiB: files of this size and more are sent by sendfile(2), smaller
                                     ones from memory; default 65536 */
    uint32_t cache_entries_max; /**< paths remembered, 1..10,000,000; default 4096 */
    uint32_t cache_missing_max; /**< of them paths where nothing is, 1..; default 512 */
    uint32_t open_files_max;    /**< descriptors kept open, 1..1,000,000; default 256 */
    uint64_t cache_size_max;    /**< bytes of content in memory, 1..; default 64 MiB */
    uint32_t revalidate_ms;     /**< how long a cached file is not looked at again, 1..86,400,000 ms or
                                     UVHTTP_NEVER; default 1000 */
    uint32_t ranges_max;        /**< ranges of a request, 1..1000; more are ignored; default 16 */
    uint32_t list_entries_max;  /**< names in a directory's page, 1..100,000; default 1000 */
    uint32_t helper_threads;    /**< threads that wait for the disk, at most, 1..64; default 4 */
    uint32_t backlog_max;       /**< look-ups that wait for a helper thread, 1..1,000,000; more get 503; default
                                     1024 */
} uvhttp_static_options_t;

/** Serves the files below the directory `root` for GET and HEAD of `prefix` ("/", "/assets") and everything below it.
 * Before the first listen or run. Returns 0, UVHTTP_E_STATIC_ROOT (the directory cannot be opened), UVHTTP_E_CONFIG
 * (an option), UVHTTP_E_INVALID, UVHTTP_E_NOMEM or a code of uvhttp_route; the reason is logged, and the first failure
 * is kept and also returned by listen and run. */
UVHTTP_EXPORT int uvhttp_static(struct uvhttp_server *server, const char *prefix, const char *root,
                                const uvhttp_static_options_t *options);
/** The same with a prefix below that of a group, behind its middleware. Group and prefix may have
 * parameters ("/tenants/:id"): all their values show the same files. */
UVHTTP_EXPORT int uvhttp_group_static(uvhttp_group_t *group, const char *prefix, const char *root,
                                      const uvhttp_static_options_t *options);

UVHTTP_END_DECLS

#endif
