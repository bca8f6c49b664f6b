/* Owns: histograms in the formats of HdrHistogram. May include: base, io, obs. */
#include "load/hdr.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum {
    DIGITS = 3,
    HALF_BITS = 10, /* log2 of half of the sub-buckets: 2048 hold three digits */
    COUNT_SIZE_MAX = 9,
    PAYLOAD_MAX = UVHTTP__HISTOGRAM_BUCKETS * 2 * COUNT_SIZE_MAX,
    HEAD_SIZE = 40,
    COOKIE = 0x1c849303 | 0x10,
    COOKIE_COMPRESSED = 0x1c849304 | 0x10,
    TICKS_PER_HALF = 5,
};

#define HIGHEST_NS UINT64_C(86400000000000) /* a day */

/* The value that stands for those of a bucket, as in uvhttp__histogram_percentile. */
static uint64_t value_of(const uvhttp__histogram_t *histogram, unsigned bucket) {
    uint64_t low = uvhttp__histogram_low(bucket), value = low + (uvhttp__histogram_high(bucket) - low + 1) / 2;
    uint64_t min = uvhttp__histogram_min(histogram), max = uvhttp__histogram_max(histogram);
    return value < min ? min : value > max ? max : value;
}

/* --- percentiles --- */

void load_hdr_print_percentiles(const uvhttp__histogram_t *histogram, FILE *out) {
    double count = (double)uvhttp__histogram_count(histogram), percent = 0;
    uint64_t seen = 0;
    fprintf(out, "%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
    for (unsigned i = 0; i < UVHTTP__HISTOGRAM_BUCKETS; i++) {
        uint64_t n = atomic_load_explicit(&histogram->buckets[i], memory_order_relaxed);
        if (n == 0) continue;
        seen += n;
        while (percent <= 100 * (double)seen / count && percent <= 100 * (count - 1) / count) {
            fprintf(out, "%12.3f %2.12f %10llu %14.2f\n", (double)value_of(histogram, i) / 1e6, percent / 100,
                    (unsigned long long)seen, 1 / (1 - percent / 100));
            double halvings = floor(log2(100 / (100 - percent))) + 1;
            percent += 100 / (TICKS_PER_HALF * exp2(halvings));
        }
    }
    if (count > 0)
        fprintf(out, "%12.3f %2.12f %10llu\n", (double)uvhttp__histogram_max(histogram) / 1e6, 1.0,
                (unsigned long long)seen);
    fprintf(out, "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n", uvhttp__histogram_mean(histogram) / 1e6,
            uvhttp__histogram_stdev(histogram) / 1e6);
    fprintf(out, "#[Max     = %12.3f, Total count    = %12llu]\n", (double)uvhttp__histogram_max(histogram) / 1e6,
            (unsigned long long)seen);
    fprintf(out, "#[Buckets = %12u, SubBuckets     = %12u]\n", 47 - HALF_BITS, 2u << HALF_BITS);
}

/* --- the log --- */

static size_t index_of(uint64_t value) {
    unsigned bucket = 63 - HALF_BITS - (unsigned)__builtin_clzll(value | ((UINT64_C(2) << HALF_BITS) - 1));
    uint64_t sub = value >> bucket;
    return (((size_t)bucket + 1) << HALF_BITS) + (size_t)sub - ((size_t)1 << HALF_BITS);
}

/* ZigZag and LEB128, of which the ninth byte has eight bits. */
static size_t write_number(uint8_t *out, int64_t number) {
    uint64_t bits = (uint64_t)number << 1 ^ (uint64_t)(number >> 63);
    size_t at = 0;
    for (; at < 8 && bits > 127; bits >>= 7) out[at++] = (uint8_t)(bits | 128);
    out[at++] = (uint8_t)bits;
    return at;
}

static uint8_t *write_big(uint8_t *out, uint64_t number, unsigned size) {
    while (size-- > 0) *out++ = (uint8_t)(number >> 8 * size);
    return out;
}

/* Counts in the order of their values; a negative number stands for so many zeros. */
static size_t write_counts(const uvhttp__histogram_t *histogram, uint8_t *out) {
    size_t at = 0, next = 0;
    for (unsigned i = 0; i < UVHTTP__HISTOGRAM_BUCKETS; i++) {
        uint64_t n = atomic_load_explicit(&histogram->buckets[i], memory_order_relaxed);
        uint64_t value = value_of(histogram, i);
        if (n == 0) continue;
        size_t index = index_of(value < HIGHEST_NS ? value : HIGHEST_NS);
        if (index < next) index = next; /* two that are longer than a day */
        if (index > next) at += write_number(out + at, index == next + 1 ? 0 : -(int64_t)(index - next));
        at += write_number(out + at, (int64_t)n);
        next = index + 1;
    }
    return at;
}

static size_t write_histogram(const uvhttp__histogram_t *histogram, uint8_t out[HEAD_SIZE + PAYLOAD_MAX]) {
    static const double ratio = 1;
    uint64_t ratio_bits;
    memcpy(&ratio_bits, &ratio, sizeof ratio_bits);
    size_t size = write_counts(histogram, out + HEAD_SIZE);
    uint8_t *at = write_big(out, COOKIE, 4);
    at = write_big(at, size, 4);
    at = write_big(at, 0, 4); /* normalizing offset */
    at = write_big(at, DIGITS, 4);
    at = write_big(at, 1, 8); /* least value */
    at = write_big(at, HIGHEST_NS, 8);
    (void)write_big(at, ratio_bits, 8);
    return HEAD_SIZE + size;
}

static void print_base64(const uint8_t *data, size_t size, FILE *out) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        unsigned bits = (unsigned)data[i] << 16;
        if (left > 1) bits |= (unsigned)data[i + 1] << 8;
        if (left > 2) bits |= data[i + 2];
        fputc(digits[bits >> 18], out);
        fputc(digits[bits >> 12 & 63], out);
        fputc(left > 1 ? digits[bits >> 6 & 63] : '=', out);
        fputc(left > 2 ? digits[bits & 63] : '=', out);
    }
}

void load_hdr_log_begin(double starts_s, FILE *out) {
    char date[64] = "";
    time_t seconds = (time_t)starts_s;
    struct tm utc;
    if (gmtime_r(&seconds, &utc)) strftime(date, sizeof date, "%a %b %d %H:%M:%S UTC %Y", &utc);
    fprintf(out,
            "#[Logged with uvhttp-load; values in ns]\n#[Histogram log format version 1.3]\n"
            "#[StartTime: %.3f (seconds since epoch), %s]\n"
            "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_CompressedHistogram\"\n",
            starts_s, date);
}

bool load_hdr_log_add(const uvhttp__histogram_t *histogram, double starts_s, double seconds, FILE *out) {
    static uint8_t plain[HEAD_SIZE + PAYLOAD_MAX], packed[8 + LOAD_DEFLATED_MAX(sizeof plain)];
    size_t size = write_histogram(histogram, plain), packed_size = sizeof packed - 8;
    if (!load_deflate(plain, size, packed + 8, &packed_size)) return false;
    (void)write_big(write_big(packed, COOKIE_COMPRESSED, 4), packed_size, 4);
    fprintf(out, "%.3f,%.3f,%.3f,", starts_s, seconds, (double)uvhttp__histogram_max(histogram) / 1e6);
    print_base64(packed, 8 + packed_size, out);
    fputc('\n', out);
    return true;
}
