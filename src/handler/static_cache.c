/* Owns: the cache of one loop: a table by path, two lists by last use, limits. One thread. May include: base. */
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "handler/static.h"

int uvhttp__static_cache_init(uvhttp__static_cache_t *cache, const uvhttp__static_limits_t *limits) {
    uint32_t buckets = 16;
    while (buckets < limits->entries_max && buckets < 1u << 24) buckets *= 2;
    *cache = (uvhttp__static_cache_t){.limits = *limits, .bucket_mask = buckets - 1, .seed = uvhttp__hash_seed()};
    uvhttp__list_init(&cache->found);
    uvhttp__list_init(&cache->missing);
    cache->buckets = uvhttp__calloc(buckets, sizeof *cache->buckets);
    return cache->buckets ? UVHTTP_OK : UVHTTP_E_NOMEM;
}

void uvhttp__static_cache_deinit(uvhttp__static_cache_t *cache) {
    for (uint32_t i = 0; cache->buckets && i <= cache->bucket_mask; i++)
        while (cache->buckets[i]) uvhttp__static_cache_remove(cache, cache->buckets[i]);
    uvhttp__free(cache->buckets);
    cache->buckets = NULL;
}

void uvhttp__static_found_release(const uvhttp__static_found_t *found) {
    for (int i = 0; i < UVHTTP__STATIC_CODINGS; i++)
        if (found->files[i]) uvhttp__static_file_release(found->files[i]);
}

void uvhttp__static_entry_release(uvhttp__static_entry_t *entry) {
    assert(entry->holders > 0);
    if (--entry->holders > 0) return;
    uvhttp__static_found_release(&entry->found);
    uvhttp__free(entry);
}

/* --- the table --- */

static bool is_missing(const uvhttp__static_entry_t *entry) {
    return entry->ready && entry->found.status != 200;
}

static uvhttp__list_t *list_of(uvhttp__static_cache_t *cache, const uvhttp__static_entry_t *entry) {
    return is_missing(entry) ? &cache->missing : &cache->found;
}

uvhttp__static_entry_t *uvhttp__static_cache_find(uvhttp__static_cache_t *cache, uvhttp_str_t path) {
    uint64_t hash = uvhttp__hash_seeded(path.data, path.size, cache->seed);
    uvhttp__static_entry_t *entry = cache->buckets[hash & cache->bucket_mask];
    while (entry &&
           (entry->hash != hash || entry->path_size != path.size || memcmp(entry->path, path.data, path.size) != 0))
        entry = entry->next;
    if (!entry) return NULL;
    uvhttp__list_t *list = list_of(cache, entry);
    if (list->prev != &entry->link) {
        uvhttp__list_remove(&entry->link);
        uvhttp__list_push_back(list, &entry->link);
    }
    return entry;
}

/* Adds (or takes away) what an entry has to the sums. */
static void account(uvhttp__static_cache_t *cache, const uvhttp__static_entry_t *entry, bool add) {
    uint32_t *count = is_missing(entry) ? &cache->missing_count : &cache->found_count;
    *count += add ? 1 : UINT32_MAX;
    cache->size += add ? entry->size : -entry->size;
    cache->descriptors += add ? entry->descriptors : -entry->descriptors;
}

uvhttp__static_entry_t *uvhttp__static_cache_add(uvhttp__static_cache_t *cache, uvhttp_str_t path) {
    uvhttp__static_entry_t *entry = uvhttp__malloc(sizeof *entry + path.size + 1);
    if (!entry) return NULL;
    *entry = (uvhttp__static_entry_t){.hash = uvhttp__hash_seeded(path.data, path.size, cache->seed),
                                      .holders = 1,
                                      .in_table = true,
                                      .path_size = (uint32_t)path.size};
    if (path.size > 0) memcpy(entry->path, path.data, path.size);
    entry->path[path.size] = '\0';
    entry->waiters_last = &entry->waiters;
    uvhttp__list_init(&entry->link);
    uvhttp__static_entry_t **bucket = &cache->buckets[entry->hash & cache->bucket_mask];
    entry->next = *bucket;
    *bucket = entry;
    uvhttp__list_push_back(&cache->found, &entry->link);
    account(cache, entry, true);
    return entry;
}

void uvhttp__static_cache_remove(uvhttp__static_cache_t *cache, uvhttp__static_entry_t *entry) {
    if (!entry->in_table) return;
    entry->in_table = false;
    account(cache, entry, false);
    uvhttp__list_remove(&entry->link);
    uvhttp__static_entry_t **at = &cache->buckets[entry->hash & cache->bucket_mask];
    while (*at != entry) at = &(*at)->next;
    *at = entry->next;
    uvhttp__static_entry_release(entry);
}

/* --- limits --- */

/* Takes the least recently used entry that may go out of a list. False if none may. */
static bool evict(uvhttp__static_cache_t *cache, uvhttp__list_t *list, bool with_descriptor, bool with_content) {
    uvhttp__list_t *node, *after;
    UVHTTP__LIST_FOREACH_SAFE(node, after, list) {
        uvhttp__static_entry_t *entry = UVHTTP__CONTAINER_OF(node, uvhttp__static_entry_t, link);
        if (entry->busy || !entry->ready) continue;
        if ((with_descriptor && entry->descriptors == 0) || (with_content && entry->size == 0)) continue;
        uvhttp__static_cache_remove(cache, entry);
        cache->evictions++;
        return true;
    }
    return false;
}

static void keep_limits(uvhttp__static_cache_t *cache) {
    const uvhttp__static_limits_t *limits = &cache->limits;
    while (cache->missing_count > limits->missing_max && evict(cache, &cache->missing, false, false)) continue;
    while (cache->size > limits->size_max && evict(cache, &cache->found, false, true)) continue;
    while (cache->descriptors > limits->descriptors_max && evict(cache, &cache->found, true, false)) continue;
    while (cache->found_count + cache->missing_count > limits->entries_max &&
           (evict(cache, &cache->missing, false, false) || evict(cache, &cache->found, false, false)))
        continue;
}

/* Whether it could stay if it were the only one. */
static bool fits(const uvhttp__static_cache_t *cache, const uvhttp__static_entry_t *entry) {
    return entry->size <= cache->limits.size_max && entry->descriptors <= cache->limits.descriptors_max;
}

bool uvhttp__static_cache_drop_descriptor(uvhttp__static_cache_t *cache) {
    return evict(cache, &cache->found, true, false);
}

void uvhttp__static_cache_put(uvhttp__static_cache_t *cache, uvhttp__static_entry_t *entry,
                              const uvhttp__static_found_t *found, uint64_t now_ms) {
    if (entry->in_table) {
        account(cache, entry, false);
        uvhttp__list_remove(&entry->link);
    }
    uvhttp__static_found_release(&entry->found);
    entry->found = *found;
    entry->ready = true;
    entry->checked_ms = now_ms;
    entry->size = 0;
    entry->descriptors = 0;
    for (int i = 0; i < UVHTTP__STATIC_CODINGS; i++) {
        const uvhttp__static_file_t *file = found->files[i];
        if (!file) continue;
        entry->size += file->content ? file->size : 0;
        entry->descriptors += file->fd >= 0;
    }
    if (!entry->in_table) return;
    account(cache, entry, true);
    uvhttp__list_push_back(list_of(cache, entry), &entry->link);
    if (!fits(cache, entry)) uvhttp__static_cache_remove(cache, entry);
    keep_limits(cache);
}
