/* Owns: see names.h. May include: base. */
#include "tls/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

#define NAME_SIZE_MAX 255

void uvhttp__tls_names_deinit(uvhttp__tls_names_t *names) {
    for (size_t i = 0; i < names->count; i++) uvhttp__free(names->names[i].text);
    for (size_t i = 0; i < names->site_count; i++) uvhttp__free(names->sites[i].certificates);
    uvhttp__free(names->names);
    uvhttp__free(names->sites);
    *names = (uvhttp__tls_names_t){.names = NULL};
}

static bool is_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* Labels of 1 to 63 characters, dots between them. */
static bool is_host_name(uvhttp_str_t name) {
    size_t label = 0;
    for (size_t i = 0; i < name.size; i++) {
        if (name.data[i] == '.' && label > 0)
            label = 0;
        else if (!is_name_char(name.data[i]) || ++label > 63)
            return false;
    }
    return label > 0 && name.size <= NAME_SIZE_MAX;
}

int uvhttp__tls_names_add(uvhttp__tls_names_t *names, uvhttp_str_t name, uint32_t certificate) {
    uvhttp_str_t rest = name;
    if (name.size > 2 && memcmp(name.data, "*.", 2) == 0) rest = (uvhttp_str_t){name.data + 2, name.size - 2};
    if (!is_host_name(rest)) return UVHTTP_E_INVALID;
    if (names->count == names->capacity) {
        size_t capacity = names->capacity ? names->capacity * 2 : 16;
        uvhttp__tls_name_t *grown = uvhttp__realloc(names->names, capacity * sizeof *grown);
        if (!grown) return UVHTTP_E_NOMEM;
        names->names = grown;
        names->capacity = capacity;
    }
    char *text = uvhttp__malloc(name.size);
    if (!text) return UVHTTP_E_NOMEM;
    for (size_t i = 0; i < name.size; i++) text[i] = uvhttp__char_lower(name.data[i]);
    names->names[names->count++] =
        (uvhttp__tls_name_t){.text = text, .size = (uint32_t)name.size, .certificate = certificate};
    return UVHTTP_OK;
}

static int compare_text(const char *a, size_t a_size, const char *b, size_t b_size) {
    int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
    if (order != 0) return order;
    return (a_size > b_size) - (a_size < b_size);
}

static int compare(const void *left, const void *right) {
    const uvhttp__tls_name_t *a = left, *b = right;
    int order = compare_text(a->text, a->size, b->text, b->size);
    return order != 0 ? order : (a->certificate > b->certificate) - (a->certificate < b->certificate);
}

static bool same_name(const uvhttp__tls_name_t *a, const uvhttp__tls_name_t *b) {
    return a->size == b->size && memcmp(a->text, b->text, a->size) == 0;
}

/* The site with the certificates of these entries, which are of one name; made if there is none yet. */
static int find_site(uvhttp__tls_names_t *names, const uvhttp__tls_name_t *entries, uint32_t count, uint32_t *site) {
    for (uint32_t i = 0; i < names->site_count; i++) {
        const uvhttp__tls_site_t *one = &names->sites[i];
        uint32_t same = 0;
        while (one->count == count && same < count && one->certificates[same] == entries[same].certificate) same++;
        if (same < count) continue;
        *site = i;
        return UVHTTP_OK;
    }
    uvhttp__tls_site_t *grown = uvhttp__realloc(names->sites, (names->site_count + 1) * sizeof *grown);
    if (!grown) return UVHTTP_E_NOMEM;
    names->sites = grown;
    uint32_t *certificates = uvhttp__malloc(count * sizeof *certificates);
    if (!certificates) return UVHTTP_E_NOMEM;
    for (uint32_t i = 0; i < count; i++) certificates[i] = entries[i].certificate;
    *site = (uint32_t)names->site_count;
    names->sites[names->site_count++] = (uvhttp__tls_site_t){.certificates = certificates, .count = count};
    return UVHTTP_OK;
}

/* A certificate twice for a name is once. */
static void drop_repeated(uvhttp__tls_names_t *names) {
    size_t kept = 0;
    for (size_t i = 0; i < names->count; i++) {
        uvhttp__tls_name_t *one = &names->names[i];
        if (kept > 0 && compare(one, &names->names[kept - 1]) == 0)
            uvhttp__free(one->text);
        else
            names->names[kept++] = *one;
    }
    names->count = kept;
}

static size_t same_names(const uvhttp__tls_names_t *names, size_t first) {
    size_t end = first + 1;
    while (end < names->count && same_name(&names->names[first], &names->names[end])) end++;
    return end - first;
}

/* The first certificate's site comes first: find_site numbers in the order that it is asked. */
static int make_first_site(uvhttp__tls_names_t *names, const char *first_name) {
    uint32_t site;
    for (size_t i = 0; first_name && i < names->count; i += same_names(names, i))
        if (names->names[i].text == first_name || names->names[i].certificate == 0) {
            for (size_t k = i; k < i + same_names(names, i); k++)
                if (names->names[k].text == first_name)
                    return find_site(names, &names->names[i], (uint32_t)same_names(names, i), &site);
        }
    uvhttp__tls_name_t alone = {.certificate = 0};
    return find_site(names, &alone, 1, &site);
}

int uvhttp__tls_names_build(uvhttp__tls_names_t *names) {
    const char *first_name = names->count > 0 && names->names[0].certificate == 0 ? names->names[0].text : NULL;
    if (names->count > 0) qsort(names->names, names->count, sizeof *names->names, compare);
    drop_repeated(names);
    int status = make_first_site(names, first_name);
    for (size_t i = 0, count; i < names->count && status == UVHTTP_OK; i += count) {
        uint32_t site = 0;
        count = same_names(names, i);
        status = find_site(names, &names->names[i], (uint32_t)count, &site);
        for (size_t k = i; k < i + count; k++) names->names[k].site = site;
    }
    return status;
}

static const uvhttp__tls_name_t *find(const uvhttp__tls_names_t *names, const char *text, size_t size) {
    size_t low = 0, high = names->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const uvhttp__tls_name_t *name = &names->names[middle];
        int order = compare_text(text, size, name->text, name->size);
        if (order == 0) return name;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const uvhttp__tls_name_t *uvhttp__tls_names_find(const uvhttp__tls_names_t *names, uvhttp_str_t host) {
    char text[1 + NAME_SIZE_MAX] = "*"; /* one byte in front for the '*' of a name that begins with its dot */
    if (host.size > 0 && host.data[host.size - 1] == '.') host.size--;
    if (!is_host_name(host)) return NULL;
    for (size_t i = 0; i < host.size; i++) text[1 + i] = uvhttp__char_lower(host.data[i]);
    const uvhttp__tls_name_t *name = find(names, text + 1, host.size);
    const char *dot = memchr(text + 1, '.', host.size);
    if (name || !dot) return name;
    size_t at = (size_t)(dot - text) - 1;
    text[at] = '*';
    return find(names, text + at, host.size + 1 - at);
}
