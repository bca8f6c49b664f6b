/* Owns: what uvhttp_compression is in a build without it. May include: nothing. */
#include <uvhttp/compression.h>
#include <uvhttp/log.h>

uvhttp_middleware_t uvhttp_compression_sized(const uvhttp_compression_options_t *options, size_t options_size) {
    (void)options, (void)options_size;
    UVHTTP_LOG_ERROR("compression: this library was built without it (BUILD_WITH_COMPRESSION=OFF)");
    return (uvhttp_middleware_t){.run = NULL};
}
