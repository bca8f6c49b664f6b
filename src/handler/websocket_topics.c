/* Owns: the topic registry of a server's WebSockets: topics and their subscribers, and what the connections of a loop
 * share. May include: route message exec websocket conn base obs. */
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/ref.h"
#include "base/str.h"
#include "handler/websocket_topics.h"

/* --- the registry --- */

uvhttp__ws_registry_t *uvhttp__ws_registry_new(uint32_t loop_count) {
    uvhttp__ws_registry_t *registry = uvhttp__calloc(1, sizeof *registry);
    if (!registry) return NULL;
    registry->loops = uvhttp__alloc_aligned(_Alignof(uvhttp__ws_loop_t), loop_count * sizeof *registry->loops);
    if (!registry->loops) {
        uvhttp__free(registry);
        return NULL;
    }
    memset(registry->loops, 0, loop_count * sizeof *registry->loops);
    uvhttp__ref_init(&registry->count);
    registry->loop_count = loop_count;
    registry->seed = uvhttp__hash_seed();
    pthread_mutex_init(&registry->deflate_lock, NULL);
    for (uint32_t i = 0; i < loop_count; i++) {
        pthread_mutex_init(&registry->loops[i].lock, NULL);
        uvhttp__slab_init(&registry->loops[i].subscriptions, sizeof(uvhttp__ws_subscription_t));
    }
    return registry;
}

static void loop_clear(uvhttp__ws_loop_t *loop) {
    uvhttp__ws_codecs_clear(&loop->codecs);
    uvhttp__slab_deinit(&loop->subscriptions);
    uvhttp__free(loop->buckets);
    uvhttp__free(loop->scratch);
    pthread_mutex_destroy(&loop->lock);
}

void uvhttp__ws_registry_release(uvhttp__ws_registry_t *registry) {
    if (!registry || !uvhttp__ref_release(&registry->count)) return;
    for (uint32_t i = 0; i < registry->loop_count; i++) loop_clear(&registry->loops[i]);
    uvhttp__ws_deflater_free(registry->deflater);
    pthread_mutex_destroy(&registry->deflate_lock);
    uvhttp__free_aligned(registry->loops);
    uvhttp__free(registry);
}

void uvhttp__ws_registry_settle(uvhttp__ws_registry_t *registry, const uvhttp_ws_options_t *options) {
    if (!options->compression || registry->settings.bits) return;
    registry->settings = uvhttp__ws_settings(options, options->server_window_bits);
    registry->compression_size_min = options->compression_size_min;
}

static uvhttp__ws_loop_t *loop_of(const uvhttp_ws_t *ws) {
    return &ws->endpoint->registry->loops[ws->channel->loop->index];
}

uvhttp__ws_codecs_t *uvhttp__ws_codecs_of(const uvhttp_ws_t *ws) {
    return &loop_of(ws)->codecs;
}

char *uvhttp__ws_scratch_of(const uvhttp_ws_t *ws) {
    uvhttp__ws_loop_t *loop = loop_of(ws);
    if (!loop->scratch) loop->scratch = uvhttp__malloc(UVHTTP__WS_SCRATCH_SIZE);
    return loop->scratch;
}

/* --- topics --- */

static uvhttp__ws_topic_t **bucket_of(const uvhttp__ws_loop_t *loop, uint64_t hash) {
    return &loop->buckets[hash & (loop->bucket_count - 1)];
}

uvhttp__ws_topic_t *uvhttp__ws_find_topic(const uvhttp__ws_loop_t *loop, uint64_t hash, uvhttp_str_t name) {
    if (loop->topic_count == 0) return NULL;
    for (uvhttp__ws_topic_t *topic = *bucket_of(loop, hash); topic; topic = topic->next)
        if (topic->hash == hash && uvhttp__str_equal((uvhttp_str_t){topic->name, topic->size}, name)) return topic;
    return NULL;
}

/* Under the lock. A table that cannot grow still works, but slower. */
static int grow(uvhttp__ws_loop_t *loop) {
    uint32_t count = loop->bucket_count ? loop->bucket_count * 2 : 16;
    uvhttp__ws_topic_t **buckets = count ? uvhttp__calloc(count, sizeof(uvhttp__ws_topic_t *)) : NULL;
    if (!buckets) return loop->buckets ? UVHTTP_OK : UVHTTP_E_NOMEM;
    for (uint32_t i = 0; i < loop->bucket_count; i++) {
        for (uvhttp__ws_topic_t *next, *topic = loop->buckets[i]; topic; topic = next) {
            next = topic->next;
            uvhttp__ws_topic_t **bucket = &buckets[topic->hash & (count - 1)];
            topic->next = *bucket;
            *bucket = topic;
        }
    }
    uvhttp__free(loop->buckets);
    loop->buckets = buckets;
    loop->bucket_count = count;
    return UVHTTP_OK;
}

/* Under the lock. NULL if out of memory. */
static uvhttp__ws_topic_t *add_topic(uvhttp__ws_loop_t *loop, uint64_t hash, uvhttp_str_t name) {
    if (loop->topic_count >= loop->bucket_count && grow(loop) != UVHTTP_OK) return NULL;
    uvhttp__ws_topic_t *topic = uvhttp__malloc(sizeof *topic + name.size);
    if (!topic) return NULL;
    uvhttp__ws_topic_t **bucket = bucket_of(loop, hash);
    *topic = (uvhttp__ws_topic_t){.next = *bucket, .hash = hash, .size = (uint32_t)name.size};
    uvhttp__list_init(&topic->subscribers);
    memcpy(topic->name, name.data, name.size);
    *bucket = topic;
    loop->topic_count++;
    return topic;
}

/* Under the lock. */
static void remove_topic(uvhttp__ws_loop_t *loop, uvhttp__ws_topic_t *topic) {
    uvhttp__ws_topic_t **at = bucket_of(loop, topic->hash);
    while (*at != topic) at = &(*at)->next;
    *at = topic->next;
    loop->topic_count--;
    uvhttp__free(topic);
}

/* --- subscribers --- */

static uvhttp__ws_subscription_t **find_subscription(uvhttp_ws_t *ws, const uvhttp__ws_topic_t *topic) {
    uvhttp__ws_subscription_t **at = &ws->topics;
    while (*at && (*at)->topic != topic) at = &(*at)->next;
    return *at ? at : NULL;
}

static int add_subscription(uvhttp_ws_t *ws, uint64_t hash, uvhttp_str_t name) {
    uvhttp__ws_loop_t *loop = loop_of(ws);
    uvhttp__ws_subscription_t *subscription = uvhttp__slab_alloc(&loop->subscriptions);
    if (!subscription) return UVHTTP_E_NOMEM;
    pthread_mutex_lock(&loop->lock);
    loop->io = ws->channel->loop;
    uvhttp__ws_topic_t *topic = uvhttp__ws_find_topic(loop, hash, name);
    if (!topic) topic = add_topic(loop, hash, name);
    if (topic) topic->compressing += uvhttp__ws_accepts_compressed(ws->endpoint->registry, ws);
    pthread_mutex_unlock(&loop->lock);
    if (!topic) {
        uvhttp__slab_free(&loop->subscriptions, subscription);
        return UVHTTP_E_NOMEM;
    }
    *subscription = (uvhttp__ws_subscription_t){.next = ws->topics, .topic = topic, .ws = ws};
    uvhttp__list_init(&subscription->link);
    uvhttp__list_push_back(&topic->subscribers, &subscription->link);
    ws->topics = subscription;
    ws->topic_count++;
    return UVHTTP_OK;
}

/* The counter belongs to the route, of which a connection sees only what does not change. */
static _Atomic uint32_t *subscriptions_of(const uvhttp_ws_t *ws) {
    return &((uvhttp__ws_endpoint_t *)(uintptr_t)ws->endpoint)->subscriptions;
}

int uvhttp_ws_subscribe(uvhttp_ws_t *ws, const char *topic) {
    const uvhttp_ws_options_t *options = uvhttp__ws_options(ws);
    uvhttp__ws_registry_t *registry = ws->endpoint->registry;
    uvhttp_str_t name = uvhttp__str_from(topic);
    if (name.size == 0 || name.size > options->topic_size_max) return UVHTTP_E_INVALID;
    if (ws->state != UVHTTP__WS_OPEN) return UVHTTP_E_CLOSED;
    uint64_t hash = uvhttp__hash_seeded(name.data, name.size, registry->seed);
    const uvhttp__ws_topic_t *existing = uvhttp__ws_find_topic(loop_of(ws), hash, name);
    if (existing && find_subscription(ws, existing)) return UVHTTP_OK;
    int status = ws->topic_count < options->topics_max ? UVHTTP_OK : UVHTTP_E_LIMIT;
    if (status == UVHTTP_OK && atomic_fetch_add(subscriptions_of(ws), 1) >= options->subscriptions_max) {
        atomic_fetch_sub(subscriptions_of(ws), 1);
        status = UVHTTP_E_LIMIT;
    }
    if (status == UVHTTP_E_LIMIT) {
        uvhttp__counters_error(uvhttp__ws_counters(ws), status);
        return status;
    }
    status = add_subscription(ws, hash, name);
    if (status != UVHTTP_OK) atomic_fetch_sub(subscriptions_of(ws), 1);
    return status;
}

static void remove_subscription(uvhttp_ws_t *ws, uvhttp__ws_subscription_t **at) {
    uvhttp__ws_loop_t *loop = loop_of(ws);
    uvhttp__ws_subscription_t *subscription = *at;
    uvhttp__ws_topic_t *topic = subscription->topic;
    *at = subscription->next;
    ws->topic_count--;
    atomic_fetch_sub(subscriptions_of(ws), 1);
    uvhttp__list_remove(&subscription->link);
    uvhttp__slab_free(&loop->subscriptions, subscription);
    pthread_mutex_lock(&loop->lock);
    topic->compressing -= uvhttp__ws_accepts_compressed(ws->endpoint->registry, ws);
    if (uvhttp__list_empty(&topic->subscribers)) remove_topic(loop, topic);
    pthread_mutex_unlock(&loop->lock);
}

int uvhttp_ws_unsubscribe(uvhttp_ws_t *ws, const char *topic) {
    uvhttp_str_t name = uvhttp__str_from(topic);
    if (!ws->topics) return UVHTTP_E_NOT_FOUND;
    const uvhttp__ws_topic_t *found = uvhttp__ws_find_topic(
        loop_of(ws), uvhttp__hash_seeded(name.data, name.size, ws->endpoint->registry->seed), name);
    uvhttp__ws_subscription_t **at = found ? find_subscription(ws, found) : NULL;
    if (!at) return UVHTTP_E_NOT_FOUND;
    remove_subscription(ws, at);
    return UVHTTP_OK;
}

void uvhttp__ws_unsubscribe_all(uvhttp_ws_t *ws) {
    while (ws->topics) remove_subscription(ws, &ws->topics);
}
