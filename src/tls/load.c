/* Owns: what backends share when they load: files, names, what is worth a warning. May include: io, base, obs. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "base/libc.h"
#include "base/str.h"
#include "tls/backend.h"

#define DAY_S 86400

int uvhttp__tls_fail(uvhttp__tls_error_t *error, int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return status;
}

static int read_all(int fd, char *data, size_t size) {
    for (size_t used = 0; used < size;) {
        ssize_t got = read(fd, data + used, size - used);
        if (got < 0 && errno == EINTR) continue;
        if (got == 0) errno = EIO; /* it has become shorter */
        if (got <= 0) return UVHTTP_E_IO;
        used += (size_t)got;
    }
    return UVHTTP_OK;
}

int uvhttp__tls_read_file(const char *path, char **data, size_t *size, uvhttp__tls_error_t *error) {
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* not to wait for a writer of a FIFO */
    if (fd < 0 || fstat(fd, &status) != 0) {
        int error_number = errno;
        if (fd >= 0) close(fd);
        return uvhttp__tls_fail(error, UVHTTP_E_TLS_CERTIFICATE, "%s: %s", path, strerrordesc_np(error_number));
    }
    if (!S_ISREG(status.st_mode) || status.st_size <= 0 || status.st_size > (off_t)UVHTTP__TLS_FILE_SIZE_MAX) {
        close(fd);
        return uvhttp__tls_fail(error, UVHTTP_E_TLS_CERTIFICATE, "%s: not a regular file of 1 byte to %u MiB", path,
                                UVHTTP__TLS_FILE_SIZE_MAX >> 20);
    }
    *size = (size_t)status.st_size;
    *data = uvhttp__malloc(*size + 1);
    int result = *data ? read_all(fd, *data, *size) : UVHTTP_E_NOMEM;
    int error_number = errno;
    close(fd);
    if (result == UVHTTP_OK) {
        (*data)[*size] = '\0';
        return result;
    }
    if (*data) explicit_bzero(*data, *size); /* it may be a part of a key */
    uvhttp__free(*data);
    *data = NULL;
    if (result == UVHTTP_E_NOMEM) return uvhttp__tls_fail(error, result, "%s: out of memory", path);
    return uvhttp__tls_fail(error, UVHTTP_E_TLS_CERTIFICATE, "%s: %s", path, strerrordesc_np(error_number));
}

const char *uvhttp__tls_label(const char *file) {
    return file ? file : "(memory)";
}

int uvhttp__tls_source_open(uvhttp__tls_source_t *source, const char *file, const void *memory, size_t size,
                            uvhttp__tls_error_t *error) {
    *source = (uvhttp__tls_source_t){.name = uvhttp__tls_label(file), .data = memory, .size = size};
    if (!file) return UVHTTP_OK;
    int status = uvhttp__tls_read_file(file, &source->owned, &source->size, error);
    source->data = source->owned;
    return status;
}

void uvhttp__tls_source_close(uvhttp__tls_source_t *source) {
    if (source->owned) explicit_bzero(source->owned, source->size);
    uvhttp__free(source->owned);
}

int uvhttp__tls_add_given_names(uvhttp__tls_names_t *names, const char *list, uint32_t index,
                                uvhttp__tls_error_t *error) {
    for (const char *at = list;;) {
        size_t field = strcspn(at, ",");
        int status = uvhttp__tls_names_add(names, uvhttp__str_trim((uvhttp_str_t){at, field}), index);
        if (status == UVHTTP_E_INVALID)
            return uvhttp__tls_fail(error, UVHTTP_E_CONFIG,
                                    "certificates[%u]: names is \"%s\": expected host names with commas between", index,
                                    list);
        if (status != UVHTTP_OK || at[field] == '\0') return status;
        at += field + 1;
    }
}

void uvhttp__tls_warn_of_key(const uvhttp_tls_certificate_t *from) {
    struct stat info;
    if (from->key_file && stat(from->key_file, &info) == 0 && (info.st_mode & S_IROTH))
        UVHTTP_LOG_WARN("tls: %s: every user of this machine can read this key: chmod o-r", from->key_file);
}

/* A certificate that lives for a few days only is renewed later. */
static bool expires_soon(int64_t left_s, int64_t life_s) {
    return left_s < UVHTTP__TLS_EXPIRY_WARN_DAYS * DAY_S && left_s < life_s / 3;
}

void uvhttp__tls_log_dates(const uvhttp_tls_certificate_t *from, const struct tm *since, const struct tm *until) {
    const char *name = uvhttp__tls_label(from->certificate_file);
    struct tm begin = *since, end = *until;
    int64_t begin_s = timegm(&begin), end_s = timegm(&end), now_s = time(NULL), days = (end_s - now_s) / DAY_S;
    char text[80];
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", until);
    if (now_s > end_s)
        UVHTTP_LOG_WARN("tls: %s: the certificate expired on %s, and clients refuse it: renew it, then reload", name,
                        text);
    else if (expires_soon(end_s - now_s, end_s - begin_s))
        UVHTTP_LOG_WARN("tls: %s: the certificate expires in %d day%s, on %s: renew it, then reload", name, (int)days,
                        days == 1 ? "" : "s", text);
    if (now_s < begin_s) UVHTTP_LOG_WARN("tls: %s: the certificate is not valid yet: check the clock", name);
    UVHTTP_LOG_INFO("tls: loaded the certificate of %s, valid until %s", name, text);
}
