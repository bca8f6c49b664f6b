/* Owns: what the files of the access log share: entries, the ring from a loop to the thread, the log.
 * May include: base, message, obs. */
#ifndef UVHTTP_SRC_MIDDLEWARE_ACCESS_LOG_H
#define UVHTTP_SRC_MIDDLEWARE_ACCESS_LOG_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <uvhttp/access_log.h>

#include "base/ip.h"
#include "base/ring.h"
#include "obs/trace.h"

/* --- entries --- */

typedef enum uvhttp__entry_field {
    UVHTTP__ENTRY_METHOD,
    UVHTTP__ENTRY_TARGET,
    UVHTTP__ENTRY_USER,
    UVHTTP__ENTRY_REFERER,
    UVHTTP__ENTRY_AGENT,
    UVHTTP__ENTRY_HOST,
    UVHTTP__ENTRY_ID,
    UVHTTP__ENTRY_TRACE,
    UVHTTP__ENTRY_FIELD_COUNT
} uvhttp__entry_field_t;

#define UVHTTP__ENTRY_FIELD_SIZE_MAX 4096 /* bytes; what is longer is cut and ends in "..." */
#define UVHTTP__ENTRY_ABSENT UINT16_MAX   /* size of a field that is not there; "" is another thing */

/* A request as the loop leaves it: the fields' bytes follow, one after the other. */
typedef struct uvhttp__entry {
    uvhttp__ring_record_t record;
    uint16_t status;
    bool aborted;
    uint8_t version;   /* uvhttp_http_version_t */
    uint64_t start_ns; /* CLOCK_MONOTONIC */
    uint64_t duration_ns;
    uint64_t bytes; /* of the body */
    uvhttp__peer_t client;
    uint16_t sizes[UVHTTP__ENTRY_FIELD_COUNT];
    uint16_t cut; /* bit per field: there was more */
} uvhttp__entry_t;

/* What a request is noted from. */
typedef struct uvhttp__entry_source {
    uvhttp__entry_t entry;                          /* but record, sizes and cut */
    uvhttp_str_t fields[UVHTTP__ENTRY_FIELD_COUNT]; /* data NULL: absent */
    char trace_id[2 * UVHTTP__TRACE_ID_SIZE];       /* for one of them */
} uvhttp__entry_source_t;

/* --- the ring (access_log_ring.c): one loop puts, one thread takes --- */

typedef struct uvhttp__entry_ring {
    struct uvhttp__entry_ring *next;
    uint64_t owner; /* which thread puts */
    uvhttp__ring_t *ring;
    bool kicked; /* the putter's: it has woken the taker because half of it is full */
    uint64_t dropped_reported,
        reported_ns; /* the consumer's: how many of these a line has reported, and when (0: never) */
} uvhttp__entry_ring_t;

/* size: a power of two of at least 65536. NULL if out of memory. */
uvhttp__entry_ring_t *uvhttp__entry_ring_new(uint32_t size);
void uvhttp__entry_ring_free(uvhttp__entry_ring_t *ring);
/* Returns how many bytes wait, this entry included, or 0 if the ring is full: it counts as dropped. */
uint64_t uvhttp__entry_ring_put(uvhttp__entry_ring_t *ring, const uvhttp__entry_source_t *source);
/* How many did not fit. */
static inline uint64_t uvhttp__entry_ring_dropped(const uvhttp__entry_ring_t *ring) {
    return atomic_load_explicit(&ring->ring->dropped, memory_order_relaxed);
}
/* The oldest entry, to be looked at until _release; NULL: none. */
static inline const uvhttp__entry_t *uvhttp__entry_ring_peek(uvhttp__entry_ring_t *ring) {
    return uvhttp__ring_peek(ring->ring);
}
static inline void uvhttp__entry_ring_release(uvhttp__entry_ring_t *ring, const uvhttp__entry_t *entry) {
    uvhttp__ring_release(ring->ring, entry);
}

/* --- lines (access_log_format.c) --- */

/* The longest line of one entry: every byte of every field can take six. */
#define UVHTTP__ACCESS_LINE_MAX (UVHTTP__ENTRY_FIELD_COUNT * (UVHTTP__ENTRY_FIELD_SIZE_MAX + 8) * 6 + 1024)

/* Writes the line of an entry with its end, and returns its size. real_offset_ns: what to add to begin_ns to get the
 * time since 1970. */
size_t uvhttp__access_line(uvhttp_access_log_format_t format, const uvhttp__entry_t *entry, int64_t real_offset_ns,
                           char line[UVHTTP__ACCESS_LINE_MAX]);
/* The line that says that `count` are missing. */
size_t uvhttp__access_dropped_line(uvhttp_access_log_format_t format, uint64_t count, int64_t real_ns,
                                   char line[UVHTTP__ACCESS_LINE_MAX]);

/* --- the log --- */

typedef struct uvhttp__access_log {
    uint64_t number; /* of this log in the process, never used again */
    uvhttp_access_log_format_t format;
    uint32_t ring_size, flush_ms;
    char *path; /* NULL: none */
    int fd;     /* the thread's once that runs; -1: a FIFO that had no reader so far */
    bool owns_fd;
    void (*write)(const char *lines, size_t size, void *user);
    void *user;
    pthread_mutex_t lock; /* adding rings, starting the thread */
    bool running;         /* the thread has been started; under the lock */
    pthread_t thread;
    _Atomic(uvhttp__entry_ring_t *) rings; /* only added to */
    sem_t wake;
    atomic_bool asleep; /* the thread waits for a first entry */
    atomic_bool stopping, reopen_wanted;
    _Atomic uint64_t lines, bytes, failed, homeless, reopened; /* homeless: no ring or thread could be made */
} uvhttp__access_log_t;

/* The thread (access_log_writer.c). Returns 0 or UVHTTP_E_LIMIT. */
int uvhttp__access_log_start(uvhttp__access_log_t *log);
/* Writes what waits, ends the thread. */
void uvhttp__access_log_stop(uvhttp__access_log_t *log);
/* Opens log->path, without waiting. Returns the descriptor, or -1 and errno. */
int uvhttp__access_log_open(const uvhttp__access_log_t *log);
/* Whether that failed with `error` because the path is a FIFO that nobody reads: it is tried again with each batch. */
bool uvhttp__access_log_unread(const uvhttp__access_log_t *log, int error);

#endif
