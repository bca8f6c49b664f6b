/* A small JSON API over items in memory: a group with a prefix, parameters, a query, statuses, and middleware that sees
 * each request on its way in and its outcome on the way back. Handlers run on several loop threads at once, so what
 * they share has a mutex.
 *
 *   build/dist/bin/rest_api                # or: rest_api 127.0.0.1:9000
 *   curl -i -d '{"name":"tea"}' http://127.0.0.1:8080/api/items
 *   curl http://127.0.0.1:8080/api/items
 *   curl 'http://127.0.0.1:8080/api/items?after=1&limit=10'
 *   curl -X PUT -d '{"name":"green tea"}' http://127.0.0.1:8080/api/items/1
 *   curl -i -X DELETE http://127.0.0.1:8080/api/items/1
 *   curl http://127.0.0.1:8080/stats
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp.h>

#define ITEMS_MAX 1000
#define NAME_MAX_SIZE 100
#define ID_MAX 100000000

typedef struct item {
    unsigned id;
    char name[NAME_MAX_SIZE + 1];
} item_t;

typedef struct store {
    pthread_mutex_t lock;    /* of everything here */
    item_t items[ITEMS_MAX]; /* count of them, ids ascend */
    unsigned count, last_id;
} store_t;

typedef struct stats {
    atomic_ulong responded, aborted;
} stats_t;

/* --- the two bits of JSON that this API speaks; a real program would use a JSON library here --- */

static const char *skip_space(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n')) ++at;
    return at;
}

static const char *expect(const char *at, const char *end, const char *text) {
    at = skip_space(at, end);
    size_t size = strlen(text);
    return (size_t)(end - at) >= size && memcmp(at, text, size) == 0 ? at + size : NULL;
}

/* Takes {"name": "..."}. A name without escapes and control characters can go back into JSON as it is. */
static bool parse_name(uvhttp_str_t body, char name[NAME_MAX_SIZE + 1]) {
    if (body.size == 0) return false;
    const char *end = body.data + body.size;
    const char *at = expect(body.data, end, "{");
    if (at) at = expect(at, end, "\"name\"");
    if (at) at = expect(at, end, ":");
    if (at) at = expect(at, end, "\"");
    if (!at) return false;
    size_t size = 0;
    while (at < end && *at != '"') {
        if (*at == '\\' || (unsigned char)*at < ' ' || size == NAME_MAX_SIZE) return false;
        name[size++] = *at++;
    }
    name[size] = '\0';
    at = expect(at, end, "\"");
    if (at) at = expect(at, end, "}");
    return size > 0 && at && skip_space(at, end) == end;
}

/* Decimal digits only, 1..max. */
static bool parse_number(uvhttp_str_t text, unsigned max, unsigned *number) {
    unsigned value = 0;
    for (size_t i = 0; i < text.size; ++i) {
        if (text.data[i] < '0' || text.data[i] > '9') return false;
        value = value * 10 + (unsigned)(text.data[i] - '0');
        if (value > max) return false;
    }
    *number = value;
    return value > 0;
}

/* --- responses --- */

static void respond_error(uvhttp_response_t *res, int status, const char *message) {
    char json[128];
    snprintf(json, sizeof json, "{\"error\":\"%s\"}\n", message);
    uvhttp_response_json(res, status, json);
}

static void respond_item(uvhttp_response_t *res, int status, const item_t *item) {
    char json[NAME_MAX_SIZE + 64];
    snprintf(json, sizeof json, "{\"id\":%u,\"name\":\"%s\"}\n", item->id, item->name);
    uvhttp_response_json(res, status, json);
}

/* The item that the path names, with the lock held; NULL (and a response) if there is none. */
static item_t *find_item(store_t *store, uvhttp_request_t *req, uvhttp_response_t *res) {
    unsigned id;
    if (parse_number(uvhttp_request_param(req, "id"), ID_MAX, &id)) {
        for (unsigned i = 0; i < store->count; ++i) {
            if (store->items[i].id == id) return &store->items[i];
        }
    }
    respond_error(res, 404, "no such item");
    return NULL;
}

/* --- handlers --- */

static void list_items(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    store_t *store = user;
    unsigned after = 0, limit = 100;
    uvhttp_str_t value;
    if (uvhttp_request_query_param(req, "limit", &value) && !parse_number(value, ITEMS_MAX, &limit)) {
        respond_error(res, 400, "limit is not in 1..1000");
        return;
    }
    if (uvhttp_request_query_param(req, "after", &value) && !parse_number(value, ID_MAX, &after)) {
        respond_error(res, 400, "after is not in 1..100000000");
        return;
    }
    char *json = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&json, &size);
    if (!out) {
        respond_error(res, 503, "out of memory");
        return;
    }
    const char *separator = "";
    fputs("{\"items\":[", out);
    pthread_mutex_lock(&store->lock);
    for (unsigned i = 0; i < store->count && limit > 0; ++i) {
        const item_t *item = &store->items[i];
        if (item->id <= after) continue;
        fprintf(out, "%s{\"id\":%u,\"name\":\"%s\"}", separator, item->id, item->name);
        separator = ",";
        --limit;
    }
    pthread_mutex_unlock(&store->lock);
    fputs("]}\n", out);
    if (fclose(out) != 0) {
        free(json);
        respond_error(res, 503, "out of memory");
        return;
    }
    uvhttp_response_send_ref(res, 200, "application/json", json, size, free, json); /* not copied; freed when sent */
}

static void create_item(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    store_t *store = user;
    item_t item;
    if (!parse_name(uvhttp_request_body(req), item.name)) {
        respond_error(res, 400, "the body is not {\\\"name\\\":\\\"...\\\"} of 1 to 100 plain characters");
        return;
    }
    pthread_mutex_lock(&store->lock);
    bool full = store->count == ITEMS_MAX || store->last_id == ID_MAX;
    if (!full) {
        item.id = ++store->last_id;
        store->items[store->count++] = item;
    }
    pthread_mutex_unlock(&store->lock);
    if (full) {
        respond_error(res, 507, "the store is full");
        return;
    }
    char location[64];
    snprintf(location, sizeof location, "/api/items/%u", item.id);
    uvhttp_response_header(res, "Location", location);
    respond_item(res, 201, &item);
}

static void get_item(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    store_t *store = user;
    pthread_mutex_lock(&store->lock);
    item_t *item = find_item(store, req, res);
    if (item) respond_item(res, 200, item);
    pthread_mutex_unlock(&store->lock);
}

static void update_item(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    store_t *store = user;
    char name[NAME_MAX_SIZE + 1];
    if (!parse_name(uvhttp_request_body(req), name)) {
        respond_error(res, 400, "the body is not {\\\"name\\\":\\\"...\\\"} of 1 to 100 plain characters");
        return;
    }
    pthread_mutex_lock(&store->lock);
    item_t *item = find_item(store, req, res);
    if (item) {
        memcpy(item->name, name, sizeof name);
        respond_item(res, 200, item);
    }
    pthread_mutex_unlock(&store->lock);
}

static void delete_item(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    store_t *store = user;
    pthread_mutex_lock(&store->lock);
    item_t *item = find_item(store, req, res);
    if (item) {
        const item_t *end = &store->items[store->count--];
        memmove(item, item + 1, (size_t)(end - (item + 1)) * sizeof *item);
        uvhttp_response_empty(res, 204);
    }
    pthread_mutex_unlock(&store->lock);
}

/* --- middleware --- */

static void count_outcome(uvhttp_response_t *res, int status, void *user) {
    (void)res;
    stats_t *stats = user;
    atomic_fetch_add(status == UVHTTP_OK ? &stats->responded : &stats->aborted, 1);
}

static uvhttp_flow_t count_requests(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    uvhttp_response_on_done(res, count_outcome, user);
    return UVHTTP_NEXT;
}

static void show_stats(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    stats_t *stats = user;
    char json[96];
    snprintf(json, sizeof json, "{\"responded\":%lu,\"aborted\":%lu}\n", atomic_load(&stats->responded),
             atomic_load(&stats->aborted));
    uvhttp_response_json(res, 200, json);
}

int main(int argc, char **argv) {
    static store_t store = {.lock = PTHREAD_MUTEX_INITIALIZER};
    static stats_t stats;

    uvhttp_server_t *server = uvhttp_server_new(NULL);
    if (!server) return 1;
    uvhttp_use(server, (uvhttp_middleware_t){.run = count_requests, .user = &stats});
    uvhttp_get(server, "/stats", show_stats, &stats);

    uvhttp_group_t *api = uvhttp_group(server, "/api");
    uvhttp_group_get(api, "/items", list_items, &store);
    uvhttp_group_post(api, "/items", create_item, &store);
    uvhttp_group_get(api, "/items/:id", get_item, &store);
    uvhttp_group_put(api, "/items/:id", update_item, &store);
    uvhttp_group_delete(api, "/items/:id", delete_item, &store);

    int status = uvhttp_server_run(server, argc > 1 ? argv[1] : "127.0.0.1:8080");
    uvhttp_server_free(server);
    return status != 0;
}
