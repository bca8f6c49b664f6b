/* Owns: fuzzing of what a request is asked for (libFuzzer): path, query, cookies, what proxies say, codings, dates. A
 * head that HTTP/1 accepts, every value of it read, and each response held against another way to it. Input: a byte for
 * the memory of the request, the head. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp/cookie.h>

#include "base/alloc.h"
#include "base/date.h"
#include "base/str.h"
#include "base/uri.h"
#include "http1/http1.h"
#include "message/accept_encoding.h"
#include "message/message.h"

enum { FIELDS_MAX = 32 };

static void die(const char *what) {
    fprintf(stderr, "fuzz_request: %s\n", what);
    abort();
}

/* Reads every byte, so that the sanitizer sees each. */
static void touch(uvhttp_str_t text) {
    static volatile char last;
    for (size_t i = 0; i < text.size; i++) last = text.data[i];
    (void)last;
}

static bool same(uvhttp_str_t a, uvhttp_str_t b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* A terminated copy, or NULL of a text that has a NUL in it. */
static char *name_of(uvhttp_str_t text) {
    if (text.size > 0 && memchr(text.data, '\0', text.size)) return NULL;
    char *copy = malloc(text.size + 1);
    if (!copy) abort();
    if (text.size > 0) memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    return copy;
}

static bool is_dots(const char *segment, size_t size) {
    return (size == 1 && segment[0] == '.') || (size == 2 && segment[0] == '.' && segment[1] == '.');
}

static void look_at_path(const uvhttp_request_t *req) {
    uvhttp_str_t path = uvhttp_request_path(req);
    touch(path);
    if ((path.size == 0) != (uvhttp_request_method(req) == UVHTTP_CONNECT)) die("a path is empty");
    if (path.size == 0 || (path.size == 1 && *path.data == '*')) return;
    if (*path.data != '/') die("a path does not begin with a slash");
    if (memchr(path.data, '\0', path.size)) die("NUL in a path");
    const char *end = path.data + path.size;
    for (const char *segment = path.data + 1; segment <= end;) {
        const char *slash = memchr(segment, '/', (size_t)(end - segment));
        size_t size = (size_t)((slash ? slash : end) - segment);
        if (is_dots(segment, size)) die("a path has a dot segment");
        if (!slash) break;
        segment = slash + 1;
    }
}

static void look_at_query(uvhttp_request_t *req, bool short_of_memory) {
    uvhttp_str_t name, value, first;
    touch(uvhttp_request_query(req));
    for (size_t i = 0; uvhttp_request_query_at(req, i, &name, &value); i++) {
        touch(name);
        touch(value);
        if (short_of_memory) continue; /* then what is not decoded yet is not found */
        char *text = name_of(name);
        if (text && !uvhttp_request_query_param(req, text, &first)) die("a parameter of the query is not found");
        uvhttp_str_t other, value_of_first = {NULL, 0};
        for (size_t j = 0; text && j <= i && uvhttp_request_query_at(req, j, &other, &value_of_first); j++)
            if (same(other, name)) break;
        if (text && !same(first, value_of_first)) die("not the first parameter of that name");
        free(text);
    }
}

static void look_at_cookies(const uvhttp_request_t *req) {
    uvhttp_str_t name, value, first;
    for (size_t i = 0; uvhttp_request_cookie_at(req, i, &name, &value); i++) {
        touch(name);
        touch(value);
        if (name.size > 0 && (memchr(name.data, '=', name.size) || memchr(name.data, ';', name.size)))
            die("a cookie's name has a separator in it");
        if (value.size > 0 && memchr(value.data, ';', value.size)) die("a cookie's value has a separator in it");
        char *text = name_of(name);
        if (text && !uvhttp_request_cookie(req, text, &first)) die("a cookie is not found");
        touch(first);
        free(text);
    }
}

/* In whatever order they are asked for. */
static void look_at_cookies_again(const uvhttp_request_t *req, uint8_t step) {
    enum { MOST = 16 };
    uvhttp_str_t names[MOST], values[MOST], name, value;
    size_t count = 0;
    while (count < MOST && uvhttp_request_cookie_at(req, count, &names[count], &values[count])) count++;
    for (size_t i = 0, index = 0; count && i < count; i++, index = (index + step) % count) {
        if (!uvhttp_request_cookie_at(req, index, &name, &value)) die("a cookie has gone");
        if (!same(name, names[index]) || !same(value, values[index])) die("another cookie than before");
    }
}

/* A router's work, in another way: each segment of the path is a parameter. */
static void look_at_params(uvhttp_request_t *req) {
    enum { MOST = 8 };
    static const uvhttp_str_t names[MOST] = {{"0", 1}, {"1", 1}, {"2", 1}, {"3", 1},
                                             {"4", 1}, {"5", 1}, {"6", 1}, {"7", 1}};
    uvhttp__span_t spans[MOST];
    uvhttp_str_t path = uvhttp_request_path(req);
    size_t count = 0;
    for (uint32_t at = 0; at < path.size && count < MOST; at++) {
        const char *slash = memchr(path.data + at, '/', path.size - at);
        uint32_t end = slash ? (uint32_t)(slash - path.data) : (uint32_t)path.size;
        spans[count++] = (uvhttp__span_t){at, end - at};
        at = end;
    }
    if (uvhttp__request_set_params(req, names, spans, count) != UVHTTP_OK) return;
    if (uvhttp__request_own_params(req) != UVHTTP_OK) return;
    for (size_t i = 0; i < count; i++) {
        uvhttp_str_t param = uvhttp_request_param(req, (char[]){(char)('0' + i), '\0'});
        const char *kept = path.data + spans[i].offset;
        size_t at = 0;
        for (size_t j = 0; j < param.size; j++) { /* a slash in it was an escape, and nothing else has changed */
            if (at >= spans[i].size) die("a parameter is longer than its segment");
            if (param.data[j] != '/' && param.data[j] != kept[at]) die("a parameter is not its segment");
            at += param.data[j] == '/' ? 3 : 1;
        }
        if (at != spans[i].size) die("a parameter is shorter than its segment");
    }
}

static void look_at_members(const uvhttp_request_t *req, const char *name) {
    uvhttp__members_t at = {.req = req, .name = name};
    int looked_for = 0;
    for (uvhttp_str_t member; uvhttp__member_next(&at, &member);) {
        touch(member);
        if (member.size == 0 || !same(member, uvhttp__str_trim(member))) die("a member of a list has space around it");
        if (looked_for++ < 4 && !uvhttp__members_have(req, name, member)) die("a member of a list is not found");
    }
}

static void look_at_proxies(uvhttp_request_t *req) {
    static uvhttp__ip_ranges_t *ranges;
    static const char *const texts[] = {"10.0.0.0/8", "2001:db8::/32", "unix:"};
    size_t at;
    const char *fault;
    if (!ranges && uvhttp__ip_ranges_new(texts, 3, &ranges, &at, &fault) != UVHTTP_OK) abort();
    for (uint8_t header = UVHTTP__PROXY_HEADER_FORWARDED; header <= UVHTTP__PROXY_HEADER_X_FORWARDED; header++) {
        uvhttp__trust_t trust = {.header = header, .hops_max = 4, .fields = UVHTTP__PROXY_FIELDS_ALL, .ranges = ranges};
        uvhttp__client_t client = {.address = uvhttp__peer_of_ip("\012\0\0\001", 4, 5)};
        char text[UVHTTP__IP_TEXT_MAX];
        (void)uvhttp__forwarded_resolve(req, &trust, &client);
        (void)uvhttp__peer_text(&client.address, text);
        if (strlen(text) >= sizeof text) die("the text of an address is too long");
        touch(client.host);
        if (client.host.size > 0 && !uvhttp__valid_authority(client.host, false)) die("a proxy's host is none");
    }
}

static void look_at_date(uvhttp_str_t value) {
    int64_t read, again;
    char text[UVHTTP__DATE_SIZE];
    if (!uvhttp__date_parse(value, 1800000000, &read)) return;
    uvhttp__date_write(text, read);
    if (!uvhttp__date_parse((uvhttp_str_t){text, sizeof text}, 1800000000, &again)) die("a date is not read back");
    if (again != read) die("a date is another one when it is read back");
}

static void look_at_fields(const uvhttp_request_t *req) {
    uvhttp_str_t name, value, found;
    uvhttp__accept_encoding_t accept = {0};
    for (size_t i = 0; uvhttp_request_header_at(req, i, &name, &value); i++) {
        touch(name);
        touch(value);
        char *text = name_of(name);
        size_t index = 0;
        if (!text || !uvhttp_request_header_next(req, text, &index, &found)) die("a field is not found");
        look_at_members(req, text);
        free(text);
        look_at_date(value);
        uvhttp__accept_encoding_add(&accept, value);
        if (uvhttp__accept_gzip(&accept) > 1000 || uvhttp__accept_brotli(&accept) > 1000) die("a weight above 1");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size) {
    if (input_size < 2) return 0;
    size_t size = input_size - 1;
    char *head = malloc(size); /* exactly as large: the sanitizer sees who reads on */
    if (!head) abort();
    memcpy(head, input + 1, size);
    uvhttp__field_t fields[FIELDS_MAX];
    uvhttp__arena_t arena;
    uvhttp_request_t req;
    uvhttp__head_limits_t limits = {8192, 65536, FIELDS_MAX};
    uvhttp__arena_init(&arena, NULL, 0, input[0] & 1 ? SIZE_MAX : input[0] * 16u);
    uvhttp__request_init(&req, &arena, NULL);
    uvhttp__http1_scan_t scan = {0};
    req.base = head;
    req.head.headers = fields;
    if (uvhttp__http1_read_request(&scan, head, size, &limits, &req.head) == UVHTTP_OK &&
        uvhttp__request_decode_path(&req) == UVHTTP_OK) {
        look_at_path(&req);
        look_at_query(&req, !(input[0] & 1));
        look_at_cookies(&req);
        look_at_cookies_again(&req, input[0]);
        look_at_params(&req);
        look_at_proxies(&req);
        look_at_fields(&req);
    }
    uvhttp__arena_deinit(&arena);
    free(head);
    return 0;
}
