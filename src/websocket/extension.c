/* Owns: see extension.h. May include: base. */
#include "websocket/extension.h"

#include <stdio.h>
#include <string.h>

#include "base/chars.h"
#include "base/str.h"

/* --- the list: 1#( token *( ";" token [ "=" ( token / quoted-string ) ] ) ) --- */

typedef struct cursor {
    const char *at, *end;
} cursor_t;

/* A value; more than fits is of no parameter that is known. */
typedef struct value {
    bool present;
    size_t size;
    char text[4];
} value_t;

static void skip_blanks(cursor_t *cursor) {
    while (cursor->at < cursor->end && (*cursor->at == ' ' || *cursor->at == '\t')) cursor->at++;
}

/* Whether the next byte, behind blanks, is c; then it is taken. */
static bool take(cursor_t *cursor, char c) {
    skip_blanks(cursor);
    if (cursor->at == cursor->end || *cursor->at != c) return false;
    cursor->at++;
    return true;
}

static bool take_token(cursor_t *cursor, uvhttp_str_t *token) {
    skip_blanks(cursor);
    const char *start = cursor->at;
    while (cursor->at < cursor->end && uvhttp__char_is(*cursor->at, UVHTTP__CHAR_TOKEN)) cursor->at++;
    *token = (uvhttp_str_t){start, (size_t)(cursor->at - start)};
    return token->size > 0;
}

static void add_char(value_t *value, char c) {
    if (value->size < sizeof value->text) value->text[value->size] = c;
    value->size++;
}

/* The opening quote is taken. */
static bool take_quoted(cursor_t *cursor, value_t *value) {
    while (cursor->at < cursor->end && *cursor->at != '"') {
        if (*cursor->at == '\\' && ++cursor->at == cursor->end) return false;
        add_char(value, *cursor->at++);
    }
    return take(cursor, '"') && value->size > 0;
}

static bool take_value(cursor_t *cursor, value_t *value) {
    *value = (value_t){.present = take(cursor, '=')};
    if (!value->present) return true;
    if (take(cursor, '"')) return take_quoted(cursor, value);
    uvhttp_str_t token;
    if (!take_token(cursor, &token)) return false;
    for (size_t i = 0; i < token.size; i++) add_char(value, token.data[i]);
    return true;
}

/* To behind the next comma that is in no quoted string. */
static void skip_offer(cursor_t *cursor) {
    bool quoted = false;
    for (; cursor->at < cursor->end && (quoted || *cursor->at != ','); cursor->at++) {
        if (*cursor->at == '"') quoted = !quoted;
        if (quoted && *cursor->at == '\\' && cursor->at + 1 < cursor->end) cursor->at++;
    }
    if (cursor->at < cursor->end) cursor->at++;
}

/* --- an offer --- */

typedef struct offer {
    bool server_no_takeover, client_no_takeover, client_bits_given;
    uint8_t server_bits, client_bits; /* 0: not named */
} offer_t;

/* 8..15, without a leading zero; 0 for anything else. */
static uint8_t bits_of(const value_t *value) {
    if (value->size == 1 && (value->text[0] == '8' || value->text[0] == '9')) return (uint8_t)(value->text[0] - '0');
    if (value->size == 2 && value->text[0] == '1' && value->text[1] >= '0' && value->text[1] <= '5')
        return (uint8_t)(10 + value->text[1] - '0');
    return 0;
}

static bool set_once(bool *flag, const value_t *value) {
    bool good = !*flag && !value->present;
    *flag = true;
    return good;
}

static bool set_param(offer_t *offer, uvhttp_str_t name, const value_t *value) {
    if (uvhttp__str_equal_nocase(name, UVHTTP__STR("server_no_context_takeover")))
        return set_once(&offer->server_no_takeover, value);
    if (uvhttp__str_equal_nocase(name, UVHTTP__STR("client_no_context_takeover")))
        return set_once(&offer->client_no_takeover, value);
    if (uvhttp__str_equal_nocase(name, UVHTTP__STR("server_max_window_bits"))) {
        if (offer->server_bits) return false;
        offer->server_bits = bits_of(value);
        return offer->server_bits >= UVHTTP__WS_BITS_MIN;
    }
    if (uvhttp__str_equal_nocase(name, UVHTTP__STR("client_max_window_bits"))) {
        if (offer->client_bits_given) return false;
        offer->client_bits_given = true;
        offer->client_bits = value->present ? bits_of(value) : UVHTTP__WS_BITS_MAX;
        return offer->client_bits > 0;
    }
    return false;
}

/* Whether it is permessage-deflate with parameters that are all understood; the cursor is behind it, or anywhere in it.
 */
static bool take_offer(cursor_t *cursor, offer_t *offer) {
    *offer = (offer_t){0};
    uvhttp_str_t name;
    if (!take_token(cursor, &name) || !uvhttp__str_equal_nocase(name, UVHTTP__STR("permessage-deflate"))) return false;
    while (take(cursor, ';')) {
        uvhttp_str_t param;
        value_t value;
        if (!take_token(cursor, &param) || !take_value(cursor, &value) || !set_param(offer, param, &value))
            return false;
    }
    skip_blanks(cursor);
    return cursor->at == cursor->end || *cursor->at == ',';
}

static uint8_t smaller(uint8_t a, uint8_t b) {
    return a < b ? a : b;
}

bool uvhttp__ws_deflate_negotiate(uvhttp_str_t offers, const uvhttp__ws_deflate_t *willing,
                                  uvhttp__ws_deflate_t *agreed) {
    cursor_t cursor = {offers.data, offers.data + offers.size};
    for (; cursor.at < cursor.end; skip_offer(&cursor)) {
        offer_t offer;
        if (!take_offer(&cursor, &offer)) continue;
        *agreed = (uvhttp__ws_deflate_t){
            .server_bits = smaller(willing->server_bits, offer.server_bits ? offer.server_bits : UVHTTP__WS_BITS_MAX),
            /* A client that does not speak of its window cannot be told to make it smaller (section 7.1.2.2). */
            .client_bits =
                offer.client_bits_given ? smaller(willing->client_bits, offer.client_bits) : UVHTTP__WS_BITS_MAX,
            .server_takeover = willing->server_takeover && !offer.server_no_takeover,
            .client_takeover = willing->client_takeover && !offer.client_no_takeover,
            .server_bits_asked = offer.server_bits > 0};
        return true;
    }
    return false;
}

void uvhttp__ws_deflate_write(const uvhttp__ws_deflate_t *agreed, char out[UVHTTP__WS_EXTENSION_SIZE_MAX]) {
    char server_bits[32] = "", client_bits[32] = "";
    if (agreed->server_bits_asked || agreed->server_bits < UVHTTP__WS_BITS_MAX)
        snprintf(server_bits, sizeof server_bits, "; server_max_window_bits=%d", agreed->server_bits);
    if (agreed->client_bits < UVHTTP__WS_BITS_MAX)
        snprintf(client_bits, sizeof client_bits, "; client_max_window_bits=%d", agreed->client_bits);
    snprintf(out, UVHTTP__WS_EXTENSION_SIZE_MAX, "permessage-deflate%s%s%s%s",
             agreed->server_takeover ? "" : "; server_no_context_takeover",
             agreed->client_takeover ? "" : "; client_no_context_takeover", server_bits, client_bits);
}
