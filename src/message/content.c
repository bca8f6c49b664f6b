/* Owns: shared bodies: bytes that are created once and sent often. Large ones are a sealed file in memory: sendfile(2)
 * submits pages that cannot be changed, also after the body was freed while a client still reads. May include: base. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/write.h"
#include "message/message.h"

#define SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int problem_of(int error) {
    switch (error) {
        case EMFILE:
        case ENFILE: return UVHTTP_E_NO_DESCRIPTORS;
        case ENOMEM:
        case ENOSPC:
        case EFBIG: return UVHTTP_E_NOMEM;
        default: return UVHTTP_E_IO;
    }
}

/* Returns 0 or an errno. A private mapping that is never written to shares the pages of the file. */
static int fill_file(uvhttp_content_t *content, const char *data) {
    int error = uvhttp__write_all(content->fd, data, content->size);
    if (error != 0) return error;
    if (fcntl(content->fd, F_ADD_SEALS, SEALS) != 0) return errno;
    void *mapped = mmap(NULL, content->size, PROT_READ, MAP_PRIVATE, content->fd, 0);
    if (mapped == MAP_FAILED) return errno;
    content->data = mapped;
    return 0;
}

static int make_file(uvhttp_content_t *content, const char *data) {
    content->fd = memfd_create("uvhttp_content", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (content->fd < 0) return errno;
    int error = fill_file(content, data);
    if (error != 0) close(content->fd);
    return error;
}

int uvhttp_content_new(const void *data, size_t size, uvhttp_content_t **content) {
    if (!content) return UVHTTP_E_INVALID;
    *content = NULL;
    if (!data && size) return UVHTTP_E_INVALID;
    bool small = size < UVHTTP__SENDFILE_MIN;
    uvhttp_content_t *made = uvhttp__malloc(sizeof *made + (small ? size : 0));
    if (!made) return UVHTTP_E_NOMEM;
    *made = (uvhttp_content_t){.fd = -1, .size = size, .data = (char *)(made + 1)};
    uvhttp__ref_init(&made->ref);
    if (small && size) memcpy(made + 1, data, size);
    int error = small ? 0 : make_file(made, data);
    if (error != 0) {
        uvhttp__free(made);
        return problem_of(error);
    }
    *content = made;
    return UVHTTP_OK;
}

void uvhttp_content_retain(uvhttp_content_t *content) {
    uvhttp__ref_acquire(&content->ref);
}

void uvhttp_content_release(uvhttp_content_t *content) {
    if (!content || !uvhttp__ref_release(&content->ref)) return;
    if (content->fd >= 0) {
        (void)munmap((void *)(uintptr_t)content->data, content->size);
        close(content->fd);
    }
    uvhttp__free(content);
}
