/* Owns: topics and their subscribers, publications, and what the WebSocket connections of a loop share. May include:
 * route message exec websocket conn base obs.
 *
 * Each loop has a table of its own topics, which only that loop changes. A publication is encoded once, for all; each
 * loop with a subscriber gets one message, and its connections send from the same bytes. A message is posted under the
 * lock that the loop takes to change its table: a loop with a subscriber has a connection, and does not end before. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/ref.h"
#include "base/str.h"
#include "handler/websocket.h"

/* Publications that wait for loops, bytes. */
#define PENDING_MAX (64u << 20)

typedef struct topic {
    struct topic *next; /* of its bucket */
    uvhttp__list_t subscribers;
    uint64_t hash;
    uint32_t compressing; /* subscribers that take what the hub has compressed */
    uint32_t size;
    char name[];
} topic_t;

struct uvhttp__ws_subscription {
    uvhttp__list_t link; /* in topic->subscribers */
    uvhttp__ws_subscription_t *next;
    topic_t *topic;
    uvhttp_ws_t *ws;
};

struct uvhttp__ws_loop {
    _Alignas(64) pthread_mutex_t lock; /* over the topics for who is not the loop, or changes them; and over posting */
    topic_t **buckets;
    uint32_t bucket_count; /* power of two, or 0 */
    uint32_t topic_count;
    uvhttp__loop_t *io; /* set with the first subscription */
    uvhttp__slab_t subscriptions;
    uvhttp__ws_codecs_t codecs;
    char *scratch;
};

struct uvhttp__ws_hub {
    uvhttp__ref_t count;
    uint32_t loop_count;
    uint64_t seed;
    _Atomic uint64_t pending; /* bytes on their way to loops */
    _Atomic uint32_t refused; /* publications, since a loop has counted them */
    pthread_mutex_t deflate_lock;
    uvhttp__ws_deflater_t *deflater; /* under the lock; made when it is needed */
    uvhttp__ws_deflate_settings_t settings;
    uint32_t compression_size_min;
    uvhttp__ws_loop_t *loops; /* from alloc_aligned */
};

/* --- the hub --- */

uvhttp__ws_hub_t *uvhttp__ws_hub_new(uint32_t loop_count) {
    uvhttp__ws_hub_t *hub = uvhttp__calloc(1, sizeof *hub);
    if (!hub) return NULL;
    hub->loops = uvhttp__alloc_aligned(_Alignof(uvhttp__ws_loop_t), loop_count * sizeof *hub->loops);
    if (!hub->loops) {
        uvhttp__free(hub);
        return NULL;
    }
    memset(hub->loops, 0, loop_count * sizeof *hub->loops);
    uvhttp__ref_init(&hub->count);
    hub->loop_count = loop_count;
    hub->seed = uvhttp__hash_seed();
    pthread_mutex_init(&hub->deflate_lock, NULL);
    for (uint32_t i = 0; i < loop_count; i++) {
        pthread_mutex_init(&hub->loops[i].lock, NULL);
        uvhttp__slab_init(&hub->loops[i].subscriptions, sizeof(uvhttp__ws_subscription_t));
    }
    return hub;
}

static void loop_clear(uvhttp__ws_loop_t *loop) {
    uvhttp__ws_codecs_clear(&loop->codecs);
    uvhttp__slab_deinit(&loop->subscriptions);
    uvhttp__free(loop->buckets);
    uvhttp__free(loop->scratch);
    pthread_mutex_destroy(&loop->lock);
}

void uvhttp__ws_hub_release(uvhttp__ws_hub_t *hub) {
    if (!hub || !uvhttp__ref_release(&hub->count)) return;
    for (uint32_t i = 0; i < hub->loop_count; i++) loop_clear(&hub->loops[i]);
    uvhttp__ws_deflater_free(hub->deflater);
    pthread_mutex_destroy(&hub->deflate_lock);
    uvhttp__free_aligned(hub->loops);
    uvhttp__free(hub);
}

void uvhttp__ws_hub_settle(uvhttp__ws_hub_t *hub, const uvhttp_ws_options_t *options) {
    if (!options->compression || hub->settings.bits) return;
    hub->settings = uvhttp__ws_settings(options, options->server_window_bits);
    hub->compression_size_min = options->compression_size_min;
}

static uvhttp__ws_loop_t *loop_of(const uvhttp_ws_t *ws) {
    return &ws->endpoint->hub->loops[ws->tcp->worker->index];
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

static topic_t **bucket_of(const uvhttp__ws_loop_t *loop, uint64_t hash) {
    return &loop->buckets[hash & (loop->bucket_count - 1)];
}

static topic_t *find_topic(const uvhttp__ws_loop_t *loop, uint64_t hash, uvhttp_str_t name) {
    if (loop->topic_count == 0) return NULL;
    for (topic_t *topic = *bucket_of(loop, hash); topic; topic = topic->next)
        if (topic->hash == hash && uvhttp__str_equal((uvhttp_str_t){topic->name, topic->size}, name)) return topic;
    return NULL;
}

/* Under the lock. A table that can not grow serves on, slower, if there is one. */
static int grow(uvhttp__ws_loop_t *loop) {
    uint32_t count = loop->bucket_count ? loop->bucket_count * 2 : 16;
    topic_t **buckets = count ? uvhttp__calloc(count, sizeof(topic_t *)) : NULL;
    if (!buckets) return loop->buckets ? UVHTTP_OK : UVHTTP_E_NOMEM;
    for (uint32_t i = 0; i < loop->bucket_count; i++) {
        for (topic_t *next, *topic = loop->buckets[i]; topic; topic = next) {
            next = topic->next;
            topic_t **bucket = &buckets[topic->hash & (count - 1)];
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
static topic_t *add_topic(uvhttp__ws_loop_t *loop, uint64_t hash, uvhttp_str_t name) {
    if (loop->topic_count == loop->bucket_count && grow(loop) != UVHTTP_OK) return NULL;
    topic_t *topic = uvhttp__malloc(sizeof *topic + name.size);
    if (!topic) return NULL;
    topic_t **bucket = bucket_of(loop, hash);
    *topic = (topic_t){.next = *bucket, .hash = hash, .size = (uint32_t)name.size};
    uvhttp__list_init(&topic->subscribers);
    memcpy(topic->name, name.data, name.size);
    *bucket = topic;
    loop->topic_count++;
    return topic;
}

/* Under the lock. */
static void remove_topic(uvhttp__ws_loop_t *loop, topic_t *topic) {
    topic_t **at = bucket_of(loop, topic->hash);
    while (*at != topic) at = &(*at)->next;
    *at = topic->next;
    loop->topic_count--;
    uvhttp__free(topic);
}

/* --- subscribers --- */

/* Whether it can read what the hub has compressed: its window is as large. */
static bool takes_compressed(const uvhttp__ws_hub_t *hub, const uvhttp_ws_t *ws) {
    return hub->settings.bits > 0 && ws->deflate.server_bits >= hub->settings.bits;
}

static uvhttp__ws_subscription_t **find_subscription(uvhttp_ws_t *ws, const topic_t *topic) {
    uvhttp__ws_subscription_t **at = &ws->topics;
    while (*at && (*at)->topic != topic) at = &(*at)->next;
    return *at ? at : NULL;
}

static int add_subscription(uvhttp_ws_t *ws, uint64_t hash, uvhttp_str_t name) {
    uvhttp__ws_loop_t *loop = loop_of(ws);
    uvhttp__ws_subscription_t *subscription = uvhttp__slab_alloc(&loop->subscriptions);
    if (!subscription) return UVHTTP_E_NOMEM;
    pthread_mutex_lock(&loop->lock);
    loop->io = ws->tcp->stream.loop;
    topic_t *topic = find_topic(loop, hash, name);
    if (!topic) topic = add_topic(loop, hash, name);
    if (topic) topic->compressing += takes_compressed(ws->endpoint->hub, ws);
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
    uvhttp__ws_hub_t *hub = ws->endpoint->hub;
    uvhttp_str_t name = uvhttp__str_from(topic);
    if (name.size == 0 || name.size > options->topic_size_max) return UVHTTP_E_INVALID;
    if (ws->state != UVHTTP__WS_OPEN) return UVHTTP_E_CLOSED;
    uint64_t hash = uvhttp__hash_seeded(name.data, name.size, hub->seed);
    const topic_t *existing = find_topic(loop_of(ws), hash, name);
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
    topic_t *topic = subscription->topic;
    *at = subscription->next;
    ws->topic_count--;
    atomic_fetch_sub(subscriptions_of(ws), 1);
    uvhttp__list_remove(&subscription->link);
    uvhttp__slab_free(&loop->subscriptions, subscription);
    pthread_mutex_lock(&loop->lock);
    topic->compressing -= takes_compressed(ws->endpoint->hub, ws);
    if (uvhttp__list_empty(&topic->subscribers)) remove_topic(loop, topic);
    pthread_mutex_unlock(&loop->lock);
}

int uvhttp_ws_unsubscribe(uvhttp_ws_t *ws, const char *topic) {
    uvhttp_str_t name = uvhttp__str_from(topic);
    if (!ws->topics) return UVHTTP_E_NOT_FOUND;
    const topic_t *found =
        find_topic(loop_of(ws), uvhttp__hash_seeded(name.data, name.size, ws->endpoint->hub->seed), name);
    uvhttp__ws_subscription_t **at = found ? find_subscription(ws, found) : NULL;
    if (!at) return UVHTTP_E_NOT_FOUND;
    remove_subscription(ws, at);
    return UVHTTP_OK;
}

void uvhttp__ws_unsubscribe_all(uvhttp_ws_t *ws) {
    while (ws->topics) remove_subscription(ws, &ws->topics);
}

/* --- publications --- */

typedef struct publication {
    uvhttp__ref_t count;
    uvhttp__ws_hub_t *hub;
    const uvhttp_ws_t *except; /* only compared: a connection is not freed and made anew before it is delivered */
    uint64_t hash;
    uvhttp_str_t topic, plain, packed; /* packed.size 0: none; all stand behind, but packed */
    char *packed_memory;
    char data[];
} publication_t;

/* A publication on its way to a loop; then what the loop's queues hold of it, counted without atomics. */
typedef struct delivery {
    uvhttp__post_t post;
    publication_t *publication;
    uvhttp__ws_loop_t *loop;
    uint64_t uses;
} delivery_t;

static void publication_release(publication_t *publication) {
    if (!uvhttp__ref_release(&publication->count)) return;
    uvhttp__ws_hub_release(publication->hub);
    uvhttp__free(publication->packed_memory);
    uvhttp__free(publication);
}

static void let_go(void *arg) {
    delivery_t *delivery = arg;
    if (--delivery->uses > 0) return;
    publication_release(delivery->publication);
    uvhttp__free(delivery);
}

/* A slow one is dropped by a reset, whose callbacks come in a later turn: the list does not change here. */
static void deliver_to(uvhttp_ws_t *ws, delivery_t *delivery) {
    const publication_t *publication = delivery->publication;
    if (ws == publication->except || ws->state != UVHTTP__WS_OPEN) return;
    bool packed = publication->packed.size > 0 && takes_compressed(publication->hub, ws);
    delivery->uses++;
    int status =
        uvhttp__ws_send_shared(ws, packed ? publication->packed : publication->plain, packed, let_go, delivery);
    if (status == UVHTTP_OK || status == UVHTTP_E_AGAIN || status == UVHTTP_E_CLOSED) return;
    if (status == UVHTTP_E_LIMIT && uvhttp__ws_options(ws)->drop_slow_subscribers) {
        uvhttp__counters_add(uvhttp__ws_counters(ws), ws_subscribers_dropped, 1);
        uvhttp_tcp_reset(ws->tcp);
    } else {
        uvhttp__counters_add(uvhttp__ws_counters(ws), ws_publications_skipped, 1);
    }
}

static void run_delivery(uvhttp__post_t *post) {
    delivery_t *delivery = UVHTTP__CONTAINER_OF(post, delivery_t, post);
    const publication_t *publication = delivery->publication;
    uvhttp__ws_hub_t *hub = publication->hub;
    uint32_t refused = atomic_exchange_explicit(&hub->refused, 0, memory_order_relaxed);
    uvhttp__counters_t *counters = delivery->loop->io->counters;
    if (refused > 0) uvhttp__counters_add(counters, ws_publications_refused, refused);
    uvhttp__counters_add(counters, ws_publications, 1);
    atomic_fetch_sub_explicit(&hub->pending, publication->plain.size, memory_order_relaxed);
    const topic_t *topic = find_topic(delivery->loop, publication->hash, publication->topic);
    if (topic) {
        for (uvhttp__list_t *node = topic->subscribers.next; node != &topic->subscribers; node = node->next)
            deliver_to(UVHTTP__CONTAINER_OF(node, uvhttp__ws_subscription_t, link)->ws, delivery);
    }
    let_go(delivery);
}

/* Compressed without a context, which every subscriber with the window can read. It costs one message in all. */
static void pack(publication_t *publication, uvhttp_ws_type_t type, const void *data, size_t size) {
    uvhttp__ws_hub_t *hub = publication->hub;
    char *memory = uvhttp__malloc(UVHTTP__WS_SERVER_HEAD_MAX + UVHTTP__WS_DEFLATE_ROOM(size));
    if (!memory) return;
    size_t packed = 0;
    pthread_mutex_lock(&hub->deflate_lock);
    if (!hub->deflater) hub->deflater = uvhttp__ws_deflater_new(hub->settings);
    if (hub->deflater) {
        packed = uvhttp__ws_deflate(hub->deflater, data, size, memory + UVHTTP__WS_SERVER_HEAD_MAX);
        if (packed > 0) uvhttp__ws_deflater_reset(hub->deflater);
    }
    pthread_mutex_unlock(&hub->deflate_lock);
    if (packed == 0) {
        uvhttp__free(memory);
        return;
    }
    char head[UVHTTP__WS_SERVER_HEAD_MAX];
    size_t head_size = uvhttp__ws_write_head(head, true, (uint8_t)type | UVHTTP__WS_COMPRESSED, packed);
    char *frame = memory + UVHTTP__WS_SERVER_HEAD_MAX - head_size;
    memcpy(frame, head, head_size);
    publication->packed_memory = memory;
    publication->packed = (uvhttp_str_t){frame, head_size + packed};
}

static publication_t *publication_new(uvhttp__ws_hub_t *hub, uvhttp_str_t topic, uvhttp_ws_type_t type,
                                      const void *data, size_t size) {
    char head[UVHTTP__WS_SERVER_HEAD_MAX];
    size_t head_size = uvhttp__ws_write_head(head, true, (uint8_t)type, size);
    publication_t *publication = uvhttp__malloc(sizeof *publication + head_size + size + topic.size);
    if (!publication) return NULL;
    char *frame = publication->data, *name = frame + head_size + size;
    *publication = (publication_t){.hub = hub, .plain = {frame, head_size + size}, .topic = {name, topic.size}};
    memcpy(frame, head, head_size);
    if (size > 0) memcpy(frame + head_size, data, size);
    memcpy(name, topic.data, topic.size);
    uvhttp__ref_init(&publication->count);
    uvhttp__ref_acquire(&hub->count);
    return publication;
}

/* How many loops have a subscriber, and whether one of those reads compressed ones. */
static uint32_t count_loops(uvhttp__ws_hub_t *hub, uint64_t hash, uvhttp_str_t name, bool *compressing) {
    uint32_t count = 0;
    *compressing = false;
    for (uint32_t i = 0; i < hub->loop_count; i++) {
        uvhttp__ws_loop_t *loop = &hub->loops[i];
        pthread_mutex_lock(&loop->lock);
        const topic_t *topic = find_topic(loop, hash, name);
        if (topic) count++;
        if (topic && topic->compressing > 0) *compressing = true;
        pthread_mutex_unlock(&loop->lock);
    }
    return count;
}

static int deliver(uvhttp__ws_loop_t *loop, publication_t *publication) {
    delivery_t *delivery = uvhttp__malloc(sizeof *delivery);
    if (!delivery) return UVHTTP_E_NOMEM;
    *delivery = (delivery_t){.post = {.run = run_delivery}, .publication = publication, .loop = loop, .uses = 1};
    uvhttp__ref_acquire(&publication->count);
    pthread_mutex_lock(&loop->lock);
    bool wanted = find_topic(loop, publication->hash, publication->topic) != NULL;
    if (wanted) {
        atomic_fetch_add_explicit(&publication->hub->pending, publication->plain.size, memory_order_relaxed);
        uvhttp__loop_post(loop->io, &delivery->post);
    }
    pthread_mutex_unlock(&loop->lock);
    if (!wanted) let_go(delivery);
    return UVHTTP_OK;
}

int uvhttp__ws_hub_publish(uvhttp__ws_hub_t *hub, const uvhttp_ws_t *except, const char *topic, uvhttp_ws_type_t type,
                           const void *data, size_t size) {
    uvhttp_str_t name = uvhttp__str_from(topic);
    if (name.size == 0 || !uvhttp__ws_may_be_sent(type, data, size)) return UVHTTP_E_INVALID;
    uint64_t hash = uvhttp__hash_seeded(name.data, name.size, hub->seed);
    bool compressing;
    if (count_loops(hub, hash, name, &compressing) == 0) return UVHTTP_OK;
    if (atomic_load_explicit(&hub->pending, memory_order_relaxed) + size > PENDING_MAX) {
        atomic_fetch_add_explicit(&hub->refused, 1, memory_order_relaxed);
        return UVHTTP_E_LIMIT;
    }
    publication_t *publication = publication_new(hub, name, type, data, size);
    if (!publication) return UVHTTP_E_NOMEM;
    publication->except = except;
    publication->hash = hash;
    if (compressing && size >= hub->compression_size_min) pack(publication, type, data, size);
    int status = UVHTTP_OK;
    for (uint32_t i = 0; i < hub->loop_count && status == UVHTTP_OK; i++) status = deliver(&hub->loops[i], publication);
    publication_release(publication);
    return status;
}

int uvhttp_ws_publish(uvhttp_ws_t *ws, const char *topic, uvhttp_ws_type_t type, const void *data, size_t size) {
    const uvhttp_ws_t *except = uvhttp__ws_options(ws)->publish_to_self ? NULL : ws;
    return uvhttp__ws_hub_publish(ws->endpoint->hub, except, topic, type, data, size);
}
