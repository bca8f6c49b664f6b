/* Owns: one mount: its root, its helper threads, its caches, and what was loaded in advance. May include: exec base
 * obs.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/libc.h"
#include "handler/static.h"

/* --- warming up --- Names that cannot be read are left for the request that asks for them. */

#define WARM_DEPTH_MAX 32

typedef struct warming {
    uvhttp__static_site_t *site;
    uvhttp__static_limits_t left; /* of the limits of one cache */
    int64_t unix_ms;
    char path[UVHTTP__STATIC_PATH_MAX];
} warming_t;

static void forget(uvhttp__static_warm_t *warm) {
    uvhttp__static_found_release(&warm->found);
    uvhttp__free(warm);
}

/* Whether there is capacity for the found file; if so, reserves it. */
static bool take_capacity(warming_t *warming, const uvhttp__static_found_t *found) {
    uint64_t size = 0;
    uint32_t descriptors = 0;
    for (int i = 0; i < UVHTTP__STATIC_CODINGS; i++) {
        const uvhttp__static_file_t *file = found->files[i];
        if (!file) continue;
        size += file->content ? file->size : 0;
        descriptors += file->fd >= 0;
    }
    if (size > warming->left.size_max || descriptors > warming->left.descriptors_max) return false;
    warming->left.size_max -= size;
    warming->left.descriptors_max -= descriptors;
    warming->left.entries_max--;
    return true;
}

/* Loads what is at warming->path. */
static void warm_path(warming_t *warming) {
    if (warming->left.entries_max == 0) return;
    size_t size = strlen(warming->path);
    uvhttp__static_warm_t *warm = uvhttp__calloc(1, sizeof *warm + size + 1);
    if (!warm) return;
    warm->path_size = size;
    memcpy(warm->path, warming->path, size + 1);
    uvhttp__static_look_up(warming->site, warm->path, "", NULL, warming->unix_ms, &warm->found);
    if (warm->found.status != 200 || warm->found.incomplete || !take_capacity(warming, &warm->found)) {
        forget(warm);
        return;
    }
    warm->next = warming->site->warm;
    warming->site->warm = warm;
}

/* `size` bytes of warming->path name a directory: "" or with its '/'. */
static void warm_directory(warming_t *warming, size_t size, int depth) {
    const uvhttp_static_options_t *options = &warming->site->settings.options;
    warm_path(warming);
    int fd = uvhttp__static_open(warming->site->root, warming->path, options->no_symlinks, warming->site->walk);
    if (fd < 0) return;
    DIR *stream = fdopendir(fd);
    if (!stream) {
        close(fd);
        return;
    }
    for (const struct dirent *item; warming->left.entries_max > 0 && (item = readdir(stream));) {
        size_t name_size = strlen(item->d_name);
        struct stat info;
        if (size + name_size + 2 > sizeof warming->path) continue;
        if (!uvhttp__static_path_valid((uvhttp_str_t){item->d_name, name_size}, options->dot_files)) continue;
        if (fstatat(dirfd(stream), item->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
        memcpy(warming->path + size, item->d_name, name_size + 1);
        if (S_ISREG(info.st_mode)) {
            warm_path(warming);
        } else if (S_ISDIR(info.st_mode) && depth < WARM_DEPTH_MAX) {
            memcpy(warming->path + size + name_size, "/", 2);
            warm_directory(warming, size + name_size + 1, depth + 1);
        }
        warming->path[size] = '\0';
    }
    closedir(stream);
}

static void warm_up(uvhttp__static_site_t *site) {
    site->warmed_ms = uvhttp__clock_ns() / 1000000;
    warming_t warming = {.site = site, .left = site->caches[0].limits, .unix_ms = uvhttp__clock_unix_ms()};
    warm_directory(&warming, 0, 0);
}

/* --- making --- */

static uint32_t share(uint32_t limit, uint32_t loops) {
    return limit > loops ? limit / loops : 1;
}

static int make_caches(uvhttp__static_site_t *site, uint32_t loops) {
    const uvhttp_static_options_t *options = &site->settings.options;
    const uvhttp__static_limits_t limits = {.entries_max = share(options->cache_entries_max, loops),
                                            .missing_max = share(options->cache_missing_max, loops),
                                            .descriptors_max = share(options->open_files_max, loops),
                                            .size_max = options->cache_size_max / loops};
    site->caches = uvhttp__calloc(loops, sizeof *site->caches);
    if (!site->caches) return UVHTTP_E_NOMEM;
    for (; site->cache_count < loops; site->cache_count++) {
        uvhttp__static_cache_t *cache = &site->caches[site->cache_count];
        int status = uvhttp__static_cache_init(cache, &limits);
        if (status != UVHTTP_OK) return status;
        cache->site = site;
    }
    return UVHTTP_OK;
}

static int make_memory(uvhttp__static_site_t *site) {
    site->memory = uvhttp__calloc(1, sizeof *site->memory);
    if (!site->memory) return UVHTTP_E_NOMEM;
    uvhttp__ref_init(&site->memory->ref);
    uint32_t helpers = site->settings.options.helper_threads;
    site->work = uvhttp__work_new(&(uvhttp__work_options_t){
        .threads_soon = helpers, .threads_max = helpers, .backlog_max = site->settings.options.backlog_max});
    return site->work ? UVHTTP_OK : UVHTTP_E_NOMEM;
}

/* The directory must be one that can be searched and read, now. */
static int open_root(uvhttp__static_site_t *site, const char *root) {
    site->root = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (site->root < 0) return errno;
    if (faccessat(site->root, ".", R_OK | X_OK, AT_EACCESS) != 0) return errno;
    site->walk = !uvhttp__static_has_openat2(site->root);
    return 0;
}

int uvhttp__static_site_new(const char *prefix, const char *root, const uvhttp_static_options_t *options,
                            uint32_t loops, char *text, size_t size, uvhttp__static_site_t **made) {
    uvhttp__static_site_t *site = uvhttp__calloc(1, sizeof *site);
    int status = UVHTTP_E_NOMEM;
    snprintf(text, size, "static files of %s: %s", root, uvhttp_error_message(status));
    if (!site) return status;
    site->root = -1;
    status = uvhttp__static_settings_init(&site->settings, options, prefix);
    if (status != UVHTTP_OK) {
        snprintf(text, size, "static files of %s: %s", root, uvhttp_error_message(status));
        goto fail;
    }
    int error = open_root(site, root);
    if (error != 0) {
        status = UVHTTP_E_STATIC_ROOT;
        snprintf(text, size, "static files of %s: the directory cannot be opened: %s", root, strerrordesc_np(error));
        goto fail;
    }
    status = make_memory(site);
    if (status == UVHTTP_OK) status = make_caches(site, loops);
    if (status != UVHTTP_OK) goto fail;
    if (site->settings.options.warm_up) warm_up(site);
    *made = site;
    return UVHTTP_OK;
fail:
    uvhttp__static_site_free(site);
    return status;
}

void uvhttp__static_site_free(uvhttp__static_site_t *site) {
    if (!site) return;
    uvhttp__work_free(site->work);
    for (uint32_t i = 0; i < site->cache_count; i++) uvhttp__static_cache_deinit(&site->caches[i]);
    uvhttp__free(site->caches);
    for (uvhttp__static_warm_t *next, *warm = site->warm; warm; warm = next) {
        next = warm->next;
        forget(warm);
    }
    if (site->memory && uvhttp__ref_release(&site->memory->ref)) uvhttp__free(site->memory);
    if (site->root >= 0) close(site->root);
    uvhttp__static_settings_deinit(&site->settings);
    uvhttp__free(site);
}
