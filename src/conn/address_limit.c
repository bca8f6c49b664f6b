/* Owns: see address_limit.h. A hash table in shards, each under a lock of its own that is held for a look and a count.
 * An address is in it while it has connections, so the table is bounded by max_connections. */
#include "conn/address_limit.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

#define SHARDS 16           /* a power of two */
#define BUCKETS_AT_FIRST 16 /* of a shard; a power of two */

struct uvhttp__address_count {
    uvhttp__address_count_t *next;
    uint64_t key;
    uint32_t connections;
    bool is_v6;
};

typedef struct shard {
    _Alignas(64) pthread_mutex_t lock;
    uvhttp__address_count_t **buckets;
    uint32_t bucket_count, used;
} shard_t;

struct uvhttp__address_limit {
    shard_t shards[SHARDS];
    uint64_t seed; /* clients choose their addresses */
    uint32_t max;
};

uvhttp__address_limit_t *uvhttp__address_limit_new(uint32_t max) {
    uvhttp__address_limit_t *limit = uvhttp__alloc_aligned(64, sizeof *limit);
    if (!limit) return NULL;
    memset(limit, 0, sizeof *limit);
    limit->max = max;
    limit->seed = uvhttp__hash_seed();
    for (int i = 0; i < SHARDS; i++) pthread_mutex_init(&limit->shards[i].lock, NULL);
    return limit;
}

void uvhttp__address_limit_free(uvhttp__address_limit_t *limit) {
    if (!limit) return;
    for (int i = 0; i < SHARDS; i++) {
        pthread_mutex_destroy(&limit->shards[i].lock);
        uvhttp__free(limit->shards[i].buckets);
    }
    uvhttp__free_aligned(limit);
}

static uint64_t hash_of(const uvhttp__address_limit_t *limit, uint64_t key) {
    return uvhttp__hash_seeded(&key, sizeof key, limit->seed);
}

static uvhttp__address_count_t **bucket_of(const shard_t *shard, uint64_t hash) {
    return &shard->buckets[(hash / SHARDS) & (shard->bucket_count - 1)];
}

/* Doubles the table when it is full; chains grow if there is no memory for that. Returns false without any table. */
static bool make_place(const uvhttp__address_limit_t *limit, shard_t *shard) {
    if (shard->used < shard->bucket_count) return true;
    uint32_t count = shard->bucket_count ? shard->bucket_count * 2 : BUCKETS_AT_FIRST;
    uvhttp__address_count_t **buckets = uvhttp__calloc(count, sizeof *buckets);
    if (!buckets) return shard->buckets != NULL;
    shard_t grown = {.buckets = buckets, .bucket_count = count};
    for (uint32_t i = 0; i < shard->bucket_count; i++) {
        for (uvhttp__address_count_t *next, *entry = shard->buckets[i]; entry; entry = next) {
            next = entry->next;
            uvhttp__address_count_t **bucket = bucket_of(&grown, hash_of(limit, entry->key));
            entry->next = *bucket;
            *bucket = entry;
        }
    }
    uvhttp__free(shard->buckets);
    shard->buckets = buckets;
    shard->bucket_count = count;
    return true;
}

static uvhttp__address_count_t *find(const shard_t *shard, uint64_t hash, uint64_t key, bool is_v6) {
    if (shard->used == 0) return NULL;
    uvhttp__address_count_t *entry = *bucket_of(shard, hash);
    while (entry && (entry->key != key || entry->is_v6 != is_v6)) entry = entry->next;
    return entry;
}

static uvhttp__address_count_t *add(const uvhttp__address_limit_t *limit, shard_t *shard, uint64_t key, bool is_v6) {
    if (!make_place(limit, shard)) return NULL;
    uvhttp__address_count_t *entry = uvhttp__malloc(sizeof *entry);
    if (!entry) return NULL;
    uvhttp__address_count_t **bucket = bucket_of(shard, hash_of(limit, key));
    *entry = (uvhttp__address_count_t){.next = *bucket, .key = key, .is_v6 = is_v6};
    *bucket = entry;
    shard->used++;
    return entry;
}

int uvhttp__address_limit_take(uvhttp__address_limit_t *limit, const uvhttp__ip_t *ip,
                               uvhttp__address_count_t **count) {
    uint64_t key = 0;
    bool is_v6 = ip->size == 16;
    memcpy(&key, ip->bytes, is_v6 ? 8 : 4); /* the first 64 bits of an IPv6 address are one network's */
    uint64_t hash = hash_of(limit, key);
    shard_t *shard = &limit->shards[hash % SHARDS];
    int status = UVHTTP_OK;
    pthread_mutex_lock(&shard->lock);
    uvhttp__address_count_t *entry = find(shard, hash, key, is_v6);
    if (!entry) entry = add(limit, shard, key, is_v6);
    if (!entry)
        status = UVHTTP_E_NOMEM;
    else if (entry->connections >= limit->max)
        status = UVHTTP_E_LIMIT;
    else
        entry->connections++;
    pthread_mutex_unlock(&shard->lock);
    *count = status == UVHTTP_OK ? entry : NULL;
    return status;
}

void uvhttp__address_limit_give(uvhttp__address_limit_t *limit, uvhttp__address_count_t *count) {
    uint64_t hash = hash_of(limit, count->key);
    shard_t *shard = &limit->shards[hash % SHARDS];
    pthread_mutex_lock(&shard->lock);
    bool last = --count->connections == 0;
    if (last) {
        uvhttp__address_count_t **at = bucket_of(shard, hash);
        while (*at != count) at = &(*at)->next;
        *at = count->next;
        shard->used--;
    }
    pthread_mutex_unlock(&shard->lock);
    if (last) uvhttp__free(count);
}
