/* Owns: answers of Redis: RESP2, as far as it is expected: a line, a string, or three integers. Whatever else a server
 * sends, however long it says that it is, ends the connection before anything is kept for it. No I/O. May include:
 * base. */
#include <string.h>

#include "base/str.h"
#include "middleware/rate_limit_redis.h"

/* A line from *at on, which moves behind it. */
static uvhttp__redis_parsed_t parse_line(const char **at, const char *end, uvhttp_str_t *line) {
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    if (!stop) return UVHTTP__REDIS_PART;
    if (stop == *at || stop[-1] != '\r') return UVHTTP__REDIS_WRONG;
    *line = (uvhttp_str_t){*at, (size_t)(stop - 1 - *at)};
    *at = stop + 1;
    return UVHTTP__REDIS_COMPLETE;
}

static bool parse_number(uvhttp_str_t text, int64_t *number) {
    uint64_t value;
    bool negative = text.size > 0 && *text.data == '-';
    if (negative) text = (uvhttp_str_t){text.data + 1, text.size - 1};
    if (uvhttp__str_parse_u64(text, &value) != UVHTTP_OK || value > INT64_MAX) return false;
    *number = negative ? -(int64_t)value : (int64_t)value;
    return true;
}

static uvhttp__redis_parsed_t parse_string(const char **at, const char *end, int64_t size, uvhttp_str_t *text) {
    if (size < 0 || size > UVHTTP__REDIS_REPLY_SIZE_MAX - 32) return UVHTTP__REDIS_WRONG;
    if (end - *at < size + 2) return UVHTTP__REDIS_PART;
    *text = (uvhttp_str_t){*at, (size_t)size};
    *at += size + 2;
    return memcmp(*at - 2, "\r\n", 2) == 0 ? UVHTTP__REDIS_COMPLETE : UVHTTP__REDIS_WRONG;
}

static uvhttp__redis_parsed_t parse_numbers(const char **at, const char *end, int64_t count, int64_t *numbers) {
    if (count != UVHTTP__REDIS_NUMBERS) return UVHTTP__REDIS_WRONG;
    for (int i = 0; i < UVHTTP__REDIS_NUMBERS; i++) {
        uvhttp_str_t line;
        uvhttp__redis_parsed_t parsed = parse_line(at, end, &line);
        if (parsed != UVHTTP__REDIS_COMPLETE) return parsed;
        if (line.size < 2 || *line.data != ':') return UVHTTP__REDIS_WRONG;
        if (!parse_number((uvhttp_str_t){line.data + 1, line.size - 1}, &numbers[i])) return UVHTTP__REDIS_WRONG;
    }
    return UVHTTP__REDIS_COMPLETE;
}

uvhttp__redis_parsed_t uvhttp__redis_parse_reply(const char **at, const char *end, uvhttp__redis_reply_t *reply) {
    const char *next = *at;
    uvhttp_str_t line;
    int64_t size;
    uvhttp__redis_parsed_t parsed = parse_line(&next, end, &line);
    if (parsed != UVHTTP__REDIS_COMPLETE) return parsed;
    *reply = (uvhttp__redis_reply_t){.type = line.size ? *line.data : '\0'};
    reply->text = line.size ? (uvhttp_str_t){line.data + 1, line.size - 1} : line;
    switch (reply->type) {
        case '+':
        case '-': break;
        case '$':
            if (!parse_number(reply->text, &size)) return UVHTTP__REDIS_WRONG;
            parsed = parse_string(&next, end, size, &reply->text);
            break;
        case '*':
            if (!parse_number(reply->text, &size)) return UVHTTP__REDIS_WRONG;
            parsed = parse_numbers(&next, end, size, reply->numbers);
            break;
        default: return UVHTTP__REDIS_WRONG;
    }
    if (parsed == UVHTTP__REDIS_COMPLETE) *at = next;
    return parsed;
}
