/* Owns: shared bodies: bytes that are created once and sent often. Large ones are a sealed file in memory: sendfile(2)
 * submits pages that cannot be changed, also after the body was freed while a client still reads. May include: base. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/standard_fds.h"
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
static int fill_file(uvhttp_shared_body_t *body, const char *data) {
    int error = uvhttp__write_all(body->fd, data, body->size);
    if (error != 0) return error;
    if (fcntl(body->fd, F_ADD_SEALS, SEALS) != 0) return errno;
    void *mapped = mmap(NULL, body->size, PROT_READ, MAP_PRIVATE, body->fd, 0);
    if (mapped == MAP_FAILED) return errno;
    body->data = mapped;
    return 0;
}

static int make_file(uvhttp_shared_body_t *body, const char *data) {
    if (uvhttp__standard_fds_hold() != UVHTTP_OK) return errno;
    body->fd = memfd_create("uvhttp_shared_body", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (body->fd < 0) return errno;
    int error = fill_file(body, data);
    if (error != 0) close(body->fd);
    return error;
}

int uvhttp_shared_body_new(const void *data, size_t size, uvhttp_shared_body_t **body) {
    if (!body) return UVHTTP_E_INVALID;
    *body = NULL;
    if (!data && size) return UVHTTP_E_INVALID;
    bool small = size < UVHTTP__SENDFILE_MIN;
    uvhttp_shared_body_t *made = uvhttp__malloc(sizeof *made + (small ? size : 0));
    if (!made) return UVHTTP_E_NOMEM;
    *made = (uvhttp_shared_body_t){.fd = -1, .size = size, .data = (char *)(made + 1)};
    uvhttp__ref_init(&made->ref);
    if (small && size) memcpy(made + 1, data, size);
    int error = small ? 0 : make_file(made, data);
    if (error != 0) {
        uvhttp__free(made);
        return problem_of(error);
    }
    *body = made;
    return UVHTTP_OK;
}

void uvhttp_shared_body_retain(uvhttp_shared_body_t *body) {
    uvhttp__ref_acquire(&body->ref);
}

void uvhttp_shared_body_release(uvhttp_shared_body_t *body) {
    if (!body || !uvhttp__ref_release(&body->ref)) return;
    if (body->fd >= 0) {
        (void)munmap((void *)(uintptr_t)body->data, body->size);
        close(body->fd);
    }
    uvhttp__free(body);
}
