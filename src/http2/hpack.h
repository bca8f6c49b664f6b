/* Owns: header compression (RFC 7541): the tables of a connection, and reading a header block field by field. Sans-I/O:
 * no clock, and no allocation but for a table that grows. How requests and responses use it: head.h. May include: base.
 */
#ifndef UVHTTP_SRC_HTTP2_HPACK_H
#define UVHTTP_SRC_HTTP2_HPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uvhttp/error.h>
#include <uvhttp/types.h>

/* Bytes as RFC 7541 section 4.1 counts them: the initial size of both tables, and the most that either ever has. */
#define UVHTTP__HPACK_TABLE_SIZE_MAX 4096u
/* What a field counts beyond its name and value, in a table and in a header list (RFC 9113 section 6.5.2). */
#define UVHTTP__HPACK_FIELD_OVERHEAD 32u
/* Bytes that a memory for decoded text has behind its limit, so that copies of a fixed size need no bounds check. */
#define UVHTTP__HPACK_SLACK 64u

/* --- names --- */

/* What a name is: 1 to 61 is the first static table entry with that name, in particular those listed here; names that
 * the static table lacks follow; 0 is any other name. */
typedef enum uvhttp__hpack_name {
    UVHTTP__HPACK_NAME_OTHER = 0,
    UVHTTP__HPACK_AUTHORITY = 1,
    UVHTTP__HPACK_METHOD = 2,
    UVHTTP__HPACK_PATH = 4,
    UVHTTP__HPACK_SCHEME = 6,
    UVHTTP__HPACK_STATUS = 8,
    UVHTTP__HPACK_AGE = 21,
    UVHTTP__HPACK_AUTHORIZATION = 23,
    UVHTTP__HPACK_CONTENT_LENGTH = 28,
    UVHTTP__HPACK_CONTENT_RANGE = 30,
    UVHTTP__HPACK_CONTENT_TYPE = 31,
    UVHTTP__HPACK_COOKIE = 32,
    UVHTTP__HPACK_DATE = 33,
    UVHTTP__HPACK_ETAG = 34,
    UVHTTP__HPACK_EXPECT = 35,
    UVHTTP__HPACK_EXPIRES = 36,
    UVHTTP__HPACK_HOST = 38,
    UVHTTP__HPACK_LAST_MODIFIED = 44,
    UVHTTP__HPACK_LOCATION = 46,
    UVHTTP__HPACK_PROXY_AUTHENTICATE = 48,
    UVHTTP__HPACK_PROXY_AUTHORIZATION = 49,
    UVHTTP__HPACK_SET_COOKIE = 55,
    UVHTTP__HPACK_TRANSFER_ENCODING = 57,
    UVHTTP__HPACK_WWW_AUTHENTICATE = 61,
    UVHTTP__HPACK_STATIC_COUNT = 61,
    UVHTTP__HPACK_PROTOCOL, /* ":protocol", RFC 8441 */
    UVHTTP__HPACK_CONNECTION,
    UVHTTP__HPACK_KEEP_ALIVE,
    UVHTTP__HPACK_PROXY_CONNECTION,
    UVHTTP__HPACK_UPGRADE,
    UVHTTP__HPACK_TE,
    UVHTTP__HPACK_TRAILER,
    UVHTTP__HPACK_PRIORITY, /* RFC 9218 */
    UVHTTP__HPACK_NAME_COUNT,
} uvhttp__hpack_name_t;

/* What a field is found to be when its text comes; a table remembers it with the entry. */
enum {
    UVHTTP__HPACK_BAD_NAME = 1,    /* empty, not a token, or with an upper case letter (RFC 9113 section 8.2.1) */
    UVHTTP__HPACK_BAD_VALUE = 2,   /* a control character but HTAB, or whitespace at either end */
    UVHTTP__HPACK_PLAIN_FIELD = 4, /* neither name nor value mean anything to HTTP/2, and both are good */
    /* Of a pseudo-field and of host: nothing is wrong with the value. :method: a token. :scheme: one of RFC 3986.
     * :authority and host: without userinfo, or empty. :path: as uvhttp__head_t.path_plain, and its query has no '%';
     * another one has to be looked at. */
    UVHTTP__HPACK_GOOD_PSEUDO = 8,
    UVHTTP__HPACK_QUERY = 32,     /* of a good :path: it has a query */
    UVHTTP__HPACK_IN_PIECES = 16, /* of an entry of the table only: its text wraps around the end of the ring */
};

/* --- the dynamic table (RFC 7541 section 2.3.2) --- */

typedef struct uvhttp__hpack_entry {
    uint16_t offset; /* of its text in the ring */
    uint16_t name_size;
    uint16_t value_size;
    uint8_t name;  /* uvhttp__hpack_name_t */
    uint8_t facts; /* UVHTTP__HPACK_* bits */
} uvhttp__hpack_entry_t;

/* A ring of text (name, then value of each entry) and a ring of entries; both grow with what they hold. */
typedef struct uvhttp__hpack_table {
    char *text;
    uvhttp__hpack_entry_t *entries; /* entry_capacity of them, a power of two; entry n is at n % entry_capacity */
    uint32_t inserted;              /* since the start: the number of the next entry. Changes with each insertion */
    uint16_t count;
    uint16_t size;     /* bytes as RFC 7541 counts */
    uint16_t size_max; /* what the last size update said */
    uint16_t text_end; /* where the text of the next entry starts */
    uint16_t text_capacity;
    uint16_t entry_capacity;
} uvhttp__hpack_table_t;

/* --- decoder --- */

typedef struct uvhttp__hpack_decoder {
    uvhttp__hpack_table_t table;
    uint16_t size_limit;  /* SETTINGS_HEADER_TABLE_SIZE that the peer has acknowledged */
    uint16_t size_lowest; /* if the table is larger, the next block must start with an update to at most this: what the
                             limit was at its lowest since the last one */
} uvhttp__hpack_decoder_t;

/* Allocates nothing. */
void uvhttp__hpack_decoder_init(uvhttp__hpack_decoder_t *decoder);
void uvhttp__hpack_decoder_deinit(uvhttp__hpack_decoder_t *decoder);

/* The peer has acknowledged our SETTINGS_HEADER_TABLE_SIZE, size <= UVHTTP__HPACK_TABLE_SIZE_MAX. */
void uvhttp__hpack_decoder_set_limit(uvhttp__hpack_decoder_t *decoder, uint32_t size);

/* Bytes that the tables hold in memory. */
size_t uvhttp__hpack_decoder_memory(const uvhttp__hpack_decoder_t *decoder);

/* A field as it was decoded: text[0..name_size) is the name, and value_size bytes behind it the value. */
typedef struct uvhttp__hpack_field {
    const char *text; /* in the reader's scratch memory */
    uint32_t name_size;
    uint32_t value_size;
    uint8_t name;  /* uvhttp__hpack_name_t */
    uint8_t facts; /* UVHTTP__HPACK_* bits */
    bool never_indexed;
} uvhttp__hpack_field_t;

/* Reading one header block. Text is written to scratch memory, one field right behind the other. */
typedef struct uvhttp__hpack_reader {
    uvhttp__hpack_decoder_t *decoder;
    const uint8_t *at, *end;
    char *out;      /* where the text of the next field goes */
    char *limit;    /* of the memory for text, but for its slack */
    uint32_t left;  /* bytes of the header list that may still come */
    bool too_large; /* the list is larger than its limit: fields are decoded for the table only */
} uvhttp__hpack_reader_t;

/* What `scratch` needs below to hold the text of any header list of list_size_max bytes. */
static inline size_t uvhttp__hpack_scratch_size(uint32_t list_size_max) {
    return (size_t)list_size_max + UVHTTP__HPACK_TABLE_SIZE_MAX + UVHTTP__HPACK_SLACK;
}

/* block[0..size): a complete header block. It, scratch and decoder stay while the reader is in use. Applies the size
 * updates that it starts with. Returns 0, UVHTTP_E_HPACK_INTEGER or UVHTTP_E_HPACK_TABLE_SIZE. */
int uvhttp__hpack_read(uvhttp__hpack_reader_t *reader, uvhttp__hpack_decoder_t *decoder, const void *block, size_t size,
                       char *scratch, uint32_t list_size_max);

/* The next field; its text stays until scratch is used again. Returns 0, UVHTTP_E_EOF after the last, or what makes the
 * connection unusable, because the table is not known any more (COMPRESSION_ERROR of RFC 9113 section 4.3):
 *   UVHTTP_E_HPACK_INDEX       an index of no entry
 *   UVHTTP_E_HPACK_INTEGER     an integer cut short, or above 2^32 - 1
 *   UVHTTP_E_HPACK_STRING      a string that ends behind the block
 *   UVHTTP_E_HPACK_HUFFMAN     padding that is too long or not of ones, or EOS
 *   UVHTTP_E_HPACK_TABLE_SIZE  a size update that is missing, above the limit, behind a field, or the third of a block
 *   UVHTTP_E_NOMEM
 * Of a list above its limit the fields that exceed it are decoded, but not returned: at the end it is
 * UVHTTP_E_HTTP_HEADERS_TOO_LARGE instead of UVHTTP_E_EOF, which concerns one stream only. */
int uvhttp__hpack_read_next(uvhttp__hpack_reader_t *reader, uvhttp__hpack_field_t *field);

/* Decodes what is left for the table's sake, and returns none of it. Returns 0 or as above. */
int uvhttp__hpack_read_rest(uvhttp__hpack_reader_t *reader);

/* --- encoder --- */

#define UVHTTP__HPACK_BLOCKS 4u      /* response heads whose encoding is remembered */
#define UVHTTP__HPACK_FIND_SLOTS 16u /* of four entries each, of the indexes of the table */

typedef struct uvhttp__hpack_block uvhttp__hpack_block_t;

/* Where entries of the table are, found by a hash; a slot that is full forgets the oldest. Allocated when the table has
 * had more entries than can be looked at one by one. */
typedef struct uvhttp__hpack_finder uvhttp__hpack_finder_t;

typedef struct uvhttp__hpack_encoder {
    uvhttp__hpack_table_t table;
    uvhttp__hpack_finder_t *finder;
    uvhttp__hpack_block_t *blocks[UVHTTP__HPACK_BLOCKS];
    uint64_t date_id;     /* of the date that was sent last */
    uint32_t date_entry;  /* its number in the table, if date_indexed */
    uint16_t size_lowest; /* of the table since the last block, and ... */
    uint16_t size_wanted; /* ... from the next one on, if size_update */
    bool size_update;     /* the next block starts with them */
    bool date_indexed;
} uvhttp__hpack_encoder_t;

/* Allocates nothing. */
void uvhttp__hpack_encoder_init(uvhttp__hpack_encoder_t *encoder);
void uvhttp__hpack_encoder_deinit(uvhttp__hpack_encoder_t *encoder);

/* The peer's SETTINGS_HEADER_TABLE_SIZE. Applies from the next block on, which starts with the size updates that are
 * due; UVHTTP__HPACK_TABLE_SIZE_MAX is used if it is larger. */
void uvhttp__hpack_encoder_set_limit(uvhttp__hpack_encoder_t *encoder, uint32_t size);

/* Bytes that the table, the finder and the blocks hold in memory. */
size_t uvhttp__hpack_encoder_memory(const uvhttp__hpack_encoder_t *encoder);

#endif
