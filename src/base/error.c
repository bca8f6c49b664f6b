/* Owns: what is known about an error code. May include: error_index. */
#include "base/error_index.h"

static const struct {
    const char *name;
    const char *message;
    int code;
    int http_status;
} errors[UVHTTP__ERROR_COUNT] = {
#define ERROR_ROW(name, number, status, message) {"UVHTTP_E_" #name, message, number, status},
    UVHTTP_ERROR_MAP(ERROR_ROW)
#undef ERROR_ROW
        {"UVHTTP_E_UNKNOWN", "unknown error", 0, 0},
};

unsigned uvhttp__error_index(int code) {
    switch (code) {
#define ERROR_CASE(name, number, status, message)                                                                      \
    case number: return UVHTTP__ERROR_INDEX_##name;
        UVHTTP_ERROR_MAP(ERROR_CASE)
#undef ERROR_CASE
        default: return UVHTTP__ERROR_INDEX_UNKNOWN;
    }
}

int uvhttp__error_at(unsigned index) {
    return index < UVHTTP__ERROR_COUNT ? errors[index].code : 0;
}

const char *uvhttp_error_name(int code) {
    return code == UVHTTP_OK ? "UVHTTP_OK" : errors[uvhttp__error_index(code)].name;
}

const char *uvhttp_error_message(int code) {
    return code == UVHTTP_OK ? "success" : errors[uvhttp__error_index(code)].message;
}

int uvhttp_error_http_status(int code) {
    int status = errors[uvhttp__error_index(code)].http_status;
    return status ? status : 500;
}
