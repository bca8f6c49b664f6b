/* Owns: a micro benchmark of the request head reader, per level of vector instructions.
 * Build: cc -O2 -std=gnu17 -D_GNU_SOURCE -Iinclude -Isrc bench/micro/http1_bench.c and all of src/http1
 * Run:   ./http1_bench [seconds per case [case]], where a case is like "avx2 wrk" or a part of it. Prints
 * nanoseconds per head: the median and the least of 21 batches. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "http1/http1.h"

static const char wrk[] = "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";
static const char browser[] =
    "GET /static/app/main.4f2c1d.js?v=20260109&theme=dark HTTP/1.1\r\n"
    "Host: www.example.com\r\n"
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n"
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n"
    "Accept-Language: en-US,en;q=0.5\r\n"
    "Accept-Encoding: gzip, deflate, br, zstd\r\n"
    "Referer: https://www.example.com/articles/2026/01/http-servers\r\n"
    "Connection: keep-alive\r\n"
    "Cookie: session=8c1f0a6be2d94b7f9a3e5d7c1b2a4f60; _ga=GA1.2.1234567890.1700000000; theme=dark; consent=yes\r\n"
    "Upgrade-Insecure-Requests: 1\r\n"
    "Sec-Fetch-Dest: document\r\n"
    "Sec-Fetch-Mode: navigate\r\n"
    "Sec-Fetch-Site: same-origin\r\n"
    "Sec-Fetch-User: ?1\r\n"
    "Cache-Control: max-age=0\r\n\r\n";

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static unsigned long run(const char *data, size_t size, long rounds) {
    static uvhttp__field_t fields[64];
    const uvhttp__head_limits_t limits = {8192, 65536, 64};
    unsigned long sum = 0;
    for (long i = 0; i < rounds; ++i) {
        uvhttp__http1_scan_t scan = {0};
        uvhttp__head_t head;
        head.headers = fields;
        if (uvhttp__http1_read_request(&scan, data, size, &limits, &head) != 0) abort();
        sum += head.header_count;
        __asm__ volatile("" : "+r"(data) : : "memory");
    }
    return sum;
}

static void measure(const char *name, const char *text, size_t size, double seconds, const char *filter) {
    char label[64];
    snprintf(label, sizeof label, "%s %s", uvhttp__http1_simd_name(), name);
    if (strstr(label, filter) == NULL) return;
    enum { BATCHES = 21 };
    double result[BATCHES];
    /* The head stands at an odd address, as it does in a receive buffer behind another one. */
    char *copy = malloc(size + 7);
    memcpy(copy + 7, text, size);
    double start = now_ns();
    run(copy + 7, size, 20000);
    long rounds = (long)(seconds * 1e9 / BATCHES / ((now_ns() - start) / 20000)) + 1;
    for (int i = 0; i < BATCHES; ++i) {
        start = now_ns();
        run(copy + 7, size, rounds);
        result[i] = (now_ns() - start) / (double)rounds;
    }
    qsort(result, BATCHES, sizeof result[0], compare);
    printf("%-26s %4zu bytes  median %7.1f ns  least %7.1f ns\n", label, size, result[BATCHES / 2], result[0]);
    free(copy);
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 0.3;
    const char *filter = argc > 2 ? argv[2] : "";
    for (int level = UVHTTP__HTTP1_SIMD_SCALAR; level <= UVHTTP__HTTP1_SIMD_NEON; ++level) {
        if (uvhttp__http1_simd_select((uvhttp__http1_simd_t)level) != 0) continue;
        measure("wrk", wrk, sizeof wrk - 1, seconds, filter);
        measure("browser", browser, sizeof browser - 1, seconds, filter);
    }
    return 0;
}
