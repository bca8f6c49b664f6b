/* Owns: ranges of files: what a client asks for, and the body in parts that several of them bring (RFC 9110 section
 * 14.6), byte by byte but for its boundary, which has to be the same all the way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

enum { BOUNDARY = 32, HEAD_MAX_SIZE = 256 };

struct sim_ranges {
    char *body; /* `size` bytes */
    uint32_t *boundaries, boundary_count;
    char boundary[BOUNDARY];
};

typedef struct range {
    uint32_t first, size;
} range_t;

/* None overlaps another: those would be ignored. */
static range_t range_of(const op_t *op, uint32_t i) {
    if (op->ranges == 1) return (range_t){op->from, op->size};
    uint32_t place = op->from % 2 ? op->ranges - 1 - i : i; /* the client's order holds */
    uint32_t span = sim_file_sizes[op->file] / op->ranges, lead = op->from % span;
    return (range_t){place * span + lead, 1 + (op->from * 7 + i * 13) % (span - lead)};
}

static size_t put_head(const op_t *op, uint32_t i, char *out) {
    range_t range = range_of(op, i);
    return (size_t)snprintf(
        out, HEAD_MAX_SIZE,
        "%s--%*s\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes %u-%u/%u\r\n\r\n",
        i > 0 ? "\r\n" : "", BOUNDARY, "", range.first, range.first + range.size - 1, sim_file_sizes[op->file]);
}

static size_t put_end(char *out) {
    return (size_t)snprintf(out, HEAD_MAX_SIZE, "\r\n--%*s--\r\n", BOUNDARY, "");
}

void sim_ranges_plan(op_t *op, sim_random_t *r) {
    uint32_t size = sim_file_sizes[op->file];
    char text[HEAD_MAX_SIZE];
    op->from = sim_below(r, size);
    op->size = 1 + sim_below(r, size - op->from);
    op->ranges = 1;
    if (size < 100 || !sim_one_in(r, 3)) return;
    op->ranges = (uint8_t)(2 + sim_below(r, 5));
    op->size = (uint32_t)put_end(text);
    for (uint32_t i = 0; i < op->ranges; i++) op->size += (uint32_t)put_head(op, i, text) + range_of(op, i).size;
}

const char *sim_ranges_text(const op_t *op) {
    static char text[192];
    size_t at = 0;
    for (uint32_t i = 0; i < op->ranges; i++) {
        range_t range = range_of(op, i);
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%u-%u", i > 0 ? ", " : "bytes=", range.first,
                               range.first + range.size - 1);
    }
    return text;
}

/* The boundary stands two bytes, or behind a line end four, from where the head of a part begins. */
static void add_boundary(struct sim_ranges *ranges, size_t at) {
    ranges->boundaries[ranges->boundary_count++] = (uint32_t)(at + (at > 0 ? 4 : 2));
}

struct sim_ranges *sim_ranges_new(const op_t *op) {
    if (op->ranges < 2) return NULL;
    struct sim_ranges *ranges = calloc(1, sizeof *ranges);
    if (ranges) ranges->body = malloc(op->size + HEAD_MAX_SIZE);
    if (ranges) ranges->boundaries = calloc(op->ranges + 1u, sizeof *ranges->boundaries);
    if (!ranges || !ranges->body || !ranges->boundaries) abort();
    size_t at = 0;
    for (uint32_t i = 0; i < op->ranges; i++) {
        range_t range = range_of(op, i);
        add_boundary(ranges, at);
        at += put_head(op, i, ranges->body + at);
        sim_fill(ranges->body + at, SIM_FILE_TAG(op->file), range.first, range.size);
        at += range.size;
    }
    add_boundary(ranges, at);
    at += put_end(ranges->body + at);
    if (at != op->size) sim_fail("a body of %u bytes in parts has %zu", op->size, at);
    return ranges;
}

void sim_ranges_free(struct sim_ranges *ranges) {
    if (!ranges) return;
    free(ranges->body);
    free(ranges->boundaries);
    free(ranges);
}

/* The first boundary becomes that of all. */
static bool is_right(struct sim_ranges *ranges, uint64_t at, char byte) {
    for (uint32_t i = 0; i < ranges->boundary_count; i++) {
        uint32_t begin = ranges->boundaries[i];
        if (at < begin || at >= begin + BOUNDARY) continue;
        if (i == 0) ranges->boundary[at - begin] = byte;
        return byte == ranges->boundary[at - begin];
    }
    return byte == ranges->body[at];
}

size_t sim_ranges_mismatch(struct sim_ranges *ranges, uint64_t at, const char *data, size_t size) {
    size_t same = 0;
    while (same < size && is_right(ranges, at + same, data[same])) same++;
    return same;
}
