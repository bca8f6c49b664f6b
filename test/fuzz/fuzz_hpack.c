/* Owns: fuzzing of header compression against libnghttp2 (libFuzzer): both accept a block, with the same fields, or
 * both refuse it. Input: blocks, each behind two bytes of its size, of one connection; a size of 0xffff sets the limit
 * of the table to the two bytes that follow. */
#include "../unit/http2/hpack_oracle.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    uvhttp__hpack_decoder_t decoder;
    nghttp2_hd_inflater *inflater;
    bool good = true;
    uvhttp__hpack_decoder_init(&decoder);
    if (nghttp2_hd_inflate_new(&inflater) != 0) abort();
    while (good && size >= 4) {
        size_t block = (size_t)input[0] << 8 | input[1];
        input += 2;
        size -= 2;
        if (block == 0xffff) {
            uint32_t limit = ((uint32_t)input[0] << 8 | input[1]) % (UVHTTP__HPACK_TABLE_SIZE_MAX + 1);
            uvhttp__hpack_decoder_set_limit(&decoder, limit);
            if (nghttp2_hd_inflate_change_table_size(inflater, limit) != 0) abort();
            input += 2;
            size -= 2;
            continue;
        }
        if (block > size) block = size;
        const char *wrong = oracle_compare(&decoder, inflater, input, block, &good);
        if (wrong) {
            fprintf(stderr, "fuzz_hpack: %s\n", wrong);
            abort();
        }
        input += block;
        size -= block;
    }
    uvhttp__hpack_decoder_deinit(&decoder);
    nghttp2_hd_inflate_del(inflater);
    return 0;
}
