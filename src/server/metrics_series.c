/* Owns: the series of a snapshot: those of all loops, summed by their attributes. Any thread. */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/method.h"
#include "base/str.h"
#include "exchange/measure.h"
#include "server/metrics_snapshot.h"
#include "server/server.h"

/* A series of a loop. */
typedef struct source {
    const uvhttp__series_shard_t *shard;
    uint32_t index;
    uvhttp__series_key_t key;
    uint32_t to; /* index in the snapshot; UINT32_MAX: it has counted nothing, and is not there */
} source_t;

typedef struct sources {
    source_t *items;
    uint32_t count;
} sources_t;

static const uvhttp__series_shard_t *shard_of(const uvhttp_server_t *server, uint32_t index) {
    const uvhttp__http_loop_t *http = server->tcp_server->loops[index].user;
    return http ? http->metrics : NULL;
}

/* Series of a loop that exist now; more may come while they are read. */
static bool collect_shard(const uvhttp__series_shard_t *shard, sources_t *sources) {
    uint32_t used = atomic_load_explicit(&shard->count, memory_order_acquire);
    if (used == 0) return true;
    source_t *items = uvhttp__realloc(sources->items, (sources->count + (size_t)used) * sizeof *items);
    if (!items) return false;
    sources->items = items;
    for (uint32_t i = 0; i < used; i++)
        items[sources->count++] = (source_t){.shard = shard, .index = i, .key = shard->series[i].key};
    return true;
}

static bool collect(const uvhttp_server_t *server, sources_t *sources) {
    for (uint32_t i = 0; i < server->tcp_server->loop_count; i++)
        if (shard_of(server, i) && !collect_shard(shard_of(server, i), sources)) return false;
    return true;
}

static const char *pattern_of(uvhttp__series_key_t key) {
    return key.route ? ((const uvhttp_route_t *)key.route)->pattern : "";
}

static int compare(const void *a, const void *b) {
    uvhttp__series_key_t x = ((const source_t *)a)->key, y = ((const source_t *)b)->key;
    int order = strcmp(pattern_of(x), pattern_of(y));
    if (order != 0) return order;
    return x.attributes < y.attributes ? -1 : x.attributes > y.attributes;
}

static void add(uint64_t *to, const _Atomic uint64_t *from, unsigned count) {
    for (unsigned i = 0; i < count; i++) to[i] += atomic_load_explicit(&from[i], memory_order_relaxed);
}

static void add_series(uvhttp__metrics_series_t *to, const uvhttp__series_t *from) {
    add(&to->shown.duration_sum_ns, &from->duration_sum, 1);
    add(to->durations, from->durations, UVHTTP__DURATION_COUNTS);
    add(&to->shown.request_body_sum, &from->request_sum, 1);
    add(to->requests, from->requests, UVHTTP__SIZE_COUNTS);
    add(&to->shown.response_body_sum, &from->response_sum, 1);
    add(to->responses, from->responses, UVHTTP__SIZE_COUNTS);
}

/* --- attributes --- */

static const char *version_text(unsigned version) {
    switch (version) {
        case UVHTTP_HTTP_1_0: return "1.0";
        case UVHTTP_HTTP_1_1: return "1.1";
        case UVHTTP_HTTP_2: return "2";
        default: return "";
    }
}

static void write_error(const uvhttp__attributes_t *attributes, char *text, size_t size) {
    if (attributes->error == UVHTTP__ERROR_TYPE_NONE) return;
    if (attributes->error == UVHTTP__ERROR_TYPE_STATUS) {
        snprintf(text, size, "%u", attributes->status);
        return;
    }
    int code = uvhttp__error_at(attributes->error);
    snprintf(text, size, "%s", code ? uvhttp_error_name(code) + sizeof "UVHTTP_E_" - 1 : "unknown");
    uvhttp__text_lower(text);
}

static void describe(uvhttp__metrics_series_t *series) {
    uvhttp_metrics_series_t *shown = &series->shown;
    *shown = (uvhttp_metrics_series_t){.route = "", .method = "", .protocol = "", .scheme = "", .error_type = ""};
    shown->duration_counts = series->durations;
    shown->request_body_counts = series->requests;
    shown->response_body_counts = series->responses;
    shown->overflow = series->key.attributes == UVHTTP__SERIES_OVERFLOW;
    if (shown->overflow) return;
    uvhttp__attributes_t attributes = uvhttp__attributes_unpack(series->key.attributes);
    shown->route = pattern_of(series->key);
    shown->method =
        attributes.method < UVHTTP__METHOD_KNOWN ? uvhttp_method_name((uvhttp_method_t)attributes.method) : "_OTHER";
    shown->protocol = version_text(attributes.version);
    shown->scheme = attributes.is_tls ? "https" : "http";
    shown->status = attributes.status;
    write_error(&attributes, series->error_text, sizeof series->error_text);
    shown->error_type = series->error_text;
}

/* --- summing --- */

static bool is_same(uvhttp__series_key_t a, uvhttp__series_key_t b) {
    return a.attributes == b.attributes && strcmp(pattern_of(a), pattern_of(b)) == 0;
}

/* The sources are in order: those of one series follow each other. Series that have counted nothing are left out. */
static void sum(sources_t *sources, uvhttp__metrics_snapshot_t *snapshot) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < sources->count;) {
        uint32_t first = i;
        uvhttp__metrics_series_t *series = &snapshot->series[count];
        memset(series, 0, sizeof *series);
        series->key = sources->items[i].key;
        describe(series);
        for (; i < sources->count && is_same(sources->items[i].key, series->key); i++) {
            sources->items[i].to = count;
            add_series(series, &sources->items[i].shard->series[sources->items[i].index]);
        }
        for (unsigned j = 0; j < UVHTTP__DURATION_COUNTS; j++) series->shown.count += series->durations[j];
        if (series->shown.count > 0)
            count++;
        else
            while (first < i) sources->items[first++].to = UINT32_MAX;
    }
    snapshot->shown.series_count = count;
}

/* --- exemplars --- */

static int compare_places(const void *a, const void *b) {
    const source_t *x = a, *y = b;
    if (x->shard != y->shard) return (uintptr_t)x->shard < (uintptr_t)y->shard ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static void add_exemplars(const sources_t *sources, const uvhttp__series_shard_t *shard,
                          uvhttp__metrics_snapshot_t *snapshot, uint32_t *used) {
    for (unsigned i = 0; i < UVHTTP__EXEMPLARS; i++) {
        uvhttp__metrics_exemplar_t *exemplar = &snapshot->exemplars[*used];
        if (!uvhttp__exemplar_get(shard, i, &exemplar->view)) continue;
        source_t wanted = {.shard = shard, .index = exemplar->view.series};
        const source_t *found =
            bsearch(&wanted, sources->items, sources->count, sizeof *sources->items, compare_places);
        if (!found || found->to == UINT32_MAX) continue;
        uvhttp__metrics_series_t *series = &snapshot->series[found->to];
        exemplar->next = series->exemplars;
        series->exemplars = exemplar;
        (*used)++;
    }
}

bool uvhttp__metrics_read_series(const uvhttp_server_t *server, uvhttp__metrics_snapshot_t *snapshot) {
    sources_t sources = {0};
    uint32_t loops = server->tcp_server->loop_count, used = 0;
    if (!server->service.config.metrics || !atomic_load_explicit(&server->tcp_server->engine, memory_order_acquire))
        return true;
    bool collected = collect(server, &sources);
    if (collected && sources.count > 0) {
        snapshot->series = uvhttp__malloc(sources.count * sizeof *snapshot->series);
        snapshot->exemplars = uvhttp__malloc((size_t)loops * UVHTTP__EXEMPLARS * sizeof *snapshot->exemplars);
        collected = snapshot->series && snapshot->exemplars;
    }
    if (collected && sources.count > 0) {
        qsort(sources.items, sources.count, sizeof *sources.items, compare);
        sum(&sources, snapshot);
        qsort(sources.items, sources.count, sizeof *sources.items, compare_places);
        for (uint32_t i = 0; i < loops; i++)
            if (shard_of(server, i)) add_exemplars(&sources, shard_of(server, i), snapshot, &used);
    }
    uvhttp__free(sources.items);
    return collected;
}
