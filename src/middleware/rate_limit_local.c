/* Owns: the local store: the buckets of one process, in a table of fixed size that all loops share. May include: base.
 *
 * The table is divided into shards, each with a lock that is held for one lookup. A key is represented by 128 bits of a
 * seeded hash, so that keys of any size cost the same and no address is stored. A shard's entries are filled in order.
 * When all are in use, a clock hand examines a few. A full bucket carries no information and is evicted first;
 * otherwise the fullest one is, which was used least recently. So a client that has exhausted its bucket is the last to
 * be evicted, and cannot get a new one by filling the table with others that it uses less. */
#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "middleware/rate_limit.h"

#define SHARDS_MAX 64
#define SHARD_KEYS_MIN 1024 /* small tables are not cut up: shards fill unevenly, which would evict too early */
#define HAND_STEPS 16       /* entries looked at for one eviction */
#define CHAIN_MAX 32        /* keys with one head; a chain so long is no accident: it is not made longer */

typedef struct entry {
    uint64_t key[2];
    uint64_t full_ns;
    uint32_t next; /* of this entry's chain: index + 1, 0: none */
    uint32_t head; /* nothing to do with this entry: first of the chain with this index */
} entry_t;
static_assert(sizeof(entry_t) == UVHTTP__RATE_LIMIT_KEY_SIZE, "documented");

typedef struct shard {
    _Alignas(64) pthread_mutex_t lock; /* of everything but entries and capacity, which do not change */
    entry_t *entries;
    uint32_t capacity, used, hand;
    bool started;
    uint64_t now_ns; /* the latest time seen: iterations of loops start at different times, and time must not go back */
    uint64_t allowed, refused, evicted;
} shard_t;

typedef struct table {
    shard_t *shards;
    entry_t *entries;
    uint32_t shard_count;
    uint64_t seed;
} table_t;

static uint32_t reduce(uint64_t hash32, uint32_t count) {
    return (uint32_t)(hash32 * count >> 32);
}

/* Where the chain of a key begins. */
static uint32_t *head_of(const shard_t *shard, const uint64_t key[2]) {
    return &shard->entries[reduce(key[0] & UINT32_MAX, shard->capacity)].head;
}

/* Whether a becomes full before b. */
static bool fuller(const entry_t *a, const entry_t *b) {
    return (int64_t)(a->full_ns - b->full_ns) < 0;
}

/* The entry of a key. If there is none, NULL; and if its chain is so long that it must not grow, *reuse is the one of
 * it to give away, else NULL. */
static entry_t *find(const shard_t *shard, const uint64_t key[2], entry_t **reuse) {
    entry_t *fullest = NULL;
    uint32_t length = 0;
    for (uint32_t at = *head_of(shard, key); at != 0; length++) {
        entry_t *entry = &shard->entries[at - 1];
        if (entry->key[0] == key[0] && entry->key[1] == key[1]) return entry;
        if (!fullest || fuller(entry, fullest)) fullest = entry;
        at = entry->next;
    }
    *reuse = length >= CHAIN_MAX ? fullest : NULL;
    return NULL;
}

static bool idle(const shard_t *shard, const entry_t *entry) {
    return (int64_t)(entry->full_ns - shard->now_ns) <= 0;
}

static void unlink_entry(shard_t *shard, const entry_t *entry) {
    uint32_t number = (uint32_t)(entry - shard->entries) + 1;
    uint32_t *at = head_of(shard, entry->key);
    while (*at != number) at = &shard->entries[*at - 1].next;
    *at = entry->next;
}

/* All entries are in use: one is taken out of its chain. */
static entry_t *evict(shard_t *shard) {
    entry_t *fullest = NULL;
    for (uint32_t i = 0; i < HAND_STEPS && i < shard->capacity; i++) {
        entry_t *entry = &shard->entries[shard->hand];
        if (++shard->hand == shard->capacity) shard->hand = 0;
        if (!fullest || fuller(entry, fullest)) fullest = entry;
        if (idle(shard, entry)) break;
    }
    assert(fullest); /* a shard has at least one entry */
    if (!idle(shard, fullest)) shard->evicted++;
    unlink_entry(shard, fullest);
    return fullest;
}

static entry_t *find_or_add(shard_t *shard, const uint64_t key[2]) {
    entry_t *entry, *reuse;
    entry = find(shard, key, &reuse);
    if (entry) return entry;
    if (reuse) {
        if (!idle(shard, reuse)) shard->evicted++;
        entry = reuse;
    } else {
        entry = shard->used < shard->capacity ? &shard->entries[shard->used++] : evict(shard);
        uint32_t *head = head_of(shard, key);
        entry->next = *head;
        *head = (uint32_t)(entry - shard->entries) + 1;
    }
    memcpy(entry->key, key, sizeof entry->key);
    entry->full_ns = shard->now_ns;
    return entry;
}

static int take_one(void *user, const uvhttp_rate_limit_take_t *take, uvhttp_rate_limit_decision_t *decision) {
    const table_t *table = user;
    XXH128_hash_t hash =
        XXH3_128bits_withSeed(take->key.size ? take->key.data : "", take->key.size, table->seed ^ (uint8_t)take->kind);
    const uint64_t key[2] = {hash.low64, hash.high64};
    shard_t *shard = &table->shards[reduce(key[0] >> 32, table->shard_count)];
    pthread_mutex_lock(&shard->lock);
    if (!shard->started || (int64_t)(take->now_ns - shard->now_ns) > 0) shard->now_ns = take->now_ns;
    shard->started = true;
    uvhttp__rate_limit_bucket_take(&find_or_add(shard, key)->full_ns, take, shard->now_ns, decision);
    decision->allowed ? shard->allowed++ : shard->refused++;
    pthread_mutex_unlock(&shard->lock);
    return UVHTTP_OK;
}

static void add_up(void *user, uvhttp_rate_limit_stats_t *stats) {
    const table_t *table = user;
    for (uint32_t i = 0; i < table->shard_count; i++) {
        shard_t *shard = &table->shards[i];
        pthread_mutex_lock(&shard->lock);
        stats->allowed += shard->allowed;
        stats->refused += shard->refused;
        stats->keys += shard->used;
        stats->evicted += shard->evicted;
        pthread_mutex_unlock(&shard->lock);
    }
}

static void destroy(void *user) {
    table_t *table = user;
    for (uint32_t i = 0; i < table->shard_count; i++) pthread_mutex_destroy(&table->shards[i].lock);
    uvhttp__free_aligned(table->shards);
    uvhttp__free(table->entries);
    uvhttp__free(table);
}

int uvhttp__rate_limit_local_store(uint32_t keys_max, uvhttp_rate_limit_store_t *store) {
    uint32_t shard_count = keys_max / SHARD_KEYS_MIN;
    if (shard_count < 1) shard_count = 1;
    if (shard_count > SHARDS_MAX) shard_count = SHARDS_MAX;
    table_t *table = uvhttp__malloc(sizeof *table);
    shard_t *shards = uvhttp__alloc_aligned(_Alignof(shard_t), shard_count * sizeof *shards);
    entry_t *entries = uvhttp__calloc(keys_max, sizeof *entries);
    if (!table || !shards || !entries) {
        uvhttp__free(table);
        uvhttp__free_aligned(shards);
        uvhttp__free(entries);
        return UVHTTP_E_NOMEM;
    }
    *table = (table_t){.shards = shards, .entries = entries, .shard_count = shard_count, .seed = uvhttp__hash_seed()};
    memset(shards, 0, shard_count * sizeof *shards);
    for (uint32_t i = 0; i < shard_count; i++) {
        pthread_mutex_init(&shards[i].lock, NULL);
        shards[i].entries = entries;
        shards[i].capacity = keys_max / shard_count + (i < keys_max % shard_count);
        entries += shards[i].capacity;
    }
    *store = (uvhttp_rate_limit_store_t){.take = take_one, .stats = add_up, .destroy = destroy, .user = table};
    return UVHTTP_OK;
}
