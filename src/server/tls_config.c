/* Owns: TLS from the fields of a configuration, at the start and in a reload. May include: everything. */
#include "server/tls_config.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "server/server.h"
#include "server/server_config.h"
#include "tls/tls.h"

/* What the fields say, as uvhttp_tls_options_t: `options` points into the rest. */
typedef struct made {
    uvhttp_tls_options_t options;
    uvhttp_tls_certificate_t *certificates;
    char files[3][UVHTTP_CONFIG_TEXT_SIZE]; /* of certificates, keys and OCSP responses, a NUL behind each */
} made_t;

/* "a, b" are two. */
static size_t count_of(const char *list) {
    size_t count = uvhttp__str_trim(uvhttp__str_from(list)).size > 0;
    for (const char *at = list; count > 0 && (at = strchr(at, ',')); at++) count++;
    return count;
}

/* The next of a list, ended by a NUL that is written into it; *at goes behind it. NULL: an empty place. */
static const char *take(char **at) {
    size_t field = strcspn(*at, ",");
    uvhttp_str_t name = uvhttp__str_trim((uvhttp_str_t){*at, field});
    char *text = *at + (name.data - *at);
    *at += field + ((*at)[field] == ',');
    text[name.size] = '\0';
    return name.size > 0 ? text : NULL;
}

static int wrong(char *message, size_t size, const char *field, size_t count, size_t expected) {
    snprintf(message, size, "%s names %zu files, tls_certificate %zu: expected one for each certificate", field, count,
             expected);
    return UVHTTP_E_CONFIG;
}

static int take_certificates(made_t *made, const uvhttp_server_config_t *config, char *message, size_t size) {
    size_t count = count_of(config->tls_certificate), keys = count_of(config->tls_key),
           responses = count_of(config->tls_ocsp);
    if (keys != count) return wrong(message, size, "tls_key", keys, count);
    if (responses > count) return wrong(message, size, "tls_ocsp", responses, count);
    if (count == 0) return UVHTTP_OK;
    made->certificates = uvhttp__calloc(count, sizeof *made->certificates);
    if (!made->certificates) {
        snprintf(message, size, "out of memory");
        return UVHTTP_E_NOMEM;
    }
    memcpy(made->files[0], config->tls_certificate, UVHTTP_CONFIG_TEXT_SIZE);
    memcpy(made->files[1], config->tls_key, UVHTTP_CONFIG_TEXT_SIZE);
    memcpy(made->files[2], config->tls_ocsp, UVHTTP_CONFIG_TEXT_SIZE);
    char *at[] = {made->files[0], made->files[1], made->files[2]};
    for (size_t i = 0; i < count; i++) {
        made->certificates[i] = (uvhttp_tls_certificate_t){
            .certificate_file = take(&at[0]), .key_file = take(&at[1]), .ocsp_file = take(&at[2])};
        if (made->certificates[i].certificate_file && made->certificates[i].key_file) continue;
        snprintf(message, size, "tls_certificate and tls_key: the name of file %zu is empty", i + 1);
        return UVHTTP_E_CONFIG;
    }
    made->options.certificates = made->certificates;
    made->options.certificate_count = count;
    return UVHTTP_OK;
}

static const char *file_or_none(const char *text) {
    return *text ? text : NULL;
}

/* config is complete, and must live as long as *made is used. Returns 0, UVHTTP_E_CONFIG or UVHTTP_E_NOMEM with the
 * reason; release it in any case. */
static int make_options(made_t *made, const uvhttp_server_config_t *config, char *message, size_t size) {
    memset(made, 0, sizeof *made);
    made->options = (uvhttp_tls_options_t){.min_version = config->tls_min_version,
                                           .max_version = config->tls_max_version,
                                           .alpn = file_or_none(config->tls_alpn),
                                           .clients = config->tls_clients,
                                           .client_ca_file = file_or_none(config->tls_client_ca),
                                           .client_crl_file = file_or_none(config->tls_client_crl),
                                           .handshake_timeout = config->tls_handshake_timeout,
                                           .ticket_period = config->tls_ticket_period,
                                           .no_tickets = !config->tls_tickets,
                                           .kernel_tls = config->tls_kernel};
    return take_certificates(made, config, message, size);
}

static void release(made_t *made) {
    uvhttp__free(made->certificates);
    uvhttp__free(made);
}

uvhttp_tls_t *uvhttp_tls_from_config(const uvhttp_server_config_t *config) {
    char message[256] = "out of memory";
    uvhttp_server_config_t whole;
    int status = uvhttp__server_copy_config(config, &whole, message, sizeof message);
    made_t *made = status == UVHTTP_OK ? uvhttp__calloc(1, sizeof *made) : NULL;
    if (made) status = make_options(made, &whole, message, sizeof message);
    if (!made || status != UVHTTP_OK) {
        UVHTTP_LOG_ERROR("tls: configuration: %s", message);
        if (made) release(made);
        return NULL;
    }
    uvhttp_tls_t *tls =
        made->options.certificate_count ? uvhttp_tls_new(&made->options) : uvhttp_tls_development(&made->options);
    if (tls) uvhttp__tls_set_configured(tls);
    release(made);
    return tls;
}

/* --- reloading --- */

/* What listens with the same is prepared once. */
static bool is_first(const uvhttp__tcp_server_t *tcp_server, uint32_t index) {
    for (uint32_t i = 0; i < index; i++)
        if (tcp_server->filters[i].arg == tcp_server->filters[index].arg && tcp_server->filters[i].open) return false;
    return true;
}

static int prepare_all(uvhttp__tcp_server_t *tcp_server, const uvhttp_tls_options_t *options, uint32_t endpoints,
                       struct uvhttp__tls_contexts **prepared, char *message, size_t size) {
    for (uint32_t i = 0; i < endpoints; i++) {
        uvhttp_tls_t *tls = tcp_server->filters[i].open ? uvhttp__tls_of_filter(&tcp_server->filters[i]) : NULL;
        if (!tls || !is_first(tcp_server, i)) continue;
        int status = uvhttp__tls_prepare(tls, uvhttp__tls_is_configured(tls) ? options : NULL, &prepared[i]);
        if (status == UVHTTP_OK) continue;
        snprintf(message, size, "tls: %s", uvhttp_tls_error_text(tls));
        return status;
    }
    return UVHTTP_OK;
}

int uvhttp__server_reload_tls(uvhttp_server_t *server, const uvhttp_server_config_t *config, unsigned *count,
                              char *message, size_t size) {
    uvhttp__tcp_server_t *tcp_server = server->tcp_server;
    uint32_t endpoints = tcp_server->endpoint_count; /* an attached server may get more meanwhile */
    *count = 0;
    if (endpoints == 0) return UVHTTP_OK;
    struct uvhttp__tls_contexts **prepared = uvhttp__calloc(endpoints, sizeof *prepared);
    made_t *made = uvhttp__calloc(1, sizeof *made);
    int status = prepared && made ? UVHTTP_OK : UVHTTP_E_NOMEM;
    if (status != UVHTTP_OK) snprintf(message, size, "out of memory");
    if (status == UVHTTP_OK && config) status = make_options(made, config, message, size);
    if (status == UVHTTP_OK)
        status = prepare_all(tcp_server, config ? &made->options : NULL, endpoints, prepared, message, size);
    for (uint32_t i = 0; prepared && i < endpoints; i++) {
        if (!prepared[i]) continue;
        if (status == UVHTTP_OK)
            uvhttp__tls_commit(uvhttp__tls_of_filter(&tcp_server->filters[i]), prepared[i]);
        else
            uvhttp__tls_contexts_release(prepared[i]);
        ++*count;
    }
    uvhttp__free(prepared);
    if (made) release(made);
    return status;
}
