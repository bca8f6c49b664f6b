/* Owns: which certificates of clients are trusted on mbedTLS. May include: io, base. */
#include <string.h>

#include "tls/mbedtls.h"

/* mbedTLS takes a certificate whose authority has no list as not revoked; who gives lists wants to know. */
static bool lacks_list(const uvhttp__tls_library_t *library, const mbedtls_x509_crt *certificate) {
    if (!library->has_lists) return false;
    for (const mbedtls_x509_crl *list = &library->lists; list; list = list->next)
        if (list->issuer_raw.len == certificate->issuer_raw.len &&
            memcmp(list->issuer_raw.p, certificate->issuer_raw.p, list->issuer_raw.len) == 0)
            return false;
    return true;
}

static int on_verify(void *arg, mbedtls_x509_crt *certificate, int depth, uint32_t *flags) {
    (void)depth;
    const uvhttp__tls_contexts_t *contexts = arg;
    if (lacks_list(contexts->library, certificate)) *flags |= MBEDTLS_X509_BADCERT_OTHER;
    /* With VERIFY_OPTIONAL mbedTLS would continue, and let the application decide. */
    if (contexts->settings->clients == UVHTTP_TLS_CLIENTS_REQUIRE) return 0;
    return *flags == 0 ? 0 : MBEDTLS_ERR_X509_FATAL_ERROR;
}

bool uvhttp__tls_is_trusted(uvhttp__tls_contexts_t *contexts, mbedtls_x509_crt *peer) {
    uvhttp__tls_library_t *library = contexts->library;
    uint32_t flags;
    return mbedtls_x509_crt_verify(peer, &library->authorities, library->has_lists ? &library->lists : NULL, NULL,
                                   &flags, on_verify, contexts) == 0;
}

void uvhttp__tls_set_clients(uvhttp__tls_contexts_t *contexts) {
    static const int modes[] = {[UVHTTP_TLS_CLIENTS_ANY] = MBEDTLS_SSL_VERIFY_NONE,
                                [UVHTTP_TLS_CLIENTS_VERIFY] = MBEDTLS_SSL_VERIFY_OPTIONAL,
                                [UVHTTP_TLS_CLIENTS_REQUIRE] = MBEDTLS_SSL_VERIFY_REQUIRED};
    uvhttp_tls_clients_t clients = contexts->settings->clients;
    mbedtls_ssl_conf_authmode(&contexts->library->config, modes[clients]);
    if (clients == UVHTTP_TLS_CLIENTS_ANY) return;
    mbedtls_ssl_conf_verify(&contexts->library->config, on_verify, contexts);
    mbedtls_ssl_conf_ca_chain(&contexts->library->config, &contexts->library->authorities,
                              contexts->library->has_lists ? &contexts->library->lists : NULL);
}
