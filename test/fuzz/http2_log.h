/* Owns: what a server of HTTP/2 has made of a frame, so that two of them can be compared: what was received, and which
 * frames were sent. Header only: fuzzing uses it. */
#ifndef UVHTTP_TEST_FUZZ_HTTP2_LOG_H
#define UVHTTP_TEST_FUZZ_HTTP2_LOG_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http2/http2_internal.h"

typedef enum log_kind {
    LOG_METHOD, /* hash; of PATH and FIELDS as well */
    LOG_PATH,
    LOG_FIELDS,
    LOG_BODY,        /* hash of the bytes */
    LOG_END,         /* the request is complete */
    LOG_PEER_RESET,  /* code */
    LOG_PEER_GOAWAY, /* code */
    LOG_SENT_RESET,  /* code */
    LOG_SENT_GOAWAY, /* code */
    LOG_SENT_HEAD,
    LOG_SENT_DATA,   /* bytes, and bit 32 for END_STREAM */
    LOG_SENT_WINDOW, /* increment */
    LOG_SENT_ACK,    /* of SETTINGS: how many */
    LOG_SENT_PONG,   /* payload */
} log_kind_t;

static const char *const log_names[] = {"method",     "path",          "fields",       "body",    "end",
                                        "peer reset", "peer goaway",   "RST_STREAM",   "GOAWAY",  "head sent",
                                        "data sent",  "WINDOW_UPDATE", "SETTINGS ack", "PING ack"};

typedef struct log_entry {
    log_kind_t kind;
    uint32_t stream;
    uint64_t value;
} log_entry_t;

enum { LOG_MAX = 1024 };

typedef struct event_log {
    unsigned count;
    log_entry_t entries[LOG_MAX];
} event_log_t;

static inline void log_add(event_log_t *log, log_kind_t kind, uint32_t stream, uint64_t value) {
    if (log->count == LOG_MAX) abort();
    log->entries[log->count++] = (log_entry_t){kind, stream, value};
}

static inline log_entry_t *log_find(event_log_t *log, log_kind_t kind, uint32_t stream) {
    for (unsigned i = 0; i < log->count; ++i)
        if (log->entries[i].kind == kind && log->entries[i].stream == stream) return &log->entries[i];
    return NULL;
}

/* Several pieces of a frame are one entry. */
static inline log_entry_t *log_one(event_log_t *log, log_kind_t kind, uint32_t stream) {
    log_entry_t *entry = log_find(log, kind, stream);
    if (entry) return entry;
    log_add(log, kind, stream, 0);
    return &log->entries[log->count - 1];
}

static inline uint64_t log_hash(uint64_t hash, const void *data, size_t size) {
    for (size_t i = 0; i < size; ++i) hash = (hash ^ ((const uint8_t *)data)[i]) * UINT64_C(0x100000001b3) + 1;
    return hash;
}

static inline uint64_t log_hash_field(uint64_t hash, const void *name, size_t name_size, const void *value,
                                      size_t value_size) {
    hash = log_hash(log_hash(hash, &name_size, sizeof name_size), &value_size, sizeof value_size);
    return log_hash(log_hash(hash, name, name_size), value, value_size);
}

/* A connection error, -1: none. */
static inline int64_t log_goaway(event_log_t *log) {
    for (unsigned i = 0; i < log->count; ++i)
        if (log->entries[i].kind == LOG_SENT_GOAWAY) return (int64_t)log->entries[i].value;
    return -1;
}

static inline void log_sent_frame(event_log_t *log, const char *frame, uint32_t size) {
    uint32_t id = uvhttp__http2_get32(frame + 5);
    const char *payload = frame + UVHTTP__HTTP2_FRAME_HEAD_SIZE;
    switch ((uint8_t)frame[3]) {
        case UVHTTP__HTTP2_RST_STREAM: log_add(log, LOG_SENT_RESET, id, uvhttp__http2_get32(payload)); break;
        case UVHTTP__HTTP2_GOAWAY: log_add(log, LOG_SENT_GOAWAY, 0, uvhttp__http2_get32(payload + 4)); break;
        case UVHTTP__HTTP2_HEADERS: log_add(log, LOG_SENT_HEAD, id, 0); break;
        case UVHTTP__HTTP2_WINDOW_UPDATE:
            log_one(log, LOG_SENT_WINDOW, id)->value += uvhttp__http2_get32(payload);
            break;
        case UVHTTP__HTTP2_SETTINGS: log_one(log, LOG_SENT_ACK, 0)->value += frame[4] & 1; break;
        case UVHTTP__HTTP2_PING: log_add(log, LOG_SENT_PONG, 0, log_hash(0, payload, size)); break;
        case UVHTTP__HTTP2_DATA:
            log_one(log, LOG_SENT_DATA, id)->value += size + ((uint64_t)(frame[4] & 1) << 32);
            break;
        default: break;
    }
}

/* data[0..size): whole frames. */
static inline void log_sent(event_log_t *log, const char *data, size_t size) {
    while (size > 0) {
        uint32_t payload = uvhttp__http2_get32(data) >> 8;
        log_sent_frame(log, data, payload);
        data += UVHTTP__HTTP2_FRAME_HEAD_SIZE + payload;
        size -= UVHTTP__HTTP2_FRAME_HEAD_SIZE + payload;
    }
}

static inline int log_compare_entries(const void *a, const void *b) {
    const log_entry_t *x = a, *y = b;
    if (x->stream != y->stream) return x->stream < y->stream ? -1 : 1;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    return x->value < y->value ? -1 : x->value > y->value;
}

/* Entries of one frame have no order: each server writes its control frames when it likes to. */
static inline bool log_equal(event_log_t *a, event_log_t *b) {
    qsort(a->entries, a->count, sizeof *a->entries, log_compare_entries);
    qsort(b->entries, b->count, sizeof *b->entries, log_compare_entries);
    if (a->count != b->count) return false;
    for (unsigned i = 0; i < a->count; ++i)
        if (log_compare_entries(&a->entries[i], &b->entries[i]) != 0) return false;
    return true;
}

static inline void log_print(const char *whose, const event_log_t *log) {
    fprintf(stderr, "%s:\n", whose);
    for (unsigned i = 0; i < log->count; ++i)
        fprintf(stderr, "  stream %u: %s %llx\n", log->entries[i].stream, log_names[log->entries[i].kind],
                (unsigned long long)log->entries[i].value);
}

#endif
