/* Owns: the bodies of responses as their client checks them, without their coding. */
#include "client.h"

static void check(const client_t *client, request_t *request, uint64_t at, const char *data, size_t size) {
    if (request->events) {
        sim_events_take(client, request, data, size);
        return;
    }
    if (request->edited) {
        sim_edited_take(client, request, at, data, size);
        return;
    }
    uint32_t tag = request->content ? request->content : request->tag;
    size_t wrong = request->ranges ? sim_ranges_mismatch(request->ranges, at, data, size)
                                   : sim_mismatch(data, tag, request->from + at, size);
    if (wrong < size)
        sim_fail("client %u: byte %llu of the response to %x is wrong", client->id, (unsigned long long)(at + wrong),
                 request->tag);
}

uint64_t sim_body_take(const client_t *client, request_t *request, uint64_t at, const char *data, size_t size) {
    const uint64_t before = at;
    if (!request->decoder) {
        check(client, request, at, data, size);
        return size;
    }
    char out[4096];
    for (size_t made = sizeof out; made == sizeof out || (size > 0 && !sim_decoded_all(request->decoder)); at += made) {
        bool good;
        made = sim_decode(request->decoder, &data, &size, out, sizeof out, &good);
        if (!good) sim_fail("client %u: the response to %x cannot be decoded", client->id, request->tag);
        check(client, request, at, out, made);
    }
    if (size > 0) sim_fail("client %u: bytes behind the end of the response to %x", client->id, request->tag);
    return at - before;
}

void sim_body_cut(const client_t *client, const request_t *request, uint64_t at) {
    if (request->decoder && sim_decoded_all(request->decoder) && at != request->size)
        sim_fail("client %u: the response to %x is cut off after %llu bytes, and looks complete", client->id,
                 request->tag, (unsigned long long)at);
}

void sim_body_ended(const client_t *client, request_t *request, uint64_t at) {
    if (request->decoder && !sim_decoded_all(request->decoder))
        sim_fail("client %u: the response to %x ends before its coding", client->id, request->tag);
    sim_coding_free(request);
    sim_reply_ended(client, request);
    if (request->edited) sim_edited_ended(client, request);
    if (request->events)
        sim_events_ended(client, request);
    else if (at != (request->head ? 0 : request->size))
        sim_fail("client %u: the response to %x has %llu bytes instead of %u", client->id, request->tag,
                 (unsigned long long)at, request->size);
}
