/* Owns: the escaping of characters in JSON strings of log lines. May include: base. */
#ifndef UVHTTP_SRC_BASE_JSON_LINE_H
#define UVHTTP_SRC_BASE_JSON_LINE_H

#include <stddef.h>

#define UVHTTP__JSON_PIECE_MAX 6

/* Writes what stands for the character at text[0], of `size` > 0 bytes. The result is printable: control characters
 * (C0, DEL, C1, U+2028 and U+2029) are escaped, and a byte that is not UTF-8 becomes the character of its number
 * (\u00HH). Returns the bytes of `text` that were used, at least 1. */
size_t uvhttp__json_line_piece(const char *text, size_t size, char piece[UVHTTP__JSON_PIECE_MAX], size_t *piece_size);

#endif
