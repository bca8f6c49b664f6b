/* Owns: writing fields of a header block (RFC 7541 section 6): what is indexed, and how it is found again. May include:
 * base. */
#include "http2/hpack_encode.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "http2/hpack_huffman.h"

/* Insertions of fields with names of one hash, less one for each second. More of them are values that change each time:
 * they would push out what repeats. */
enum { INSERTIONS_MAX = 8, INSERTION_SLOTS = 64 };

/* So many entries of a new table are found without a finder: few connections ever send more fields that repeat. */
enum { SCANNED_MAX = INSERTIONS_MAX };

enum { FIELD_SIZE_MAX = UVHTTP__HPACK_TABLE_SIZE_MAX / 2 }; /* bytes of an entry's text */

/* Numbers of entries whose hash is the same, the newest first. To be compared: they may be gone. */
typedef struct numbers {
    uint32_t newest[4];
} numbers_t;

struct uvhttp__hpack_finder {
    numbers_t fields[UVHTTP__HPACK_FIND_SLOTS]; /* by the hash of their text, */
    numbers_t names[UVHTTP__HPACK_FIND_SLOTS];  /* ... and of their name */
    uint8_t insertions[INSERTION_SLOTS];
};

void uvhttp__hpack_encoder_init(uvhttp__hpack_encoder_t *encoder) {
    uvhttp__hpack_prepare();
    *encoder = (uvhttp__hpack_encoder_t){.size_lowest = UVHTTP__HPACK_TABLE_SIZE_MAX};
    uvhttp__hpack_table_init(&encoder->table);
}

static void forget_blocks(uvhttp__hpack_encoder_t *encoder) {
    for (size_t i = 0; i < UVHTTP__HPACK_BLOCKS; ++i) {
        uvhttp__free(encoder->blocks[i]);
        encoder->blocks[i] = NULL;
    }
}

void uvhttp__hpack_encoder_deinit(uvhttp__hpack_encoder_t *encoder) {
    forget_blocks(encoder);
    uvhttp__free(encoder->finder);
    encoder->finder = NULL;
    uvhttp__hpack_table_deinit(&encoder->table);
}

size_t uvhttp__hpack_encoder_memory(const uvhttp__hpack_encoder_t *encoder) {
    size_t size = uvhttp__hpack_table_memory(&encoder->table) + (encoder->finder ? sizeof *encoder->finder : 0);
    for (size_t i = 0; i < UVHTTP__HPACK_BLOCKS; ++i)
        if (encoder->blocks[i]) size += sizeof *encoder->blocks[i] + encoder->blocks[i]->capacity;
    return size;
}

/* --- size updates --- */

void uvhttp__hpack_encoder_set_limit(uvhttp__hpack_encoder_t *encoder, uint32_t size) {
    if (size > UVHTTP__HPACK_TABLE_SIZE_MAX) size = UVHTTP__HPACK_TABLE_SIZE_MAX;
    if (!encoder->size_update && size == encoder->table.size_max) return;
    if (!encoder->size_update || size < encoder->size_lowest) encoder->size_lowest = (uint16_t)size;
    encoder->size_wanted = (uint16_t)size;
    encoder->size_update = true;
}

char *uvhttp__hpack_put_updates(uvhttp__hpack_encoder_t *encoder, char *out) {
    if (encoder->size_lowest < encoder->size_wanted)
        out = uvhttp__hpack_put_integer(out, UVHTTP__HPACK_RESIZED, 0x1f, encoder->size_lowest);
    out = uvhttp__hpack_put_integer(out, UVHTTP__HPACK_RESIZED, 0x1f, encoder->size_wanted);
    uvhttp__hpack_table_resize(&encoder->table, encoder->size_lowest);
    uvhttp__hpack_table_resize(&encoder->table, encoder->size_wanted);
    encoder->size_update = false;
    forget_blocks(encoder);
    return out;
}

/* --- fields --- */

typedef enum policy {
    POLICY_INDEX,
    POLICY_PLAIN, /* its value is seldom the same twice */
    POLICY_NEVER, /* a secret: no intermediary may index it (RFC 7541 section 7.1.3) */
    POLICY_OMIT,
} policy_t;

static policy_t policy_of(uvhttp__hpack_name_t name) {
    switch ((unsigned)name) {
        case UVHTTP__HPACK_SET_COOKIE:
        case UVHTTP__HPACK_AUTHORIZATION:
        case UVHTTP__HPACK_COOKIE:
        case UVHTTP__HPACK_PROXY_AUTHENTICATE:
        case UVHTTP__HPACK_PROXY_AUTHORIZATION:
        case UVHTTP__HPACK_WWW_AUTHENTICATE: return POLICY_NEVER;
        case UVHTTP__HPACK_AGE:
        case UVHTTP__HPACK_CONTENT_LENGTH:
        case UVHTTP__HPACK_CONTENT_RANGE:
        case UVHTTP__HPACK_ETAG:
        case UVHTTP__HPACK_EXPIRES:
        case UVHTTP__HPACK_LAST_MODIFIED:
        case UVHTTP__HPACK_LOCATION: return POLICY_PLAIN;
        case UVHTTP__HPACK_TRANSFER_ENCODING:
        case UVHTTP__HPACK_CONNECTION:
        case UVHTTP__HPACK_KEEP_ALIVE:
        case UVHTTP__HPACK_PROXY_CONNECTION:
        case UVHTTP__HPACK_UPGRADE: return POLICY_OMIT;
        default: return POLICY_INDEX;
    }
}

static inline size_t slot_of(const char *text, size_t size) {
    return uvhttp__hash(text, size) % UVHTTP__HPACK_FIND_SLOTS;
}

static bool matches(const uvhttp__hpack_table_t *table, uint32_t age, const char *text, size_t name_size,
                    size_t value_size, bool any_value) {
    uvhttp__hpack_entry_t entry = *uvhttp__hpack_table_entry(table, age);
    if (any_value) entry.value_size = 0;
    return uvhttp__hpack_table_equals(table, &entry, text, name_size, value_size);
}

/* The index of the entry among `numbers` with this name, and with this value behind it unless it is any; 0: none. */
static uint32_t find(const uvhttp__hpack_table_t *table, const numbers_t *numbers, const char *text, size_t name_size,
                     size_t value_size, bool any_value) {
    for (size_t i = 0; i < sizeof numbers->newest / sizeof *numbers->newest; ++i) {
        uint32_t age = table->inserted - 1 - numbers->newest[i];
        if (age < table->count && matches(table, age, text, name_size, value_size, any_value))
            return UVHTTP__HPACK_STATIC_COUNT + 1 + age;
    }
    return 0;
}

/* The same among all entries, which are few as long as there is no finder. */
static uint32_t scan(const uvhttp__hpack_table_t *table, const char *text, size_t name_size, size_t value_size,
                     bool any_value) {
    for (uint32_t age = 0; age < table->count; ++age)
        if (matches(table, age, text, name_size, value_size, any_value)) return UVHTTP__HPACK_STATIC_COUNT + 1 + age;
    return 0;
}

static uint32_t find_field(const uvhttp__hpack_encoder_t *encoder, const char *text, size_t name_size,
                           size_t value_size) {
    if (!encoder->finder) return scan(&encoder->table, text, name_size, value_size, false);
    const numbers_t *numbers = &encoder->finder->fields[slot_of(text, name_size + value_size)];
    return find(&encoder->table, numbers, text, name_size, value_size, false);
}

static uint32_t find_name(const uvhttp__hpack_encoder_t *encoder, const char *text, size_t name_size,
                          uvhttp__hpack_name_t name) {
    if (name != UVHTTP__HPACK_NAME_OTHER && name <= UVHTTP__HPACK_STATIC_COUNT) return name;
    if (!encoder->finder) return scan(&encoder->table, text, name_size, 0, true);
    return find(&encoder->table, &encoder->finder->names[slot_of(text, name_size)], text, name_size, 0, true);
}

static void add_number(numbers_t *numbers, uint32_t number) {
    memmove(numbers->newest + 1, numbers->newest, sizeof numbers->newest - sizeof *numbers->newest);
    numbers->newest[0] = number;
}

static uint8_t *insertions_of(uvhttp__hpack_finder_t *finder, const char *name, size_t name_size) {
    return &finder->insertions[uvhttp__hash(name, name_size) % INSERTION_SLOTS];
}

static void add_entry(uvhttp__hpack_finder_t *finder, const char *text, size_t name_size, size_t value_size,
                      uint32_t number) {
    add_number(&finder->fields[slot_of(text, name_size + value_size)], number);
    add_number(&finder->names[slot_of(text, name_size)], number);
}

/* A finder of the entries that there are. Returns false without memory. */
static NOINLINE bool make_finder(uvhttp__hpack_encoder_t *encoder) {
    const uvhttp__hpack_table_t *table = &encoder->table;
    char text[FIELD_SIZE_MAX + UVHTTP__HPACK_COPY];
    encoder->finder = uvhttp__calloc(1, sizeof *encoder->finder);
    if (!encoder->finder) return false;
    for (uint32_t age = table->count; age-- > 0;) {
        const uvhttp__hpack_entry_t *entry = uvhttp__hpack_table_entry(table, age);
        uvhttp__hpack_table_copy(table, entry->offset, (size_t)entry->name_size + entry->value_size, text);
        add_entry(encoder->finder, text, entry->name_size, entry->value_size, table->inserted - 1 - age);
        ++*insertions_of(encoder->finder, text, entry->name_size);
    }
    return true;
}

/* For what is inserted: it is sent once, and refers to many times. */
static char *put_shortest(char *out, const char *text, size_t size) {
    size_t coded = uvhttp__huffman_size(text, size);
    if (coded >= size) return uvhttp__hpack_put_string(out, text, size);
    out = uvhttp__hpack_put_integer(out, 0x80, 0x7f, coded);
    return (char *)uvhttp__huffman_encode(text, size, (uint8_t *)out);
}

static char *put_literal(char *out, unsigned first, uint32_t name_index, const char *text, size_t name_size,
                         size_t value_size) {
    bool inserted = first == UVHTTP__HPACK_INSERTED;
    out = uvhttp__hpack_put_integer(out, first, inserted ? 0x3f : 0x0f, name_index);
    if (name_index == 0) out = put_shortest(out, text, name_size);
    return inserted ? put_shortest(out, text + name_size, value_size)
                    : uvhttp__hpack_put_string(out, text + name_size, value_size);
}

bool uvhttp__hpack_put_inserted(uvhttp__hpack_encoder_t *encoder, char **out, const char *text, size_t name_size,
                                size_t value_size, uvhttp__hpack_name_t name) {
    uvhttp__hpack_table_t *table = &encoder->table;
    /* One field must not push out most of the others. */
    if (name_size + value_size + UVHTTP__HPACK_FIELD_OVERHEAD > table->size_max / 2u) return false;
    if (UNLIKELY(!encoder->finder && table->inserted >= SCANNED_MAX) && !make_finder(encoder)) return false;
    if (!uvhttp__hpack_table_reserve(table, name_size + value_size)) return false;
    uint32_t name_index = find_name(encoder, text, name_size, name);
    *out = put_literal(*out, UVHTTP__HPACK_INSERTED, name_index, text, name_size, value_size);
    int status = uvhttp__hpack_table_insert(table, text, name_size, value_size, (uint8_t)name, 0);
    (void)status; /* it fits */
    if (encoder->finder) add_entry(encoder->finder, text, name_size, value_size, table->inserted - 1);
    return true;
}

/* Whether the field is worth a place in the table. */
static bool may_insert(uvhttp__hpack_encoder_t *encoder, const char *text, size_t name_size) {
    if (!encoder->finder) return true;
    uint8_t *insertions = insertions_of(encoder->finder, text, name_size);
    if (*insertions == INSERTIONS_MAX) return false;
    ++*insertions;
    return true;
}

char *uvhttp__hpack_put_field(uvhttp__hpack_encoder_t *encoder, char *out, const char *text, size_t name_size,
                              size_t value_size) {
    uvhttp__hpack_name_t name = uvhttp__hpack_find_name(text, name_size);
    policy_t policy = policy_of(name);
    if (policy == POLICY_OMIT) return out;
    if (policy == POLICY_INDEX) {
        uint32_t index = find_field(encoder, text, name_size, value_size);
        if (LIKELY(index != 0)) return uvhttp__hpack_put_integer(out, UVHTTP__HPACK_INDEXED, 0x7f, index);
        if (may_insert(encoder, text, name_size) &&
            uvhttp__hpack_put_inserted(encoder, &out, text, name_size, value_size, name))
            return out;
    }
    unsigned first = policy == POLICY_NEVER ? UVHTTP__HPACK_NEVER : UVHTTP__HPACK_UNINDEXED;
    return put_literal(out, first, find_name(encoder, text, name_size, name), text, name_size, value_size);
}

void uvhttp__hpack_encoder_calm(uvhttp__hpack_encoder_t *encoder) {
    if (!encoder->finder) return;
    for (size_t i = 0; i < INSERTION_SLOTS; ++i)
        if (encoder->finder->insertions[i] > 0) encoder->finder->insertions[i]--;
}
