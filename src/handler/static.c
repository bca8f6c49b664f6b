/* Owns: a request for a static file: the cache, looking up what is not in it once for all who wait, looking again at
 * what is. The loop's thread. May include: route message exec base obs. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "handler/static.h"
#include "message/accept_encoding.h"

/* Somebody whose file is being looked up. */
struct uvhttp__static_waiter {
    uvhttp__static_waiter_t *next;
    uvhttp_deferred_t *deferred;
    uvhttp__static_cache_t *cache;
    uvhttp__static_entry_t *entry; /* one reference */
};

typedef struct look_up {
    uvhttp__job_t job;
    uvhttp__static_cache_t *cache;
    uvhttp__static_entry_t *entry; /* one reference; it does not change while the job is out */
    int64_t unix_ms;
    uvhttp__static_found_t found;
} look_up_t;

/* --- looking up --- */

/* "" or how the page of a directory is shown, behind the path's NUL. */
static const char *view_of(const uvhttp__static_entry_t *entry) {
    size_t size = strlen(entry->path);
    return size < entry->path_size ? entry->path + size + 1 : "";
}

static void run_look_up(uvhttp__job_t *job) {
    look_up_t *look_up = UVHTTP__CONTAINER_OF(job, look_up_t, job);
    const uvhttp__static_entry_t *entry = look_up->entry;
    uvhttp__static_look_up(look_up->cache->site, entry->path, view_of(entry), entry->ready ? &entry->found : NULL,
                           look_up->unix_ms, &look_up->found);
}

static void on_ready(uvhttp_response_t *res, void *user);

/* Each waiting request gets its response through its handle, in its own message: only then is it known whether the
 * client is still there. Without memory for the message, its handle ends without a response: 500. */
static void wake_waiters(uvhttp__static_entry_t *entry) {
    uvhttp__static_waiter_t *next, *waiter = entry->waiters;
    entry->waiters = NULL;
    entry->waiters_last = &entry->waiters;
    for (; waiter; waiter = next) {
        next = waiter->next;
        if (uvhttp_deferred_run(waiter->deferred, on_ready, waiter) != UVHTTP_OK) on_ready(NULL, waiter);
    }
}

/* What does not say all about the file: not for the cache. */
static bool is_passing(const uvhttp__static_found_t *what) {
    return what->status >= 500 || what->incomplete;
}

/* An error, or a part of the same variants, does not replace a complete entry. */
static bool is_outdone(const uvhttp__static_found_t *what, const uvhttp__static_found_t *known) {
    return is_passing(what) && (what->status != 200 || what->files[0] == known->files[0]);
}

static void count_change(uvhttp__static_cache_t *cache, uint64_t size_before, uint64_t evictions_before) {
    uvhttp__counters_add(cache->counters, static_cache_bytes, cache->size - size_before);
    uvhttp__counters_add(cache->counters, static_evictions, cache->evictions - evictions_before);
}

static void found(uvhttp__static_cache_t *cache, uvhttp__static_entry_t *entry, const uvhttp__static_found_t *what) {
    uint64_t size = cache->size, evictions = cache->evictions, now_ms = cache->port.loop->now_ms;
    if (what->no_descriptor) (void)uvhttp__static_cache_drop_descriptor(cache);
    if (what->status == 500) uvhttp__counters_add(cache->counters, file_read_errors, 1);
    if (entry->ready && is_outdone(what, &entry->found)) {
        entry->checked_ms = now_ms;
        uvhttp__static_found_release(what);
    } else {
        /* What the cache does not keep must not evict anything, either. */
        if (is_passing(what) || !uvhttp__static_view_kept(view_of(entry))) uvhttp__static_cache_remove(cache, entry);
        uvhttp__static_cache_put(cache, entry, what, now_ms);
    }
    count_change(cache, size, evictions);
}

static void look_up_done(uvhttp__job_t *job, bool cancelled) {
    look_up_t *look_up = UVHTTP__CONTAINER_OF(job, look_up_t, job);
    uvhttp__static_entry_t *entry = look_up->entry;
    if (cancelled) look_up->found = (uvhttp__static_found_t){.status = 503};
    entry->busy = false;
    found(look_up->cache, entry, &look_up->found);
    wake_waiters(entry);
    uvhttp__static_entry_release(entry);
    uvhttp__free(look_up);
}

static int start_look_up(uvhttp__static_cache_t *cache, uvhttp__static_entry_t *entry) {
    look_up_t *look_up = uvhttp__malloc(sizeof *look_up);
    if (!look_up) return UVHTTP_E_NOMEM;
    uvhttp__job_init(&look_up->job, run_look_up, look_up_done);
    look_up->cache = cache;
    look_up->entry = entry;
    look_up->unix_ms = uvhttp__clock_unix_ms();
    int status = uvhttp__work_submit(cache->site->work, &cache->port, &look_up->job);
    if (status != UVHTTP_OK) {
        uvhttp__free(look_up);
        return status;
    }
    entry->busy = true;
    uvhttp__static_entry_hold(entry);
    return UVHTTP_OK;
}

/* The entry of a path, whose lookup is started if it is new. NULL: impossible. */
static uvhttp__static_entry_t *obtain(uvhttp__static_cache_t *cache, uvhttp_str_t path) {
    uvhttp__static_entry_t *entry = uvhttp__static_cache_find(cache, path);
    if (entry && entry->ready) {
        uvhttp__counters_add(cache->counters, static_hits, 1);
        return entry;
    }
    uvhttp__counters_add(cache->counters, static_misses, 1);
    if (entry) return entry;
    entry = uvhttp__static_cache_add(cache, path);
    if (!entry) return NULL;
    int status = start_look_up(cache, entry);
    if (status == UVHTTP_OK) return entry;
    if (status == UVHTTP_E_WORK_FULL) uvhttp__counters_error(cache->counters, UVHTTP_E_STATIC_BUSY);
    uvhttp__static_cache_remove(cache, entry);
    return NULL;
}

/* The old entry serves until the new one exists, so that nobody waits for a file that is asked for all the time. If
 * the lookup cannot be started now, the next request will try. Returns whether to wait for it: who is the first after a
 * while could get what was replaced long ago. A lookup that takes long is not waited for by more and more. */
static bool revalidate(uvhttp__static_cache_t *cache, uvhttp__static_entry_t *entry) {
    uint32_t interval = cache->site->settings.options.revalidate_ms;
    uint64_t now_ms = cache->port.loop->now_ms, age_ms = now_ms - entry->checked_ms;
    if (interval == UVHTTP_NEVER || age_ms < interval) return false;
    if (!entry->busy) {
        if (start_look_up(cache, entry) != UVHTTP_OK) return false;
        uvhttp__counters_add(cache->counters, static_revalidated, 1);
        entry->asked_ms = now_ms;
    }
    return age_ms >= 2 * (uint64_t)interval && now_ms - entry->asked_ms < interval;
}

/* --- responding --- */

static void refuse(uvhttp_response_t *res, int status) {
    static const struct {
        int status;
        const char *text;
    } texts[] = {{403, "Forbidden\n"}, {404, "Not Found\n"}};
    if (status == 503) {
        uvhttp__response_unavailable(res, UVHTTP_E_LIMIT);
        return;
    }
    const char *text = "Internal Server Error\n";
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].status == status) text = texts[i].text;
    uvhttp__response_fail(res, status, text);
}

/* The path of the request again, escaped so that no character has another meaning, with '/' and the query. */
static void redirect(const uvhttp_request_t *req, uvhttp_response_t *res) {
    static const char hex[] = "0123456789ABCDEF";
    uvhttp_str_t path = uvhttp_request_path(req), query = uvhttp_request_query(req);
    const uvhttp__request_extras_t *extras = uvhttp__request_see_extras(req);
    uint32_t slash = 0; /* the next one that stays escaped */
    char *location = uvhttp_request_alloc(uvhttp_response_request(res), 3 * path.size + query.size + 3), *at = location;
    if (!location) {
        refuse(res, 503);
        return;
    }
    for (size_t i = 0; i < path.size; i++) {
        unsigned char c = (unsigned char)path.data[i];
        if (slash < extras->slash_count && extras->slashes[slash] == i) {
            *at++ = '%';
            slash++;
        } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("/-._~", c)) {
            *at++ = (char)c;
        } else {
            *at++ = '%';
            *at++ = hex[c >> 4];
            *at++ = hex[c & 15];
        }
    }
    *at++ = '/';
    if (query.size > 0) {
        *at++ = '?';
        memcpy(at, query.data, query.size);
        at += query.size;
    }
    *at = '\0';
    if (uvhttp_response_redirect(res, 301, location) != UVHTTP_OK) refuse(res, 404);
}

/* Not the fallback of something else. */
static bool is_asked_for(const uvhttp__static_entry_t *entry, const uvhttp_request_t *req) {
    uvhttp_str_t path = uvhttp_request_path(req);
    return path.size >= entry->path_size &&
           memcmp(path.data + path.size - entry->path_size, entry->path, entry->path_size) == 0;
}

/* Whether the element of Accept is text/html, and has not the weight 0. */
static bool is_html(uvhttp_str_t item) {
    uvhttp_str_t parameters = {NULL, 0};
    const char *semicolon = item.size ? memchr(item.data, ';', item.size) : NULL;
    if (semicolon) {
        parameters = (uvhttp_str_t){semicolon + 1, item.size - (size_t)(semicolon + 1 - item.data)};
        item.size = (size_t)(semicolon - item.data);
    }
    return uvhttp__str_equal_nocase(uvhttp__str_trim(item), UVHTTP__STR("text/html")) &&
           uvhttp__accept_weight(parameters) > 0;
}

static bool accepts_html(const uvhttp_request_t *req) {
    size_t index = 0;
    for (uvhttp_str_t value; uvhttp_request_header_next(req, "Accept", &index, &value);)
        for (uvhttp_str_t item; uvhttp__list_next(&value, &item);)
            if (is_html(item)) return true;
    return false;
}

/* Whether the page of a single-page application may stand for a path that is missing. */
static bool may_fall_back(const uvhttp_static_options_t *options, const uvhttp__static_entry_t *entry) {
    return options->fallback && entry->found.status == 404 && strcmp(entry->path, options->fallback) != 0;
}

/* A page of it, not a file that is missing from it. */
static bool falls_back(const uvhttp_static_options_t *options, const uvhttp__static_entry_t *entry,
                       const uvhttp_request_t *req) {
    if (options->fallback_for_html) return accepts_html(req);
    const char *slash = strrchr(entry->path, '/');
    return !strchr(slash ? slash + 1 : entry->path, '.');
}

/* The response follows the lookup. That it has to wait is nothing that the client could know, or that takes long. */
static void await_look_up(uvhttp__static_cache_t *cache, uvhttp__static_entry_t *entry, uvhttp_response_t *res,
                          uvhttp_deferred_t *deferred) {
    uvhttp__static_waiter_t *waiter = uvhttp__malloc(sizeof *waiter);
    if (!waiter) {
        refuse(res, 503);
        return;
    }
    if (deferred)
        uvhttp_deferred_retain(deferred);
    else
        deferred = uvhttp_response_defer(res);
    if (!deferred) { /* the client gets 503 */
        uvhttp__free(waiter);
        return;
    }
    *waiter = (uvhttp__static_waiter_t){.deferred = deferred, .cache = cache, .entry = entry};
    uvhttp__static_entry_hold(entry);
    *entry->waiters_last = waiter;
    entry->waiters_last = &waiter->next;
    res->flags |= UVHTTP__RESPONSE_BRIEFLY;
}

static void respond_with_entry(uvhttp__static_cache_t *cache, uvhttp__static_entry_t *entry, uvhttp_response_t *res,
                               uvhttp_deferred_t *deferred);

/* Responds with an entry, now or after its lookup. deferred: the handle that the response has already, or NULL; the
 * caller keeps it. */
static void serve_entry(uvhttp__static_cache_t *cache, uvhttp__static_entry_t *entry, uvhttp_response_t *res,
                        uvhttp_deferred_t *deferred) {
    if (!entry->ready || revalidate(cache, entry))
        await_look_up(cache, entry, res, deferred);
    else
        respond_with_entry(cache, entry, res, deferred);
}

/* With the page, or 404; both depend on what the client accepts if that decides. */
static void respond_missing(uvhttp__static_cache_t *cache, uvhttp__static_entry_t *entry, uvhttp_response_t *res,
                            uvhttp_deferred_t *deferred) {
    const uvhttp_static_options_t *options = &cache->site->settings.options;
    if (options->fallback_for_html) (void)uvhttp_response_header_add(res, "Vary", "Accept");
    if (!falls_back(options, entry, uvhttp_response_request(res))) {
        refuse(res, 404);
        return;
    }
    uvhttp__static_entry_t *page = obtain(cache, uvhttp__str_from(options->fallback));
    if (page)
        serve_entry(cache, page, res, deferred);
    else
        refuse(res, 503);
}

static void respond_with_entry(uvhttp__static_cache_t *cache, uvhttp__static_entry_t *entry, uvhttp_response_t *res,
                               uvhttp_deferred_t *deferred) {
    uvhttp_request_t *req = uvhttp_response_request(res);
    if (entry->found.status == 200) {
        uvhttp__static_respond_file(cache, &entry->found, req, res);
    } else if (entry->found.status == 301 && is_asked_for(entry, req)) {
        redirect(req, res);
    } else if (may_fall_back(&cache->site->settings.options, entry)) {
        respond_missing(cache, entry, res, deferred);
    } else {
        if (entry->found.no_descriptor) uvhttp__counters_error(cache->counters, UVHTTP_E_NO_DESCRIPTORS);
        refuse(res, entry->found.status == 301 ? 404 : entry->found.status);
    }
}

/* What the waiter waited for is there. Without a response nothing of the cache is touched: it may be gone. */
static void on_ready(uvhttp_response_t *res, void *user) {
    uvhttp__static_waiter_t *waiter = user;
    if (res) respond_with_entry(waiter->cache, waiter->entry, res, waiter->deferred);
    uvhttp_deferred_release(waiter->deferred);
    uvhttp__static_entry_release(waiter->entry);
    uvhttp__free(waiter);
}

/* --- start and end --- */

/* What was loaded in advance. Memory that is lacking means a look-up later. */
static void seed(uvhttp__static_cache_t *cache) {
    uint64_t size = cache->size, evictions = cache->evictions;
    cache->seeded = true;
    for (const uvhttp__static_warm_t *warm = cache->site->warm; warm; warm = warm->next) {
        uvhttp__static_entry_t *entry = uvhttp__static_cache_add(cache, (uvhttp_str_t){warm->path, warm->path_size});
        if (!entry) return;
        for (int i = 0; i < UVHTTP__STATIC_CODINGS; i++)
            if (warm->found.files[i]) uvhttp__ref_acquire(&warm->found.files[i]->ref);
        uvhttp__static_cache_put(cache, entry, &warm->found, cache->site->warmed_ms);
    }
    count_change(cache, size, evictions);
}

static void open_cache(const uvhttp__static_place_t *place) {
    uvhttp__static_cache_t *cache = place->cache;
    cache->counters = place->counters;
    uvhttp__work_port_open(&cache->port, cache->site->work, place->loop);
    if (!cache->seeded) seed(cache);
}

void uvhttp__static_serve_root(uvhttp_request_t *req, uvhttp_response_t *res) {
    redirect(req, res);
}

/* The key of what is asked for: a path, or the page of a directory that the query wants sorted or filtered. Where an
 * index file is, the query is its own matter. */
static uvhttp_str_t key_of(uvhttp__static_cache_t *cache, uvhttp_request_t *req, uvhttp_str_t path) {
    if (!cache->site->settings.options.list_directories || (path.size > 0 && path.data[path.size - 1] != '/'))
        return path;
    if (uvhttp_request_query(req).size == 0) return path;
    const uvhttp__static_entry_t *plain = uvhttp__static_cache_find(cache, path);
    if (plain && plain->ready && !plain->found.listed) return path;
    uvhttp_str_t key = uvhttp__static_view_key(req, path);
    return key.data ? key : path;
}

void uvhttp__static_serve_from(const uvhttp__static_place_t *place, uvhttp_request_t *req, uvhttp_response_t *res,
                               size_t begin) {
    uvhttp__static_cache_t *cache = place->cache;
    if (__builtin_expect(!cache->port.loop, 0)) open_cache(place);
    uvhttp_str_t path = uvhttp_request_path(req);
    /* A '/' that was escaped is no separator, and a name cannot have it. */
    const uvhttp__request_extras_t *extras = uvhttp__request_see_extras(req);
    bool possible = extras->slash_count == 0 || extras->slashes[extras->slash_count - 1] + 2 < begin;
    path = (uvhttp_str_t){path.data + begin, path.size - begin};
    uvhttp_str_t key = key_of(cache, req, path);
    uvhttp__static_entry_t *entry = possible ? uvhttp__static_cache_find(cache, key) : NULL;
    if (entry && entry->ready) {
        uvhttp__counters_add(cache->counters, static_hits, 1);
    } else {
        possible = possible && uvhttp__static_path_valid(path, cache->site->settings.options.dot_files);
        if (!possible) {
            refuse(res, 404);
            return;
        }
        entry = obtain(cache, key);
        if (!entry) {
            refuse(res, 503);
            return;
        }
    }
    serve_entry(cache, entry, res, NULL);
}

void uvhttp__static_serve(const uvhttp__static_place_t *place, uvhttp_request_t *req, uvhttp_response_t *res) {
    /* The wildcard is the last parameter, and the end of the path. */
    const uvhttp__request_extras_t *extras = uvhttp__request_see_extras(req);
    assert(extras->param_count > 0);
    uvhttp__static_serve_from(place, req, res,
                              uvhttp_request_path(req).size - extras->params[extras->param_count - 1].size);
}

void uvhttp__static_cache_close(uvhttp__static_cache_t *cache) {
    uvhttp__work_port_close(&cache->port);
}
