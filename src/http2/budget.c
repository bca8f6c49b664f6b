/* Owns: what a peer may ask for in one loop iteration and in the long run. May include: base. */
#include "http2/http2_internal.h"

void uvhttp__http2_limits_default(uvhttp__http2_limits_t *limits) {
    *limits = (uvhttp__http2_limits_t){
        .streams_max = 100,
        .connection_window = 1 << 20,
        .stream_window = 1 << 18,
        .stream_credit_steps = 4,
        .connection_credit_min = 1 << 16,
        .header_table_size = 4096,
        .header_list_size_max = 16384,
        .header_block_size_max = 32768,
        .continuation_frames_max = 8,
        .settings_entries_max = 32,
        .priority_size_max = 256,
        .iteration_requests_max = 128,
        .iteration_frames_max = 512,
        .iteration_bytes_max = 1 << 18,
        .control_frames_max = 1000,
        .control_frames_per_second = 100,
        .resets_max = 500,
        .resets_per_second = 50,
        .control_size_max = 8192,
        .connection_memory_max = 1 << 20,
    };
}

/* What `count` is after so many milliseconds in which it falls by a rate. */
static uint32_t forget(uint32_t count, uint64_t elapsed_ms, uint32_t per_second) {
    uint64_t forgotten = elapsed_ms >= UINT32_MAX ? UINT64_MAX : elapsed_ms * per_second / 1000;
    return forgotten >= count ? 0 : count - (uint32_t)forgotten;
}

/* In steps of 64 ms, so that frequent iterations do not round the rates down to nothing. */
static void refill(uvhttp__http2_t *http2, uint64_t now_ms) {
    uint64_t elapsed_ms = now_ms - http2->refilled_ms;
    if (LIKELY(elapsed_ms < 64)) return;
    http2->control_frames = forget(http2->control_frames, elapsed_ms, http2->limits->control_frames_per_second);
    http2->resets = forget(http2->resets, elapsed_ms, http2->limits->resets_per_second);
    http2->refilled_ms = now_ms;
}

void uvhttp__http2_begin_iteration(uvhttp__http2_t *http2, uint64_t now_ms) {
    http2->requests_left = http2->limits->iteration_requests_max;
    http2->frames_left = http2->limits->iteration_frames_max;
    http2->bytes_left = http2->limits->iteration_bytes_max;
    refill(http2, now_ms);
}

bool uvhttp__http2_spend(uvhttp__http2_t *http2, uint32_t *requests) {
    uint32_t counted = *requests < http2->requests_left ? *requests : http2->requests_left;
    http2->requests_left -= counted;
    *requests -= counted;
    return http2->requests_left > 0;
}

bool uvhttp__http2_count_control_frame(uvhttp__http2_t *http2) {
    if (LIKELY(http2->control_frames++ < http2->limits->control_frames_max)) return true;
    http2->counters->control_floods++;
    (void)uvhttp__http2_fail(http2, UVHTTP__HTTP2_ENHANCE_YOUR_CALM);
    return false;
}

bool uvhttp__http2_count_reset(uvhttp__http2_t *http2) {
    if (LIKELY(http2->resets++ < http2->limits->resets_max)) return true;
    http2->counters->reset_floods++;
    (void)uvhttp__http2_fail(http2, UVHTTP__HTTP2_ENHANCE_YOUR_CALM);
    return false;
}
