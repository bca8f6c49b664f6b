/* Owns: what reading a directory and writing its page share. May include: base. */
#ifndef UVHTTP_SRC_HANDLER_STATIC_LIST_H
#define UVHTTP_SRC_HANDLER_STATIC_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a page is shown: 'n' name, 's' size or 'm' modified, and the bytes that a name must contain. */
typedef struct uvhttp__static_order {
    char key;
    bool descending;
    const char *filter; /* "": every name */
} uvhttp__static_order_t;

typedef struct uvhttp__static_item {
    char *name;
    bool directory, link;
    uint64_t size;
    int64_t modified; /* Unix seconds */
} uvhttp__static_item_t;

typedef struct uvhttp__static_items {
    uvhttp__static_item_t *data;
    uint32_t count;
    bool cut; /* there are more */
} uvhttp__static_items_t;

/* Of a view (static.h; static_view.c); the filter is that in the view. */
uvhttp__static_order_t uvhttp__static_order(const char *view);
/* As the parameter `sort` says it: "-size". */
const char *uvhttp__static_order_name(const uvhttp__static_order_t *order);

/* The page in HTML (static_page.c), `*size` bytes from uvhttp__malloc. path: below the root, "" or with its '/' at the
 * end. NULL: out of memory. */
char *uvhttp__static_page(const char *path, const uvhttp__static_order_t *order, const uvhttp__static_items_t *items,
                          size_t *size);

#endif
