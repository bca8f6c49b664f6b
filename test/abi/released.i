#define UVHTTP_VERSION "0.1.0"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
typedef struct uvhttp_str {
    const char *data;
    size_t size;
} uvhttp_str_t;
typedef enum uvhttp_http_version {
    UVHTTP_HTTP_1_0 = 10,
    UVHTTP_HTTP_1_1 = 11,
    UVHTTP_HTTP_2 = 20,
} uvhttp_http_version_t;
typedef enum uvhttp_error {
    UVHTTP_OK = 0,
    UVHTTP_E_INVALID = (-1), UVHTTP_E_NOMEM = (-2), UVHTTP_E_AGAIN = (-3), UVHTTP_E_ABORTED = (-4), UVHTTP_E_CLOSED = (-5), UVHTTP_E_STATE = (-6), UVHTTP_E_LIMIT = (-7), UVHTTP_E_TIMEOUT = (-8), UVHTTP_E_UNSUPPORTED = (-9), UVHTTP_E_IO = (-10), UVHTTP_E_ADDRESS = (-11), UVHTTP_E_ADDRESS_IN_USE = (-12), UVHTTP_E_PERMISSION = (-13), UVHTTP_E_CONFIG = (-14), UVHTTP_E_ROUTE_PATTERN = (-15), UVHTTP_E_ROUTE_CONFLICT = (-16), UVHTTP_E_NOT_FOUND = (-17), UVHTTP_E_NO_DESCRIPTORS = (-18), UVHTTP_E_EOF = (-19), UVHTTP_E_HTTP_METHOD = (-100), UVHTTP_E_HTTP_TARGET = (-101), UVHTTP_E_HTTP_VERSION = (-102), UVHTTP_E_HTTP_VERSION_UNSUPPORTED = (-103), UVHTTP_E_HTTP_BARE_CR = (-104), UVHTTP_E_HTTP_BARE_LF = (-105), UVHTTP_E_HTTP_HEADER_NAME = (-106), UVHTTP_E_HTTP_HEADER_VALUE = (-107), UVHTTP_E_HTTP_OBS_FOLD = (-108), UVHTTP_E_HTTP_HOST = (-109), UVHTTP_E_HTTP_CONTENT_LENGTH = (-110), UVHTTP_E_HTTP_TRANSFER_ENCODING = (-111), UVHTTP_E_HTTP_TRANSFER_ENCODING_UNKNOWN = (-112), UVHTTP_E_HTTP_CHUNK_SIZE = (-113), UVHTTP_E_HTTP_CHUNK_EXTENSION = (-114), UVHTTP_E_HTTP_CHUNK_DATA = (-115), UVHTTP_E_HTTP_TRAILER = (-116), UVHTTP_E_HTTP_TRAILER_TOO_LARGE = (-117), UVHTTP_E_HTTP_LINE_TOO_LONG = (-118), UVHTTP_E_HTTP_HEADERS_TOO_LARGE = (-119), UVHTTP_E_HTTP_TOO_MANY_HEADERS = (-120), UVHTTP_E_HTTP_BODY_TOO_LARGE = (-121), UVHTTP_E_HTTP_EXPECTATION = (-122), UVHTTP_E_HTTP_CONNECTION = (-123), UVHTTP_E_HTTP_BODY_INCOMPLETE = (-124), UVHTTP_E_HTTP_METHOD_UNKNOWN = (-140), UVHTTP_E_HTTP_METHOD_NOT_ALLOWED = (-141), UVHTTP_E_HTTP_TIMEOUT = (-143), UVHTTP_E_HTTP_HOST_NOT_ALLOWED = (-144), UVHTTP_E_NO_RESPONSE = (-142), UVHTTP_E_WS_HANDSHAKE = (-200), UVHTTP_E_WS_VERSION = (-201), UVHTTP_E_WS_ORIGIN = (-202), UVHTTP_E_WS_RESERVED = (-203), UVHTTP_E_WS_UNMASKED = (-204), UVHTTP_E_WS_LENGTH = (-205), UVHTTP_E_WS_CONTROL = (-206), UVHTTP_E_WS_CONTINUATION = (-207), UVHTTP_E_WS_CLOSE = (-208), UVHTTP_E_WS_UTF8 = (-209), UVHTTP_E_WS_TOO_LARGE = (-210), UVHTTP_E_WS_FRAGMENTS = (-211), UVHTTP_E_WS_DEFLATE = (-212), UVHTTP_E_WS_INFLATED = (-213), UVHTTP_E_FORM_TYPE = (-300), UVHTTP_E_FORM_ENCODING = (-301), UVHTTP_E_FORM_TOO_MANY_FIELDS = (-302), UVHTTP_E_FORM_TOO_LARGE = (-303), UVHTTP_E_MULTIPART_BOUNDARY = (-304), UVHTTP_E_MULTIPART_FRAMING = (-305), UVHTTP_E_MULTIPART_HEADER = (-306), UVHTTP_E_MULTIPART_DISPOSITION = (-307), UVHTTP_E_MULTIPART_ENCODING = (-308), UVHTTP_E_MULTIPART_INCOMPLETE = (-309), UVHTTP_E_MULTIPART_HEADER_TOO_LARGE = (-310), UVHTTP_E_MULTIPART_PART_TOO_LARGE = (-311), UVHTTP_E_UPLOAD_NO_SPACE = (-312), UVHTTP_E_ANSWER_TIMEOUT = (-320), UVHTTP_E_TLS_CERTIFICATE = (-400), UVHTTP_E_TLS_HANDSHAKE = (-401), UVHTTP_E_TLS_PLAIN_HTTP = (-402), UVHTTP_E_TLS_NOT_TLS = (-403), UVHTTP_E_TLS_VERSION = (-404), UVHTTP_E_TLS_CIPHER = (-405), UVHTTP_E_TLS_ALPN = (-406), UVHTTP_E_TLS_CLIENT_CERTIFICATE = (-407), UVHTTP_E_TLS_ALERT = (-408), UVHTTP_E_TLS_RECORD = (-409), UVHTTP_E_TLS_TRUNCATED = (-410), UVHTTP_E_STATIC_ROOT = (-500), UVHTTP_E_STATIC_BUSY = (-501), UVHTTP_E_STATIC_RANGE = (-502), UVHTTP_E_STATIC_RANGES_ABSURD = (-503), UVHTTP_E_PROXY_MISSING = (-600), UVHTTP_E_PROXY_MALFORMED = (-601), UVHTTP_E_PROXY_TOO_LARGE = (-602), UVHTTP_E_PROXY_UNTRUSTED = (-603), UVHTTP_E_PROXY_TIMEOUT = (-604), UVHTTP_E_WORK_FULL = (-700), UVHTTP_E_WORK_CANCELLED = (-701), UVHTTP_E_COROUTINE_LIMIT = (-710), UVHTTP_E_PEER_UNREACHABLE = (-711), UVHTTP_E_PEER_NAME = (-712), UVHTTP_E_PEER_RESET = (-713), UVHTTP_E_PEER_RESPONSE = (-714), UVHTTP_E_PEER_TOO_LARGE = (-715), UVHTTP_E_PEER_INTERIM = (-720), UVHTTP_E_CLIENT_UNIX_URL = (-721), UVHTTP_E_STOPPING = (-730), UVHTTP_E_HPACK_INDEX = (-820), UVHTTP_E_HPACK_INTEGER = (-821), UVHTTP_E_HPACK_STRING = (-822), UVHTTP_E_HPACK_HUFFMAN = (-823), UVHTTP_E_HPACK_TABLE_SIZE = (-824), UVHTTP_E_HTTP2_PSEUDO_FIELD = (-830), UVHTTP_E_HTTP2_PSEUDO_ORDER = (-831), UVHTTP_E_HTTP2_PSEUDO_REPEATED = (-832), UVHTTP_E_HTTP2_PSEUDO_MISSING = (-833), UVHTTP_E_HTTP2_METHOD = (-834), UVHTTP_E_HTTP2_SCHEME = (-835), UVHTTP_E_HTTP2_PATH = (-836), UVHTTP_E_HTTP2_AUTHORITY = (-837), UVHTTP_E_HTTP2_CONNECT_PROTOCOL = (-838), UVHTTP_E_HTTP2_FIELD_NAME = (-839), UVHTTP_E_HTTP2_FIELD_VALUE = (-840), UVHTTP_E_HTTP2_CONNECTION_FIELD = (-841), UVHTTP_E_HTTP2_TE = (-842), UVHTTP_E_HTTP2_CONTENT_LENGTH = (-843), UVHTTP_E_HTTP2_PREFACE = (-800), UVHTTP_E_HTTP2_PROTOCOL = (-801), UVHTTP_E_HTTP2_FRAME_SIZE = (-802), UVHTTP_E_HTTP2_FLOW_CONTROL = (-803), UVHTTP_E_HTTP2_STREAM_CLOSED = (-804), UVHTTP_E_HTTP2_COMPRESSION = (-805), UVHTTP_E_HTTP2_FLOOD = (-806), UVHTTP_E_HTTP2_SETTINGS_TIMEOUT = (-807),
} uvhttp_error_t;
__attribute__((visibility("default"))) const char *uvhttp_error_name(int code);
__attribute__((visibility("default"))) const char *uvhttp_error_message(int code);
__attribute__((visibility("default"))) int uvhttp_error_http_status(int code);
typedef struct uvhttp_allocator {
    void *(*malloc)(size_t size, void *user);
    void *(*calloc)(size_t count, size_t size, void *user);
    void *(*realloc)(void *memory, size_t size, void *user);
    void (*free)(void *memory, void *user);
    void *user;
} uvhttp_allocator_t;
__attribute__((visibility("default"))) int uvhttp_set_allocator(const uvhttp_allocator_t *allocator);
typedef enum uvhttp_method {
    UVHTTP_GET, UVHTTP_HEAD, UVHTTP_POST, UVHTTP_PUT, UVHTTP_DELETE, UVHTTP_PATCH, UVHTTP_OPTIONS, UVHTTP_CONNECT, UVHTTP_TRACE,
        UVHTTP_METHOD_OTHER,
    UVHTTP_ANY,
    UVHTTP_METHOD_COUNT
} uvhttp_method_t;
typedef struct uvhttp_request uvhttp_request_t;
__attribute__((visibility("default"))) uvhttp_method_t uvhttp_request_method(const uvhttp_request_t *req);
__attribute__((visibility("default"))) uvhttp_str_t uvhttp_request_method_text(const uvhttp_request_t *req);
__attribute__((visibility("default"))) const char *uvhttp_method_name(uvhttp_method_t method);
__attribute__((visibility("default"))) uvhttp_str_t uvhttp_request_target(const uvhttp_request_t *req);
__attribute__((visibility("default"))) uvhttp_str_t uvhttp_request_path(const uvhttp_request_t *req);
__attribute__((visibility("default"))) uvhttp_str_t uvhttp_request_query(const uvhttp_request_t *req);
__attribute__((visibility("default"))) _Bool uvhttp_request_query_param(uvhttp_request_t *req, const char *name, uvhttp_str_t *value);
__attribute__((visibility("default"))) _Bool uvhttp_request_query_at(uvhttp_request_t *req, size_t index, uvhttp_str_t *name,
                                           uvhttp_str_t *value);
__attribute__((visibility("default"))) uvhttp_str_t uvhttp_request_param(const uvhttp_request_t *req, const char *name);
__attribute__((visibility("default"))) uvhttp_str_t uvhttp_request_header(const uvhttp_request_t *req, const char *name);
__attribute__((visibility("default"))) _Bool uvhttp_request_header_at(const uvhttp_request_t *req, size_t index, uvhttp_str_t *name,
                                            uvhttp_str_t *value);
__attribute__((visibility("default"))) size_t uvhttp_request_header_count(const uvhttp_request_t *req);
__attribute__((visibility("default"))) _Bool uvhttp_request_header_next(const uvhttp_request_t *req, const char *name, size_t *index,
                                              uvhttp_str_t *value);
__attribute__((visibility("default"))) uvhttp_str_t uvhttp_request_host(const uvhttp_request_t *req);
__attribute__((visibility("default"))) uvhttp_http_version_t uvhttp_request_http_version(const uvhttp_request_t *req);
__attribute__((visibility("default"))) const char *uvhttp_http_version_name(uvhttp_http_version_t version);
__attribute__((visibility("default"))) uvhttp_str_t uvhttp_request_body(const uvhttp_request_t *req);
__attribute__((visibility("default"))) uvhttp_str_t uvhttp_request_peer(uvhttp_request_t *req);
__attribute__((visibility("default"))) uvhttp_str_t uvhttp_request_peer_address(uvhttp_request_t *req);
__attribute__((visibility("default"))) uvhttp_str_t uvhttp_request_client(uvhttp_request_t *req);
__attribute__((visibility("default"))) uvhttp_str_t uvhttp_request_client_scheme(uvhttp_request_t *req);
__attribute__((visibility("default"))) uvhttp_str_t uvhttp_request_client_host(uvhttp_request_t *req);
__attribute__((visibility("default"))) uint64_t uvhttp_request_time_ns(const uvhttp_request_t *req);
__attribute__((visibility("default"))) void uvhttp_request_set_data(uvhttp_request_t *req, void *data);
__attribute__((visibility("default"))) void *uvhttp_request_data(const uvhttp_request_t *req);
__attribute__((visibility("default"))) void *uvhttp_request_alloc(uvhttp_request_t *req, size_t size);
typedef struct uvhttp_form_limits {
    size_t field_count_max;
    size_t header_size_max;
    uint64_t part_size_max;
} uvhttp_form_limits_t;
typedef struct uvhttp_form uvhttp_form_t;
typedef struct uvhttp_form_file {
    uvhttp_str_t field;
    uvhttp_str_t name;
    uvhttp_str_t name_raw;
    uvhttp_str_t content_type;
    uvhttp_str_t data;
    uvhttp_str_t saved;
    uint64_t saved_size;
} uvhttp_form_file_t;
__attribute__((visibility("default"))) __attribute__((warn_unused_result)) int uvhttp_request_form(uvhttp_request_t *req, const uvhttp_form_limits_t *limits,
                                                      uvhttp_form_t **form);
__attribute__((visibility("default"))) _Bool uvhttp_form_field(const uvhttp_form_t *form, const char *name, uvhttp_str_t *value);
__attribute__((visibility("default"))) _Bool uvhttp_form_field_next(const uvhttp_form_t *form, const char *name, size_t *index,
                                          uvhttp_str_t *value);
__attribute__((visibility("default"))) _Bool uvhttp_form_field_at(const uvhttp_form_t *form, size_t index, uvhttp_str_t *name,
                                        uvhttp_str_t *value);
__attribute__((visibility("default"))) size_t uvhttp_form_field_count(const uvhttp_form_t *form);
__attribute__((visibility("default"))) _Bool uvhttp_form_file(const uvhttp_form_t *form, const char *field, uvhttp_form_file_t *file);
__attribute__((visibility("default"))) _Bool uvhttp_form_file_at(const uvhttp_form_t *form, size_t index, uvhttp_form_file_t *file);
__attribute__((visibility("default"))) size_t uvhttp_form_file_count(const uvhttp_form_t *form);
__attribute__((visibility("default"))) int uvhttp_form_file_save(const uvhttp_form_file_t *file, int directory, const char *name,
                                        char saved[256u]);
typedef enum uvhttp_multipart_event_kind {
    UVHTTP_MULTIPART_PART,
    UVHTTP_MULTIPART_DATA,
    UVHTTP_MULTIPART_PART_END,
    UVHTTP_MULTIPART_END,
} uvhttp_multipart_event_kind_t;
typedef struct uvhttp_multipart_event {
    uvhttp_multipart_event_kind_t kind;
    uvhttp_str_t name;
    uvhttp_str_t filename;
    uvhttp_str_t content_type;
    uvhttp_str_t data;
} uvhttp_multipart_event_t;
typedef struct uvhttp_multipart {
    uint8_t state;
    _Bool in_part;
    uint8_t delimiter_size;
    uint8_t matched;
    uint8_t assumed;
    int error;
    size_t parts;
    size_t field_count_max;
    size_t header_size;
    size_t header_size_max;
    uint64_t part_size;
    uint64_t part_size_max;
    char delimiter[4 + 70u];
    char header[4096u];
} uvhttp_multipart_t;
__attribute__((visibility("default"))) __attribute__((warn_unused_result)) int uvhttp_multipart_init(uvhttp_multipart_t *parser, uvhttp_str_t content_type,
                                                        const uvhttp_form_limits_t *limits);
__attribute__((visibility("default"))) __attribute__((warn_unused_result)) int uvhttp_multipart_read(uvhttp_multipart_t *parser, const char *data, size_t size,
                                                        size_t *consumed, uvhttp_multipart_event_t *event);
__attribute__((visibility("default"))) __attribute__((warn_unused_result)) int uvhttp_multipart_finish(const uvhttp_multipart_t *parser);
typedef struct uvhttp_response uvhttp_response_t;
typedef struct uvhttp_deferred uvhttp_deferred_t;
__attribute__((visibility("default"))) int uvhttp_response_text(uvhttp_response_t *res, int status, const char *text);
__attribute__((visibility("default"))) int uvhttp_response_json(uvhttp_response_t *res, int status, const char *json);
__attribute__((visibility("default"))) int uvhttp_response_send(uvhttp_response_t *res, int status, const char *content_type, const void *data,
                                       size_t size);
__attribute__((visibility("default"))) int uvhttp_response_send_static(uvhttp_response_t *res, int status, const char *content_type,
                                              const void *data, size_t size);
__attribute__((visibility("default"))) int uvhttp_response_send_ref(uvhttp_response_t *res, int status, const char *content_type,
                                           const void *data, size_t size, void (*release)(void *arg), void *arg);
typedef struct uvhttp_content uvhttp_content_t;
__attribute__((visibility("default"))) __attribute__((warn_unused_result)) int uvhttp_content_new(const void *data, size_t size, uvhttp_content_t **content);
__attribute__((visibility("default"))) void uvhttp_content_retain(uvhttp_content_t *content);
__attribute__((visibility("default"))) void uvhttp_content_release(uvhttp_content_t *content);
__attribute__((visibility("default"))) int uvhttp_response_send_content(uvhttp_response_t *res, int status, const char *content_type,
                                               uvhttp_content_t *content);
__attribute__((visibility("default"))) int uvhttp_response_send_fd(uvhttp_response_t *res, int status, const char *content_type, int fd,
                                          uint64_t offset, uint64_t size);
__attribute__((visibility("default"))) int uvhttp_response_send_file(uvhttp_response_t *res, int status, const char *content_type,
                                            const char *path);
__attribute__((visibility("default"))) int uvhttp_response_empty(uvhttp_response_t *res, int status);
__attribute__((visibility("default"))) int uvhttp_response_redirect(uvhttp_response_t *res, int status, const char *location);
__attribute__((visibility("default"))) int uvhttp_response_header(uvhttp_response_t *res, const char *name, const char *value);
__attribute__((visibility("default"))) int uvhttp_response_header_add(uvhttp_response_t *res, const char *name, const char *value);
__attribute__((visibility("default"))) int uvhttp_response_header_remove(uvhttp_response_t *res, const char *name);
__attribute__((visibility("default"))) uvhttp_str_t uvhttp_response_header_get(const uvhttp_response_t *res, const char *name);
__attribute__((visibility("default"))) int uvhttp_response_status(const uvhttp_response_t *res);
__attribute__((visibility("default"))) int uvhttp_response_set_status(uvhttp_response_t *res, int status);
__attribute__((visibility("default"))) uvhttp_request_t *uvhttp_response_request(uvhttp_response_t *res);
__attribute__((visibility("default"))) void uvhttp_response_close(uvhttp_response_t *res);
typedef struct uvhttp_response_field {
    const char *name;
    const char *value;
} uvhttp_response_field_t;
__attribute__((visibility("default"))) int uvhttp_response_interim(uvhttp_response_t *res, int status, const uvhttp_response_field_t *fields,
                                          size_t field_count);
__attribute__((visibility("default"))) int uvhttp_response_begin(uvhttp_response_t *res, int status, const char *content_type, uint64_t size);
__attribute__((visibility("default"))) int uvhttp_response_write(uvhttp_response_t *res, const void *data, size_t size);
__attribute__((visibility("default"))) int uvhttp_response_trailer(uvhttp_response_t *res, const char *name, const char *value);
__attribute__((visibility("default"))) int uvhttp_response_end(uvhttp_response_t *res);
__attribute__((visibility("default"))) int uvhttp_response_on_finish(uvhttp_response_t *res, void (*hook)(uvhttp_response_t *res, void *user),
                                            void *user);
__attribute__((visibility("default"))) int uvhttp_response_on_done(uvhttp_response_t *res,
                                          void (*hook)(uvhttp_response_t *res, int status, void *user), void *user);
__attribute__((visibility("default"))) uvhttp_deferred_t *uvhttp_response_defer(uvhttp_response_t *res);
__attribute__((visibility("default"))) void uvhttp_deferred_on_abort(uvhttp_deferred_t *deferred,
                                            void (*on_abort)(uvhttp_deferred_t *deferred, void *user), void *user);
__attribute__((visibility("default"))) void uvhttp_deferred_on_drain(uvhttp_deferred_t *deferred,
                                            void (*on_drain)(uvhttp_response_t *res, void *user), void *user);
__attribute__((visibility("default"))) int uvhttp_deferred_on_stop(uvhttp_deferred_t *deferred,
                                          void (*on_stop)(uvhttp_response_t *res, void *user), void *user);
__attribute__((visibility("default"))) _Bool uvhttp_response_stopping(const uvhttp_response_t *res);
__attribute__((visibility("default"))) int uvhttp_deferred_text(uvhttp_deferred_t *deferred, int status, const char *text);
__attribute__((visibility("default"))) int uvhttp_deferred_json(uvhttp_deferred_t *deferred, int status, const char *json);
__attribute__((visibility("default"))) int uvhttp_deferred_send(uvhttp_deferred_t *deferred, int status, const char *content_type,
                                       const void *data, size_t size);
__attribute__((visibility("default"))) int uvhttp_deferred_send_ref(uvhttp_deferred_t *deferred, int status, const char *content_type,
                                           const void *data, size_t size, void (*release)(void *arg), void *arg);
__attribute__((visibility("default"))) int uvhttp_deferred_header(uvhttp_deferred_t *deferred, const char *name, const char *value);
__attribute__((visibility("default"))) int uvhttp_deferred_interim(uvhttp_deferred_t *deferred, int status,
                                          const uvhttp_response_field_t *fields, size_t field_count);
__attribute__((visibility("default"))) int uvhttp_deferred_run(uvhttp_deferred_t *deferred, void (*run)(uvhttp_response_t *res, void *user),
                                      void *user);
__attribute__((visibility("default"))) _Bool uvhttp_deferred_aborted(const uvhttp_deferred_t *deferred);
__attribute__((visibility("default"))) uvhttp_request_t *uvhttp_deferred_request(uvhttp_deferred_t *deferred);
__attribute__((visibility("default"))) void uvhttp_deferred_retain(uvhttp_deferred_t *deferred);
__attribute__((visibility("default"))) void uvhttp_deferred_release(uvhttp_deferred_t *deferred);
typedef void (*uvhttp_body_data_cb)(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user);
typedef void (*uvhttp_body_end_cb)(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user);
__attribute__((visibility("default"))) int uvhttp_request_on_body(uvhttp_request_t *req, uvhttp_body_data_cb on_data, uvhttp_body_end_cb on_end,
                                         void *user);
__attribute__((visibility("default"))) int uvhttp_request_pause_body(uvhttp_request_t *req);
__attribute__((visibility("default"))) int uvhttp_request_resume_body(uvhttp_request_t *req);
__attribute__((visibility("default"))) int uvhttp_deferred_pause_body(uvhttp_deferred_t *deferred);
__attribute__((visibility("default"))) int uvhttp_deferred_resume_body(uvhttp_deferred_t *deferred);
typedef void (*uvhttp_multipart_cb)(uvhttp_request_t *req, uvhttp_response_t *res,
                                    const uvhttp_multipart_event_t *event, void *user);
__attribute__((visibility("default"))) __attribute__((warn_unused_result)) int uvhttp_request_on_multipart(uvhttp_request_t *req, const uvhttp_form_limits_t *limits,
                                                              uvhttp_multipart_cb on_event, uvhttp_body_end_cb on_end,
                                                              void *user);
__attribute__((visibility("default"))) __attribute__((warn_unused_result)) int uvhttp_request_read_body(uvhttp_request_t *req, uvhttp_str_t *piece,
                                                           uint32_t timeout_ms);
__attribute__((visibility("default"))) __attribute__((warn_unused_result)) int uvhttp_request_save_form(uvhttp_request_t *req, int directory,
                                                           const uvhttp_form_limits_t *limits, uvhttp_form_t **form);
__attribute__((visibility("default"))) __attribute__((warn_unused_result)) int uvhttp_request_save_body(uvhttp_request_t *req, int directory, const char *name,
                                                           char saved[256u], uint64_t *size);
__attribute__((visibility("default"))) uvhttp_str_t uvhttp_request_trailer(const uvhttp_request_t *req, const char *name);
__attribute__((visibility("default"))) _Bool uvhttp_request_trailer_at(const uvhttp_request_t *req, size_t index, uvhttp_str_t *name,
                                             uvhttp_str_t *value);
typedef struct uvhttp_client_header {
    const char *name;
    const char *value;
} uvhttp_client_header_t;
typedef struct uvhttp_client_request {
    const char *url;
    const char *method;
    const uvhttp_client_header_t
        *headers;
    size_t header_count;
    const void *body;
    size_t body_size;
    uint32_t timeout_ms;
    uint32_t response_size_max;
    uint32_t head_size_max;
    const char *unix_socket;
    uint32_t interim_max;
} uvhttp_client_request_t;
typedef struct uvhttp_client_response uvhttp_client_response_t;
__attribute__((visibility("default"))) __attribute__((warn_unused_result)) int uvhttp_coro_request(const uvhttp_client_request_t *request,
                                                      uvhttp_client_response_t **response);
typedef void (*uvhttp_client_cb)(uvhttp_client_response_t *response, int status, void *user);
__attribute__((visibility("default"))) __attribute__((warn_unused_result)) int uvhttp_client_send(const uvhttp_client_request_t *request, uvhttp_client_cb on_done,
                                                     void *user, uvhttp_client_response_t **response);
__attribute__((visibility("default"))) int uvhttp_client_response_status(const uvhttp_client_response_t *response);
__attribute__((visibility("default"))) uvhttp_str_t uvhttp_client_response_header(const uvhttp_client_response_t *response, const char *name);
__attribute__((visibility("default"))) _Bool uvhttp_client_response_header_at(const uvhttp_client_response_t *response, size_t index,
                                                    uvhttp_str_t *name, uvhttp_str_t *value);
__attribute__((visibility("default"))) uvhttp_str_t uvhttp_client_response_body(const uvhttp_client_response_t *response);
__attribute__((visibility("default"))) void uvhttp_client_response_free(uvhttp_client_response_t *response);
__attribute__((visibility("default"))) _Bool uvhttp_request_cookie(const uvhttp_request_t *req, const char *name, uvhttp_str_t *value);
__attribute__((visibility("default"))) _Bool uvhttp_request_cookie_at(const uvhttp_request_t *req, size_t index, uvhttp_str_t *name,
                                            uvhttp_str_t *value);
typedef enum uvhttp_same_site {
    UVHTTP_SAME_SITE_LAX,
    UVHTTP_SAME_SITE_STRICT,
    UVHTTP_SAME_SITE_NONE,
} uvhttp_same_site_t;
typedef struct uvhttp_cookie_options {
    const char *name;
    const char *value;
    const char *path;
    const char *domain;
    int64_t max_age_s;
    uvhttp_same_site_t same_site;
    _Bool secure;
    _Bool http_only;
} uvhttp_cookie_options_t;
__attribute__((visibility("default"))) int uvhttp_response_cookie(uvhttp_response_t *res, const uvhttp_cookie_options_t *options);
struct uvhttp_request;
__attribute__((visibility("default"))) _Bool uvhttp_coro_active(void);
__attribute__((visibility("default"))) int uvhttp_coro_sleep(uint32_t ms);
__attribute__((visibility("default"))) int uvhttp_coro_yield(void);
__attribute__((visibility("default"))) int uvhttp_coro_wake_on_stop(void);
__attribute__((visibility("default"))) __attribute__((warn_unused_result)) int uvhttp_coro_defer(void (*cleanup)(void *arg), void *arg);
__attribute__((visibility("default"))) int uvhttp_coro_work(void (*run)(void *arg), void *arg);
__attribute__((visibility("default"))) int uvhttp_coro_read_body(struct uvhttp_request *req, uvhttp_str_t *piece, uint32_t timeout_ms);
typedef struct uvhttp_coro uvhttp_coro_t;
__attribute__((visibility("default"))) __attribute__((warn_unused_result)) int uvhttp_coro_spawn(void (*run)(void *arg), void *arg, uvhttp_coro_t **coro);
__attribute__((visibility("default"))) int uvhttp_coro_join(uvhttp_coro_t *coro, uint32_t timeout_ms);
__attribute__((visibility("default"))) int uvhttp_coro_cancel(uvhttp_coro_t *coro);
typedef struct uvhttp_coro_channel uvhttp_coro_channel_t;
__attribute__((visibility("default"))) __attribute__((warn_unused_result)) int uvhttp_coro_channel_new(size_t item_size, uint32_t capacity,
                                                          uvhttp_coro_channel_t **channel);
__attribute__((visibility("default"))) int uvhttp_coro_channel_send(uvhttp_coro_channel_t *channel, const void *item, uint32_t timeout_ms);
__attribute__((visibility("default"))) int uvhttp_coro_channel_receive(uvhttp_coro_channel_t *channel, void *item, uint32_t timeout_ms);
__attribute__((visibility("default"))) int uvhttp_coro_channel_close(uvhttp_coro_channel_t *channel);
__attribute__((visibility("default"))) void uvhttp_coro_channel_free(uvhttp_coro_channel_t *channel);
enum { UVHTTP_CORO_READABLE = 1, UVHTTP_CORO_WRITABLE = 2 };
__attribute__((visibility("default"))) int uvhttp_coro_wait_fd(int fd, unsigned events, uint32_t timeout_ms);
__attribute__((visibility("default"))) __attribute__((warn_unused_result)) int uvhttp_coro_connect(const char *address, uint32_t timeout_ms, int *fd);
__attribute__((visibility("default"))) int uvhttp_coro_read(int fd, void *data, size_t max, size_t *size, uint32_t timeout_ms);
__attribute__((visibility("default"))) int uvhttp_coro_write(int fd, const void *data, size_t size, uint32_t timeout_ms);
typedef enum uvhttp_log_level {
    UVHTTP_LOG_LEVEL_DEBUG,
    UVHTTP_LOG_LEVEL_INFO,
    UVHTTP_LOG_LEVEL_WARN,
    UVHTTP_LOG_LEVEL_ERROR,
    UVHTTP_LOG_LEVEL_NONE
} uvhttp_log_level_t;
__attribute__((visibility("default"))) int uvhttp_log_set_level(uvhttp_log_level_t level);
__attribute__((visibility("default"))) uvhttp_log_level_t uvhttp_log_get_level(void);
__attribute__((visibility("default"))) int uvhttp_log_level_parse(const char *text, uvhttp_log_level_t *level);
__attribute__((visibility("default"))) const char *uvhttp_log_level_name(uvhttp_log_level_t level);
typedef void (*uvhttp_log_cb)(uvhttp_log_level_t level, const char *message, size_t size, void *user);
__attribute__((visibility("default"))) int uvhttp_log_set_callback(uvhttp_log_cb cb, void *user);
__attribute__((visibility("default"))) int uvhttp_log_set_rate_limit(uint32_t per_second);
__attribute__((visibility("default"))) void uvhttp_log(uvhttp_log_level_t level, const char *format, ...) __attribute__((format(printf, 2, 3)));
extern __attribute__((visibility("default"))) int uvhttp_log_threshold;
typedef void (*uvhttp_handler_t)(uvhttp_request_t *req, uvhttp_response_t *res, void *user);
typedef enum uvhttp_exec {
    UVHTTP_EXEC_LOOP,
    UVHTTP_EXEC_WORKER,
    UVHTTP_EXEC_COROUTINE
} uvhttp_exec_t;
typedef enum uvhttp_flow { UVHTTP_NEXT, UVHTTP_STOP } uvhttp_flow_t;
typedef uvhttp_flow_t (*uvhttp_middleware_cb)(uvhttp_request_t *req, uvhttp_response_t *res, void *user);
__attribute__((visibility("default"))) int uvhttp_deferred_next(uvhttp_deferred_t *deferred, uvhttp_middleware_cb go_on, void *user);
typedef struct uvhttp_middleware {
    uvhttp_middleware_cb run;
    void *user;
    void (*destroy)(void *user);
    _Bool needs_body;
    void (*reload)(void *user);
    void (*on_refused)(uvhttp_request_t *req, uvhttp_response_t *res, void *user);
} uvhttp_middleware_t;
typedef struct uvhttp_route_options {
    _Bool stream_body;
    uint64_t body_size_max;
    uint32_t body_timeout;
    uint32_t answer_timeout_ms;
    uvhttp_exec_t exec;
    _Bool live_body;
} uvhttp_route_options_t;
typedef struct uvhttp_group uvhttp_group_t;
struct uv_loop_s;
typedef struct uvhttp_tcp uvhttp_tcp_t;
typedef struct uvhttp_tcp_server uvhttp_tcp_server_t;
typedef struct uvhttp_tcp_ref uvhttp_tcp_ref_t;
typedef struct uvhttp_tcp_handlers {
    void (*on_open)(uvhttp_tcp_t *tcp, void *user);
    void (*on_data)(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user);
    void (*on_drain)(uvhttp_tcp_t *tcp, void *user);
    void (*on_end)(uvhttp_tcp_t *tcp, void *user);
    void (*on_close)(uvhttp_tcp_t *tcp, int status, void *user);
    void (*on_timer)(uvhttp_tcp_t *tcp, void *user);
    void (*on_stop)(uvhttp_tcp_t *tcp, void *user);
} uvhttp_tcp_handlers_t;
typedef struct uvhttp_tcp_config {
    uint32_t struct_size;
    uint32_t io_threads;
    int engine;
    uint32_t max_connections;
    uint32_t backlog;
    uint32_t read_buffer_size;
    uint32_t read_buffer_count;
    uint32_t idle_timeout;
    uint32_t drain_timeout;
    uint64_t write_high_watermark;
    uint64_t write_queue_max;
    _Bool install_signal_handlers;
    uint32_t min_send_rate;
    uint32_t rate_grace;
    _Bool raise_descriptor_limit;
    uint32_t descriptors_reserved;
    uint32_t max_connections_per_address;
} uvhttp_tcp_config_t;
__attribute__((visibility("default"))) void uvhttp_tcp_config_init(uvhttp_tcp_config_t *config, size_t struct_size);
__attribute__((visibility("default"))) uvhttp_tcp_server_t *uvhttp_tcp_server_new(const uvhttp_tcp_config_t *config,
                                                         const uvhttp_tcp_handlers_t *handlers, void *user);
__attribute__((visibility("default"))) int uvhttp_tcp_server_listen(uvhttp_tcp_server_t *server, const char *address, uint16_t *port);
__attribute__((visibility("default"))) int uvhttp_tcp_server_run(uvhttp_tcp_server_t *server, const char *address);
__attribute__((visibility("default"))) int uvhttp_tcp_server_attach(uvhttp_tcp_server_t *server, struct uv_loop_s *loop);
__attribute__((visibility("default"))) int uvhttp_tcp_server_stop(uvhttp_tcp_server_t *server);
__attribute__((visibility("default"))) void uvhttp_tcp_server_on_stopped(uvhttp_tcp_server_t *server, void (*on_stopped)(void *user),
                                                void *user);
__attribute__((visibility("default"))) void uvhttp_tcp_server_free(uvhttp_tcp_server_t *server);
__attribute__((visibility("default"))) const char *uvhttp_tcp_server_error_text(const uvhttp_tcp_server_t *server);
__attribute__((visibility("default"))) const char *uvhttp_tcp_server_engine(const uvhttp_tcp_server_t *server, const char **reason);
__attribute__((visibility("default"))) int uvhttp_tcp_send(uvhttp_tcp_t *tcp, const void *data, size_t size, size_t *queued);
__attribute__((visibility("default"))) int uvhttp_tcp_send_ref(uvhttp_tcp_t *tcp, const void *data, size_t size, void (*release)(void *arg),
                                      void *arg);
__attribute__((visibility("default"))) void uvhttp_tcp_pause(uvhttp_tcp_t *tcp);
__attribute__((visibility("default"))) void uvhttp_tcp_resume(uvhttp_tcp_t *tcp);
__attribute__((visibility("default"))) void uvhttp_tcp_shutdown(uvhttp_tcp_t *tcp);
__attribute__((visibility("default"))) void uvhttp_tcp_close(uvhttp_tcp_t *tcp);
__attribute__((visibility("default"))) void uvhttp_tcp_reset(uvhttp_tcp_t *tcp);
__attribute__((visibility("default"))) void uvhttp_tcp_set_data(uvhttp_tcp_t *tcp, void *data);
__attribute__((visibility("default"))) void *uvhttp_tcp_data(const uvhttp_tcp_t *tcp);
__attribute__((visibility("default"))) int uvhttp_tcp_set_timer(uvhttp_tcp_t *tcp, uint64_t ms);
__attribute__((visibility("default"))) int uvhttp_tcp_peer(uvhttp_tcp_t *tcp, char *text, size_t size);
__attribute__((visibility("default"))) uvhttp_tcp_ref_t *uvhttp_tcp_ref(uvhttp_tcp_t *tcp);
__attribute__((visibility("default"))) int uvhttp_tcp_ref_send(uvhttp_tcp_ref_t *ref, const void *data, size_t size);
__attribute__((visibility("default"))) int uvhttp_tcp_ref_close(uvhttp_tcp_ref_t *ref);
__attribute__((visibility("default"))) int uvhttp_tcp_ref_run(uvhttp_tcp_ref_t *ref, void (*run)(uvhttp_tcp_t *tcp, void *arg), void *arg);
__attribute__((visibility("default"))) void uvhttp_tcp_ref_retain(uvhttp_tcp_ref_t *ref);
__attribute__((visibility("default"))) void uvhttp_tcp_ref_release(uvhttp_tcp_ref_t *ref);
typedef struct uvhttp_tcp_metrics {
    uint64_t connections_accepted, connections_closed, bytes_received, bytes_sent;
} uvhttp_tcp_metrics_t;
__attribute__((visibility("default"))) void uvhttp_tcp_server_metrics(const uvhttp_tcp_server_t *server, uvhttp_tcp_metrics_t *metrics);
struct uvhttp_server_config;
typedef struct uvhttp_server uvhttp_server_t;
typedef struct uvhttp_request uvhttp_request_t;
typedef struct uvhttp_tls uvhttp_tls_t;
typedef enum uvhttp_tls_version {
    UVHTTP_TLS_DEFAULT = 0,
    UVHTTP_TLS_1_2 = 12,
    UVHTTP_TLS_1_3 = 13
} uvhttp_tls_version_t;
typedef enum uvhttp_tls_clients {
    UVHTTP_TLS_CLIENTS_ANY,
    UVHTTP_TLS_CLIENTS_VERIFY,
    UVHTTP_TLS_CLIENTS_REQUIRE
} uvhttp_tls_clients_t;
typedef struct uvhttp_tls_certificate {
    const char *certificate_file;
    const char *key_file;
    const void *certificate;
    size_t certificate_size;
    const void *key;
    size_t key_size;
    const char *ocsp_file;
    const char *names;
} uvhttp_tls_certificate_t;
typedef struct uvhttp_tls_options {
    const uvhttp_tls_certificate_t *certificates;
    size_t certificate_count;
    uvhttp_tls_version_t min_version;
    uvhttp_tls_version_t max_version;
    const char *alpn;
    uvhttp_tls_clients_t clients;
    const char *client_ca_file;
    const void *client_ca;
    size_t client_ca_size;
    const char *client_crl_file;
    const void *client_crl;
    size_t client_crl_size;
    uint32_t handshake_timeout;
    uint32_t ticket_period;
    _Bool no_tickets;
    _Bool kernel_tls;
} uvhttp_tls_options_t;
__attribute__((visibility("default"))) uvhttp_tls_t *uvhttp_tls_new(const uvhttp_tls_options_t *options);
__attribute__((visibility("default"))) uvhttp_tls_t *uvhttp_tls_development(const uvhttp_tls_options_t *options);
__attribute__((visibility("default"))) uvhttp_tls_t *uvhttp_tls_from_config(const struct uvhttp_server_config *config);
__attribute__((visibility("default"))) uvhttp_tls_t *uvhttp_tls_retain(uvhttp_tls_t *tls);
__attribute__((visibility("default"))) void uvhttp_tls_free(uvhttp_tls_t *tls);
__attribute__((visibility("default"))) int uvhttp_tls_reload(uvhttp_tls_t *tls);
__attribute__((visibility("default"))) const char *uvhttp_tls_error_text(const uvhttp_tls_t *tls);
__attribute__((visibility("default"))) int uvhttp_server_listen_tls(uvhttp_server_t *server, const char *address, uvhttp_tls_t *tls,
                                           uint16_t *port);
__attribute__((visibility("default"))) int uvhttp_tcp_server_listen_tls(uvhttp_tcp_server_t *server, const char *address, uvhttp_tls_t *tls,
                                               uint16_t *port);
__attribute__((visibility("default"))) _Bool uvhttp_tcp_is_tls(const uvhttp_tcp_t *tcp);
__attribute__((visibility("default"))) _Bool uvhttp_request_is_tls(const uvhttp_request_t *req);
__attribute__((visibility("default"))) const char *uvhttp_tcp_client_subject(uvhttp_tcp_t *tcp);
__attribute__((visibility("default"))) const char *uvhttp_request_client_subject(uvhttp_request_t *req);
struct uv_loop_s;
typedef struct uvhttp_server uvhttp_server_t;
typedef struct uvhttp_group uvhttp_group_t;
typedef struct uvhttp_performance_config {
    _Bool performance_mode;
    uvhttp_log_level_t log_level;
    _Bool enable_statistics;
} uvhttp_performance_config_t;
typedef enum uvhttp_engine {
    UVHTTP_ENGINE_AUTO,
    UVHTTP_ENGINE_URING,
    UVHTTP_ENGINE_LIBUV
} uvhttp_engine_t;
typedef struct uvhttp_server_config {
    uint32_t struct_size;
    uint32_t io_threads;
    uvhttp_engine_t engine;
    uint32_t
        max_connections;
    uint32_t backlog;
    uint32_t read_buffer_size;
    uint32_t read_buffer_count;
    uint32_t write_buffer_size;
    uint64_t write_queue_max;
    uint32_t connection_timeout;
    uint32_t body_timeout;
    uint32_t keepalive_timeout;
    uint32_t write_timeout;
    uint32_t min_receive_rate;
    uint32_t min_send_rate;
    uint32_t rate_grace;
    uint32_t drain_timeout;
    uint32_t request_line_max;
    uint32_t headers_size_max;
    uint32_t header_count_max;
    uint64_t body_size_max;
    uint32_t chunk_extension_max;
    uint32_t trailer_size_max;
    uint64_t request_memory_max;
    uint32_t keepalive_requests;
    uint32_t turn_requests_max;
    _Bool half_close;
    _Bool install_signal_handlers;
    _Bool quiet;
    uvhttp_performance_config_t performance;
    uint32_t worker_threads;
    uint32_t worker_threads_min;
    uint32_t max_backlog;
    uint32_t worker_idle_timeout;
    uint32_t worker_warn_ms;
    uint32_t handler_warn_ms;
    uint32_t coroutine_stack_size;
    uint32_t coroutines_max;
    uint32_t drain_idle_ms;
    char tls_certificate[1024];
    char tls_key[1024];
    char tls_ocsp[1024];
    char tls_client_ca[1024];
    char tls_client_crl[1024];
    uvhttp_tls_clients_t tls_clients;
    uvhttp_tls_version_t tls_min_version;
    uvhttp_tls_version_t tls_max_version;
    char tls_alpn[1024];
    uint32_t tls_handshake_timeout;
    _Bool tls_tickets;
    uint32_t tls_ticket_period;
    _Bool tls_kernel;
    uint32_t worker_queue_timeout_ms;
    uint32_t worker_live_max;
    uint32_t spool_memory;
    uint64_t spool_size_max;
    uint32_t proxy_fields;
    uint32_t max_connections_per_address;
    uint32_t descriptors_reserved;
    _Bool raise_descriptor_limit;
    char spool_directory[1024];
    char tcp_congestion_control[1024];
    _Bool http2;
    uint32_t http2_concurrent_streams_max;
    uint32_t http2_header_list_size_max;
    uint32_t http2_table_size_max;
    uint32_t http2_stream_window;
    uint32_t http2_connection_window;
    uint64_t http2_connection_memory_max;
    uint32_t http2_resets_max;
} uvhttp_server_config_t;
__attribute__((visibility("default"))) void uvhttp_server_config_init(uvhttp_server_config_t *config, size_t struct_size);
__attribute__((visibility("default"))) int uvhttp_server_config_set(uvhttp_server_config_t *config, const char *name, const char *value,
                                           char *message, size_t size);
__attribute__((visibility("default"))) int uvhttp_server_config_load(uvhttp_server_config_t *config, const char *path, char *message,
                                            size_t size);
__attribute__((visibility("default"))) int uvhttp_server_config_env(uvhttp_server_config_t *config, char *message, size_t size);
__attribute__((visibility("default"))) void uvhttp_server_config_fields(const uvhttp_server_config_t *config,
                                               void (*each)(const char *name, const char *group, const char *value,
                                                            const char *expected, void *user),
                                               void *user);
__attribute__((visibility("default"))) int uvhttp_server_config_check(const uvhttp_server_config_t *config, char *message, size_t size);
__attribute__((visibility("default"))) uvhttp_server_t *uvhttp_server_new(const uvhttp_server_config_t *config);
__attribute__((visibility("default"))) int uvhttp_server_listen(uvhttp_server_t *server, const char *address, uint16_t *port);
__attribute__((visibility("default"))) int uvhttp_server_run(uvhttp_server_t *server, const char *address);
__attribute__((visibility("default"))) int uvhttp_server_attach(uvhttp_server_t *server, struct uv_loop_s *loop);
__attribute__((visibility("default"))) int uvhttp_server_stop(uvhttp_server_t *server);
__attribute__((visibility("default"))) void uvhttp_server_on_stopped(uvhttp_server_t *server,
                                            void (*on_stopped)(uvhttp_server_t *server, void *user), void *user);
__attribute__((visibility("default"))) int uvhttp_server_reload(uvhttp_server_t *server, const uvhttp_server_config_t *config, char *message,
                                       size_t size);
__attribute__((visibility("default"))) int uvhttp_server_on_reload(uvhttp_server_t *server,
                                          void (*on_reload)(uvhttp_server_t *server, void *user), void *user);
typedef void (*uvhttp_error_cb)(uvhttp_request_t *req, uvhttp_response_t *res, int status, int code, void *user);
__attribute__((visibility("default"))) int uvhttp_server_on_error(uvhttp_server_t *server, uvhttp_error_cb on_error, void *user);
__attribute__((visibility("default"))) void uvhttp_server_free(uvhttp_server_t *server);
__attribute__((visibility("default"))) const char *uvhttp_server_error_text(const uvhttp_server_t *server);
__attribute__((visibility("default"))) const char *uvhttp_server_engine(const uvhttp_server_t *server, const char **reason);
__attribute__((visibility("default"))) struct uv_loop_s *uvhttp_loop_uv(void);
__attribute__((visibility("default"))) int uvhttp_get(uvhttp_server_t *server, const char *pattern, uvhttp_handler_t handler, void *user);
__attribute__((visibility("default"))) int uvhttp_head(uvhttp_server_t *server, const char *pattern, uvhttp_handler_t handler, void *user);
__attribute__((visibility("default"))) int uvhttp_post(uvhttp_server_t *server, const char *pattern, uvhttp_handler_t handler, void *user);
__attribute__((visibility("default"))) int uvhttp_put(uvhttp_server_t *server, const char *pattern, uvhttp_handler_t handler, void *user);
__attribute__((visibility("default"))) int uvhttp_delete(uvhttp_server_t *server, const char *pattern, uvhttp_handler_t handler, void *user);
__attribute__((visibility("default"))) int uvhttp_patch(uvhttp_server_t *server, const char *pattern, uvhttp_handler_t handler, void *user);
__attribute__((visibility("default"))) int uvhttp_options(uvhttp_server_t *server, const char *pattern, uvhttp_handler_t handler, void *user);
__attribute__((visibility("default"))) int uvhttp_any(uvhttp_server_t *server, const char *pattern, uvhttp_handler_t handler, void *user);
__attribute__((visibility("default"))) int uvhttp_route(uvhttp_server_t *server, uvhttp_method_t method, const char *pattern,
                               uvhttp_handler_t handler, void *user, uvhttp_exec_t exec);
__attribute__((visibility("default"))) uvhttp_group_t *uvhttp_group(uvhttp_server_t *server, const char *prefix);
__attribute__((visibility("default"))) uvhttp_group_t *uvhttp_group_group(uvhttp_group_t *group, const char *prefix);
__attribute__((visibility("default"))) int uvhttp_group_route(uvhttp_group_t *group, uvhttp_method_t method, const char *pattern,
                                     uvhttp_handler_t handler, void *user);
__attribute__((visibility("default"))) int uvhttp_use(uvhttp_server_t *server, uvhttp_middleware_t middleware);
__attribute__((visibility("default"))) int uvhttp_group_use(uvhttp_group_t *group, uvhttp_middleware_t middleware);
__attribute__((visibility("default"))) int uvhttp_route_use(uvhttp_server_t *server, uvhttp_middleware_t middleware);
__attribute__((visibility("default"))) int uvhttp_route_options(uvhttp_server_t *server, const uvhttp_route_options_t *options);
__attribute__((visibility("default"))) int uvhttp_response_upgrade(uvhttp_response_t *res, const char *protocol,
                                          const uvhttp_tcp_handlers_t *handlers, void *user);
typedef struct uvhttp_metrics {
    uint64_t requests, connections_accepted, connections_active, bytes_received, bytes_sent;
    uint64_t responses_1xx, responses_2xx, responses_3xx, responses_4xx, responses_5xx;
    uint64_t response_time_count;
    double response_time_mean_ns;
    uint64_t response_time_p50_ns, response_time_p90_ns, response_time_p99_ns, response_time_p999_ns,
        response_time_max_ns;
    uint64_t
        work_queue_time_count;
    double work_queue_time_mean_ns;
    uint64_t work_queue_time_p50_ns, work_queue_time_p99_ns, work_queue_time_max_ns;
} uvhttp_metrics_t;
__attribute__((visibility("default"))) void uvhttp_server_metrics(const uvhttp_server_t *server, uvhttp_metrics_t *metrics);
__attribute__((visibility("default"))) void uvhttp_server_counters(const uvhttp_server_t *server,
                                          void (*each)(const char *name, const char *help, uint64_t value, void *user),
                                          void *user);
__attribute__((visibility("default"))) uint64_t uvhttp_server_counter(const uvhttp_server_t *server, const char *name);
__attribute__((visibility("default"))) const char *uvhttp_version(void);
__attribute__((visibility("default"))) const char *uvhttp_build_info(void);
typedef enum uvhttp_proxy_header {
    UVHTTP_PROXY_HEADER_NONE,
    UVHTTP_PROXY_HEADER_FORWARDED,
    UVHTTP_PROXY_HEADER_X_FORWARDED
} uvhttp_proxy_header_t;
typedef enum uvhttp_proxy_field {
    UVHTTP_PROXY_FOR = 1 << 0,
    UVHTTP_PROXY_PROTO = 1 << 1,
    UVHTTP_PROXY_HOST = 1 << 2
} uvhttp_proxy_field_t;
typedef struct uvhttp_proxy_options {
    const char *const *trusted;
    size_t trusted_count;
    uvhttp_proxy_header_t header;
    uint32_t hops_max;
    uint32_t fields;
} uvhttp_proxy_options_t;
__attribute__((visibility("default"))) int uvhttp_server_trust_proxies(uvhttp_server_t *server, const uvhttp_proxy_options_t *options);
enum { UVHTTP_READABLE = 1, UVHTTP_WRITABLE = 2 };
typedef struct uvhttp_watch {
    union {
        uint64_t align;
        unsigned char bytes[40];
    } internal;
} uvhttp_watch_t;
__attribute__((visibility("default"))) int uvhttp_watch_start(uvhttp_watch_t *watch, int fd, unsigned events,
                                     void (*on_ready)(uvhttp_watch_t *watch, void *user), void *user);
__attribute__((visibility("default"))) void uvhttp_watch_stop(uvhttp_watch_t *watch);
typedef struct uvhttp_connector {
    union {
        uint64_t align;
        unsigned char bytes[208];
    } internal;
} uvhttp_connector_t;
typedef void (*uvhttp_connect_cb)(uvhttp_connector_t *connector, int status, int fd, void *user);
__attribute__((visibility("default"))) int uvhttp_connect_start(uvhttp_connector_t *connector, const char *address, uint32_t timeout_ms,
                                       uvhttp_connect_cb on_connect, void *user);
__attribute__((visibility("default"))) void uvhttp_connect_stop(uvhttp_connector_t *connector);
__attribute__((visibility("default"))) int uvhttp_socket_read(int fd, void *data, size_t max, size_t *size);
__attribute__((visibility("default"))) int uvhttp_socket_write(int fd, const void *data, size_t size, size_t *sent);
typedef struct uvhttp_timer {
    union {
        uint64_t align;
        unsigned char bytes[56];
    } internal;
} uvhttp_timer_t;
__attribute__((visibility("default"))) int uvhttp_timer_start(uvhttp_timer_t *timer, uint64_t delay_ms,
                                     void (*on_timer)(uvhttp_timer_t *timer, void *user), void *user);
__attribute__((visibility("default"))) void uvhttp_timer_stop(uvhttp_timer_t *timer);
struct uvhttp_server;
typedef void (*uvhttp_work_cb)(void *user);
typedef void (*uvhttp_work_done_cb)(void *user, int status);
typedef struct uvhttp_work_options {
    uvhttp_work_done_cb done;
    uint64_t tag;
    uint32_t delay_ms;
    uint32_t period_ms;
    const char *name;
} uvhttp_work_options_t;
typedef struct uvhttp_work uvhttp_work_t;
__attribute__((visibility("default"))) int uvhttp_work(struct uvhttp_server *server, uvhttp_work_cb run, uvhttp_work_done_cb done, void *user);
__attribute__((visibility("default"))) int uvhttp_work_with(struct uvhttp_server *server, const uvhttp_work_options_t *options,
                                   uvhttp_work_cb run, void *user, uvhttp_work_t **handle);
__attribute__((visibility("default"))) int uvhttp_work_cancel(uvhttp_work_t *handle);
__attribute__((visibility("default"))) void uvhttp_work_release(uvhttp_work_t *handle);
typedef enum uvhttp_access_log_format {
    UVHTTP_ACCESS_LOG_COMBINED,
    UVHTTP_ACCESS_LOG_COMMON,
    UVHTTP_ACCESS_LOG_JSON
} uvhttp_access_log_format_t;
typedef struct uvhttp_access_log_options {
    uvhttp_access_log_format_t format;
    const char *path;
    int fd;
    void (*write)(const char *lines, size_t size, void *user);
    void *user;
    uint32_t ring_size;
    uint32_t flush_ms;
} uvhttp_access_log_options_t;
__attribute__((visibility("default"))) uvhttp_middleware_t uvhttp_access_log(const uvhttp_access_log_options_t *options);
__attribute__((visibility("default"))) int uvhttp_access_log_reopen(uvhttp_middleware_t middleware);
typedef struct uvhttp_access_log_stats {
    uint64_t lines;
    uint64_t bytes;
    uint64_t dropped;
    uint64_t failed;
    uint64_t reopened;
} uvhttp_access_log_stats_t;
__attribute__((visibility("default"))) int uvhttp_access_log_stats(uvhttp_middleware_t middleware, uvhttp_access_log_stats_t *stats);
typedef struct uvhttp_allowed_hosts_options {
    const char *hosts;
    _Bool loopback;
    const char *hint;
} uvhttp_allowed_hosts_options_t;
__attribute__((visibility("default"))) uvhttp_middleware_t uvhttp_allowed_hosts(const uvhttp_allowed_hosts_options_t *options);
typedef struct uvhttp_credential {
    const char *user;
    const char
        *secret;
} uvhttp_credential_t;
typedef struct uvhttp_basic_auth_options {
    const char *realm;
    const uvhttp_credential_t *credentials;
    size_t credential_count;
    _Bool (*check)(uvhttp_request_t *req, uvhttp_str_t user, uvhttp_str_t password, void *arg);
    void *arg;
} uvhttp_basic_auth_options_t;
typedef struct uvhttp_bearer_auth_options {
    const char *realm;
    const uvhttp_credential_t *credentials;
    size_t credential_count;
    _Bool (*check)(uvhttp_request_t *req, uvhttp_str_t token, uvhttp_str_t *user, void *arg);
    void *arg;
} uvhttp_bearer_auth_options_t;
__attribute__((visibility("default"))) uvhttp_middleware_t uvhttp_basic_auth(const uvhttp_basic_auth_options_t *options);
__attribute__((visibility("default"))) uvhttp_middleware_t uvhttp_bearer_auth(const uvhttp_bearer_auth_options_t *options);
__attribute__((visibility("default"))) uvhttp_str_t uvhttp_auth_user(const uvhttp_request_t *req);
typedef struct uvhttp_compression_options {
    uint32_t size_min;
    uint32_t size_max;
    uint32_t gzip_level;
    uint32_t brotli_quality;
    uint32_t streams_max;
    _Bool no_streams;
    _Bool no_gzip;
    _Bool no_brotli;
    const char *const *types;
} uvhttp_compression_options_t;
__attribute__((visibility("default"))) uvhttp_middleware_t uvhttp_compression(const uvhttp_compression_options_t *options);
typedef struct uvhttp_cors_options {
    const char *origins;
    _Bool (*origin_allowed)(uvhttp_request_t *req, uvhttp_str_t origin, void *user);
    void *user;
    const char *methods;
    const char *request_headers;
    const char *exposed_headers;
    int32_t max_age;
    _Bool credentials;
    _Bool private_network;
} uvhttp_cors_options_t;
__attribute__((visibility("default"))) uvhttp_middleware_t uvhttp_cors(const uvhttp_cors_options_t *options);
typedef enum uvhttp_rate_limit_by {
    UVHTTP_RATE_LIMIT_BY_ADDRESS,
    UVHTTP_RATE_LIMIT_BY_HEADER,
    UVHTTP_RATE_LIMIT_BY_ROUTE,
    UVHTTP_RATE_LIMIT_BY_CALLBACK
} uvhttp_rate_limit_by_t;
typedef uvhttp_str_t (*uvhttp_rate_limit_key_cb)(uvhttp_request_t *req, void *user);
typedef struct uvhttp_rate_limit_take {
    const char *policy;
    char kind;
    uvhttp_str_t key;
    uint64_t now_ns;
    uint64_t interval_ns;
    uint32_t burst;
} uvhttp_rate_limit_take_t;
typedef struct uvhttp_rate_limit_decision {
    _Bool allowed;
    uint32_t remaining;
    uint64_t next_ns;
} uvhttp_rate_limit_decision_t;
typedef struct uvhttp_rate_limit_stats {
    uint64_t allowed;
    uint64_t refused;
    uint64_t keys;
    uint64_t evicted;
    uint64_t exempt;
    uint64_t store_errors;
} uvhttp_rate_limit_stats_t;
typedef struct uvhttp_rate_limit_ticket uvhttp_rate_limit_ticket_t;
typedef struct uvhttp_rate_limit_store {
    int (*take)(void *user, const uvhttp_rate_limit_take_t *take, uvhttp_rate_limit_decision_t *decision);
    void (*take_later)(void *user, const uvhttp_rate_limit_take_t *take, uvhttp_rate_limit_ticket_t *ticket);
    void (*stats)(void *user, uvhttp_rate_limit_stats_t *stats);
    void (*destroy)(void *user);
    void *user;
} uvhttp_rate_limit_store_t;
__attribute__((visibility("default"))) void uvhttp_rate_limit_decided(uvhttp_rate_limit_ticket_t *ticket, int status,
                                             const uvhttp_rate_limit_decision_t *decision);
typedef struct uvhttp_rate_limit_redis_options {
    const char *address;
    const char *user;
    const char *password;
    uint32_t database;
    const char *prefix;
    uint32_t timeout_ms;
    uint32_t pending_max;
} uvhttp_rate_limit_redis_options_t;
__attribute__((visibility("default"))) int uvhttp_rate_limit_redis(const uvhttp_rate_limit_redis_options_t *options,
                                          uvhttp_rate_limit_store_t *store);
typedef struct uvhttp_rate_limit_options {
    double per_second;
    uint32_t burst;
    uint32_t max_keys;
    uvhttp_rate_limit_by_t by;
    const char *header;
    uvhttp_rate_limit_key_cb key;
    void *key_user;
    uint32_t ipv4_prefix;
    uint32_t ipv6_prefix;
    const char *const *allow;
    size_t allow_count;
    int status;
    _Bool omit_headers;
    const char *name;
    const uvhttp_rate_limit_store_t *store;
    _Bool refuse_on_error;
} uvhttp_rate_limit_options_t;
__attribute__((visibility("default"))) uvhttp_middleware_t uvhttp_rate_limit(const uvhttp_rate_limit_options_t *options);
__attribute__((visibility("default"))) int uvhttp_rate_limit_stats(uvhttp_middleware_t middleware, uvhttp_rate_limit_stats_t *stats);
typedef struct uvhttp_request_id_options {
    const char *header;
    _Bool trust_incoming;
} uvhttp_request_id_options_t;
__attribute__((visibility("default"))) uvhttp_middleware_t uvhttp_request_id(const uvhttp_request_id_options_t *options);
__attribute__((visibility("default"))) uvhttp_str_t uvhttp_request_id_get(const uvhttp_request_t *req);
typedef struct uvhttp_security_headers_options {
    _Bool allow_sniffing;
    const char *frame_options;
    const char *referrer_policy;
    const char *content_security_policy;
    _Bool content_security_policy_report_only;
    uint32_t hsts_max_age;
    _Bool hsts_include_subdomains;
    _Bool hsts_preload;
} uvhttp_security_headers_options_t;
__attribute__((visibility("default"))) uvhttp_middleware_t uvhttp_security_headers(const uvhttp_security_headers_options_t *options);
struct uvhttp_server;
typedef struct uvhttp_static_type {
    const char *extension;
    const char *type;
} uvhttp_static_type_t;
typedef struct uvhttp_static_rule {
    const char *pattern;
    const char *cache_control;
} uvhttp_static_rule_t;
typedef struct uvhttp_static_options {
    const char *const *index_files;
    const uvhttp_static_type_t *types;
    const char *default_type;
    const uvhttp_static_rule_t *rules;
    const char *fallback;
    _Bool immutable_hashed;
    _Bool list_directories;
    _Bool dot_files;
    _Bool no_symlinks;
    _Bool no_precompressed;
    _Bool no_sendfile;
    _Bool warm_up;
    uint32_t sendfile_min;
    uint32_t cache_entries_max;
    uint32_t cache_missing_max;
    uint32_t open_files_max;
    uint64_t cache_size_max;
    uint32_t revalidate_ms;
    uint32_t ranges_max;
    uint32_t list_entries_max;
    uint32_t helper_threads;
    uint32_t backlog_max;
} uvhttp_static_options_t;
__attribute__((visibility("default"))) int uvhttp_static(struct uvhttp_server *server, const char *prefix, const char *root,
                                const uvhttp_static_options_t *options);
__attribute__((visibility("default"))) int uvhttp_group_static(uvhttp_group_t *group, const char *prefix, const char *root,
                                      const uvhttp_static_options_t *options);
typedef struct uvhttp_server uvhttp_server_t;
typedef struct uvhttp_ws uvhttp_ws_t;
typedef struct uvhttp_ws_ref uvhttp_ws_ref_t;
typedef enum uvhttp_ws_type { UVHTTP_WS_TEXT = 1, UVHTTP_WS_BINARY = 2 } uvhttp_ws_type_t;
typedef enum uvhttp_ws_code {
    UVHTTP_WS_NORMAL = 1000,
    UVHTTP_WS_GOING_AWAY = 1001,
    UVHTTP_WS_PROTOCOL_ERROR = 1002,
    UVHTTP_WS_UNSUPPORTED_DATA = 1003,
    UVHTTP_WS_NO_CODE = 1005,
    UVHTTP_WS_ABNORMAL = 1006,
    UVHTTP_WS_INVALID_DATA = 1007,
    UVHTTP_WS_POLICY = 1008,
    UVHTTP_WS_TOO_LARGE = 1009,
    UVHTTP_WS_INTERNAL_ERROR = 1011,
    UVHTTP_WS_TRY_LATER = 1013
} uvhttp_ws_code_t;
typedef struct uvhttp_ws_message {
    uvhttp_ws_type_t type;
    const char *data;
    size_t size;
} uvhttp_ws_message_t;
typedef struct uvhttp_ws_fragment {
    uvhttp_ws_type_t type;
    _Bool first, last;
    const char *data;
    size_t size;
} uvhttp_ws_fragment_t;
typedef struct uvhttp_ws_options {
    uint64_t message_size_max;
    uint32_t fragments_max;
    uint32_t message_timeout;
    uint32_t ping_interval;
    uint32_t idle_timeout;
    uint32_t close_timeout;
    uint32_t send_high_watermark;
    uint32_t send_queue_max;
    uint32_t min_send_rate;
    uint32_t rate_grace;
    _Bool compression;
    _Bool context_takeover;
    uint32_t compression_level;
    uint32_t compression_memory_level;
    uint32_t compression_size_min;
    uint32_t server_window_bits;
    uint32_t client_window_bits;
    uint32_t topics_max;
    uint32_t topic_size_max;
    uint32_t subscriptions_max;
    _Bool publish_to_self;
    _Bool drop_slow_subscribers;
    const char *const *subprotocols;
    const char *const *origins;
} uvhttp_ws_options_t;
typedef struct uvhttp_ws_handlers {
    uvhttp_flow_t (*on_upgrade)(uvhttp_request_t *req, uvhttp_response_t *res, void *user);
    void (*on_open)(uvhttp_ws_t *ws, void *user);
    void (*on_message)(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user);
    void (*on_fragment)(uvhttp_ws_t *ws, uvhttp_ws_fragment_t fragment, void *user);
    void (*on_drain)(uvhttp_ws_t *ws, void *user);
    void (*on_close)(uvhttp_ws_t *ws, int code, uvhttp_str_t reason, void *user);
    const uvhttp_ws_options_t *options;
    void (*on_stop)(uvhttp_ws_t *ws, void *user);
} uvhttp_ws_handlers_t;
__attribute__((visibility("default"))) int uvhttp_websocket(uvhttp_server_t *server, const char *pattern, const uvhttp_ws_handlers_t *handlers,
                                   void *user);
__attribute__((visibility("default"))) int uvhttp_group_websocket(uvhttp_group_t *group, const char *pattern,
                                         const uvhttp_ws_handlers_t *handlers, void *user);
__attribute__((visibility("default"))) int uvhttp_ws_send(uvhttp_ws_t *ws, uvhttp_ws_type_t type, const void *data, size_t size);
__attribute__((visibility("default"))) int uvhttp_ws_begin(uvhttp_ws_t *ws, uvhttp_ws_type_t type);
__attribute__((visibility("default"))) int uvhttp_ws_write(uvhttp_ws_t *ws, const void *data, size_t size);
__attribute__((visibility("default"))) int uvhttp_ws_end(uvhttp_ws_t *ws);
__attribute__((visibility("default"))) size_t uvhttp_ws_queued(const uvhttp_ws_t *ws);
__attribute__((visibility("default"))) int uvhttp_ws_close(uvhttp_ws_t *ws, int code, const char *reason);
__attribute__((visibility("default"))) void uvhttp_ws_pause(uvhttp_ws_t *ws);
__attribute__((visibility("default"))) void uvhttp_ws_resume(uvhttp_ws_t *ws);
__attribute__((visibility("default"))) void uvhttp_ws_set_data(uvhttp_ws_t *ws, void *data);
__attribute__((visibility("default"))) void *uvhttp_ws_data(const uvhttp_ws_t *ws);
__attribute__((visibility("default"))) const char *uvhttp_ws_subprotocol(const uvhttp_ws_t *ws);
__attribute__((visibility("default"))) int uvhttp_ws_peer(uvhttp_ws_t *ws, char *text, size_t size);
__attribute__((visibility("default"))) _Bool uvhttp_ws_is_compressed(const uvhttp_ws_t *ws);
__attribute__((visibility("default"))) int uvhttp_ws_subscribe(uvhttp_ws_t *ws, const char *topic);
__attribute__((visibility("default"))) int uvhttp_ws_unsubscribe(uvhttp_ws_t *ws, const char *topic);
__attribute__((visibility("default"))) int uvhttp_ws_publish(uvhttp_ws_t *ws, const char *topic, uvhttp_ws_type_t type, const void *data,
                                    size_t size);
__attribute__((visibility("default"))) int uvhttp_websocket_publish(uvhttp_server_t *server, const char *topic, uvhttp_ws_type_t type,
                                           const void *data, size_t size);
__attribute__((visibility("default"))) uvhttp_ws_ref_t *uvhttp_ws_ref(uvhttp_ws_t *ws);
__attribute__((visibility("default"))) int uvhttp_ws_ref_send(uvhttp_ws_ref_t *ref, uvhttp_ws_type_t type, const void *data, size_t size);
__attribute__((visibility("default"))) int uvhttp_ws_ref_close(uvhttp_ws_ref_t *ref, int code, const char *reason);
__attribute__((visibility("default"))) void uvhttp_ws_ref_retain(uvhttp_ws_ref_t *ref);
__attribute__((visibility("default"))) void uvhttp_ws_ref_release(uvhttp_ws_ref_t *ref);
