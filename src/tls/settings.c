/* Owns: the options of TLS, checked and copied. May include: io, base. */
#include <string.h>

#include "base/alloc.h"
#include "base/sized.h"
#include "base/str.h"
#include "tls/backend.h"

#define CERTIFICATES_MAX 10000

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
    settings->alpn_is_default = list == NULL;
    if (!list) list = "h2,http/1.1";
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
        status = UVHTTP__RESERVED_UNUSED(&given->certificates[i])
                     ? take_certificate(settings, &given->certificates[i], i, error)
                     : uvhttp__tls_fail(error, UVHTTP_E_UNSUPPORTED, "certificates[%u]: " UVHTTP__SIZED_NEWER, i);
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

int uvhttp__tls_settings_new(const uvhttp_tls_options_t *options, uvhttp__tls_settings_t **settings,
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
