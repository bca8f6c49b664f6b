/* Owns: the error codes of the whole library. One table defines the enum, the names, the messages and the HTTP
 * statuses. */
#ifndef UVHTTP_ERROR_H
#define UVHTTP_ERROR_H

#include <uvhttp/types.h>

UVHTTP_BEGIN_DECLS

/** X(name, number, HTTP status that a client receives for it or 0, message). Numbers are part of the ABI: append only.
 */
#define UVHTTP_ERROR_MAP(X)                                                                                            \
    X(INVALID, -1, 0, "invalid argument")                                                                              \
    X(NOMEM, -2, 503, "out of memory")                                                                                 \
    X(AGAIN, -3, 0, "not complete yet, try again with more")                                                           \
    X(ABORTED, -4, 0, "the peer has disconnected")                                                                     \
    X(CLOSED, -5, 0, "already closed")                                                                                 \
    X(STATE, -6, 0, "not allowed in this state")                                                                       \
    X(LIMIT, -7, 503, "a configured limit is reached")                                                                 \
    X(TIMEOUT, -8, 504, "timed out")                                                                                   \
    X(UNSUPPORTED, -9, 0, "not supported by this build, engine or kernel")                                             \
    X(IO, -10, 0, "a system call failed")                                                                              \
    X(ADDRESS, -11, 0, "invalid or unknown address")                                                                   \
    X(ADDRESS_IN_USE, -12, 0, "address already in use")                                                                \
    X(PERMISSION, -13, 0, "permission denied")                                                                         \
    X(CONFIG, -14, 0, "invalid configuration value")                                                                   \
    X(ROUTE_PATTERN, -15, 0, "invalid route pattern")                                                                  \
    X(ROUTE_CONFLICT, -16, 0, "route conflicts with another route")                                                    \
    X(NOT_FOUND, -17, 404, "not found")                                                                                \
    X(NO_DESCRIPTORS, -18, 503, "out of file descriptors")                                                             \
    X(EOF, -19, 0, "end of stream")                                                                                    \
    X(HTTP_METHOD, -100, 400, "malformed request method")                                                              \
    X(HTTP_TARGET, -101, 400, "malformed request target")                                                              \
    X(HTTP_VERSION, -102, 400, "malformed HTTP version")                                                               \
    X(HTTP_VERSION_UNSUPPORTED, -103, 505, "HTTP version not supported")                                               \
    X(HTTP_BARE_CR, -104, 400, "bare CR in the message head")                                                          \
    X(HTTP_BARE_LF, -105, 400, "bare LF in the message head")                                                          \
    X(HTTP_HEADER_NAME, -106, 400, "malformed header name")                                                            \
    X(HTTP_HEADER_VALUE, -107, 400, "malformed header value")                                                          \
    X(HTTP_OBS_FOLD, -108, 400, "obsolete line folding in a header")                                                   \
    X(HTTP_HOST, -109, 400, "missing, repeated or malformed Host")                                                     \
    X(HTTP_CONTENT_LENGTH, -110, 400, "malformed or repeated Content-Length")                                          \
    X(HTTP_TRANSFER_ENCODING, -111, 400, "malformed, repeated or conflicting Transfer-Encoding")                       \
    X(HTTP_TRANSFER_ENCODING_UNKNOWN, -112, 501, "Transfer-Encoding not implemented")                                  \
    X(HTTP_CHUNK_SIZE, -113, 400, "malformed chunk size")                                                              \
    X(HTTP_CHUNK_EXTENSION, -114, 400, "malformed or too many chunk extensions")                                       \
    X(HTTP_CHUNK_DATA, -115, 400, "chunk data not followed by CRLF")                                                   \
    X(HTTP_TRAILER, -116, 400, "malformed trailer section")                                                            \
    X(HTTP_TRAILER_TOO_LARGE, -117, 431, "trailer section too large")                                                  \
    X(HTTP_LINE_TOO_LONG, -118, 414, "request line too long")                                                          \
    X(HTTP_HEADERS_TOO_LARGE, -119, 431, "header section too large")                                                   \
    X(HTTP_TOO_MANY_HEADERS, -120, 431, "too many header fields")                                                      \
    X(HTTP_BODY_TOO_LARGE, -121, 413, "request body too large")                                                        \
    X(HTTP_EXPECTATION, -122, 417, "expectation cannot be met")                                                        \
    X(HTTP_CONNECTION, -123, 400, "malformed Connection header")                                                       \
    X(HTTP_BODY_INCOMPLETE, -124, 400, "connection ended inside the request body")                                     \
    X(HTTP_METHOD_UNKNOWN, -140, 501, "request method not implemented")                                                \
    X(HTTP_METHOD_NOT_ALLOWED, -141, 405, "request method not allowed for this path")                                  \
    X(HTTP_TIMEOUT, -143, 408, "request timed out")                                                                    \
    X(HTTP_HOST_NOT_ALLOWED, -144, 421, "host not served here")                                                        \
    X(NO_RESPONSE, -142, 500, "the handler did not respond")                                                           \
    X(WS_HANDSHAKE, -200, 400, "malformed WebSocket handshake")                                                        \
    X(WS_VERSION, -201, 426, "not a WebSocket handshake of version 13")                                                \
    X(WS_ORIGIN, -202, 403, "WebSocket from an origin that is not allowed")                                            \
    X(WS_RESERVED, -203, 0, "WebSocket frame with reserved bits or an unknown opcode")                                 \
    X(WS_UNMASKED, -204, 0, "WebSocket frame of a client without a mask")                                              \
    X(WS_LENGTH, -205, 0, "WebSocket frame length not minimal, or above 2^63-1")                                       \
    X(WS_CONTROL, -206, 0, "WebSocket control frame in fragments or above 125 bytes")                                  \
    X(WS_CONTINUATION, -207, 0, "WebSocket continuation without a message, or a message inside another")               \
    X(WS_CLOSE, -208, 0, "malformed WebSocket close frame")                                                            \
    X(WS_UTF8, -209, 0, "WebSocket text that is not UTF-8")                                                            \
    X(WS_TOO_LARGE, -210, 0, "WebSocket message too large")                                                            \
    X(WS_FRAGMENTS, -211, 0, "WebSocket message of too many frames")                                                   \
    X(WS_DEFLATE, -212, 0, "malformed compressed WebSocket message")                                                   \
    X(WS_INFLATED, -213, 0, "WebSocket message too large when inflated")                                               \
    X(FORM_TYPE, -300, 415, "request body is not a form")                                                              \
    X(FORM_ENCODING, -301, 400, "malformed urlencoded form")                                                           \
    X(FORM_TOO_MANY_FIELDS, -302, 413, "too many fields in a form")                                                    \
    X(FORM_TOO_LARGE, -303, 413, "form larger than the memory of a request")                                           \
    X(MULTIPART_BOUNDARY, -304, 400, "missing, repeated or malformed multipart boundary")                              \
    X(MULTIPART_FRAMING, -305, 400, "malformed multipart boundary line")                                               \
    X(MULTIPART_HEADER, -306, 400, "malformed or repeated header of a multipart part")                                 \
    X(MULTIPART_DISPOSITION, -307, 400, "missing, repeated or malformed Content-Disposition of a part")                \
    X(MULTIPART_ENCODING, -308, 415, "transfer encoding of a multipart part not supported")                            \
    X(MULTIPART_INCOMPLETE, -309, 400, "multipart body ends before its last boundary")                                 \
    X(MULTIPART_HEADER_TOO_LARGE, -310, 413, "header of a multipart part too large")                                   \
    X(MULTIPART_PART_TOO_LARGE, -311, 413, "multipart part too large")                                                 \
    X(UPLOAD_NO_SPACE, -312, 507, "no space to save an upload")                                                        \
    X(RESPONSE_TIMEOUT, -320, 503, "the response was not ready in time")                                               \
    X(TLS_CERTIFICATE, -400, 0, "TLS certificate, key or authority that cannot be used")                               \
    X(TLS_HANDSHAKE, -401, 0, "TLS handshake failed")                                                                  \
    X(TLS_PLAIN_HTTP, -402, 400, "plain HTTP sent to a TLS port")                                                      \
    X(TLS_NOT_TLS, -403, 0, "data that is not TLS sent to a TLS port")                                                 \
    X(TLS_VERSION, -404, 0, "no TLS version in common")                                                                \
    X(TLS_CIPHER, -405, 0, "no TLS cipher, group or signature in common")                                              \
    X(TLS_ALPN, -406, 0, "no application protocol in common")                                                          \
    X(TLS_CLIENT_CERTIFICATE, -407, 0, "client certificate missing or not trusted")                                    \
    X(TLS_ALERT, -408, 0, "TLS ended by an alert of the peer")                                                         \
    X(TLS_RECORD, -409, 0, "TLS record that cannot be read")                                                           \
    X(TLS_TRUNCATED, -410, 0, "TLS connection ended without close_notify")                                             \
    X(STATIC_ROOT, -500, 0, "directory of static files cannot be opened")                                              \
    X(STATIC_BUSY, -501, 503, "too many static files wait to be opened")                                               \
    X(STATIC_RANGE, -502, 416, "none of the requested ranges is in the file")                                          \
    X(STATIC_RANGES_ABSURD, -503, 0, "ranges that overlap, or too many: the complete file was sent")                   \
    X(PROXY_MISSING, -600, 0, "connection that does not begin with a PROXY protocol header")                           \
    X(PROXY_MALFORMED, -601, 0, "malformed PROXY protocol header")                                                     \
    X(PROXY_TOO_LARGE, -602, 0, "PROXY protocol header too large")                                                     \
    X(PROXY_UNTRUSTED, -603, 0, "PROXY protocol listener reached by a peer that is not trusted")                       \
    X(PROXY_TIMEOUT, -604, 0, "PROXY protocol header not complete in time")                                            \
    X(WORK_FULL, -700, 503, "too many jobs wait for a worker thread")                                                  \
    X(WORK_CANCELLED, -701, 0, "the job was cancelled before it ran")                                                  \
    X(COROUTINE_LIMIT, -710, 503, "too many coroutines")                                                               \
    X(PEER_UNREACHABLE, -711, 502, "connecting to another server failed")                                              \
    X(PEER_NAME, -712, 502, "name of another server cannot be resolved")                                               \
    X(PEER_RESET, -713, 502, "another server has closed the connection")                                               \
    X(PEER_RESPONSE, -714, 502, "another server has sent no valid HTTP/1 response")                                    \
    X(PEER_TOO_LARGE, -715, 502, "another server has sent a response above a limit")                                   \
    X(PEER_INTERIM, -720, 502, "another server has sent too many interim responses")                                   \
    X(CLIENT_UNIX_URL, -721, 0, "a url cannot name a Unix socket: set unix_socket in the request")                     \
    X(STOPPING, -730, 503, "the server is stopping")                                                                   \
    X(HPACK_INDEX, -820, 0, "HPACK index without an entry")                                                            \
    X(HPACK_INTEGER, -821, 0, "HPACK integer truncated or too large")                                                  \
    X(HPACK_STRING, -822, 0, "HPACK string truncated")                                                                 \
    X(HPACK_HUFFMAN, -823, 0, "malformed Huffman code in an HPACK string")                                             \
    X(HPACK_TABLE_SIZE, -824, 0, "HPACK table size update missing, misplaced or above the limit")                      \
    X(HTTP2_PSEUDO_FIELD, -830, 400, "unknown or misplaced HTTP/2 pseudo-field")                                       \
    X(HTTP2_PSEUDO_ORDER, -831, 400, "HTTP/2 pseudo-field after another field")                                        \
    X(HTTP2_PSEUDO_REPEATED, -832, 400, "repeated HTTP/2 pseudo-field")                                                \
    X(HTTP2_PSEUDO_MISSING, -833, 400, "missing HTTP/2 pseudo-field, or one that CONNECT must not have")               \
    X(HTTP2_METHOD, -834, 400, "malformed :method")                                                                    \
    X(HTTP2_SCHEME, -835, 400, "malformed :scheme")                                                                    \
    X(HTTP2_PATH, -836, 400, "malformed :path")                                                                        \
    X(HTTP2_AUTHORITY, -837, 400, "missing or malformed :authority, or a Host that differs from it")                   \
    X(HTTP2_CONNECT_PROTOCOL, -838, 400, "malformed or unexpected :protocol")                                          \
    X(HTTP2_FIELD_NAME, -839, 400, "malformed name of an HTTP/2 field")                                                \
    X(HTTP2_FIELD_VALUE, -840, 400, "malformed value of an HTTP/2 field")                                              \
    X(HTTP2_CONNECTION_FIELD, -841, 400, "connection-specific field in an HTTP/2 message")                             \
    X(HTTP2_TE, -842, 400, "TE other than \"trailers\" in an HTTP/2 message")                                          \
    X(HTTP2_CONTENT_LENGTH, -843, 400, "malformed or repeated Content-Length of an HTTP/2 message")                    \
    X(HTTP2_PREFACE, -800, 0, "no HTTP/2 connection preface, or no SETTINGS after it")                                 \
    X(HTTP2_PROTOCOL, -801, 0, "HTTP/2 frame that is not allowed here, or malformed")                                  \
    X(HTTP2_FRAME_SIZE, -802, 0, "HTTP/2 frame of a size that is not allowed")                                         \
    X(HTTP2_FLOW_CONTROL, -803, 0, "HTTP/2 window exceeded or overflowed")                                             \
    X(HTTP2_STREAM_CLOSED, -804, 0, "HTTP/2 frame for a stream that is closed")                                        \
    X(HTTP2_COMPRESSION, -805, 0, "HTTP/2 header block that cannot be decoded")                                        \
    X(HTTP2_FLOOD, -806, 0, "HTTP/2 client exceeded a flood limit")                                                    \
    X(HTTP2_SETTINGS_TIMEOUT, -807, 0, "HTTP/2 SETTINGS not acknowledged in time")

/** Success is 0. A function that fails returns one of these negative codes. */
typedef enum uvhttp_error {
    UVHTTP_OK = 0,
#define UVHTTP_ERROR_ENUM(name, number, status, message) UVHTTP_E_##name = (number),
    UVHTTP_ERROR_MAP(UVHTTP_ERROR_ENUM)
#undef UVHTTP_ERROR_ENUM
} uvhttp_error_t;

/** Returns the symbol of a code, such as "UVHTTP_E_NOMEM". Returns "UVHTTP_OK" for 0 and "UVHTTP_E_UNKNOWN" for a
 * number that is not in the table. Static storage. Any thread. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD const char *uvhttp_error_name(int code);

/** Returns the message of a code: one line in English without a full stop. Static storage. Any thread. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD const char *uvhttp_error_message(int code);

/** Returns the HTTP status (400..599) that a server sends for a code, or 500 for a code without a status.
 * UVHTTP_E_TIMEOUT is 504: a handler waited too long for another server, a job or a channel. UVHTTP_E_HTTP_TIMEOUT is
 * 408: a client of this server was too slow. Any thread. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_error_http_status(int code);

UVHTTP_END_DECLS

#endif
