/* Owns: the names of a directory, filtered and sorted, for its page. Runs on helper threads. May include: base. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"
#include "handler/static.h"
#include "handler/static_list.h"

#define SCANNED_MAX 200000 /* names that one page looks at, whether the filter lets them through or not */

typedef uvhttp__static_item_t item_t;
typedef uvhttp__static_items_t items_t;

/* --- order --- */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Moves both past their number; returns which is larger. */
static int compare_numbers(const char **a, const char **b) {
    while (**a == '0') ++*a;
    while (**b == '0') ++*b;
    size_t a_size = 0, b_size = 0;
    while (is_digit((*a)[a_size])) a_size++;
    while (is_digit((*b)[b_size])) b_size++;
    int difference = a_size != b_size ? (a_size < b_size ? -1 : 1) : memcmp(*a, *b, a_size);
    *a += a_size;
    *b += b_size;
    return difference;
}

/* Numbers in names go by their value: "file2" before "file10". Case only decides between names that are else equal. */
static int compare_names(const char *a, const char *b) {
    const char *x = a, *y = b;
    while (*x && *y) {
        int difference;
        if (is_digit(*x) && is_digit(*y)) {
            difference = compare_numbers(&x, &y);
        } else {
            difference = (unsigned char)uvhttp__char_lower(*x) - (unsigned char)uvhttp__char_lower(*y);
            x++;
            y++;
        }
        if (difference != 0) return difference;
    }
    if (*x || *y) return *x ? 1 : -1;
    return strcmp(a, b);
}

static int by_size(const item_t *x, const item_t *y) {
    return x->size != y->size ? (x->size < y->size ? -1 : 1) : 0;
}

static int by_time(const item_t *x, const item_t *y) {
    return x->modified != y->modified ? (x->modified < y->modified ? -1 : 1) : 0;
}

/* Directories come first; equals are sorted by name. */
static int compare(const void *a, const void *b, void *arg) {
    const item_t *x = a, *y = b;
    const uvhttp__static_order_t *order = arg;
    if (x->directory != y->directory) return x->directory ? -1 : 1;
    int difference = order->key == 's' ? by_size(x, y) : order->key == 'm' ? by_time(x, y) : 0;
    if (order->key != 'n' && difference == 0) return compare_names(x->name, y->name);
    if (order->key == 'n') difference = compare_names(x->name, y->name);
    return order->descending ? -difference : difference;
}

/* --- names --- */

static void items_free(items_t *items) {
    for (uint32_t i = 0; i < items->count; i++) uvhttp__free(items->data[i].name);
    uvhttp__free(items->data);
}

/* The case of ASCII letters is ignored. */
static bool contains(const char *name, const char *filter) {
    size_t size = strlen(name), wanted = strlen(filter);
    for (size_t i = 0; i + wanted <= size; i++)
        if (uvhttp__bytes_equal_nocase(name + i, filter, wanted)) return true;
    return false;
}

/* Whether a link is what it looks like is not asked: it would be a way to look outside. */
static bool take(const uvhttp_static_options_t *options, int fd, const char *name, item_t *item) {
    struct stat info;
    if (name[0] == '.' && (!options->dot_files || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)) return false;
    if (!uvhttp__static_path_valid((uvhttp_str_t){name, strlen(name)}, options->dot_files)) return false;
    if (fstatat(fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return false;
    if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode) && (options->no_symlinks || !S_ISLNK(info.st_mode)))
        return false;
    *item = (item_t){.directory = S_ISDIR(info.st_mode),
                     .link = S_ISLNK(info.st_mode),
                     .size = S_ISREG(info.st_mode) ? (uint64_t)info.st_size : 0,
                     .modified = info.st_mtim.tv_sec};
    return true;
}

/* Returns 0 or a status. */
static int read_items(const uvhttp_static_options_t *options, const char *filter, DIR *stream, items_t *items) {
    items->data = uvhttp__calloc(options->list_entries_max, sizeof *items->data);
    if (!items->data) return 503;
    for (uint32_t scanned = 0;; scanned++) {
        errno = 0;
        const struct dirent *found = readdir(stream);
        if (!found) return errno ? 500 : 0;
        item_t item;
        items->cut = scanned >= SCANNED_MAX;
        if (items->cut) return 0;
        if (!contains(found->d_name, filter) || !take(options, dirfd(stream), found->d_name, &item)) continue;
        items->cut = items->count == options->list_entries_max;
        if (items->cut) return 0;
        size_t size = strlen(found->d_name) + 1;
        item.name = uvhttp__malloc(size);
        if (!item.name) return 503;
        memcpy(item.name, found->d_name, size);
        items->data[items->count++] = item;
    }
}

/* The page is as new as what it shows. */
static struct stat date_of(const struct stat *info, const items_t *items) {
    struct stat dated = *info;
    for (uint32_t i = 0; i < items->count; i++)
        if (items->data[i].modified > dated.st_mtim.tv_sec)
            dated.st_mtim = (struct timespec){.tv_sec = items->data[i].modified};
    return dated;
}

int uvhttp__static_list(const uvhttp_static_options_t *options, int fd, const char *path, const char *view,
                        struct stat *info, char **page, size_t *size) {
    DIR *stream = fdopendir(fd);
    if (!stream) {
        close(fd);
        return 503;
    }
    items_t items = {.count = 0};
    uvhttp__static_order_t order = uvhttp__static_order(view);
    int status = read_items(options, order.filter, stream, &items);
    closedir(stream);
    if (status == 0) {
        qsort_r(items.data, items.count, sizeof *items.data, compare, &order);
        *page = uvhttp__static_page(path, &order, &items, size);
        status = *page ? 200 : 503;
    }
    *info = date_of(info, &items);
    items_free(&items);
    return status;
}
