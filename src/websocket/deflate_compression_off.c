/* Owns: what deflate.h is in a build without compression. May include: base. */
#include "websocket/deflate.h"

const bool uvhttp__ws_deflate_available = false;

void uvhttp__ws_codecs_clear(uvhttp__ws_codecs_t *codecs) {
    (void)codecs;
}

uvhttp__ws_inflater_t *uvhttp__ws_inflater_take(uvhttp__ws_codecs_t *codecs) {
    (void)codecs;
    return NULL;
}

void uvhttp__ws_inflater_give(uvhttp__ws_codecs_t *codecs, uvhttp__ws_inflater_t *inflater) {
    (void)codecs, (void)inflater;
}

int uvhttp__ws_inflate(uvhttp__ws_inflater_t *inflater, const char **data, size_t *size, bool end, char *out,
                       size_t out_size, size_t *written) {
    (void)inflater, (void)data, (void)size, (void)end, (void)out, (void)out_size;
    *written = 0;
    return UVHTTP_E_UNSUPPORTED;
}

uvhttp__ws_deflater_t *uvhttp__ws_deflater_new(uvhttp__ws_deflate_settings_t settings) {
    (void)settings;
    return NULL;
}

void uvhttp__ws_deflater_free(uvhttp__ws_deflater_t *deflater) {
    (void)deflater;
}

uvhttp__ws_deflater_t *uvhttp__ws_deflater_of(uvhttp__ws_codecs_t *codecs, uvhttp__ws_deflate_settings_t settings) {
    (void)codecs, (void)settings;
    return NULL;
}

void uvhttp__ws_deflater_reset(uvhttp__ws_deflater_t *deflater) {
    (void)deflater;
}

size_t uvhttp__ws_deflate(uvhttp__ws_deflater_t *deflater, const void *data, size_t size, char *out) {
    (void)deflater, (void)data, (void)size, (void)out;
    return 0;
}
