/* Owns: a set of certificates with all that belongs to it: made in steps of the backend, counted. May include: io,
 * base.
 */
#include "base/alloc.h"
#include "tls/backend.h"

static int fill(uvhttp__tls_contexts_t *made, uvhttp__tls_error_t *error) {
    int status = uvhttp__tls_library_new(made, error);
    for (uint32_t i = 0; i < made->settings->certificate_count && status == UVHTTP_OK; i++)
        status = uvhttp__tls_load(made, i, error);
    if (status == UVHTTP_OK) status = uvhttp__tls_load_clients(made, error);
    if (status != UVHTTP_OK) return status;
    if (uvhttp__tls_names_build(&made->names) != UVHTTP_OK)
        return uvhttp__tls_fail(error, UVHTTP_E_NOMEM, "out of memory");
    return uvhttp__tls_library_configure(made, error);
}

int uvhttp__tls_contexts_new(uvhttp__tls_settings_t *settings, uvhttp__tickets_t *tickets,
                             uvhttp__tls_contexts_t **contexts, uvhttp__tls_error_t *error) {
    uvhttp__tls_contexts_t *made = uvhttp__calloc(1, sizeof *made);
    if (!made) return uvhttp__tls_fail(error, UVHTTP_E_NOMEM, "out of memory");
    uvhttp__ref_init(&made->count);
    uvhttp__ref_acquire(&settings->count);
    made->settings = settings;
    made->tickets = tickets;
    int status = fill(made, error);
    if (status == UVHTTP_OK)
        *contexts = made;
    else
        uvhttp__tls_contexts_release(made);
    return status;
}

uvhttp__tls_contexts_t *uvhttp__tls_contexts_retain(uvhttp__tls_contexts_t *contexts) {
    uvhttp__ref_acquire(&contexts->count);
    return contexts;
}

void uvhttp__tls_contexts_release(uvhttp__tls_contexts_t *contexts) {
    if (!contexts || !uvhttp__ref_release(&contexts->count)) return;
    uvhttp__tls_library_free(contexts);
    uvhttp__tls_names_deinit(&contexts->names);
    uvhttp__tls_settings_release(contexts->settings);
    uvhttp__free(contexts);
}
