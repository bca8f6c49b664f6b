/* Owns: the hub of a server's WebSockets, as its files share it. May include: as websocket.h.
 *
 * Each loop has a table of its own topics, which only that loop changes. A publication is encoded once, for all; each
 * loop with a subscriber gets one message, and its connections send from the same bytes. A message is posted under the
 * lock that the loop takes to change its table: a loop with a subscriber has a connection, and does not end before. */
#ifndef UVHTTP_SRC_HANDLER_WEBSOCKET_TOPICS_H
#define UVHTTP_SRC_HANDLER_WEBSOCKET_TOPICS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/ref.h"
#include "handler/websocket.h"

typedef struct uvhttp__ws_topic {
    struct uvhttp__ws_topic *next; /* of its bucket */
    uvhttp__list_t subscribers;
    uint64_t hash;
    uint32_t compressing; /* subscribers that take what the hub has compressed */
    uint32_t size;
    char name[];
} uvhttp__ws_topic_t;

struct uvhttp__ws_subscription {
    uvhttp__list_t link; /* in topic->subscribers */
    uvhttp__ws_subscription_t *next;
    uvhttp__ws_topic_t *topic;
    uvhttp_ws_t *ws;
};

struct uvhttp__ws_loop {
    _Alignas(64) pthread_mutex_t lock; /* over the topics for who is not the loop, or changes them; and over posting */
    uvhttp__ws_topic_t **buckets;
    uint32_t bucket_count; /* power of two, or 0 */
    uint32_t topic_count;
    uvhttp__loop_t *io; /* set with the first subscription */
    uvhttp__slab_t subscriptions;
    uvhttp__ws_codecs_t codecs;
    char *scratch;
};

struct uvhttp__ws_registry {
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

/* A topic of a loop, or NULL. The loop's thread, or under its lock. */
uvhttp__ws_topic_t *uvhttp__ws_find_topic(const uvhttp__ws_loop_t *loop, uint64_t hash, uvhttp_str_t name);

/* Whether it can read what the hub has compressed: its window is as large. */
static inline bool uvhttp__ws_accepts_compressed(const uvhttp__ws_registry_t *registry, const uvhttp_ws_t *ws) {
    return registry->settings.bits > 0 && ws->deflate.server_bits >= registry->settings.bits;
}

#endif
