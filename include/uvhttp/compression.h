/* Owns: compression of answers (Content-Encoding, RFC 9110 section 8.4) as middleware. */
#ifndef UVHTTP_COMPRESSION_H
#define UVHTTP_COMPRESSION_H

#include <uvhttp/route.h>

UVHTTP_BEGIN_DECLS

/** A field that is 0 or NULL has its default. */
typedef struct uvhttp_compression_options {
    uint32_t size_min;       /**< bytes of a body; smaller ones leave as they are; 1..; default 1024 */
    uint32_t size_max;       /**< bytes; larger ones leave as they are, because the loop waits; 1..; default 1 MiB */
    uint32_t gzip_level;     /**< 1 (fast) to 9; default 4 */
    uint32_t brotli_quality; /**< 1 (fast) to 11; default 4 */
    uint32_t streams_max; /**< answers in pieces that are compressed at the same time, all loops together, because each
                               holds up to 1.7 MiB until it ends; others leave plain; 1..65536; default 64 */
    bool no_streams;      /**< answers in pieces leave as they are */
    bool no_gzip;
    bool no_brotli;
    /** Content types worth compressing, without parameters, ended by NULL: "text/html", or "text/" followed by a star
     * for all of a kind. NULL: text, JSON, JavaScript, XML (also "+json" and "+xml"), SVG, WebAssembly, fonts that are
     * not compressed themselves. Read during the call only. "text/event-stream" only counts when it is listed itself.
     */
    const char *const *types;
} uvhttp_compression_options_t;

UVHTTP_EXPORT uvhttp_middleware_t uvhttp_compression_sized(const uvhttp_compression_options_t *options,
                                                           size_t options_size);
/** Compresses answers with brotli ("br") or gzip, as the client's Accept-Encoding prefers (RFC 9110 section 12.5.3;
 * brotli if it has no preference). Left alone: a file, one that has a Content-Encoding or `Cache-Control:
 * no-transform`, 206 and answers without a body, other types, other sizes, and a complete body that would not get
 * smaller. An answer in pieces (uvhttp_response_begin) is compressed piece by piece: what each uvhttp_response_write
 * has written can be decoded as soon as it arrives; a size that was announced is not sent, and only has to reach
 * size_min. `Vary: Accept-Encoding` is sent with every answer that could have been compressed, and with a 304
 * that may stand for one (RFC 9110 section 15.4.5); a strong ETag becomes a weak one. Runs on the loop's thread: about
 * 20 ms per MiB. Do not compress answers that hold both a secret and something that the client chose (BREACH): leave
 * the middleware off those routes.
 *
 * options NULL: defaults; copied. When an option is out of range (logged), out of memory, or with neither coding, `run`
 * is NULL and registering the value fails with UVHTTP_E_INVALID; so it is in a build with BUILD_WITH_COMPRESSION=OFF.
 */
static inline uvhttp_middleware_t uvhttp_compression(const uvhttp_compression_options_t *options) {
    return uvhttp_compression_sized(options, sizeof *options);
}

UVHTTP_END_DECLS

#endif
