/* Owns: which stream sends next (RFC 9218), and what the peer says about it. May include: base.
 *
 * There is a ring of streams for each priority: for each urgency, and for whether a response may be interleaved. A ring
 * is known by its last stream, so that its first is one step away and a rotation is one assignment. */
#include "base/str.h"
#include "http2/http2_internal.h"

/* --- ready queues --- */

void uvhttp__http2_enqueue(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream) {
    uvhttp__http2_stream_t **last = &http2->ready[stream->priority];
    if (*last) {
        stream->prev = *last;
        stream->next = (*last)->next;
        stream->next->prev = stream->prev->next = stream;
    } else {
        stream->next = stream->prev = stream;
        http2->ready_mask = (uint16_t)(http2->ready_mask | 1u << stream->priority);
    }
    *last = stream;
    stream->flags |= UVHTTP__HTTP2_QUEUED;
}

void uvhttp__http2_dequeue(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream) {
    uvhttp__http2_stream_t **last = &http2->ready[stream->priority];
    stream->flags = (uint16_t)(stream->flags & ~UVHTTP__HTTP2_QUEUED);
    if (stream->next == stream) {
        *last = NULL;
        http2->ready_mask = (uint16_t)(http2->ready_mask & ~(1u << stream->priority));
        return;
    }
    stream->next->prev = stream->prev;
    stream->prev->next = stream->next;
    if (*last == stream) *last = stream->prev;
}

void uvhttp__http2_want(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, bool wants) {
    stream->flags = (uint16_t)(wants ? stream->flags | UVHTTP__HTTP2_WANTS : stream->flags & ~UVHTTP__HTTP2_WANTS);
    uvhttp__http2_requeue(http2, stream);
}

uvhttp__http2_stream_t *uvhttp__http2_next(uvhttp__http2_t *http2, uint32_t *size) {
    *size = 0;
    if (!http2->ready_mask || http2->send_window <= 0 || http2->phase == UVHTTP__HTTP2_FAILED) return NULL;
    unsigned urgency = (unsigned)__builtin_ctz(http2->ready_mask) >> 1;
    unsigned kinds = http2->ready_mask >> 2 * urgency & 3;
    unsigned incremental = kinds == 3 ? http2->iterations >> urgency & 1 : kinds >> 1;
    uvhttp__http2_stream_t *stream = http2->ready[2 * urgency + incremental]->next;
    *size = uvhttp__http2_capacity(http2, stream);
    return stream;
}

/* Both kinds of an urgency alternate, and so do its incremental streams. */
static void end_iteration(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream) {
    unsigned urgency = stream->priority >> 1, incremental = stream->priority & 1;
    http2->iterations = (uint8_t)((http2->iterations & ~(1u << urgency)) | (incremental ^ 1) << urgency);
    if (incremental && http2->ready[stream->priority]->next == stream) http2->ready[stream->priority] = stream;
}

void uvhttp__http2_data_written(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, uint32_t size) {
    /* A client that opens windows by a few bytes must not be paid for it; one that gets small messages is. */
    if (size >= 1024 || (size > 0 && stream->send_window >= 1024)) uvhttp__http2_pay_control_frames(http2, 2);
    if (stream->flags & UVHTTP__HTTP2_QUEUED) {
        end_iteration(http2, stream);
        uvhttp__http2_requeue(http2, stream);
    }
}

/* --- priorities --- */

/* One member of the dictionary `u=3, i` (RFC 8941 section 3.2); its parameters are ignored. */
static void parse_member(uvhttp_str_t member, unsigned *urgency, unsigned *incremental) {
    const char *semicolon = memchr(member.data, ';', member.size);
    if (semicolon) member.size = (size_t)(semicolon - member.data);
    member = uvhttp__str_trim(member);
    if (uvhttp__str_equal(member, UVHTTP__STR("i")) || uvhttp__str_equal(member, UVHTTP__STR("i=?1")))
        *incremental = 1;
    else if (uvhttp__str_equal(member, UVHTTP__STR("i=?0")))
        *incremental = 0;
    else if (member.size == 3 && member.data[0] == 'u' && member.data[1] == '=' && member.data[2] >= '0' &&
             member.data[2] <= '7')
        *urgency = (unsigned)(member.data[2] - '0');
}

/* "u=3" and "u=3, i", which browsers send with each request. Returns whether it is one of them. */
static bool parse_usual(uvhttp_str_t value, uint8_t *priority) {
    if (value.size < 3 || memcmp(value.data, "u=", 2) != 0) return false;
    unsigned urgency = (unsigned)value.data[2] - '0';
    bool incremental = value.size == 6 && memcmp(value.data + 3, ", i", 3) == 0;
    *priority = UVHTTP__HTTP2_PRIORITY(urgency, incremental);
    return urgency <= 7 && (value.size == 3 || incremental);
}

uint8_t uvhttp__http2_parse_priority(uvhttp_str_t value) {
    uint8_t usual;
    if (LIKELY(parse_usual(value, &usual))) return usual;
    unsigned urgency = UVHTTP__HTTP2_PRIORITY_DEFAULT >> 1, incremental = UVHTTP__HTTP2_PRIORITY_DEFAULT & 1;
    uvhttp_str_t member;
    while (uvhttp__list_next(&value, &member)) parse_member(member, &urgency, &incremental);
    return UVHTTP__HTTP2_PRIORITY(urgency, incremental);
}

void uvhttp__http2_change_priority(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, uint8_t priority) {
    bool queued = stream->flags & UVHTTP__HTTP2_QUEUED;
    if (stream->priority == priority) return;
    if (queued) uvhttp__http2_dequeue(http2, stream);
    stream->priority = priority;
    if (queued) uvhttp__http2_enqueue(http2, stream);
}

void uvhttp__http2_set_priority(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, uint8_t priority) {
    if (!(stream->flags & UVHTTP__HTTP2_PRIORITY_SET)) uvhttp__http2_change_priority(http2, stream, priority);
}

void uvhttp__http2_remember_priority(uvhttp__http2_t *http2, uint32_t stream_id, uint8_t priority) {
    unsigned at = 0;
    while (at < http2->early_count && http2->early_ids[at] != stream_id) at++;
    if (at == UVHTTP__HTTP2_EARLY_PRIORITIES) { /* as if it had come too late */
        http2->counters->priorities_too_early++;
        return;
    }
    if (at == http2->early_count) http2->early_count++;
    http2->early_ids[at] = stream_id;
    http2->early_priorities[at] = priority;
}

void uvhttp__http2_recall_priority(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream) {
    unsigned kept = 0;
    for (unsigned i = 0; i < http2->early_count; i++) {
        if (http2->early_ids[i] == stream->id) {
            stream->priority = http2->early_priorities[i];
            stream->flags |= UVHTTP__HTTP2_PRIORITY_SET;
        } else if (http2->early_ids[i] > stream->id) {
            http2->early_ids[kept] = http2->early_ids[i];
            http2->early_priorities[kept++] = http2->early_priorities[i];
        }
    }
    http2->early_count = (uint8_t)kept;
}
