/* Owns: fuzzing of the Range field (libFuzzer): ranges lie in the file, are not empty, do not overlap, and are no more
 * than asked for. Input: eight bytes for the size of the file, one for the most ranges, the field's value. */
/* Needs: static. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handler/static.h"

static void die(const char *what) {
    fprintf(stderr, "fuzz_range: %s\n", what);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 9) return 0;
    uint64_t file_size;
    memcpy(&file_size, data, sizeof file_size);
    if (data[8] & 1) file_size %= 1000;
    uint32_t max = 1 + data[8] % 16, count = 0;
    uvhttp__range_t *ranges = malloc(max * sizeof *ranges);
    char *value = malloc(size - 9 ? size - 9 : 1); /* exactly as large: the sanitizer sees who reads on */
    if (!ranges || !value) abort();
    memcpy(value, data + 9, size - 9);
    switch (uvhttp__range_parse((uvhttp_str_t){value, size - 9}, file_size, ranges, max, &count)) {
        case UVHTTP__RANGE_SOME:
            if (count == 0 || count > max) die("how many");
            for (uint32_t i = 0; i < count; i++) {
                if (ranges[i].size == 0 || ranges[i].first >= file_size) die("a range without bytes");
                if (ranges[i].size > file_size - ranges[i].first) die("a range beyond the end");
                for (uint32_t j = 0; j < i; j++)
                    if (ranges[i].first < ranges[j].first + ranges[j].size &&
                        ranges[j].first < ranges[i].first + ranges[i].size)
                        die("ranges overlap");
            }
            break;
        case UVHTTP__RANGE_UNSATISFIABLE:
            if (file_size == 0) die("nothing of nothing");
            break;
        default: break;
    }
    free(value);
    free(ranges);
    return 0;
}
