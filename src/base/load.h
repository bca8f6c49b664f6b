/* Owns: unaligned loads of integers, in the byte order of this machine. May include: nothing. */
#ifndef UVHTTP_SRC_BASE_LOAD_H
#define UVHTTP_SRC_BASE_LOAD_H

#include <stdint.h>
#include <string.h>

static inline uint16_t uvhttp__load16(const char *at) {
    uint16_t bytes;
    memcpy(&bytes, at, sizeof bytes);
    return bytes;
}

static inline uint32_t uvhttp__load32(const char *at) {
    uint32_t bytes;
    memcpy(&bytes, at, sizeof bytes);
    return bytes;
}

static inline uint64_t uvhttp__load64(const char *at) {
    uint64_t bytes;
    memcpy(&bytes, at, sizeof bytes);
    return bytes;
}

#endif
