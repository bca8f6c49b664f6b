/* Owns: what the files of this folder share: the table of functions that exist once per level of
 * vector instructions. May include: base. Private to src/http1. */
#ifndef UVHTTP_SRC_HTTP1_SCAN_H
#define UVHTTP_SRC_HTTP1_SCAN_H

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "base/chars.h"
#include "base/hot_path.h"
#include "base/load.h"
#include "base/uri.h"
#include "http1/http1.h"

/* Of a function that is seldom called from one that is called for every head: keeps its registers out of the way there.
 */
#define COLD __attribute__((noinline, cold))

/* What a level of vector instructions finds in 64 bytes: bit i of each mask is about byte i. */
typedef struct line_bits {
    uint64_t lf;
    uint64_t cr;
} line_bits_t;

typedef struct target_bits {
    uint64_t not_target; /* ends a target */
    uint64_t question;
    uint64_t percent;
    uint64_t slash;
    uint64_t dot;
} target_bits_t;

/* UVHTTP__CHAR_TOKEN for lookups in a vector: bit h of entry l is about the byte 0xhl. Bytes above 0x7f are no tokens.
 */
#define TOKEN_COLUMNS                                                                                                  \
    (char)0xe8, (char)0xfc, (char)0xf8, (char)0xfc, (char)0xfc, (char)0xfc, (char)0xfc, (char)0xfc, (char)0xf8,        \
        (char)0xf8, (char)0xf4, (char)0x54, (char)0xd0, (char)0x54, (char)0xf4, (char)0x70
/* The same for UVHTTP__CHAR_REGNAME. */
#define REGNAME_COLUMNS                                                                                                \
    (char)0xa8, (char)0xfc, (char)0xf8, (char)0xf8, (char)0xfc, (char)0xf8, (char)0xfc, (char)0xfc, (char)0xfc,        \
        (char)0xfc, (char)0xf4, (char)0x5c, (char)0x50, (char)0x5c, (char)0xd4, (char)0x70
/* Bit h alone, for the upper half h of a byte. */
#define ROW_BITS 0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, (char)0x80, 0, 0, 0, 0, 0, 0, 0, 0

/* Empty lines that are skipped before the request line (RFC 9112 section 2.2 asks for at least one). */
#define UVHTTP__HTTP1_EMPTY_LINES_MAX 2

typedef struct uvhttp__http1_scanner {
    const char *name;
    /* Looks for the end of a head that is incomplete or faulty. Returns 0 and *head_size, UVHTTP_E_AGAIN for
     * more, or the error that makes the bytes so far no head whatever follows:
     *   UVHTTP_E_HTTP_METHOD   a first byte that no method begins with, or more than two empty lines before it
     *   UVHTTP_E_HTTP_BARE_LF  an LF without its CR, anywhere in the head
     *   UVHTTP_E_HTTP_BARE_CR  a CR without its LF before or in the request line (the tokenizer finds the others)
     *   UVHTTP_E_HTTP_LINE_TOO_LONG, UVHTTP_E_HTTP_HEADERS_TOO_LARGE, UVHTTP_E_HTTP_TOO_MANY_HEADERS  the limits */
    int (*scan)(uvhttp__http1_scan_t *scan, const char *data, size_t size, const uvhttp__head_limits_t *limits,
                size_t *head_size);
    /* Cuts the head that data begins with into method, target (path and query as for the origin form, path_plain),
     * version and fields, checks their bytes and the limits, and finds its size. UVHTTP_E_INVALID: it has no end yet.
     * Leaves the meaning of target and fields to the caller. */
    int (*tokenize)(const char *data, size_t size, const uvhttp__head_limits_t *limits, uvhttp__head_t *head);
    /* Whether data[pos..pos + count) is, on a short look, a registered name or IPv4 address with or without a port;
     * false says nothing. Only data[0..size) is read. */
    bool (*plain_host)(const char *data, size_t size, size_t pos, size_t count);
} uvhttp__http1_scanner_t;

extern const uvhttp__http1_scanner_t uvhttp__http1_scanner_scalar;
#if defined(__x86_64__)
extern const uvhttp__http1_scanner_t uvhttp__http1_scanner_sse42;
extern const uvhttp__http1_scanner_t uvhttp__http1_scanner_avx2;
#elif defined(__aarch64__)
extern const uvhttp__http1_scanner_t uvhttp__http1_scanner_neon;
#endif

/* The level in use; NULL until the first use. All engines are constant, so threads that choose at the same time store
 * the same pointer and nothing has to be ordered. */
extern _Atomic(const uvhttp__http1_scanner_t *) uvhttp__http1_scanner_current;

/* Chooses the best level that the processor has. */
COLD const uvhttp__http1_scanner_t *uvhttp__http1_scanner_choose(void);

static inline const uvhttp__http1_scanner_t *http1_scanner(void) {
    const uvhttp__http1_scanner_t *scanner = atomic_load_explicit(&uvhttp__http1_scanner_current, memory_order_relaxed);
    return __builtin_expect(scanner != NULL, 1) ? scanner : uvhttp__http1_scanner_choose();
}

/* Parts of a tokenizer that are not worth vectors. The code for data[pos], which may not stand there: a bare LF or CR
 * has its own code, anything else is `otherwise`; UVHTTP_E_INVALID at the end of the data. */
int uvhttp__http1_fault(const char *data, size_t size, size_t pos, int otherwise);

/* Whether eight bytes are "HTTP/1.2" to "HTTP/1.9": read as HTTP/1.1, the highest version that this server implements
 * (RFC 9110 section 2.5). */
static inline bool uvhttp__http1_newer_minor(const char *version) {
    return memcmp(version, "HTTP/1.", 7) == 0 && version[7] >= '2' && version[7] <= '9';
}

/* The code for a version that is not HTTP/1.x and begins at pos. */
int uvhttp__http1_version_fault(const char *data, size_t size, size_t pos);

/* Passes over empty lines before the request line: scan->head_start. 0 if a method may begin there. */
int uvhttp__http1_skip_empty_lines(uvhttp__http1_scan_t *scan, const char *data, size_t size);

/* Sets a span by one store: a span is often copied right after, by one load, which would have to wait for two stores.
 */
static inline void set_span(uvhttp__span_t *span, size_t offset, size_t size) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint64_t both = (uint64_t)(uint32_t)offset | (uint64_t)size << 32;
    static_assert(sizeof both == sizeof *span && offsetof(uvhttp__span_t, size) == 4, "offset and size, in this order");
    memcpy(span, &both, sizeof both);
#else
    *span = (uvhttp__span_t){(uint32_t)offset, (uint32_t)size};
#endif
}

#endif
