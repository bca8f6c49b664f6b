/* Owns: making a rate limiter out of options: defaults, ranges, copies. May include: base, obs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/chars.h"
#include "base/sized.h"
#include "base/str.h"
#include "middleware/middleware.h"
#include "middleware/rate_limit.h"

#define PER_SECOND_MIN 0.00001
#define PER_SECOND_MAX 1e6
#define BURST_MAX 1000000000u
#define KEYS_MAX 100000000u

/* False, so that a check that fails is one expression. */
#define REFUSE(...) ((void)uvhttp__middleware_refused("rate_limit", __VA_ARGS__), false)

static bool in_range(const char *what, uint32_t value, uint32_t max) {
    return value <= max || REFUSE("%s is %" PRIu32 ": expected 1..%" PRIu32 ", or 0 for the default", what, value, max);
}

static bool read_rate(uvhttp__rate_limiter_t *limiter, const uvhttp_rate_limit_options_t *options) {
    double rate = options->per_second;
    if (rate == 0) rate = 100;
    if (!(rate >= PER_SECOND_MIN && rate <= PER_SECOND_MAX)) /* also refuses NaN */
        return REFUSE("per_second is %g: expected 0.00001..1000000, or 0 for the default; one a minute is 1.0 / 60",
                      options->per_second);
    double interval = 1e9 / rate;
    limiter->interval_ns = (uint64_t)interval;
    if ((double)limiter->interval_ns < interval) limiter->interval_ns++;
    if (!in_range("burst", options->burst, BURST_MAX)) return false;
    limiter->burst = options->burst ? options->burst : rate <= 1 ? 1 : (uint32_t)rate;
    if (limiter->burst > UVHTTP__RATE_LIMIT_WINDOW_MAX_NS / limiter->interval_ns)
        return REFUSE("burst is %" PRIu32 " at %g per_second: an empty bucket would take more than 366 days to fill",
                      limiter->burst, rate);
    return true;
}

static bool read_key(uvhttp__rate_limiter_t *limiter, const uvhttp_rate_limit_options_t *options) {
    if (!in_range("ipv4_prefix", options->ipv4_prefix, 32) || !in_range("ipv6_prefix", options->ipv6_prefix, 128))
        return false;
    limiter->ipv4_prefix = (uint8_t)(options->ipv4_prefix ? options->ipv4_prefix : 32);
    limiter->ipv6_prefix = (uint8_t)(options->ipv6_prefix ? options->ipv6_prefix : 64);
    limiter->key = options->key;
    limiter->key_user = options->key_user;
    limiter->by = (uint8_t)options->by;
    switch (options->by) {
        case UVHTTP_RATE_LIMIT_BY_ADDRESS:
        case UVHTTP_RATE_LIMIT_BY_ROUTE: return true;
        case UVHTTP_RATE_LIMIT_BY_HEADER:
            return (options->header && uvhttp__valid_header_name(uvhttp__str_from(options->header))) ||
                   REFUSE("by is BY_HEADER, but header is \"%s\": expected the name of a field",
                          options->header ? options->header : "");
        case UVHTTP_RATE_LIMIT_BY_CALLBACK: return options->key || REFUSE("by is BY_CALLBACK, but key is NULL");
    }
    return REFUSE("by is %d: expected a UVHTTP_RATE_LIMIT_BY_* value", (int)options->by);
}

static bool read_reply(uvhttp__rate_limiter_t *limiter, const uvhttp_rate_limit_options_t *options) {
    limiter->status = options->status ? options->status : 429;
    if (limiter->status != 429 && limiter->status != 503)
        return REFUSE("status is %d: expected 429 or 503, or 0 for the default", options->status);
    limiter->omit_headers = options->omit_headers;
    limiter->refuse_on_error = options->refuse_on_error;
    const char *name = options->name ? options->name : "default";
    size_t size = strlen(name);
    bool plain = size >= 1 && size <= UVHTTP__RATE_LIMIT_NAME_MAX;
    for (size_t i = 0; i < size; i++) plain = plain && name[i] >= ' ' && name[i] < 127 && !strchr("\"\\", name[i]);
    return plain || REFUSE("name is \"%.100s\": expected 1..%d printable ASCII characters but '\"' and '\\'", name,
                           UVHTTP__RATE_LIMIT_NAME_MAX);
}

static bool read_allow(uvhttp__rate_limiter_t *limiter, const uvhttp_rate_limit_options_t *options) {
    if (options->allow_count > UVHTTP__RATE_LIMIT_ALLOW_MAX || (options->allow_count > 0 && !options->allow))
        return REFUSE("allow_count is %zu: expected 0..%d entries of allow", options->allow_count,
                      UVHTTP__RATE_LIMIT_ALLOW_MAX);
    size_t at;
    const char *fault;
    int status = uvhttp__ip_ranges_new(options->allow, options->allow_count, &limiter->allow, &at, &fault);
    if (status == UVHTTP_OK) return true;
    if (status == UVHTTP_E_NOMEM) return REFUSE("out of memory");
    return REFUSE("allow[%zu] is \"%s\": %s; expected \"192.0.2.1\", \"10.0.0.0/8\", \"2001:db8::/32\" or \"unix:\"",
                  at, options->allow[at] ? options->allow[at] : "", fault);
}

/* A token bucket as the draft's policy: the quota is what a full bucket holds, the window what it takes to fill it. */
static bool make_texts(uvhttp__rate_limiter_t *limiter, const uvhttp_rate_limit_options_t *options) {
    const char *name = options->name ? options->name : "default";
    const char *header = options->header ? options->header : "";
    size_t size = UVHTTP__RATE_LIMIT_NAME_MAX * 3 + 64 + strlen(header) + 2;
    char *text = uvhttp__malloc(size);
    if (!text) return REFUSE("out of memory");
    limiter->policy = text;
    uint64_t window = uvhttp__seconds_up(limiter->interval_ns * limiter->burst);
    size_t used = (size_t)snprintf(text, size, "\"%s\";q=%" PRIu32 ";w=%" PRIu64, name, limiter->burst, window) + 1;
    limiter->quoted = text + used;
    limiter->quoted_size = (size_t)snprintf(text + used, size - used, "\"%s\";r=", name);
    limiter->header = text + used + limiter->quoted_size + 1;
    used += limiter->quoted_size + 1;
    memcpy(text + used, header, strlen(header) + 1);
    used += strlen(header) + 1;
    limiter->name = text + used;
    memcpy(text + used, name, strlen(name) + 1);
    return true;
}

static bool make_store(uvhttp__rate_limiter_t *limiter, const uvhttp_rate_limit_options_t *options) {
    if (options->store)
        return (!options->store->take != !options->store->take_later ||
                REFUSE("store: expected one of take and take_later")) &&
               (UVHTTP__RESERVED_UNUSED(options->store) || REFUSE("store: " UVHTTP__SIZED_NEWER));
    if (!in_range("keys_max", options->keys_max, KEYS_MAX)) return false;
    uint32_t keys_max = options->by == UVHTTP_RATE_LIMIT_BY_ROUTE ? 1 : options->keys_max ? options->keys_max : 100000;
    if (uvhttp__rate_limit_local_store(keys_max, &limiter->store) == UVHTTP_OK) return true;
    return REFUSE("out of memory for %" PRIu32 " keys_max of %d bytes", keys_max, UVHTTP__RATE_LIMIT_KEY_SIZE);
}

uvhttp__rate_limiter_t *uvhttp__rate_limiter_new(const uvhttp_rate_limit_options_t *given, size_t given_size) {
    uvhttp_rate_limit_options_t full;
    const uvhttp_rate_limit_options_t *options = &full;
    bool known = uvhttp__sized_read(&full, sizeof full, given, given_size);
    uvhttp__rate_limiter_t *limiter = known ? uvhttp__calloc(1, sizeof *limiter) : NULL;
    if (!limiter) {
        (void)REFUSE("%s", known ? "out of memory" : UVHTTP__SIZED_NEWER);
        if (options->store && options->store->destroy) options->store->destroy(options->store->user);
        return NULL;
    }
    if (options->store) limiter->store = *options->store;
    if (read_rate(limiter, options) && read_key(limiter, options) && read_reply(limiter, options) &&
        read_allow(limiter, options) && make_texts(limiter, options) && make_store(limiter, options))
        return limiter;
    uvhttp__rate_limiter_free(limiter);
    return NULL;
}

void uvhttp__rate_limiter_free(uvhttp__rate_limiter_t *limiter) {
    if (limiter->store.destroy) limiter->store.destroy(limiter->store.user);
    uvhttp__free(limiter->allow);
    uvhttp__free((void *)(uintptr_t)limiter->policy);
    uvhttp__free(limiter);
}
