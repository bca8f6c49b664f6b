/* Owns: fuzzing of what proxies say (libFuzzer). First byte even: a PROXY protocol header, whole and cut in two, from
 * heap blocks of the exact size; both must agree. Odd: a Forwarded (bit 1) or X-Forwarded-For field behind which a
 * trusted proxy has put an element of its own, which nothing in front of it may change. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "conn/proxy_protocol.h"
#include "message/message.h"

static void die(const char *what) {
    fprintf(stderr, "fuzz_proxy: %s\n", what);
    abort();
}

typedef struct outcome {
    int status;
    size_t used;
    uvhttp__peer_t source;
} outcome_t;

static outcome_t read_cut(const uint8_t *data, size_t size, size_t cut) {
    outcome_t outcome = {.status = UVHTTP_E_AGAIN};
    uvhttp__proxy_t proxy;
    memset(&proxy, 0, sizeof proxy);
    size_t begins[] = {0, cut}, ends[] = {cut, size};
    for (int i = 0; i < 2 && outcome.status == UVHTTP_E_AGAIN; i++) {
        size_t piece = ends[i] - begins[i], used;
        char *copy = malloc(piece ? piece : 1);
        if (!copy) abort();
        memcpy(copy, data + begins[i], piece);
        outcome.status = uvhttp__proxy_read(&proxy, copy, piece, &used, &outcome.source);
        free(copy);
        if (used > piece || (outcome.status == UVHTTP_E_AGAIN && used != piece)) die("bytes used are wrong");
        outcome.used += used;
    }
    return outcome;
}

static void fuzz_protocol(uint8_t first, const uint8_t *data, size_t size) {
    outcome_t whole = read_cut(data, size, size), cut = read_cut(data, size, size ? first % size : 0);
    if (whole.status != cut.status || whole.used != cut.used) die("cutting changes the outcome");
    if (whole.status != UVHTTP_OK) return;
    if (memcmp(whole.source.ip.bytes, cut.source.ip.bytes, 16) != 0 || whole.source.kind != cut.source.kind)
        die("cutting changes the source");
}

static void fuzz_field(bool forwarded, const uint8_t *data, size_t size) {
    static const char *const endings[] = {",192.0.2.7", ",for=192.0.2.7"};
    const char *name = forwarded ? "Forwarded" : "X-Forwarded-For", *ending = endings[forwarded];
    size_t name_size = strlen(name), ending_size = strlen(ending);
    char *head = malloc(name_size + size + ending_size), first[512];
    if (!head) abort();
    memcpy(head, name, name_size);
    memcpy(head + name_size, data, size);
    memcpy(head + name_size + size, ending, ending_size);
    static const char *const trusted[] = {"0.0.0.0/1", "2001:db8::/32"};
    uvhttp__trust_t trust = {.header = (uint8_t)(forwarded ? 1 : 2), .hops_max = 8, .fields = UVHTTP__PROXY_FIELDS_ALL};
    size_t at;
    const char *fault;
    if (uvhttp__ip_ranges_new(trusted, 2, &trust.ranges, &at, &fault) != UVHTTP_OK) abort();
    uvhttp__arena_t arena;
    uvhttp_request_t req;
    uvhttp__arena_init(&arena, first, sizeof first, 4096);
    uvhttp__request_init(&req, &arena, NULL);
    req.base = head;
    for (int with_ending = 0; with_ending < 2; with_ending++) {
        uint32_t value_size = (uint32_t)(size + (with_ending ? ending_size : 0));
        uvhttp__field_t field = {{0, (uint32_t)name_size}, {(uint32_t)name_size, value_size}};
        req.head.headers = &field;
        req.head.header_count = 1;
        uvhttp__client_t client = {.address = uvhttp__peer_of_ip("\012\0\0\001", 4, 5)};
        bool whole = uvhttp__forwarded_resolve(&req, &trust, &client);
        if (client.address.kind == UVHTTP__PEER_UNKNOWN) die("the address is lost");
        if (with_ending && (!whole || memcmp(client.address.ip.bytes, "\300\0\002\007", 4) != 0))
            die("the client has changed what the proxy says");
    }
    uvhttp__free(trust.ranges);
    uvhttp__arena_deinit(&arena);
    free(head);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size) {
    if (input_size < 1 || input_size > 8192) return 0;
    if (input[0] & 1)
        fuzz_field(input[0] & 2, input + 1, input_size - 1);
    else
        fuzz_protocol(input[0], input + 1, input_size - 1);
    return 0;
}
