/* Owns: see json_line.h. */
#include "base/json_line.h"

#include <stdint.h>
#include <string.h>

/* The size of the UTF-8 sequence at `text` (RFC 3629); 0: there is none, or it is of a control character. */
static size_t sequence_size(const uint8_t *text, size_t left) {
    if (text[0] < 0xc2 || text[0] > 0xf4) return 0;
    size_t size = text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4;
    if (left < size) return 0;
    for (size_t i = 1; i < size; i++)
        if ((text[i] & 0xc0) != 0x80) return 0;
    if (text[0] == 0xc2 && text[1] < 0xa0) return 0;                                          /* C1 */
    if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f)) return 0; /* long, surrogate */
    if ((text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f)) return 0; /* long, too large */
    if (text[0] == 0xe2 && text[1] == 0x80 && (text[2] == 0xa8 || text[2] == 0xa9)) return 0; /* ends lines for some */
    return size;
}

size_t uvhttp__json_line_piece(const char *text, size_t size, char piece[UVHTTP__JSON_PIECE_MAX], size_t *piece_size) {
    static const char hex[] = "0123456789abcdef";
    uint8_t c = (uint8_t)*text;
    size_t sequence = c < 0x80 ? 0 : sequence_size((const uint8_t *)text, size);
    if (sequence > 0) {
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
