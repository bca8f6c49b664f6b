/* Owns: the metrics of an exchange that ends. The loop's thread. May include: as exchange.h. */
#ifndef UVHTTP_SRC_EXCHANGE_MEASURE_H
#define UVHTTP_SRC_EXCHANGE_MEASURE_H

#include "exchange/exchange.h"
#include "obs/series.h"

/* Attributes of a series; the route is the rest of its key. */
typedef struct uvhttp__attributes {
    unsigned status;  /* 0: there was no response */
    unsigned method;  /* uvhttp__method_slot */
    unsigned version; /* a UVHTTP_HTTP_*; 0: unknown */
    bool is_tls;
    unsigned error; /* UVHTTP__ERROR_TYPE_* or an index of base/error_index.h */
} uvhttp__attributes_t;

enum { UVHTTP__ERROR_TYPE_NONE = UVHTTP__ERROR_COUNT, UVHTTP__ERROR_TYPE_STATUS };

static inline uint64_t uvhttp__attributes_pack(uvhttp__attributes_t a) {
    return (uint64_t)a.status | (uint64_t)a.method << 16 | (uint64_t)a.version << 24 | (uint64_t)a.is_tls << 32 |
           (uint64_t)a.error << 40;
}
static inline uvhttp__attributes_t uvhttp__attributes_unpack(uint64_t packed) {
    return (uvhttp__attributes_t){.status = packed & 0xffff,
                                  .method = packed >> 16 & 0xff,
                                  .version = packed >> 24 & 0xff,
                                  .is_tls = packed >> 32 & 1,
                                  .error = packed >> 40 & 0xff};
}
static_assert(UVHTTP__ERROR_TYPE_STATUS < 256, "eight bits of a key");

/* Its response is complete. Only if the loop has metrics. */
void uvhttp__exchange_measure(uvhttp__exchange_t *exchange);
/* It ends without one, or with a part of one, for the reason `code`. */
void uvhttp__exchange_measure_abort(uvhttp__exchange_t *exchange, int code);

#endif
