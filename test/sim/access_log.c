/* Owns: the model of the access log: each request that came through it has one line, whatever became of it. If its
 * client has the response whole, the line has the status and the bytes of that. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

enum {
    ORDINARY_TAGS = 0x1000, /* 16 clients, 256 requests each */
    LATE_MS = 500,          /* a line waits for others, for 200 ms */
};

static struct {
    uint16_t expected, logged; /* status; 0: none */
    uint64_t expected_ns;      /* since when */
    uint64_t bytes, logged_bytes;
    bool seen;
} requests[SIM_CLIENTS_MAX * 256];
static uint32_t tags;
static uint64_t dropped;

void sim_access_log_reset(void) {
    memset(requests, 0, tags * sizeof *requests);
    dropped = 0;
    tags = sim_crowd ? sim_crowd * 256 : ORDINARY_TAGS;
}

static unsigned index_of(uint32_t tag) {
    if (tag < 0x1000 || tag - 0x1000 >= tags) sim_fail("the access log has a request %x", tag);
    return tag - 0x1000;
}

/* /ROUTE/TAG..., or /files/NAME?TAG, which is nobody's tag here. */
void sim_access_log_saw(uvhttp_request_t *req) {
    uvhttp_str_t path = uvhttp_request_path(req);
    const char *tag = path.size > 1 ? memchr(path.data + 1, '/', path.size - 1) : NULL;
    if (!tag || (path.size > 7 && memcmp(path.data, "/files/", 7) == 0)) return;
    uint32_t number = sim_number(tag + 1, (size_t)(path.data + path.size - tag - 1), 16);
    if (number > 1) requests[index_of(number)].seen = true; /* else a hostile client's */
}

void sim_access_log_expect(uint32_t tag, int status, uint64_t bytes) {
    unsigned at = index_of(tag);
    requests[at].expected = (uint16_t)status;
    requests[at].expected_ns = sim_now_ns;
    requests[at].bytes = bytes;
}

static const char *find(const char *line, const char *end, const char *text) {
    return memmem(line, (size_t)(end - line), text, strlen(text));
}

/* client - - [time] "GET /route/TAG/... HTTP/1.1 or HTTP/2.0" STATUS bytes */
static void take_line(const char *line, const char *end) {
    const char *quote = memchr(line, '"', (size_t)(end - line));
    const char *version = quote ? find(quote, end, " HTTP/") : NULL;
    const char *route = version ? memchr(quote, '/', (size_t)(version - quote)) : NULL;
    if (!route) return; /* what was no request */
    int status = atoi(version + strlen(" HTTP/1.1\" "));
    if (status < 100 || status > 599) sim_fail("the access log has a status %d", status);
    const char *tag = memchr(route + 1, '/', (size_t)(version - route - 1));
    if (!tag || find(route, version, "/files/") == route) return;
    uint32_t number = (uint32_t)strtoul(tag + 1, NULL, 16);
    if (number <= 1) return; /* a hostile client's */
    unsigned at = index_of(number);
    if (requests[at].logged) sim_fail("the access log has request %x twice", number);
    requests[at].logged = (uint16_t)status;
    requests[at].logged_bytes = strtoull(version + strlen(" HTTP/1.1\" 200 "), NULL, 10); /* "-": 0 */
    if (!requests[at].seen && !sim_failing) sim_fail("the access log has request %x, which has not been there", number);
    if (requests[at].expected && sim_access_log_is_good() && sim_now_ns - requests[at].expected_ns > LATE_MS * SIM_MS)
        sim_fail("the line of request %x comes %llu ms late", number,
                 (unsigned long long)(sim_now_ns - requests[at].expected_ns) / SIM_MS);
}

void sim_access_log_write(const char *lines, size_t size, void *user) {
    (void)user;
    for (const char *end, *stop = lines + size; lines < stop; lines = end + 1) {
        end = memchr(lines, '\n', (size_t)(stop - lines));
        if (!end) sim_fail("the access log ends inside a line");
        take_line(lines, end);
    }
}

/* client - - [time] "request" status bytes: bytes are a number or "-", and there are two quotes that are not escaped.
 */
static bool is_whole(const char *line, const char *end) {
    uint32_t quotes = 0;
    for (const char *at = line; at < end; at++) {
        if (*at == '\\')
            at++;
        else if (*at == '"')
            quotes++;
    }
    const char *bracket = find(line, end, " [");
    return quotes == 2 && bracket && bracket < (const char *)memchr(line, '"', (size_t)(end - line)) &&
           ((end[-1] >= '0' && end[-1] <= '9') || end[-1] == '-');
}

void sim_access_log_take(const char *line, const char *end) {
    if (!is_whole(line, end)) sim_fail("a line of the access log is not whole: %s", line);
    const char *lost = strstr(line, "\"uvhttp: ");
    if (lost)
        dropped += strtoull(lost + 9, NULL, 10);
    else
        take_line(line, end);
}

uint64_t sim_access_log_dropped(void) {
    return dropped;
}

void sim_access_log_check(bool complete) {
    for (uint32_t i = 0; i < tags; i++) {
        if (complete && requests[i].seen && !requests[i].logged)
            sim_fail("the access log has no line of request %x", i + 0x1000);
        if (!requests[i].expected || (!requests[i].logged && !complete)) continue;
        if (requests[i].logged != requests[i].expected)
            sim_fail("the access log has status %u for request %x, whose client has %u", requests[i].logged, i + 0x1000,
                     requests[i].expected);
        if (requests[i].bytes != SIM_NEVER && requests[i].logged_bytes != requests[i].bytes)
            sim_fail("the access log has %llu bytes for request %x, whose client has %llu",
                     (unsigned long long)requests[i].logged_bytes, i + 0x1000, (unsigned long long)requests[i].bytes);
    }
}
