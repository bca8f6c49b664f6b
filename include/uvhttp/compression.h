/* Owns: compression of responses (Content-Encoding, RFC 9110 section 8.4) as middleware. */
#ifndef UVHTTP_COMPRESSION_H
#define UVHTTP_COMPRESSION_H

#include <uvhttp/route.h>

UVHTTP_BEGIN_DECLS

/** Options. A field that is 0 or NULL has its default. */
typedef struct uvhttp_compression_options {
    uint32_t size_min;       /**< bytes; smaller bodies are not compressed; 1..; default 1024 */
    uint32_t size_max;       /**< bytes; larger bodies are not compressed, because the loop waits; 1..; default 1 MiB */
    uint32_t gzip_level;     /**< 1 (fast) to 9; default 4 */
    uint32_t brotli_quality; /**< 1 (fast) to 11; default 4 */
    uint32_t streams_max; /**< streamed responses compressed at the same time, over all loops; each uses up to 1.7 MiB.
                             Further ones are not compressed; 1..65536; default 64 */
    bool no_streams;      /**< streamed responses are not compressed */
    bool no_gzip;
    bool no_brotli;
    /** Media types to compress, without parameters, terminated by NULL: "text/html", or "text/" followed by a star for
     * a whole family. NULL: text, JSON, JavaScript, XML (also "+json" and "+xml"), SVG, WebAssembly, uncompressed
     * fonts. Read only during the call. "text/event-stream" must be listed explicitly. */
    const char *const *types;
} uvhttp_compression_options_t;

UVHTTP_EXPORT UVHTTP_ANY_THREAD uvhttp_middleware_t
uvhttp_compression_sized(const uvhttp_compression_options_t *options, size_t options_size);
/** Creates a middleware that compresses responses with brotli ("br") or gzip, as the client's Accept-Encoding prefers
 * (RFC 9110 section 12.5.3); brotli without a preference, none if "identity" is preferred. It runs on the loop's thread
 * and takes about 20 ms per MiB.
 *
 * Not compressed are files, responses with Content-Encoding, a digest or `Cache-Control: no-transform`, 206, responses
 * without a body, other types and sizes, and bodies that would not become smaller. Streamed responses
 * (uvhttp_response_begin) are compressed incrementally: the client can decode each uvhttp_response_write when it
 * arrives. A known size is not sent, and only has to reach size_min. `Vary: Accept-Encoding` is added to every response
 * that could have been compressed, and to a 304 or 206 for such a response (RFC 9110 sections 15.4.5 and 15.3.7). A
 * strong ETag becomes weak, and Accept-Ranges is removed, because ranges are of the plain bytes. Do not compress
 * responses that contain both a secret and text chosen by the client (BREACH): leave those routes out.
 *
 * `options` NULL means defaults; they are copied. On failure (an option out of range, which is logged, no memory, no
 * coding enabled, or a build with BUILD_WITH_COMPRESSION=OFF) `run` is NULL, and registration fails with
 * UVHTTP_E_INVALID. */
static inline uvhttp_middleware_t uvhttp_compression(const uvhttp_compression_options_t *options) {
    return uvhttp_compression_sized(options, sizeof *options);
}

UVHTTP_END_DECLS

#endif
