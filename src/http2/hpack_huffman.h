/* Owns: the Huffman code of strings (RFC 7541 section 5.2). After uvhttp__hpack_prepare. Private to src/http2. May
 * include: base. */
#ifndef UVHTTP_SRC_HTTP2_HPACK_HUFFMAN_H
#define UVHTTP_SRC_HTTP2_HPACK_HUFFMAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most characters that `size` bytes can be, and what a decoder may write behind them. */
#define UVHTTP__HUFFMAN_DECODED_MAX(size) ((size)*8 / 5)
#define UVHTTP__HUFFMAN_SLACK 32

/* A text that was decoded. */
typedef struct uvhttp__huffman_text {
    char *end; /* NULL: EOS, or padding that is longer than 7 bits or not of ones */
    bool odd;  /* there is a character that no field value has */
} uvhttp__huffman_text_t;

/* Decodes into out, which has UVHTTP__HUFFMAN_DECODED_MAX(size) + UVHTTP__HUFFMAN_SLACK bytes. */
uvhttp__huffman_text_t uvhttp__huffman_decode(const uint8_t *in, size_t size, char *out);

/* The same for a text of characters with short codes, which those of most field values are. NULL: it has another one,
 * or a fault; something may have been written. */
char *uvhttp__huffman_decode_usual(const uint8_t *in, size_t size, char *out);

/* The same without the text. */
bool uvhttp__huffman_measure(const uint8_t *in, size_t size, size_t *out_size);

/* Bytes that the encoded text has. */
size_t uvhttp__huffman_size(const char *text, size_t size);

/* Writes those, and returns the end. */
uint8_t *uvhttp__huffman_encode(const char *text, size_t size, uint8_t *out);

#endif
