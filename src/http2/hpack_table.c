/* Owns: the dynamic table (RFC 7541 section 2.3.2): a ring of entries, and a ring of their text. May include: base. */
#include "http2/hpack_table.h"

#include <assert.h>

#include "base/alloc.h"

enum { TEXT_FIRST = 64, TEXT_MAX = UVHTTP__HPACK_TABLE_SIZE_MAX, ENTRIES_FIRST = 4 };

static_assert(UVHTTP__HPACK_TABLE_SIZE_MAX <= UINT16_MAX, "sizes and offsets are 16 bits");

void uvhttp__hpack_table_init(uvhttp__hpack_table_t *table) {
    *table = (uvhttp__hpack_table_t){.size_max = UVHTTP__HPACK_TABLE_SIZE_MAX};
}

void uvhttp__hpack_table_deinit(uvhttp__hpack_table_t *table) {
    uvhttp__free(table->entries);
    *table = (uvhttp__hpack_table_t){.size_max = table->size_max};
}

static size_t memory_size(size_t entry_capacity, size_t text_capacity) {
    return entry_capacity * sizeof(uvhttp__hpack_entry_t) + text_capacity + UVHTTP__HPACK_COPY;
}

size_t uvhttp__hpack_table_memory(const uvhttp__hpack_table_t *table) {
    return table->entries ? memory_size(table->entry_capacity, table->text_capacity) : 0;
}

static size_t text_size(const uvhttp__hpack_table_t *table) {
    return (size_t)table->size - UVHTTP__HPACK_FIELD_OVERHEAD * (size_t)table->count;
}

static size_t entry_size(const uvhttp__hpack_entry_t *entry) {
    return UVHTTP__HPACK_FIELD_OVERHEAD + (size_t)entry->name_size + entry->value_size;
}

static void evict_to(uvhttp__hpack_table_t *table, size_t size) {
    while (table->size > size) {
        assert(table->count > 0);
        const uvhttp__hpack_entry_t *oldest = uvhttp__hpack_table_entry(table, table->count - 1u);
        table->size = (uint16_t)(table->size - entry_size(oldest));
        table->count--;
    }
}

void uvhttp__hpack_table_resize(uvhttp__hpack_table_t *table, uint32_t size_max) {
    assert(size_max <= UVHTTP__HPACK_TABLE_SIZE_MAX);
    table->size_max = (uint16_t)size_max;
    evict_to(table, size_max);
}

void uvhttp__hpack_table_copy_wrapped(const uvhttp__hpack_table_t *table, uint32_t offset, size_t size, char *out) {
    size_t first = table->text_capacity - offset;
    memcpy(out, table->text + offset, first);
    memcpy(out + first, table->text, size - first);
}

/* Moves all entries into memory of these capacities, the oldest to the front of the text. */
static int grow(uvhttp__hpack_table_t *table, size_t entry_capacity, size_t text_capacity) {
    uvhttp__hpack_entry_t *entries = uvhttp__malloc(memory_size(entry_capacity, text_capacity));
    if (!entries) return UVHTTP_E_NOMEM;
    char *text = (char *)(entries + entry_capacity);
    size_t end = 0;
    for (uint32_t age = table->count; age-- > 0;) {
        uvhttp__hpack_entry_t entry = *uvhttp__hpack_table_entry(table, age);
        size_t size = (size_t)entry.name_size + entry.value_size;
        uvhttp__hpack_table_copy(table, entry.offset, size, text + end);
        entry.offset = (uint16_t)end;
        entry.facts &= (uint8_t)~UVHTTP__HPACK_IN_PIECES;
        end += size;
        entries[(table->inserted - 1 - age) & (entry_capacity - 1)] = entry;
    }
    uvhttp__free(table->entries);
    table->entries = entries;
    table->text = text;
    table->entry_capacity = (uint16_t)entry_capacity;
    table->text_capacity = (uint16_t)text_capacity;
    table->text_end = (uint16_t)(end % text_capacity);
    return UVHTTP_OK;
}

static NOINLINE int make_place(uvhttp__hpack_table_t *table, size_t needed) {
    size_t entry_capacity = table->entry_capacity ? table->entry_capacity : ENTRIES_FIRST;
    size_t text_capacity = table->text_capacity ? table->text_capacity : TEXT_FIRST;
    if (table->count == entry_capacity) entry_capacity *= 2;
    while (text_capacity < needed) text_capacity *= 2;
    assert(text_capacity <= TEXT_MAX);
    return grow(table, entry_capacity, text_capacity);
}

/* Copies exactly `size` bytes: behind them is the text of the oldest entries. */
static ALWAYS_INLINE void copy_exactly(char *out, const char *text, size_t size) {
    enum { STEP = 16 };
    if (UNLIKELY(size < STEP)) {
        memcpy(out, text, size);
        return;
    }
    for (size_t at = 0; at < size - STEP; at += STEP) memcpy(out + at, text + at, STEP);
    memcpy(out + size - STEP, text + size - STEP, STEP);
}

/* Returns whether the text is in one piece. */
static ALWAYS_INLINE bool put_text(uvhttp__hpack_table_t *table, const char *text, size_t size) {
    size_t first = (size_t)table->text_capacity - table->text_end, end = table->text_end + size;
    char *out = table->text + table->text_end;
    if (LIKELY(size < first)) {
        copy_exactly(out, text, size);
        table->text_end = (uint16_t)end;
        return true;
    }
    memcpy(out, text, first);
    memcpy(table->text, text + first, size - first);
    table->text_end = (uint16_t)(end - table->text_capacity);
    return first == size;
}

bool uvhttp__hpack_table_reserve(uvhttp__hpack_table_t *table, size_t size) {
    assert(size + UVHTTP__HPACK_FIELD_OVERHEAD <= table->size_max);
    evict_to(table, table->size_max - size - UVHTTP__HPACK_FIELD_OVERHEAD);
    size_t needed = text_size(table) + size;
    if (LIKELY(table->count < table->entry_capacity && needed <= table->text_capacity)) return true;
    return make_place(table, needed) == UVHTTP_OK;
}

int uvhttp__hpack_table_insert(uvhttp__hpack_table_t *table, const char *text, size_t name_size, size_t value_size,
                               uint8_t name, uint8_t facts) {
    size_t size = name_size + value_size;
    if (size + UVHTTP__HPACK_FIELD_OVERHEAD > table->size_max) {
        evict_to(table, 0);
        return UVHTTP_OK;
    }
    if (!uvhttp__hpack_table_reserve(table, size)) return UVHTTP_E_NOMEM;
    uvhttp__hpack_entry_t *entry = &table->entries[table->inserted & (table->entry_capacity - 1u)];
    *entry = (uvhttp__hpack_entry_t){.offset = table->text_end,
                                     .name_size = (uint16_t)name_size,
                                     .value_size = (uint16_t)value_size,
                                     .name = name,
                                     .facts = facts};
    if (UNLIKELY(!put_text(table, text, size))) entry->facts |= UVHTTP__HPACK_IN_PIECES;
    table->inserted++;
    table->count++;
    table->size = (uint16_t)(table->size + size + UVHTTP__HPACK_FIELD_OVERHEAD);
    return UVHTTP_OK;
}

bool uvhttp__hpack_table_equals(const uvhttp__hpack_table_t *table, const uvhttp__hpack_entry_t *entry,
                                const char *text, size_t name_size, size_t value_size) {
    if (entry->name_size != name_size || entry->value_size != value_size) return false;
    size_t size = name_size + value_size, first = (size_t)table->text_capacity - entry->offset;
    if (first > size) first = size;
    return memcmp(table->text + entry->offset, text, first) == 0 &&
           memcmp(table->text, text + first, size - first) == 0;
}
