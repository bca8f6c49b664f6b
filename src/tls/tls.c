/* Owns: uvhttp_tls_t: its options checked and copied, what is loaded from them, reloading, listening. May include:
 * conn, io, base, obs. */
#include "tls/tls.h"

#include <pthread.h>
#include <string.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "base/ref.h"
#include "base/str.h"
#include "tls/backend.h"

#define CERTIFICATES_MAX 10000

struct uvhttp_tls {
    uvhttp__ref_t count;
    uvhttp__tickets_t tickets;
    pthread_mutex_t lock;             /* loops take contexts while another thread reloads */
    uvhttp__tls_contexts_t *contexts; /* written under lock */
    uvhttp__tls_error_t error;
    bool development;   /* made by uvhttp_tls_development: its certificate is in the settings alone */
    bool is_configured; /* made from a server's configuration, which may come anew */
};

/* --- options --- */

static int wrong(uvhttp__tls_error_t *error, const char *what) {
    return uvhttp__tls_fail(error, UVHTTP_E_CONFIG, "%s", what);
}

static int no_memory(uvhttp__tls_error_t *error) {
    return uvhttp__tls_fail(error, UVHTTP_E_NOMEM, "out of memory");
}

/* NULL stays NULL. */
static bool copy_text(uvhttp__arena_t *arena, const char **text) {
    if (!*text) return true;
    *text = uvhttp__arena_copy(arena, uvhttp__str_from(*text)).data;
    return *text;
}

static bool copy_bytes(uvhttp__arena_t *arena, const void **data, size_t size) {
    if (!*data) return true;
    *data = uvhttp__arena_copy(arena, (uvhttp_str_t){*data, size}).data;
    return *data;
}

static int take_certificate(uvhttp__tls_settings_t *settings, const uvhttp_tls_certificate_t *given, uint32_t index,
                            uvhttp__tls_error_t *error) {
    const char *problem = NULL;
    if (!given->certificate_file == !given->certificate) problem = "set one of certificate_file and certificate";
    if (!given->key_file == !given->key) problem = "set one of key_file and key";
    if ((given->certificate && given->certificate_size == 0) || (given->key && given->key_size == 0) ||
        given->certificate_size > UVHTTP__TLS_FILE_SIZE_MAX || given->key_size > UVHTTP__TLS_FILE_SIZE_MAX)
        problem = "certificate_size and key_size are bytes, 1 to 16 MiB";
    if (problem) return uvhttp__tls_fail(error, UVHTTP_E_CONFIG, "certificates[%u]: %s", index, problem);
    uvhttp_tls_certificate_t *copy = &settings->certificates[index];
    *copy = *given;
    copy->key = NULL; /* what is here at the end is wiped: not the caller's */
    uvhttp__arena_t *arena = &settings->arena;
    bool copied = copy_text(arena, &copy->certificate_file) && copy_text(arena, &copy->key_file) &&
                  copy_text(arena, &copy->ocsp_file) && copy_text(arena, &copy->names) &&
                  copy_bytes(arena, &copy->certificate, copy->certificate_size);
    if (copied && given->key) {
        copy->key = uvhttp__arena_copy(arena, (uvhttp_str_t){given->key, given->key_size}).data;
        copied = copy->key;
    }
    return copied ? UVHTTP_OK : no_memory(error);
}

/* One of a file and memory, or none. */
static int take_source(uvhttp__tls_settings_t *settings, const char *name, const char **file, const void **memory,
                       size_t size, uvhttp__tls_error_t *error) {
    if (*file && *memory) return uvhttp__tls_fail(error, UVHTTP_E_CONFIG, "set one of %s_file and %s", name, name);
    if (*memory && (size == 0 || size > UVHTTP__TLS_FILE_SIZE_MAX))
        return uvhttp__tls_fail(error, UVHTTP_E_CONFIG, "%s_size is bytes, 1 to 16 MiB", name);
    bool copied = copy_text(&settings->arena, file) && copy_bytes(&settings->arena, memory, size);
    return copied ? UVHTTP_OK : no_memory(error);
}

/* "a,b" becomes 1 a 1 b. */
static int take_alpn(uvhttp__tls_settings_t *settings, const char *list, uvhttp__tls_error_t *error) {
    if (!list) list = "http/1.1";
    if (strcmp(list, "none") == 0) return UVHTTP_OK;
    settings->alpn = uvhttp__arena_alloc(&settings->arena, strlen(list) + 2);
    if (!settings->alpn) return no_memory(error);
    uint8_t *out = settings->alpn;
    for (const char *at = list;;) {
        size_t field = strcspn(at, ",");
        uvhttp_str_t name = uvhttp__str_trim((uvhttp_str_t){at, field});
        if (name.size == 0 || name.size > 255)
            return uvhttp__tls_fail(error, UVHTTP_E_CONFIG,
                                    "alpn is \"%s\": expected names of 1 to 255 bytes with commas between, or \"none\"",
                                    list);
        *out++ = (uint8_t)name.size;
        memcpy(out, name.data, name.size);
        out += name.size;
        if (at[field] == '\0') break;
        at += field + 1;
    }
    settings->alpn_size = (size_t)(out - settings->alpn);
    return UVHTTP_OK;
}

static int take_clients(uvhttp__tls_settings_t *settings, const uvhttp_tls_options_t *given,
                        uvhttp__tls_error_t *error) {
    if ((unsigned)given->clients > UVHTTP_TLS_CLIENTS_REQUIRE) return wrong(error, "clients is none of its values");
    bool authority = given->client_ca_file || given->client_ca;
    if (given->clients != UVHTTP_TLS_CLIENTS_ANY && !authority)
        return wrong(error, "clients are to be verified, but client_ca_file does not say against what");
    if (given->clients == UVHTTP_TLS_CLIENTS_ANY && authority)
        return wrong(error, "client_ca_file is set, but clients says that nobody is asked: set VERIFY or REQUIRE");
    if (!authority && (given->client_crl_file || given->client_crl))
        return wrong(error, "client_crl_file is set, but client_ca_file does not say whose certificates it revokes");
    settings->clients = given->clients;
    settings->client_ca_file = given->client_ca_file;
    settings->client_ca = given->client_ca;
    settings->client_ca_size = given->client_ca_size;
    settings->client_crl_file = given->client_crl_file;
    settings->client_crl = given->client_crl;
    settings->client_crl_size = given->client_crl_size;
    int status = take_source(settings, "client_ca", &settings->client_ca_file, &settings->client_ca,
                             settings->client_ca_size, error);
    if (status != UVHTTP_OK) return status;
    return take_source(settings, "client_crl", &settings->client_crl_file, &settings->client_crl,
                       settings->client_crl_size, error);
}

static bool is_version(uvhttp_tls_version_t version) {
    return version == UVHTTP_TLS_DEFAULT || version == UVHTTP_TLS_1_2 || version == UVHTTP_TLS_1_3;
}

static int take_options(uvhttp__tls_settings_t *settings, const uvhttp_tls_options_t *given,
                        uvhttp__tls_error_t *error) {
    if (!given->certificates || given->certificate_count == 0 || given->certificate_count > CERTIFICATES_MAX)
        return wrong(error, "certificates: 1 to 10000 are needed");
    if (!is_version(given->min_version) || !is_version(given->max_version))
        return wrong(error, "min_version and max_version are UVHTTP_TLS_1_2 or UVHTTP_TLS_1_3");
    settings->min_version = given->min_version ? given->min_version : UVHTTP_TLS_1_2;
    settings->max_version = given->max_version ? given->max_version : UVHTTP_TLS_1_3;
    if (settings->min_version > settings->max_version) return wrong(error, "min_version is above max_version");
    if (given->handshake_timeout > 3600) return wrong(error, "handshake_timeout is in seconds, 1..3600");
    if (given->ticket_period > 604800) return wrong(error, "ticket_period is in seconds, 1..604800");
    settings->handshake_timeout_ms = (given->handshake_timeout ? given->handshake_timeout : 10) * UINT64_C(1000);
    settings->no_tickets = given->no_tickets;
    settings->kernel_tls = given->kernel_tls;
    settings->ticket_period_ms = (given->ticket_period ? given->ticket_period : 43200) * UINT64_C(1000);
    settings->certificate_count = (uint32_t)given->certificate_count;
    settings->certificates =
        uvhttp__arena_alloc(&settings->arena, given->certificate_count * sizeof *settings->certificates);
    if (!settings->certificates) return no_memory(error);
    memset(settings->certificates, 0, given->certificate_count * sizeof *settings->certificates);
    int status = take_alpn(settings, given->alpn, error);
    if (status == UVHTTP_OK) status = take_clients(settings, given, error);
    for (uint32_t i = 0; i < settings->certificate_count && status == UVHTTP_OK; i++)
        status = take_certificate(settings, &given->certificates[i], i, error);
    return status;
}

/* Keys that were given in memory were copied: nothing of them stays behind. */
static void wipe_keys(uvhttp__tls_settings_t *settings) {
    for (uint32_t i = 0; settings->certificates && i < settings->certificate_count; i++)
        if (settings->certificates[i].key)
            explicit_bzero((char *)(uintptr_t)settings->certificates[i].key, settings->certificates[i].key_size);
}

void uvhttp__tls_settings_release(uvhttp__tls_settings_t *settings) {
    if (!settings || !uvhttp__ref_release(&settings->count)) return;
    wipe_keys(settings);
    uvhttp__arena_deinit(&settings->arena);
    uvhttp__free(settings);
}

static int settings_new(const uvhttp_tls_options_t *options, uvhttp__tls_settings_t **settings,
                        uvhttp__tls_error_t *error) {
    uvhttp__tls_settings_t *made = uvhttp__calloc(1, sizeof *made);
    if (!made) return no_memory(error);
    uvhttp__ref_init(&made->count);
    uvhttp__arena_init(&made->arena, NULL, 0, SIZE_MAX);
    int status = take_options(made, options, error);
    if (status == UVHTTP_OK)
        *settings = made;
    else
        uvhttp__tls_settings_release(made);
    return status;
}

/* --- life --- */

static int make_contexts(uvhttp_tls_t *tls, const uvhttp_tls_options_t *options, uvhttp__tls_contexts_t **contexts,
                         uvhttp__tls_error_t *error) {
    uvhttp__tls_settings_t *settings = NULL;
    int status = settings_new(options, &settings, error);
    if (status == UVHTTP_OK) status = uvhttp__tls_contexts_new(settings, &tls->tickets, contexts, error);
    uvhttp__tls_settings_release(settings);
    return status;
}

uvhttp_tls_t *uvhttp_tls_new(const uvhttp_tls_options_t *options) {
    uvhttp__tls_error_t error = {.text = "options are missing"};
    uvhttp_tls_t *tls = options ? uvhttp__calloc(1, sizeof *tls) : NULL;
    int status = tls ? UVHTTP_OK : options ? no_memory(&error) : UVHTTP_E_INVALID;
    if (tls) {
        uvhttp__ref_init(&tls->count);
        pthread_mutex_init(&tls->lock, NULL);
        uvhttp__tickets_init(&tls->tickets, 0, uvhttp__tls_random);
        status = make_contexts(tls, options, &tls->contexts, &error);
    }
    if (status == UVHTTP_OK) {
        uvhttp__tickets_set_period(&tls->tickets, tls->contexts->settings->ticket_period_ms);
        return tls;
    }
    UVHTTP_LOG_ERROR("tls: %s", error.text);
    uvhttp_tls_free(tls);
    return NULL;
}

uvhttp_tls_t *uvhttp_tls_retain(uvhttp_tls_t *tls) {
    uvhttp__ref_acquire(&tls->count);
    return tls;
}

void uvhttp_tls_free(uvhttp_tls_t *tls) {
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
    if (status != UVHTTP_OK) UVHTTP_LOG_ERROR("tls: reload: %s; what was loaded before stays", tls->error.text);
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

uvhttp_tls_t *uvhttp_tls_development(const uvhttp_tls_options_t *options) {
    char *certificate = NULL, *key = NULL;
    if (uvhttp__tls_development_pem(&certificate, &key) != UVHTTP_OK) {
        UVHTTP_LOG_ERROR("tls: a development certificate can not be made");
        return NULL;
    }
    uvhttp_tls_certificate_t own = {
        .certificate = certificate, .certificate_size = strlen(certificate), .key = key, .key_size = strlen(key)};
    uvhttp_tls_options_t with = options ? *options : (uvhttp_tls_options_t){.certificates = NULL};
    with.certificates = &own;
    with.certificate_count = 1;
    uvhttp_tls_t *tls = uvhttp_tls_new(&with);
    if (tls) tls->development = true;
    explicit_bzero(key, own.key_size);
    uvhttp__free(certificate);
    uvhttp__free(key);
    return tls;
}

/* --- listening --- */

static void release(void *arg) {
    uvhttp_tls_free(arg);
}

int uvhttp__tls_filter(uvhttp_tls_t *tls, uvhttp__conn_filter_t *filter) {
    if (!tls) return UVHTTP_E_INVALID;
    *filter = (uvhttp__conn_filter_t){
        .open = uvhttp__tls_open, .release = release, .arg = uvhttp_tls_retain(tls), .name = " (TLS)"};
    return UVHTTP_OK;
}

uvhttp_tls_t *uvhttp__tls_of_filter(const uvhttp__conn_filter_t *filter) {
    return filter->open == uvhttp__tls_open ? filter->arg : NULL;
}

int uvhttp_tcp_server_listen_tls(uvhttp_tcp_server_t *server, const char *address, uvhttp_tls_t *tls, uint16_t *port) {
    uvhttp__conn_filter_t filter;
    int status = server ? uvhttp__tls_filter(tls, &filter) : UVHTTP_E_INVALID;
    if (status != UVHTTP_OK) return status;
    status = uvhttp__tcp_server_listen_filter(server, address, &filter, port);
    if (status != UVHTTP_OK) release(filter.arg);
    return status;
}
