/* Owns: see handshake.h. May include: base. */
#include "websocket/handshake.h"

#include <assert.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/str.h"

#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
#define SHA1_SIZE 20

static bool is_base64(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '/';
}

bool uvhttp__ws_key_valid(uvhttp_str_t key) {
    if (key.size != UVHTTP__WS_KEY_SIZE || key.data[22] != '=' || key.data[23] != '=') return false;
    for (size_t i = 0; i < 22; i++)
        if (!is_base64(key.data[i])) return false;
    return true;
}

int uvhttp__ws_accept(uvhttp_str_t key, char out[UVHTTP__WS_ACCEPT_SIZE + 1]) {
    assert(key.size == UVHTTP__WS_KEY_SIZE);
    char text[UVHTTP__WS_KEY_SIZE + sizeof GUID - 1];
    unsigned char digest[EVP_MAX_MD_SIZE], encoded[UVHTTP__WS_ACCEPT_SIZE + 1];
    unsigned size = 0;
    memcpy(text, key.data, UVHTTP__WS_KEY_SIZE);
    memcpy(text + UVHTTP__WS_KEY_SIZE, GUID, sizeof GUID - 1);
    if (EVP_Digest(text, sizeof text, digest, &size, EVP_sha1(), NULL) != 1) return UVHTTP_E_UNSUPPORTED;
    assert(size == SHA1_SIZE);
    int written = EVP_EncodeBlock(encoded, digest, SHA1_SIZE);
    assert(written == UVHTTP__WS_ACCEPT_SIZE);
    (void)written;
    memcpy(out, encoded, sizeof encoded);
    return UVHTTP_OK;
}

bool uvhttp__ws_list_has(uvhttp_str_t list, uvhttp_str_t token) {
    uvhttp_str_t element;
    while (uvhttp__list_next(&list, &element))
        if (uvhttp__str_equal_nocase(element, token)) return true;
    return false;
}

static uvhttp_str_t without_port(uvhttp_str_t authority, uvhttp_str_t port) {
    if (authority.size <= port.size) return authority;
    size_t size = authority.size - port.size;
    if (memcmp(authority.data + size, port.data, port.size) == 0) authority.size = size;
    return authority;
}

bool uvhttp__ws_origin_is_host(uvhttp_str_t origin, uvhttp_str_t host) {
    static const struct {
        uvhttp_str_t scheme, port;
    } schemes[] = {{UVHTTP__STR_INIT("http://"), UVHTTP__STR_INIT(":80")},
                   {UVHTTP__STR_INIT("https://"), UVHTTP__STR_INIT(":443")}};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        size_t size = schemes[i].scheme.size;
        if (!uvhttp__str_starts_with_nocase(origin, schemes[i].scheme)) continue;
        uvhttp_str_t authority = {origin.data + size, origin.size - size};
        return authority.size > 0 &&
               uvhttp__str_equal_nocase(without_port(authority, schemes[i].port), without_port(host, schemes[i].port));
    }
    return false;
}
