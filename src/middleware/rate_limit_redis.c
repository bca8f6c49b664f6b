/* Owns: buckets in a Redis server, which several processes and machines share: the store that the loops ask. May
 * include: base, obs. */
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/sized.h"
#include "base/str.h"
#include "middleware/middleware.h"
#include "middleware/rate_limit.h"
#include "middleware/rate_limit_redis.h"

#define SECRET_SIZE_MAX 512
#define TIMEOUT_MS_MAX 10000
#define PENDING_MAX 1000000
#define KEY_PLAIN_MAX 64 /* bytes of a key that are sent as they are; of longer ones 128 bits of hash */
#define MS UINT64_C(1000000)

/* --- the store, on the loops --- */

/* prefix, policy, kind and key; addresses in hex, so that people can read them in Redis. */
static size_t write_key(const uvhttp__redis_store_t *store, const uvhttp_rate_limit_take_t *take, char *out) {
    size_t size = (size_t)snprintf(out, UVHTTP__REDIS_PREFIX_SIZE_MAX + UVHTTP__RATE_LIMIT_NAME_MAX + 8,
                                   "%s%s:%c:", store->prefix, take->policy, take->kind);
    bool address = take->kind == '4' || take->kind == '6';
    if (take->key.size > KEY_PLAIN_MAX) {
        XXH128_canonical_t hash;
        XXH128_canonicalFromHash(&hash, XXH3_128bits(take->key.data, take->key.size));
        memcpy(out + size, "#", 1);
        memcpy(out + size + 1, hash.digest, sizeof hash.digest);
        return size + 1 + sizeof hash.digest;
    }
    if (!address) {
        if (take->key.size) memcpy(out + size, take->key.data, take->key.size);
        return size + take->key.size;
    }
    for (size_t i = 0; i < take->key.size; i++) {
        out[size++] = "0123456789abcdef"[(uint8_t)take->key.data[i] >> 4];
        out[size++] = "0123456789abcdef"[(uint8_t)take->key.data[i] & 15];
    }
    return size;
}

static void take_later(void *user, const uvhttp_rate_limit_take_t *take, uvhttp_rate_limit_ticket_t *ticket) {
    uvhttp__redis_store_t *store = user;
    char key[UVHTTP__REDIS_PREFIX_SIZE_MAX + UVHTTP__RATE_LIMIT_NAME_MAX + KEY_PLAIN_MAX + 16];
    size_t size = write_key(store, take, key);
    bool full = atomic_fetch_add_explicit(&store->pending, 1, memory_order_relaxed) >= store->pending_max;
    bool can = !full && (atomic_load_explicit(&store->started, memory_order_acquire) || uvhttp__redis_start(store));
    int status = can ? UVHTTP_OK : UVHTTP_E_LIMIT;
    uvhttp__redis_job_t *job = status == UVHTTP_OK ? uvhttp__malloc(sizeof *job + size) : NULL;
    if (!job) {
        atomic_fetch_sub_explicit(&store->pending, 1, memory_order_relaxed);
        uvhttp_rate_limit_decided(ticket, status == UVHTTP_OK ? UVHTTP_E_NOMEM : status, NULL);
        return;
    }
    *job = (uvhttp__redis_job_t){.ticket = ticket,
                                 .deadline_ns = uvhttp__redis_now_ns() + store->timeout_ms * MS,
                                 .interval = (take->interval_ns * 16 + 999) / 1000,
                                 .burst = take->burst,
                                 .key_size = size};
    memcpy(job->key, key, size);
    if (!uvhttp__mpsc_push(&store->queue, &job->node)) return;
    uint64_t one = 1;
    (void)!write(store->wake, &one, sizeof one);
}

static void read_stats(void *user, uvhttp_rate_limit_stats_t *stats) {
    uvhttp__redis_store_t *store = user;
    stats->allowed = atomic_load(&store->allowed);
    stats->refused = atomic_load(&store->refused);
}

static void free_store(uvhttp__redis_store_t *store) {
    if (store->wake >= 0) close(store->wake);
    if (store->password) explicit_bzero(store->password, strlen(store->password));
    pthread_mutex_destroy(&store->lock);
    uvhttp__free(store->user);
    uvhttp__free(store->password);
    uvhttp__free(store);
}

static void destroy(void *user) {
    uvhttp__redis_store_t *store = user;
    if (store->running) {
        uint64_t one = 1;
        atomic_store(&store->stopping, true);
        (void)!write(store->wake, &one, sizeof one);
        pthread_join(store->thread, NULL);
    }
    free_store(store);
}

/* --- making it --- */

/* Numeric, as everywhere: a name could take seconds to look up, again and again. */
static bool read_address(uvhttp__redis_store_t *store, const char *text) {
    uvhttp_str_t all = uvhttp__str_from(text);
    if (all.size >= sizeof store->address_text) return false;
    memcpy(store->address_text, text, all.size + 1);
    if (uvhttp__str_starts_with(all, UVHTTP__STR("unix:/"))) {
        if (all.size - 5 >= sizeof store->path) return false;
        memcpy(store->path, text + 5, all.size - 4);
        return true;
    }
    const char *colon = strrchr(text, ':');
    uint64_t port;
    uvhttp__ip_t ip;
    if (!colon || uvhttp__str_parse_u64(uvhttp__str_from(colon + 1), &port) != UVHTTP_OK || port == 0 || port > 65535)
        return false;
    uvhttp_str_t host = {text, (size_t)(colon - text)};
    if (uvhttp__str_equal_nocase(host, UVHTTP__STR("localhost"))) host = UVHTTP__STR("127.0.0.1");
    if (host.size > 2 && host.data[0] == '[' && host.data[host.size - 1] == ']')
        host = (uvhttp_str_t){host.data + 1, host.size - 2};
    if (!uvhttp__ip_parse(host, &ip) || host.size >= sizeof store->host) return false;
    memcpy(store->host, host.data, host.size);
    store->port = (int)port;
    return true;
}

static const char *fault_of(const uvhttp_rate_limit_redis_options_t *options) {
    if (options->timeout_ms > TIMEOUT_MS_MAX) return "timeout_ms: expected 1..10000, or 0 for the default";
    if (options->pending_max > PENDING_MAX) return "pending_max: expected 1..1000000, or 0 for the default";
    if (options->prefix && strlen(options->prefix) > UVHTTP__REDIS_PREFIX_SIZE_MAX)
        return "prefix: expected at most 64 bytes";
    if (options->user && !options->password) return "user is set and password is not";
    if ((options->user && strlen(options->user) > SECRET_SIZE_MAX) ||
        (options->password && strlen(options->password) > SECRET_SIZE_MAX))
        return "user or password: expected at most 512 bytes";
    return NULL;
}

static int copy_text(char **to, const char *text) {
    if (!text) return UVHTTP_OK;
    size_t size = strlen(text) + 1;
    *to = uvhttp__malloc(size);
    if (!*to) return UVHTTP_E_NOMEM;
    memcpy(*to, text, size);
    return UVHTTP_OK;
}

static uvhttp__redis_store_t *make(const uvhttp_rate_limit_redis_options_t *options) {
    uvhttp__redis_store_t *store = uvhttp__calloc(1, sizeof *store);
    if (!store) return NULL;
    pthread_mutex_init(&store->lock, NULL);
    uvhttp__mpsc_init(&store->queue);
    uvhttp__redis_list_init(&store->waiting);
    uvhttp__redis_list_init(&store->sent);
    store->timeout_ms = options->timeout_ms ? options->timeout_ms : 50;
    store->pending_max = options->pending_max ? options->pending_max : 10000;
    store->database = options->database;
    store->backoff_ms = UVHTTP__REDIS_BACKOFF_MS_MIN;
    snprintf(store->prefix, sizeof store->prefix, "%s", options->prefix ? options->prefix : "uvhttp:");
    store->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (store->wake >= 0 && copy_text(&store->user, options->user) == UVHTTP_OK &&
        copy_text(&store->password, options->password) == UVHTTP_OK)
        return store;
    free_store(store);
    return NULL;
}

int uvhttp_rate_limit_redis_sized(const uvhttp_rate_limit_redis_options_t *options, size_t options_size,
                                  uvhttp_rate_limit_store_t *store) {
    uvhttp_rate_limit_redis_options_t full;
    if (!store) return UVHTTP_E_INVALID;
    memset(store, 0, sizeof *store);
    bool known = uvhttp__sized_read(&full, sizeof full, options, options_size);
    options = &full;
    const char *fault = known ? fault_of(options) : UVHTTP__SIZED_NEWER;
    if (fault) {
        (void)uvhttp__middleware_refused(UVHTTP__REDIS_NAME, "%s", fault);
        return known ? UVHTTP_E_CONFIG : UVHTTP_E_UNSUPPORTED;
    }
    uvhttp__redis_store_t *made = make(options);
    if (!made) {
        (void)uvhttp__middleware_refused(UVHTTP__REDIS_NAME, "out of memory");
        return UVHTTP_E_NOMEM;
    }
    const char *address = options->address ? options->address : "127.0.0.1:6379";
    if (!read_address(made, address)) {
        (void)uvhttp__middleware_refused(UVHTTP__REDIS_NAME,
                                         "address is \"%.100s\": expected 192.0.2.1:6379, [2001:db8::1]:6379, "
                                         "localhost:6379 or unix:/path",
                                         address);
        free_store(made);
        return UVHTTP_E_CONFIG;
    }
    *store =
        (uvhttp_rate_limit_store_t){.take_later = take_later, .stats = read_stats, .destroy = destroy, .user = made};
    return UVHTTP_OK;
}
