/* Owns: names of uploaded files, and saving one: nothing outside the directory, nothing overwritten. May include: base.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sized.h"
#include "base/str.h"
#include "base/utf8.h"
#include "base/write.h"
#include "message/multipart.h"

#define EXTENSION_SIZE_MAX 16u /* bytes with the dot: longer ones are not kept when a name is cut */
#define SAME_NAME_MAX 1000     /* files */

/* --- names --- */

/* Control characters, line separators, and characters that change the direction of text, so that a name shows what it
 * is. */
static bool is_hidden(uint32_t code) {
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c || code == 0x200e || code == 0x200f ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

static bool is_edge(char c) {
    return c == '.' || c == ' ';
}

/* Steps back to where a character begins. */
static size_t cut_at(const char *text, size_t size) {
    while (size > 0 && ((uint8_t)text[size] & 0xc0) == 0x80) --size;
    return size;
}

static size_t extension_at(const char *text, size_t size) {
    const char *dot = size ? memrchr(text, '.', size) : NULL;
    size_t at = dot ? (size_t)(dot - text) : size;
    return at > 0 && size - at <= EXTENSION_SIZE_MAX ? at : size;
}

/* Cuts the stem, so that the extension stays. */
static size_t shorten(char *text, size_t size) {
    if (size <= UVHTTP_FORM_FILE_NAME_SIZE_MAX) return size;
    size_t extension = extension_at(text, size), extension_size = size - extension;
    size_t stem = cut_at(text, UVHTTP_FORM_FILE_NAME_SIZE_MAX - extension_size);
    while (extension_size == 0 && stem > 0 && is_edge(text[stem - 1])) --stem;
    memmove(text + stem, text + extension, extension_size);
    return stem + extension_size;
}

size_t uvhttp__form_sanitise_name(uvhttp_str_t raw, char *out) {
    size_t begin = raw.size, used = 0;
    while (begin > 0 && raw.data[begin - 1] != '/' && raw.data[begin - 1] != '\\') --begin;
    for (size_t i = begin, length; i < raw.size; i += length) {
        uint32_t code;
        length = uvhttp__utf8_read(raw.data + i, raw.size - i, &code);
        if (code == UVHTTP__UTF8_MALFORMED) {
            length = 1;
            out[used++] = '_';
        } else if (!is_hidden(code) && !(used == 0 && is_edge(raw.data[i]))) {
            memcpy(out + used, raw.data + i, length);
            used += length;
        }
    }
    while (used > 0 && is_edge(out[used - 1])) --used;
    return shorten(out, used);
}

/* --- saving --- */

static int problem_of(int error) {
    switch (error) {
        case ENOTDIR:
        case EBADF:
        case ENOENT:
        case EINVAL: return UVHTTP_E_INVALID;
        case EACCES:
        case EPERM:
        case EROFS: return UVHTTP_E_PERMISSION;
        case EMFILE:
        case ENFILE: return UVHTTP_E_NO_DESCRIPTORS;
        case ENOSPC:
        case EDQUOT:
        case EFBIG: return UVHTTP_E_UPLOAD_NO_SPACE;
        default: return UVHTTP_E_IO;
    }
}

int uvhttp__form_file_write(int fd, uvhttp_str_t data) {
    int error = uvhttp__write_all(fd, data.data, data.size);
    return error == 0 ? 0 : problem_of(error);
}

/* Creates "stem.ext", or the first of "stem-1.ext", "stem-2.ext", ... that is not there. */
static int create(int directory, uvhttp_str_t name, char saved[UVHTTP_FORM_SAVED_NAME_SIZE], int *fd) {
    size_t stem = extension_at(name.data, name.size);
    for (int i = 0; i < SAME_NAME_MAX; ++i) {
        char number[16] = "";
        if (i > 0) snprintf(number, sizeof number, "-%d", i);
        snprintf(saved, UVHTTP_FORM_SAVED_NAME_SIZE, "%.*s%s%.*s", (int)stem, name.data, number,
                 (int)(name.size - stem), name.data + stem);
        *fd = openat(directory, saved, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (*fd >= 0) return 0;
        if (errno == EINTR)
            --i;
        else if (errno != EEXIST)
            return problem_of(errno);
    }
    return UVHTTP_E_LIMIT;
}

static bool is_component(uvhttp_str_t name) {
    bool dots = uvhttp__str_equal(name, UVHTTP__STR(".")) || uvhttp__str_equal(name, UVHTTP__STR(".."));
    return name.size > 0 && name.size <= UVHTTP_FORM_FILE_NAME_SIZE_MAX && !dots &&
           memchr(name.data, '/', name.size) == NULL;
}

int uvhttp__form_file_create(int directory, uvhttp_str_t name, char saved[UVHTTP_FORM_SAVED_NAME_SIZE], int *fd) {
    if (name.size == 0) name = UVHTTP__STR("upload");
    /* openat reads "current directory" from a negative number. */
    if (directory < 0 || !is_component(name) || memchr(name.data, '\0', name.size)) return UVHTTP_E_INVALID;
    return create(directory, name, saved, fd);
}

int uvhttp__form_file_end(int directory, const char *saved, int fd, int status) {
    if (close(fd) != 0 && status == 0) status = problem_of(errno);
    if (status != 0) unlinkat(directory, saved, 0);
    return status;
}

int uvhttp_form_file_save_sized(const uvhttp_form_file_t *file, size_t file_size, int directory, const char *name_text,
                                char saved[UVHTTP_FORM_SAVED_NAME_SIZE]) {
    char own[UVHTTP_FORM_SAVED_NAME_SIZE];
    int fd;
    if (name_text && !*name_text) return UVHTTP_E_INVALID;
    uvhttp_form_file_t full;
    if (!uvhttp__sized_read(&full, sizeof full, file, file_size)) return UVHTTP_E_UNSUPPORTED;
    file = &full;
    if (!saved) saved = own;
    int status = uvhttp__form_file_create(directory, name_text ? uvhttp__str_from(name_text) : file->name, saved, &fd);
    if (status != 0) return status;
    return uvhttp__form_file_end(directory, saved, fd, uvhttp__form_file_write(fd, file->data));
}
