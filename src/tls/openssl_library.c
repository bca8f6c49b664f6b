/* Owns: SSL_CTX objects, one per set of certificates, and what they allow. May include: io, base. */
#include <openssl/err.h>

#include "base/alloc.h"
#include "tls/openssl.h"

/* TLS 1.2: forward secrecy and AEAD only. The order is the server's; clients without AES instructions that put
 * ChaCha20 first get it. */
static const char ciphers[] = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:"
                              "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:"
                              "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";
static const char ciphersuites[] = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
static const char groups[] = "X25519:P-256:P-384";

#define OPTIONS                                                                                                        \
    (SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA)

static int version_number(uvhttp_tls_version_t version) {
    return version == UVHTTP_TLS_1_2 ? TLS1_2_VERSION : TLS1_3_VERSION;
}

static bool set_rules(SSL_CTX *ctx, const uvhttp__tls_settings_t *settings) {
    SSL_CTX_set_security_level(ctx, 2); /* no SHA-1 signatures, RSA from 2048 bits */
    SSL_CTX_set_options(ctx, OPTIONS);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS); /* an idle connection has none */
    /* Memory for certificates is allocated when their size is announced. */
    SSL_CTX_set_max_cert_list(ctx, UVHTTP__TLS_HANDSHAKE_SIZE_MAX);
    return SSL_CTX_set_min_proto_version(ctx, version_number(settings->min_version)) == 1 &&
           SSL_CTX_set_max_proto_version(ctx, version_number(settings->max_version)) == 1 &&
           SSL_CTX_set_cipher_list(ctx, ciphers) == 1 && SSL_CTX_set_ciphersuites(ctx, ciphersuites) == 1 &&
           SSL_CTX_set1_groups_list(ctx, groups) == 1;
}

static void set_tickets(SSL_CTX *ctx, const uvhttp__tls_contexts_t *contexts) {
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    if (contexts->settings->no_tickets) {
        SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
        SSL_CTX_set_num_tickets(ctx, 0);
        return;
    }
    SSL_CTX_set_timeout(ctx, (long)(contexts->settings->ticket_period_ms / 1000));
    SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, uvhttp__tls_on_ticket);
    SSL_CTX_set_session_ticket_cb(ctx, NULL, uvhttp__tls_on_resume, NULL);
}

static bool set_clients(SSL_CTX *ctx, const uvhttp__tls_contexts_t *contexts) {
    uvhttp_tls_clients_t clients = contexts->settings->clients;
    if (clients == UVHTTP_TLS_CLIENTS_ANY) return true;
    int required = clients == UVHTTP_TLS_CLIENTS_REQUIRE ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0;
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | required, NULL);
    SSL_CTX_set1_cert_store(ctx, contexts->library->client_store);
    STACK_OF(X509_NAME) *names = SSL_dup_CA_list(contexts->library->client_names);
    if (!names) return false;
    SSL_CTX_set_client_CA_list(ctx, names);
    return true;
}

static void set_callbacks(SSL_CTX *ctx, uvhttp__tls_contexts_t *contexts) {
    SSL_CTX_set_app_data(ctx, contexts);
    SSL_CTX_set_client_hello_cb(ctx, uvhttp__tls_on_client_hello, contexts);
    SSL_CTX_set_tlsext_servername_callback(ctx, uvhttp__tls_on_server_name);
    if (contexts->settings->alpn_size > 0) SSL_CTX_set_alpn_select_cb(ctx, uvhttp__tls_on_alpn, contexts);
    if (contexts->settings->kernel_tls) SSL_CTX_set_keylog_callback(ctx, uvhttp__tls_on_secret);
    SSL_CTX_set_tlsext_status_cb(ctx, uvhttp__tls_on_status);
    SSL_CTX_set_tlsext_status_arg(ctx, contexts);
}

/* One of each kind of key, in the order of the options. */
static int add_certificates(SSL_CTX *ctx, const uvhttp__tls_contexts_t *contexts, const uvhttp__tls_site_t *site,
                            uvhttp__tls_error_t *error) {
    for (uint32_t i = 0; i < site->count; i++) {
        const uvhttp__tls_loaded_t *one = &contexts->library->loaded[site->certificates[i]];
        bool seen = false;
        for (uint32_t k = 0; k < i && !seen; k++)
            seen = EVP_PKEY_get_base_id(contexts->library->loaded[site->certificates[k]].key) ==
                   EVP_PKEY_get_base_id(one->key);
        if (seen || SSL_CTX_use_cert_and_key(ctx, one->leaf, one->key, one->chain, 1) == 1) continue;
        const char *file = contexts->settings->certificates[site->certificates[i]].certificate_file;
        return uvhttp__tls_fail(error, UVHTTP_E_TLS_CERTIFICATE, "%s: %s", file ? file : "(memory)",
                                uvhttp__tls_reason());
    }
    return UVHTTP_OK;
}

static int make_site(uvhttp__tls_contexts_t *contexts, size_t index, uvhttp__tls_error_t *error) {
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    contexts->library->sites[index] = ctx;
    if (!ctx || !set_rules(ctx, contexts->settings) || !set_clients(ctx, contexts)) {
        uvhttp__tls_fail(error, UVHTTP_E_NOMEM, "a context cannot be made: %s", uvhttp__tls_reason());
        return UVHTTP_E_NOMEM;
    }
    set_tickets(ctx, contexts);
    set_callbacks(ctx, contexts);
    return add_certificates(ctx, contexts, &contexts->names.sites[index], error);
}

int uvhttp__tls_library_new(uvhttp__tls_contexts_t *contexts, uvhttp__tls_error_t *error) {
    uvhttp__tls_library_t *made =
        uvhttp__calloc(1, sizeof *made + contexts->settings->certificate_count * sizeof *made->loaded);
    contexts->library = made;
    ERR_clear_error();
    return made ? UVHTTP_OK : uvhttp__tls_fail(error, UVHTTP_E_NOMEM, "out of memory");
}

int uvhttp__tls_library_configure(uvhttp__tls_contexts_t *contexts, uvhttp__tls_error_t *error) {
    contexts->library->sites = uvhttp__calloc(contexts->names.site_count, sizeof(SSL_CTX *));
    if (!contexts->library->sites) return uvhttp__tls_fail(error, UVHTTP_E_NOMEM, "out of memory");
    int status = UVHTTP_OK;
    for (size_t i = 0; i < contexts->names.site_count && status == UVHTTP_OK; i++)
        status = make_site(contexts, i, error);
    ERR_clear_error();
    return status;
}

void uvhttp__tls_library_free(uvhttp__tls_contexts_t *contexts) {
    uvhttp__tls_library_t *library = contexts->library;
    if (!library) return;
    for (size_t i = 0; library->sites && i < contexts->names.site_count; i++) SSL_CTX_free(library->sites[i]);
    for (uint32_t i = 0; i < contexts->settings->certificate_count; i++) uvhttp__tls_unload(&library->loaded[i]);
    X509_STORE_free(library->client_store);
    sk_X509_NAME_pop_free(library->client_names, X509_NAME_free);
    ERR_clear_error();
    uvhttp__free(library->sites);
    uvhttp__free(library);
}
