/* Owns: what the files of the HTTP/2 client share: h2_send.c, h2_head.c, and h2.c above them. May include: base, io,
 * obs, http1, http2. */
#ifndef UVHTTP_TOOLS_LOAD_H2_INTERNAL_H
#define UVHTTP_TOOLS_LOAD_H2_INTERNAL_H

#include "http2/hpack.h"
#include "http2/http2_internal.h"
#include "load/conn.h"

/* The windows of what the server sends: as wide as h2load's, so that the generator never holds a server up. */
#define LOAD_H2_WINDOW ((UINT32_C(1) << 30) - 1)

enum { LOAD_H2_MEMO_MAX = 128 };

typedef struct load_h2_head {
    uint16_t status;
    bool has_length;
    uint64_t length;
} load_h2_head_t;

/* Bytes that wait for more of their kind. */
typedef struct load_h2_bytes {
    char *data;
    uint32_t size, capacity;
} load_h2_bytes_t;

struct load_h2 {
    uvhttp__hpack_decoder_t decoder;
    uvhttp__list_t uploads; /* streams whose body waits, for a window or for its share */
    int64_t window;         /* bytes of bodies that the server takes on the connection */
    uint32_t stream_window; /* the server's SETTINGS_INITIAL_WINDOW_SIZE */
    uint32_t streams_max;   /* its SETTINGS_MAX_CONCURRENT_STREAMS */
    uint64_t unreturned;    /* as a stream's */
    load_h2_table_t table;
    bool introduced; /* the server's table has the fields of our requests */
    bool leaving;    /* GOAWAY has come: no more requests */
    bool cancelled;  /* we have reset a stream: frames may come for it */

    load_h2_bytes_t held;   /* a frame of which not all has come */
    uint32_t data_id;       /* DATA whose payload is coming, ... */
    uint32_t data_left;     /* ... bytes of it that are missing; 0: none */
    bool data_end;          /* it ends its stream */
    load_h2_bytes_t block;  /* a header block of several frames */
    uint32_t block_id;      /* 0: none is coming */
    bool block_ends_stream; /* it is the end of its stream, too */

    /* The last header block that changed no table, and what it says: a server repeats itself. */
    char memo[LOAD_H2_MEMO_MAX];
    uint32_t memo_size; /* 0: none */
    uint32_t memo_inserted;
    load_h2_head_t memo_head;
};

/* The connection's share of worker->h2_scratch is all of it: nothing stays there. */
#define LOAD_H2_SCRATCH_SIZE uvhttp__hpack_scratch_size(LOAD_HEAD_SIZE_MAX)

/* --- h2_head.c --- */

/* Reads the header block of a response. Returns NULL, or what is wrong with it, a constant: *fatal if that ends the
 * connection. is_trailer: it follows the body. */
const char *load_h2_read_head(load_conn_t *conn, const char *block, size_t size, bool is_trailer, load_h2_head_t *head,
                              bool *fatal);

/* --- h2_send.c --- */

/* What a connection begins with. */
void load_h2_send_preface(load_conn_t *conn);
void load_h2_send_requests(load_conn_t *conn, uint32_t n, uint64_t due_ns);
/* As much of the bodies as the windows allow. */
void load_h2_send_bodies(load_conn_t *conn);
/* A frame of up to eight bytes: payload[0..size). */
void load_h2_send_frame(load_conn_t *conn, unsigned type, unsigned flags, uint32_t id, const char *payload,
                        size_t size);
/* A frame that has a number in it: RST_STREAM, WINDOW_UPDATE. */
void load_h2_send_number(load_conn_t *conn, unsigned type, uint32_t id, uint32_t number);

static inline uint32_t load_h2_id(const load_flight_t *flight) {
    return (uint32_t)(2 * flight->number + 1);
}

#endif
