/* Owns: the configuration of mbedTLS and what it allows. May include: io, base. */
#include <string.h>

#include "base/alloc.h"
#include "tls/mbedtls.h"

/* Forward secrecy and AEAD only, in the server's order. */
static const int ciphers[] = {MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
                              MBEDTLS_TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
                              MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
                              MBEDTLS_TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
                              MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
                              MBEDTLS_TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
                              0};
static const mbedtls_ecp_group_id groups[] = {MBEDTLS_ECP_DP_CURVE25519, MBEDTLS_ECP_DP_SECP256R1,
                                              MBEDTLS_ECP_DP_SECP384R1, MBEDTLS_ECP_DP_NONE};
static const int hashes[] = {MBEDTLS_MD_SHA256, MBEDTLS_MD_SHA384, MBEDTLS_MD_SHA512, MBEDTLS_MD_NONE};

/* What this library cannot do is refused, not left out silently. */
static int check_settings(const uvhttp__tls_settings_t *settings, uvhttp__tls_error_t *error) {
    static const char with[] = "this library was built with mbedTLS (UVHTTP_TLS=mbedtls)";
    if (settings->min_version == UVHTTP_TLS_1_3)
        return uvhttp__tls_fail(error, UVHTTP_E_CONFIG, "min_version is TLS 1.3, but %s, which speaks TLS 1.2 only",
                                with);
    for (uint32_t i = 0; i < settings->certificate_count; i++)
        if (settings->certificates[i].ocsp_file)
            return uvhttp__tls_fail(error, UVHTTP_E_CONFIG,
                                    "certificates[%u]: ocsp_file is set, but %s, which does not staple", i, with);
    return UVHTTP_OK;
}

/* The settings have them as on the wire, mbedTLS wants strings: one block of pointers with the text behind them. */
static int set_alpn(uvhttp__tls_contexts_t *contexts) {
    const uvhttp__tls_settings_t *settings = contexts->settings;
    size_t count = 0;
    if (settings->alpn_size == 0) return UVHTTP_OK;
    const uint8_t *end = settings->alpn + settings->alpn_size;
    for (const uint8_t *at = settings->alpn; at < end; at += 1 + at[0]) count++;
    contexts->library->alpn = uvhttp__calloc(1, (count + 1) * sizeof *contexts->library->alpn + settings->alpn_size);
    if (!contexts->library->alpn) return UVHTTP_E_NOMEM;
    char *text = (char *)(contexts->library->alpn + count + 1);
    count = 0;
    for (const uint8_t *at = settings->alpn; at < end; at += 1 + at[0]) {
        contexts->library->alpn[count++] = text;
        memcpy(text, at + 1, at[0]);
        text += at[0] + 1;
    }
    return mbedtls_ssl_conf_alpn_protocols(&contexts->library->config, contexts->library->alpn) == 0 ? UVHTTP_OK
                                                                                                     : UVHTTP_E_CONFIG;
}

static int add_own(void *arg, mbedtls_x509_crt *chain, mbedtls_pk_context *key) {
    return mbedtls_ssl_conf_own_cert(arg, chain, key);
}

static int configure(uvhttp__tls_contexts_t *contexts) {
    mbedtls_ssl_config *config = &contexts->library->config;
    if (mbedtls_ssl_config_defaults(config, MBEDTLS_SSL_IS_SERVER, MBEDTLS_SSL_TRANSPORT_STREAM,
                                    MBEDTLS_SSL_PRESET_DEFAULT) != 0)
        return UVHTTP_E_NOMEM;
    mbedtls_ssl_conf_min_version(config, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
    mbedtls_ssl_conf_max_version(config, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
    mbedtls_ssl_conf_ciphersuites(config, ciphers);
    mbedtls_ssl_conf_curves(config, groups);
    mbedtls_ssl_conf_sig_hashes(config, hashes);
    mbedtls_ssl_conf_renegotiation(config, MBEDTLS_SSL_RENEGOTIATION_DISABLED);
    mbedtls_ssl_conf_rng(config, uvhttp__tls_f_rng, NULL);
    mbedtls_ssl_conf_sni(config, uvhttp__tls_on_server_name, contexts);
    if (!contexts->settings->no_tickets)
        mbedtls_ssl_conf_session_tickets_cb(config, uvhttp__tls_on_ticket_write, uvhttp__tls_on_ticket_parse, contexts);
    uvhttp__tls_set_clients(contexts);
    int status = set_alpn(contexts);
    if (status == UVHTTP_OK && uvhttp__tls_each_of_site(contexts, 0, add_own, config) != 0) status = UVHTTP_E_NOMEM;
    contexts->library->config_without_h2 = *config;
    if (contexts->settings->alpn_is_default) contexts->library->config_without_h2.alpn_list++;
    return status;
}

int uvhttp__tls_library_new(uvhttp__tls_contexts_t *contexts, uvhttp__tls_error_t *error) {
    int status = check_settings(contexts->settings, error);
    if (status != UVHTTP_OK) return status;
    uvhttp__tls_library_t *made =
        uvhttp__calloc(1, sizeof *made + contexts->settings->certificate_count * sizeof *made->loaded);
    contexts->library = made;
    if (!made) return uvhttp__tls_fail(error, UVHTTP_E_NOMEM, "out of memory");
    mbedtls_ssl_config_init(&made->config);
    mbedtls_x509_crt_init(&made->authorities);
    mbedtls_x509_crl_init(&made->lists);
    return UVHTTP_OK;
}

int uvhttp__tls_library_configure(uvhttp__tls_contexts_t *contexts, uvhttp__tls_error_t *error) {
    int status = configure(contexts);
    if (status == UVHTTP_OK) return status;
    return uvhttp__tls_fail(error, status, status == UVHTTP_E_NOMEM ? "out of memory" : "alpn is refused by mbedTLS");
}

void uvhttp__tls_library_free(uvhttp__tls_contexts_t *contexts) {
    uvhttp__tls_library_t *library = contexts->library;
    if (!library) return;
    mbedtls_ssl_config_free(&library->config);
    mbedtls_x509_crt_free(&library->authorities);
    mbedtls_x509_crl_free(&library->lists);
    for (uint32_t i = 0; i < contexts->settings->certificate_count; i++) {
        mbedtls_x509_crt_free(&library->loaded[i].chain);
        mbedtls_pk_free(&library->loaded[i].key);
    }
    uvhttp__free(library->alpn);
    uvhttp__free(library);
}
