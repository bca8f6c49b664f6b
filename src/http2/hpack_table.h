/* Owns: the dynamic table (RFC 7541 section 2.3.2). Private to src/http2. May include: base. */
#ifndef UVHTTP_SRC_HTTP2_HPACK_TABLE_H
#define UVHTTP_SRC_HTTP2_HPACK_TABLE_H

#include <string.h>

#include "base/hot_path.h"
#include "http2/hpack.h"

/* Copies are made in units of this, which may read and write so far behind the end. */
#define UVHTTP__HPACK_COPY 32u

static inline void uvhttp__hpack_copy(char *out, const char *text, size_t size) {
    memcpy(out, text, UVHTTP__HPACK_COPY);
    for (size_t at = UVHTTP__HPACK_COPY; UNLIKELY(at < size); at += UVHTTP__HPACK_COPY)
        memcpy(out + at, text + at, UVHTTP__HPACK_COPY);
}

void uvhttp__hpack_table_init(uvhttp__hpack_table_t *table);
void uvhttp__hpack_table_deinit(uvhttp__hpack_table_t *table);
size_t uvhttp__hpack_table_memory(const uvhttp__hpack_table_t *table);

/* Evicts what is beyond size_max, which is <= UVHTTP__HPACK_TABLE_SIZE_MAX. */
void uvhttp__hpack_table_resize(uvhttp__hpack_table_t *table, uint32_t size_max);

/* Inserts a field whose text (name, then value) is not in the table, and evicts what it displaces. One that is larger
 * than the table empties it (RFC 7541 section 4.4), and its text is not looked at. Returns 0, or UVHTTP_E_NOMEM with
 * the entries evicted. */
int uvhttp__hpack_table_insert(uvhttp__hpack_table_t *table, const char *text, size_t name_size, size_t value_size,
                               uint8_t name, uint8_t facts);

/* Makes memory for a field of that text size, smaller than the table, so that inserting it does not fail. */
bool uvhttp__hpack_table_reserve(uvhttp__hpack_table_t *table, size_t text_size);

/* The entry `age` insertions before the newest; age < count. */
static inline const uvhttp__hpack_entry_t *uvhttp__hpack_table_entry(const uvhttp__hpack_table_t *table, uint32_t age) {
    return &table->entries[(table->inserted - 1 - age) & (table->entry_capacity - 1u)];
}

void uvhttp__hpack_table_copy_wrapped(const uvhttp__hpack_table_t *table, uint32_t offset, size_t size, char *out);

/* Copies text that starts at `offset` of the ring; out has UVHTTP__HPACK_COPY bytes more. */
static ALWAYS_INLINE void uvhttp__hpack_table_copy(const uvhttp__hpack_table_t *table, uint32_t offset, size_t size,
                                                   char *out) {
    if (LIKELY(offset + size <= table->text_capacity))
        uvhttp__hpack_copy(out, table->text + offset, size);
    else
        uvhttp__hpack_table_copy_wrapped(table, offset, size, out);
}

/* Whether the entry has this text (name, then value). */
bool uvhttp__hpack_table_equals(const uvhttp__hpack_table_t *table, const uvhttp__hpack_entry_t *entry,
                                const char *text, size_t name_size, size_t value_size);

#endif
