/* Owns: the ring by which one thread passes records of any size to another. May include: alloc.
 *
 * Positions only grow, and are reduced modulo the size. A record is contiguous: if one does not fit, the rest at the
 * end of the memory is skipped, marked by a record of size 0. */
#ifndef UVHTTP_SRC_BASE_RING_H
#define UVHTTP_SRC_BASE_RING_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* What a record begins with. */
typedef struct uvhttp__ring_record {
    uint32_t size; /* with this, a multiple of 8; the ring's to write */
} uvhttp__ring_record_t;

typedef struct uvhttp__ring {
    uint64_t mask;
    alignas(64) _Atomic uint64_t put;      /* bytes ever put, the producer's */
    uint64_t consumed_seen;                /* the producer's last value of `consumed` */
    uint64_t reserved;                     /* the producer's: up to where the record in hand reaches */
    _Atomic uint64_t dropped;              /* records for which there was no capacity; the producer's to write */
    alignas(64) _Atomic uint64_t consumed; /* the consumer's */
    alignas(64) char data[];
} uvhttp__ring_t;

/* size: a power of two of at least 64. NULL if out of memory. */
uvhttp__ring_t *uvhttp__ring_new(uint32_t size);
void uvhttp__ring_free(uvhttp__ring_t *ring); /* NULL is allowed */

/* Producer. Memory for a record of `size` bytes, 8-byte aligned, of which only the size is written; NULL: the ring has
 * no capacity, which counts in `dropped`. The consumer sees the record after _commit. */
void *uvhttp__ring_reserve(uvhttp__ring_t *ring, size_t size);
/* Returns how many bytes wait, this record included. */
uint64_t uvhttp__ring_commit(uvhttp__ring_t *ring);

/* Consumer. The oldest record, to be looked at until _release; NULL: none. */
const void *uvhttp__ring_peek(uvhttp__ring_t *ring);
void uvhttp__ring_release(uvhttp__ring_t *ring, const void *record);

#endif
