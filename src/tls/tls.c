/* Owns: uvhttp_tls_t: what is loaded from its options, reloading. May include: conn, io, base, obs. */
#include "tls/tls.h"
#include "base/sized.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "base/ref.h"
#include "tls/backend.h"

struct uvhttp_tls {
    uvhttp__ref_t count;
    uvhttp__tickets_t tickets;
    pthread_mutex_t lock;             /* loops take contexts while another thread reloads */
    uvhttp__tls_contexts_t *contexts; /* written under lock */
    uvhttp__tls_error_t error;
    bool development;   /* made by uvhttp_tls_development: its certificate is in the settings alone */
    bool is_configured; /* made from a server's configuration, which may come anew */
};

/* --- life --- */

static int make_contexts(uvhttp_tls_t *tls, const uvhttp_tls_options_t *options, uvhttp__tls_contexts_t **contexts,
                         uvhttp__tls_error_t *error) {
    uvhttp__tls_settings_t *settings = NULL;
    int status = uvhttp__tls_settings_new(options, &settings, error);
    if (status == UVHTTP_OK) status = uvhttp__tls_contexts_new(settings, &tls->tickets, contexts, error);
    uvhttp__tls_settings_release(settings);
    return status;
}

/* Options of the library's own size. */
static uvhttp_tls_t *make(const uvhttp_tls_options_t *options) {
    uvhttp__tls_error_t error;
    uvhttp_tls_t *tls = uvhttp__calloc(1, sizeof *tls);
    int status = tls ? UVHTTP_OK : uvhttp__tls_fail(&error, UVHTTP_E_NOMEM, "out of memory");
    if (tls) {
        uvhttp__ref_init(&tls->count);
        pthread_mutex_init(&tls->lock, NULL);
        uvhttp__tickets_init(&tls->tickets, 0, uvhttp__tls_random);
        status = make_contexts(tls, options, &tls->contexts, &error);
    }
    if (status == UVHTTP_OK) {
        assert(tls);
        uvhttp__tickets_set_period(&tls->tickets, tls->contexts->settings->ticket_period_ms);
        return tls;
    }
    UVHTTP_LOG_ERROR("tls: %s", error.text);
    uvhttp_tls_release(tls);
    return NULL;
}

/* False, which is logged: the program is newer than the library. */
static bool read_options(uvhttp_tls_options_t *full, const uvhttp_tls_options_t *options, size_t size) {
    if (uvhttp__sized_read(full, sizeof *full, options, size)) return true;
    UVHTTP_LOG_ERROR("tls: %s", UVHTTP__SIZED_NEWER);
    return false;
}

uvhttp_tls_t *uvhttp_tls_new_sized(const uvhttp_tls_options_t *options, size_t options_size) {
    uvhttp_tls_options_t full;
    if (!options) {
        UVHTTP_LOG_ERROR("tls: options are missing");
        return NULL;
    }
    return read_options(&full, options, options_size) ? make(&full) : NULL;
}

uvhttp_tls_t *uvhttp_tls_retain(uvhttp_tls_t *tls) {
    uvhttp__ref_acquire(&tls->count);
    return tls;
}

void uvhttp_tls_release(uvhttp_tls_t *tls) {
    if (!tls || !uvhttp__ref_release(&tls->count)) return;
    uvhttp__tls_contexts_release(tls->contexts);
    uvhttp__tickets_deinit(&tls->tickets);
    pthread_mutex_destroy(&tls->lock);
    uvhttp__free(tls);
}

/* --- reloading --- */

/* The thread of the last reload may have been another one: what it left is read under the lock, and held. */
int uvhttp__tls_prepare(uvhttp_tls_t *tls, const uvhttp_tls_options_t *options, uvhttp__tls_contexts_t **fresh) {
    uvhttp__tls_contexts_t *before = uvhttp__tls_now(tls);
    uvhttp__tls_settings_t *current = before->settings;
    tls->error.text[0] = '\0';
    *fresh = NULL;
    int status;
    if (!options) {
        status = uvhttp__tls_contexts_new(current, &tls->tickets, fresh, &tls->error);
    } else if (options->certificate_count == 0 && tls->development) {
        uvhttp_tls_options_t with = *options;
        with.certificates = current->certificates;
        with.certificate_count = current->certificate_count;
        status = make_contexts(tls, &with, fresh, &tls->error);
    } else {
        status = make_contexts(tls, options, fresh, &tls->error);
    }
    uvhttp__tls_contexts_release(before);
    if (status != UVHTTP_OK) UVHTTP_LOG_ERROR("tls: reload: %s; the previous files stay in use", tls->error.text);
    return status;
}

void uvhttp__tls_commit(uvhttp_tls_t *tls, uvhttp__tls_contexts_t *fresh) {
    uvhttp__tickets_set_period(&tls->tickets, fresh->settings->ticket_period_ms);
    pthread_mutex_lock(&tls->lock);
    uvhttp__tls_contexts_t *before = tls->contexts;
    tls->contexts = fresh;
    pthread_mutex_unlock(&tls->lock);
    uvhttp__tls_contexts_release(before);
}

int uvhttp_tls_reload(uvhttp_tls_t *tls) {
    if (!tls) return UVHTTP_E_INVALID;
    uvhttp__tls_contexts_t *fresh;
    int status = uvhttp__tls_prepare(tls, NULL, &fresh);
    if (status == UVHTTP_OK) uvhttp__tls_commit(tls, fresh);
    return status;
}

const char *uvhttp_tls_error_text(const uvhttp_tls_t *tls) {
    return tls->error.text;
}

uvhttp__tls_contexts_t *uvhttp__tls_now(uvhttp_tls_t *tls) {
    pthread_mutex_lock(&tls->lock);
    uvhttp__tls_contexts_t *contexts = uvhttp__tls_contexts_retain(tls->contexts);
    pthread_mutex_unlock(&tls->lock);
    return contexts;
}

void uvhttp__tls_set_configured(uvhttp_tls_t *tls) {
    tls->is_configured = true;
}

bool uvhttp__tls_is_configured(const uvhttp_tls_t *tls) {
    return tls->is_configured;
}

uvhttp_tls_t *uvhttp_tls_development_sized(const uvhttp_tls_options_t *options, size_t options_size) {
    uvhttp_tls_options_t with;
    if (!read_options(&with, options, options_size)) return NULL;
    char *certificate = NULL, *key = NULL;
    if (uvhttp__tls_development_pem(&certificate, &key) != UVHTTP_OK) {
        UVHTTP_LOG_ERROR("tls: a development certificate cannot be made");
        return NULL;
    }
    uvhttp_tls_certificate_t own = {
        .certificate = certificate, .certificate_size = strlen(certificate), .key = key, .key_size = strlen(key)};
    with.certificates = &own;
    with.certificate_count = 1;
    uvhttp_tls_t *tls = make(&with);
    if (tls) tls->development = true;
    explicit_bzero(key, own.key_size);
    uvhttp__free(certificate);
    uvhttp__free(key);
    return tls;
}
