/* Owns: the check whether bytes of a file are in the page cache, so that sendfile(2) does not wait for a disk. May
 * include: base. */
#ifndef UVHTTP_SRC_EXEC_PAGE_CACHE_H
#define UVHTTP_SRC_EXEC_PAGE_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Milliseconds for which bytes that were found in memory are assumed to be there while their ends are: counting the
 * pages costs a tenth of sending them. */
#define UVHTTP__PAGE_CACHE_FOUND_MS 100

/* Whether the bytes [offset, offset + size) of a file, size > 0, are all in memory; when in doubt they are not.
 * found_ms: when they were last counted and found, in milliseconds of CLOCK_MONOTONIC, for all who send the same bytes
 * of the same file; NULL: they are counted. Any thread. */
bool uvhttp__page_cache_holds(int fd, uint64_t offset, uint64_t size, _Atomic(uint64_t) *found_ms, uint64_t now_ms);

#endif
