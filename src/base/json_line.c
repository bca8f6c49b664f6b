/* Owns: see json_line.h. */
#include "base/json_line.h"

#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

/* C1 does not, and neither does what ends a line for some readers. */
static bool stays(uint32_t code) {
    return code >= 0xa0 && code != 0x2028 && code != 0x2029 && code != UVHTTP__UTF8_MALFORMED;
}

size_t uvhttp__json_line_piece(const char *text, size_t size, char piece[UVHTTP__JSON_PIECE_MAX], size_t *piece_size) {
    static const char hex[] = "0123456789abcdef";
    uint8_t c = (uint8_t)*text;
    uint32_t code;
    size_t sequence = c < 0x80 ? 0 : uvhttp__utf8_read(text, size, &code);
    if (sequence > 0 && stays(code)) {
        memcpy(piece, text, sequence);
        *piece_size = sequence;
        return sequence;
    }
    if (c < ' ' || c >= 127) {
        memcpy(piece, (char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
        *piece_size = 6;
        return 1;
    }
    *piece_size = 0;
    if (c == '"' || c == '\\') piece[(*piece_size)++] = '\\';
    piece[(*piece_size)++] = (char)c;
    return 1;
}
