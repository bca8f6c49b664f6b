/* Owns: the pieces of a response head: status line and chunk head. May include: base. */
#include "base/hot_path.h"
#include "base/str.h"
#include "http1/scan.h"

/* The IANA registry of status codes. 418 is reserved there and 306 unused; 104 is a temporary registration. */
#define STATUS_MAP(X)                                                                                                  \
    X(100, "Continue")                                                                                                 \
    X(101, "Switching Protocols")                                                                                      \
    X(102, "Processing")                                                                                               \
    X(103, "Early Hints")                                                                                              \
    X(104, "Upload Resumption Supported")                                                                              \
    X(200, "OK")                                                                                                       \
    X(201, "Created")                                                                                                  \
    X(202, "Accepted")                                                                                                 \
    X(203, "Non-Authoritative Information")                                                                            \
    X(204, "No Content")                                                                                               \
    X(205, "Reset Content")                                                                                            \
    X(206, "Partial Content")                                                                                          \
    X(207, "Multi-Status")                                                                                             \
    X(208, "Already Reported")                                                                                         \
    X(226, "IM Used")                                                                                                  \
    X(300, "Multiple Choices")                                                                                         \
    X(301, "Moved Permanently")                                                                                        \
    X(302, "Found")                                                                                                    \
    X(303, "See Other")                                                                                                \
    X(304, "Not Modified")                                                                                             \
    X(305, "Use Proxy")                                                                                                \
    X(307, "Temporary Redirect")                                                                                       \
    X(308, "Permanent Redirect")                                                                                       \
    X(400, "Bad Request")                                                                                              \
    X(401, "Unauthorized")                                                                                             \
    X(402, "Payment Required")                                                                                         \
    X(403, "Forbidden")                                                                                                \
    X(404, "Not Found")                                                                                                \
    X(405, "Method Not Allowed")                                                                                       \
    X(406, "Not Acceptable")                                                                                           \
    X(407, "Proxy Authentication Required")                                                                            \
    X(408, "Request Timeout")                                                                                          \
    X(409, "Conflict")                                                                                                 \
    X(410, "Gone")                                                                                                     \
    X(411, "Length Required")                                                                                          \
    X(412, "Precondition Failed")                                                                                      \
    X(413, "Content Too Large")                                                                                        \
    X(414, "URI Too Long")                                                                                             \
    X(415, "Unsupported Media Type")                                                                                   \
    X(416, "Range Not Satisfiable")                                                                                    \
    X(417, "Expectation Failed")                                                                                       \
    X(421, "Misdirected Request")                                                                                      \
    X(422, "Unprocessable Content")                                                                                    \
    X(423, "Locked")                                                                                                   \
    X(424, "Failed Dependency")                                                                                        \
    X(425, "Too Early")                                                                                                \
    X(426, "Upgrade Required")                                                                                         \
    X(428, "Precondition Required")                                                                                    \
    X(429, "Too Many Requests")                                                                                        \
    X(431, "Request Header Fields Too Large")                                                                          \
    X(451, "Unavailable For Legal Reasons")                                                                            \
    X(500, "Internal Server Error")                                                                                    \
    X(501, "Not Implemented")                                                                                          \
    X(502, "Bad Gateway")                                                                                              \
    X(503, "Service Unavailable")                                                                                      \
    X(504, "Gateway Timeout")                                                                                          \
    X(505, "HTTP Version Not Supported")                                                                               \
    X(506, "Variant Also Negotiates")                                                                                  \
    X(507, "Insufficient Storage")                                                                                     \
    X(508, "Loop Detected")                                                                                            \
    X(510, "Not Extended")                                                                                             \
    X(511, "Network Authentication Required")

enum { STATUS_LINE_SIZE = 48 };

typedef struct status_line {
    char text[STATUS_LINE_SIZE]; /* copied whole: one copy of a fixed size is faster than one of the exact size */
    uint8_t size;
} status_line_t;

enum {
#define STATUS_INDEX(code, reason) STATUS_INDEX_##code,
    STATUS_MAP(STATUS_INDEX)
#undef STATUS_INDEX
};

static const status_line_t status_lines[] = {
#define STATUS_LINE(code, reason)                                                                                      \
    {"HTTP/1.1 " #code " " reason "\r\n", sizeof("HTTP/1.1 " #code " " reason "\r\n") - 1},
    STATUS_MAP(STATUS_LINE)
#undef STATUS_LINE
};

static const char *const reasons[] = {
#define STATUS_REASON(code, reason) reason,
    STATUS_MAP(STATUS_REASON)
#undef STATUS_REASON
};

/* By code - 100: the index of the code in the tables above plus 1, or 0. */
static const uint8_t status_indexes[500] = {
#define STATUS_CODE(code, reason) [(code)-100] = STATUS_INDEX_##code + 1,
    STATUS_MAP(STATUS_CODE)
#undef STATUS_CODE
};

static_assert(STATUS_LINE_SIZE <= UVHTTP__HTTP1_STATUS_LINE_MAX, "a whole slot is copied to the caller");

static unsigned find_status(int status) {
    return status >= 100 && status < 600 ? status_indexes[status - 100] : 0U;
}

UVHTTP__HOT size_t uvhttp__http1_write_status_line(char *out, int status) {
    assert(status >= 100 && status <= 999);
    unsigned index = find_status(status);
    if (index > 0) {
        memcpy(out, status_lines[index - 1].text, STATUS_LINE_SIZE);
        return status_lines[index - 1].size;
    }
    memcpy(out, "HTTP/1.1 ", 9);
    size_t digits = uvhttp__write_decimal(out + 9, (uint64_t)status);
    memcpy(out + 9 + digits, " \r\n", 3);
    return 9 + digits + 3;
}

const char *uvhttp__http1_reason(int status) {
    unsigned index = find_status(status);
    return index > 0 ? reasons[index - 1] : "";
}

size_t uvhttp__http1_write_chunk_head(char *out, uint64_t size) {
    size_t digits = 1;
    while (digits < 16 && size >> (4 * digits) != 0) ++digits;
    for (size_t i = digits; i-- > 0; size >>= 4) out[i] = "0123456789abcdef"[size & 15];
    memcpy(out + digits, "\r\n", 2);
    return digits + 2;
}
