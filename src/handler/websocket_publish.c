/* Owns: publications: encoded once, posted to each loop with a subscriber, and sent to its connections. May include:
 * route message exec websocket conn base obs. */
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/str.h"
#include "handler/websocket_topics.h"

/* Publications that wait for loops, bytes. */
#define PENDING_MAX (64u << 20)

typedef struct publication {
    uvhttp__ref_t count;
    uvhttp__ws_registry_t *registry;
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
    uvhttp__ws_registry_release(publication->registry);
    uvhttp__free(publication->packed_memory);
    uvhttp__free(publication);
}

static void release(void *arg) {
    delivery_t *delivery = arg;
    if (--delivery->uses > 0) return;
    publication_release(delivery->publication);
    uvhttp__free(delivery);
}

/* A slow one is dropped by a reset, whose callbacks come in a later turn: the list does not change here. */
static void deliver_to(uvhttp_ws_t *ws, delivery_t *delivery) {
    const publication_t *publication = delivery->publication;
    if (ws == publication->except || ws->state != UVHTTP__WS_OPEN) return;
    bool packed = publication->packed.size > 0 && uvhttp__ws_accepts_compressed(publication->registry, ws);
    delivery->uses++;
    int status =
        uvhttp__ws_send_shared(ws, packed ? publication->packed : publication->plain, packed, release, delivery);
    if (status == UVHTTP_OK || status == UVHTTP_E_AGAIN || status == UVHTTP_E_CLOSED) return;
    if (status == UVHTTP_E_LIMIT && uvhttp__ws_options(ws)->drop_slow_subscribers) {
        uvhttp__counters_add(uvhttp__ws_counters(ws), ws_subscribers_dropped, 1);
        ws->channel->ops->reset(ws->channel);
    } else {
        uvhttp__counters_add(uvhttp__ws_counters(ws), ws_publications_skipped, 1);
    }
}

static void run_delivery(uvhttp__post_t *post) {
    delivery_t *delivery = UVHTTP__CONTAINER_OF(post, delivery_t, post);
    const publication_t *publication = delivery->publication;
    uvhttp__ws_registry_t *registry = publication->registry;
    uint32_t refused = atomic_exchange_explicit(&registry->refused, 0, memory_order_relaxed);
    uvhttp__counters_t *counters = delivery->loop->io->counters;
    if (refused > 0) uvhttp__counters_add(counters, ws_publications_refused, refused);
    uvhttp__counters_add(counters, ws_publications, 1);
    atomic_fetch_sub_explicit(&registry->pending, publication->plain.size, memory_order_relaxed);
    const uvhttp__ws_topic_t *topic = uvhttp__ws_find_topic(delivery->loop, publication->hash, publication->topic);
    if (topic) {
        for (uvhttp__list_t *node = topic->subscribers.next; node != &topic->subscribers; node = node->next)
            deliver_to(UVHTTP__CONTAINER_OF(node, uvhttp__ws_subscription_t, link)->ws, delivery);
    }
    release(delivery);
}

/* Compressed without a context, which every subscriber with the window can read. It costs one message in all. */
static void pack(publication_t *publication, uvhttp_ws_type_t type, const void *data, size_t size) {
    uvhttp__ws_registry_t *registry = publication->registry;
    char *memory = uvhttp__malloc(UVHTTP__WS_SERVER_HEAD_MAX + UVHTTP__WS_DEFLATE_CAPACITY(size));
    if (!memory) return;
    size_t packed = 0;
    pthread_mutex_lock(&registry->deflate_lock);
    if (!registry->deflater) registry->deflater = uvhttp__ws_deflater_new(registry->settings);
    if (registry->deflater) {
        packed = uvhttp__ws_deflate(registry->deflater, data, size, memory + UVHTTP__WS_SERVER_HEAD_MAX);
        if (packed > 0) uvhttp__ws_deflater_reset(registry->deflater);
    }
    pthread_mutex_unlock(&registry->deflate_lock);
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

static publication_t *publication_new(uvhttp__ws_registry_t *registry, uvhttp_str_t topic, uvhttp_ws_type_t type,
                                      const void *data, size_t size) {
    char head[UVHTTP__WS_SERVER_HEAD_MAX];
    size_t head_size = uvhttp__ws_write_head(head, true, (uint8_t)type, size);
    publication_t *publication = uvhttp__malloc(sizeof *publication + head_size + size + topic.size);
    if (!publication) return NULL;
    char *frame = publication->data, *name = frame + head_size + size;
    *publication =
        (publication_t){.registry = registry, .plain = {frame, head_size + size}, .topic = {name, topic.size}};
    memcpy(frame, head, head_size);
    if (size > 0) memcpy(frame + head_size, data, size);
    memcpy(name, topic.data, topic.size);
    uvhttp__ref_init(&publication->count);
    uvhttp__ref_acquire(&registry->count);
    return publication;
}

/* How many loops have a subscriber, and whether one of those reads compressed ones. */
static uint32_t count_loops(uvhttp__ws_registry_t *registry, uint64_t hash, uvhttp_str_t name, bool *compressing) {
    uint32_t count = 0;
    *compressing = false;
    for (uint32_t i = 0; i < registry->loop_count; i++) {
        uvhttp__ws_loop_t *loop = &registry->loops[i];
        pthread_mutex_lock(&loop->lock);
        const uvhttp__ws_topic_t *topic = uvhttp__ws_find_topic(loop, hash, name);
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
    bool wanted = uvhttp__ws_find_topic(loop, publication->hash, publication->topic) != NULL;
    if (wanted) {
        atomic_fetch_add_explicit(&publication->registry->pending, publication->plain.size, memory_order_relaxed);
        uvhttp__loop_post(loop->io, &delivery->post);
    }
    pthread_mutex_unlock(&loop->lock);
    if (!wanted) release(delivery);
    return UVHTTP_OK;
}

int uvhttp__ws_publish(uvhttp__ws_registry_t *registry, const uvhttp_ws_t *except, const char *topic,
                       uvhttp_ws_type_t type, const void *data, size_t size) {
    uvhttp_str_t name = uvhttp__str_from(topic);
    if (name.size == 0 || !uvhttp__ws_may_be_sent(type, data, size)) return UVHTTP_E_INVALID;
    uint64_t hash = uvhttp__hash_seeded(name.data, name.size, registry->seed);
    bool compressing;
    if (count_loops(registry, hash, name, &compressing) == 0) return UVHTTP_OK;
    if (atomic_load_explicit(&registry->pending, memory_order_relaxed) + size > PENDING_MAX) {
        atomic_fetch_add_explicit(&registry->refused, 1, memory_order_relaxed);
        return UVHTTP_E_LIMIT;
    }
    publication_t *publication = publication_new(registry, name, type, data, size);
    if (!publication) return UVHTTP_E_NOMEM;
    publication->except = except;
    publication->hash = hash;
    if (compressing && size >= registry->compression_size_min) pack(publication, type, data, size);
    int status = UVHTTP_OK;
    for (uint32_t i = 0; i < registry->loop_count && status == UVHTTP_OK; i++)
        status = deliver(&registry->loops[i], publication);
    publication_release(publication);
    return status;
}

int uvhttp_ws_publish(uvhttp_ws_t *ws, const char *topic, uvhttp_ws_type_t type, const void *data, size_t size) {
    const uvhttp_ws_t *except = uvhttp__ws_options(ws)->publish_to_self ? NULL : ws;
    return uvhttp__ws_publish(ws->endpoint->registry, except, topic, type, data, size);
}
