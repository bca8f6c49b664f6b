/* Owns: how the page of a directory is to be shown, as the query says it and as the cache keeps it: the path, a NUL,
 * a letter for the column, 'a' or 'd' for the direction, and what names must contain. May include: message base. */
#include <string.h>

#include "base/str.h"
#include "handler/static.h"
#include "handler/static_list.h"

#define FILTER_MAX (UVHTTP__STATIC_NAME_MAX + 1) /* one more than any name has: cut, it fits no name either */

static const struct {
    const char *name;
    char key, direction;
} orders[] = {{"name", 'n', 'a'},  {"-name", 'n', 'd'},    {"size", 's', 'a'},
              {"-size", 's', 'd'}, {"modified", 'm', 'a'}, {"-modified", 'm', 'd'}};

const char *uvhttp__static_order_name(const uvhttp__static_order_t *order) {
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        if (orders[i].key == order->key && orders[i].direction == (order->descending ? 'd' : 'a'))
            return orders[i].name;
    return "";
}

uvhttp__static_order_t uvhttp__static_order(const char *view) {
    if (!*view) return (uvhttp__static_order_t){.key = 'n', .filter = ""};
    return (uvhttp__static_order_t){.key = view[0], .descending = view[1] == 'd', .filter = view + 2};
}

bool uvhttp__static_view_kept(const char *view) {
    return !*view || !view[2];
}

uvhttp_str_t uvhttp__static_view_key(uvhttp_request_t *req, uvhttp_str_t path) {
    uvhttp_str_t sort = {0}, filter = {0}, none = {0};
    size_t order = 0;
    if (uvhttp_request_query_param(req, "sort", &sort))
        for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
            if (uvhttp__str_equal(sort, uvhttp__str_from(orders[i].name))) order = i;
    (void)uvhttp_request_query_param(req, "filter", &filter);
    if (filter.size > FILTER_MAX) filter.size = FILTER_MAX;
    if (memchr(filter.data ? filter.data : "", '\0', filter.size)) filter.size = 0; /* no name has one */
    if (order == 0 && filter.size == 0) return none;
    char *key = uvhttp_request_alloc(req, path.size + filter.size + 3);
    if (!key) return none;
    if (path.size > 0) memcpy(key, path.data, path.size);
    key[path.size] = '\0';
    key[path.size + 1] = orders[order].key;
    key[path.size + 2] = orders[order].direction;
    if (filter.size > 0) memcpy(key + path.size + 3, filter.data, filter.size);
    return (uvhttp_str_t){key, path.size + filter.size + 3};
}
