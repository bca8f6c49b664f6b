/* Owns: reading certificates, keys and authorities with mbedTLS, and saying what is wrong with them. May include: io,
 * base, obs. */
#include <mbedtls/error.h>
#include <mbedtls/oid.h>
#include <mbedtls/pem.h>
#include <mbedtls/rsa.h>
#include <mbedtls/sha256.h>
#include <stdio.h>
#include <string.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "tls/mbedtls.h"

#define RSA_BITS_MIN 2048

/* mbedTLS's own words; the buffer is the caller's. */
static const char *reason(int code, char (*text)[128]) {
    mbedtls_strerror(code, *text, sizeof *text);
    return *text;
}

static int refuse(uvhttp__tls_error_t *error, int code, const char *name, const char *what) {
    char text[128];
    if (code == MBEDTLS_ERR_X509_ALLOC_FAILED || code == MBEDTLS_ERR_PK_ALLOC_FAILED ||
        code == MBEDTLS_ERR_PEM_ALLOC_FAILED)
        return uvhttp__tls_fail(error, UVHTTP_E_NOMEM, "%s: out of memory", name);
    return uvhttp__tls_fail(error, UVHTTP_E_TLS_CERTIFICATE, "%s: %s: %s", name, what, reason(code, &text));
}

/* --- certificates --- */

/* All PEM certificates of the source, one behind the other. Returns 0 or the code of mbedTLS; *count: how many were
 * good. None at all is an error. */
static int parse_chain(const uvhttp__tls_source_t *source, mbedtls_x509_crt *chain, int *count) {
    *count = 0;
    for (const char *at = source->data;;) {
        mbedtls_pem_context pem;
        size_t used = 0;
        mbedtls_pem_init(&pem);
        int code = mbedtls_pem_read_buffer(&pem, "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----",
                                           (const unsigned char *)at, NULL, 0, &used);
        bool end = code == MBEDTLS_ERR_PEM_NO_HEADER_FOOTER_PRESENT && !strstr(at, "-----BEGIN CERTIFICATE-----");
        if (code == 0) code = mbedtls_x509_crt_parse_der(chain, pem.buf, pem.buflen);
        mbedtls_pem_free(&pem);
        if (end) return *count > 0 ? 0 : code;
        if (code != 0) return code;
        ++*count;
        at += used;
    }
}

static bool is_weak(const mbedtls_pk_context *key) {
    return mbedtls_pk_can_do(key, MBEDTLS_PK_RSA) && mbedtls_pk_get_bitlen(key) < RSA_BITS_MIN;
}

static int read_chain(const uvhttp_tls_certificate_t *from, uvhttp__tls_loaded_t *loaded, uvhttp__tls_error_t *error) {
    uvhttp__tls_source_t source;
    int status =
        uvhttp__tls_source_open(&source, from->certificate_file, from->certificate, from->certificate_size, error);
    if (status != UVHTTP_OK) return status;
    int count, code = parse_chain(&source, &loaded->chain, &count);
    char what[64];
    snprintf(what, sizeof what, count ? "certificate %d of the chain" : "no PEM certificate", count + 1);
    if (code != 0) status = refuse(error, code, source.name, what);
    for (const mbedtls_x509_crt *one = &loaded->chain; one && status == UVHTTP_OK; one = one->next)
        if (is_weak(&one->pk))
            status = uvhttp__tls_fail(error, UVHTTP_E_TLS_CERTIFICATE, "%s: key too small: RSA needs %d bits",
                                      source.name, RSA_BITS_MIN);
    uvhttp__tls_source_close(&source);
    return status;
}

/* ECDSA on a curve that clients of TLS 1.2 have, or RSA. */
static bool is_usable(const mbedtls_pk_context *key) {
    if (mbedtls_pk_can_do(key, MBEDTLS_PK_RSA)) return true;
    if (!mbedtls_pk_can_do(key, MBEDTLS_PK_ECDSA)) return false;
    mbedtls_ecp_group_id group = mbedtls_pk_ec(*key)->grp.id;
    return group == MBEDTLS_ECP_DP_SECP256R1 || group == MBEDTLS_ECP_DP_SECP384R1 || group == MBEDTLS_ECP_DP_SECP521R1;
}

static int read_key(const uvhttp_tls_certificate_t *from, uvhttp__tls_loaded_t *loaded, uvhttp__tls_error_t *error) {
    uvhttp__tls_source_t source;
    int status = uvhttp__tls_source_open(&source, from->key_file, from->key, from->key_size, error);
    if (status != UVHTTP_OK) return status;
    const char *name = source.name;
    int code = mbedtls_pk_parse_key(&loaded->key, (const unsigned char *)source.data, source.size + 1, NULL, 0);
    if (code != 0) {
        status = refuse(error, code, name, "no PEM private key (or one with a password)");
    } else if (!is_usable(&loaded->key)) {
        status = uvhttp__tls_fail(error, UVHTTP_E_TLS_CERTIFICATE, "%s: neither RSA nor ECDSA on P-256, P-384 or P-521",
                                  name);
    } else {
        code = mbedtls_pk_check_pair(&loaded->chain.pk, &loaded->key);
        char what[256];
        snprintf(what, sizeof what, "is not the key of %s", uvhttp__tls_label(from->certificate_file));
        if (code != 0) status = refuse(error, code, name, what);
    }
    uvhttp__tls_source_close(&source);
    if (status == UVHTTP_OK) uvhttp__tls_warn_of_key(from);
    return status;
}

/* --- names --- */

static int add_name(uvhttp__tls_names_t *names, const mbedtls_x509_buf *text, uint32_t index) {
    int status = uvhttp__tls_names_add(names, (uvhttp_str_t){(const char *)text->p, text->len}, index);
    return status == UVHTTP_E_INVALID ? UVHTTP_OK : status; /* nothing that a client can ask for */
}

static int add_own_names(uvhttp__tls_names_t *names, const mbedtls_x509_crt *leaf, uint32_t index) {
    const unsigned dns = MBEDTLS_ASN1_CONTEXT_SPECIFIC | MBEDTLS_X509_SAN_DNS_NAME;
    if (leaf->ext_types & MBEDTLS_X509_EXT_SUBJECT_ALT_NAME) {
        int status = UVHTTP_OK;
        for (const mbedtls_x509_sequence *one = &leaf->subject_alt_names; one && status == UVHTTP_OK; one = one->next)
            if ((unsigned)one->buf.tag == dns) status = add_name(names, &one->buf, index);
        return status;
    }
    for (const mbedtls_x509_name *one = &leaf->subject; one; one = one->next)
        if (MBEDTLS_OID_CMP(MBEDTLS_OID_AT_CN, &one->oid) == 0) return add_name(names, &one->val, index);
    return UVHTTP_OK;
}

static struct tm tm_of(const mbedtls_x509_time *time) {
    return (struct tm){.tm_year = time->year - 1900,
                       .tm_mon = time->mon - 1,
                       .tm_mday = time->day,
                       .tm_hour = time->hour,
                       .tm_min = time->min,
                       .tm_sec = time->sec};
}

int uvhttp__tls_load(uvhttp__tls_contexts_t *contexts, uint32_t index, uvhttp__tls_error_t *error) {
    const uvhttp_tls_certificate_t *from = &contexts->settings->certificates[index];
    uvhttp__tls_loaded_t *loaded = &contexts->library->loaded[index];
    uvhttp__tls_names_t *names = &contexts->names;
    mbedtls_x509_crt_init(&loaded->chain);
    mbedtls_pk_init(&loaded->key);
    int status = read_chain(from, loaded, error);
    if (status == UVHTTP_OK) status = read_key(from, loaded, error);
    if (status != UVHTTP_OK) return status;
    const mbedtls_x509_crt *leaf = &loaded->chain;
    const struct tm since = tm_of(&leaf->valid_from), until = tm_of(&leaf->valid_to);
    uvhttp__tls_log_dates(from, &since, &until);
    status =
        from->names ? uvhttp__tls_add_given_names(names, from->names, index, error) : add_own_names(names, leaf, index);
    return status == UVHTTP_E_NOMEM ? uvhttp__tls_fail(error, status, "out of memory") : status;
}

int uvhttp__tls_each_of_site(uvhttp__tls_contexts_t *contexts, size_t site,
                             int (*add)(void *arg, mbedtls_x509_crt *chain, mbedtls_pk_context *key), void *arg) {
    const uvhttp__tls_site_t *of = &contexts->names.sites[site];
    bool have_rsa = false, have_ec = false;
    for (uint32_t i = 0; i < of->count; i++) {
        uvhttp__tls_loaded_t *one = &contexts->library->loaded[of->certificates[i]];
        bool *have = mbedtls_pk_can_do(&one->key, MBEDTLS_PK_RSA) ? &have_rsa : &have_ec;
        int code = *have ? 0 : add(arg, &one->chain, &one->key);
        if (code != 0) return code;
        *have = true;
    }
    return 0;
}

/* --- authorities of clients --- */

static int digest_clients(uvhttp__tls_contexts_t *contexts, const uvhttp__tls_source_t *source) {
    unsigned char mode = (unsigned char)contexts->settings->clients;
    mbedtls_sha256_context digest;
    mbedtls_sha256_init(&digest);
    int code = mbedtls_sha256_starts_ret(&digest, 0);
    if (code == 0) code = mbedtls_sha256_update_ret(&digest, &mode, 1);
    if (code == 0) code = mbedtls_sha256_update_ret(&digest, (const unsigned char *)source->data, source->size);
    if (code == 0) code = mbedtls_sha256_finish_ret(&digest, contexts->clients_digest);
    mbedtls_sha256_free(&digest);
    return code;
}

static int read_authorities(uvhttp__tls_contexts_t *contexts, uvhttp__tls_error_t *error) {
    const uvhttp__tls_settings_t *settings = contexts->settings;
    uvhttp__tls_source_t source;
    int status = uvhttp__tls_source_open(&source, settings->client_ca_file, settings->client_ca,
                                         settings->client_ca_size, error);
    if (status != UVHTTP_OK) return status;
    int count, code = parse_chain(&source, &contexts->library->authorities, &count);
    if (code == 0) code = digest_clients(contexts, &source);
    char what[64];
    snprintf(what, sizeof what, "certificate %d of the authorities", count + 1);
    if (code != 0) status = refuse(error, code, source.name, what);
    uvhttp__tls_source_close(&source);
    return status;
}

/* --- revocation lists --- */

/* With a list that has expired nobody is trusted whom it could name: the log says so before clients do. */
static void warn_of_lists(const mbedtls_x509_crl *lists, const char *name) {
    for (const mbedtls_x509_crl *list = lists; list; list = list->next)
        if (mbedtls_x509_time_is_past(&list->next_update))
            UVHTTP_LOG_WARN("tls: %s: the revocation list has expired: no certificate of its authority is accepted",
                            name);
}

static int read_lists(uvhttp__tls_contexts_t *contexts, uvhttp__tls_error_t *error) {
    const uvhttp__tls_settings_t *settings = contexts->settings;
    if (!settings->client_crl_file && !settings->client_crl) return UVHTTP_OK;
    uvhttp__tls_source_t source;
    int status = uvhttp__tls_source_open(&source, settings->client_crl_file, settings->client_crl,
                                         settings->client_crl_size, error);
    if (status != UVHTTP_OK) return status;
    int code = MBEDTLS_ERR_PEM_NO_HEADER_FOOTER_PRESENT;
    if (strstr(source.data, "-----BEGIN X509 CRL-----"))
        code = mbedtls_x509_crl_parse(&contexts->library->lists, (const unsigned char *)source.data, source.size + 1);
    if (code != 0) {
        status = refuse(error, code, source.name, "revocation list");
    } else {
        contexts->library->has_lists = true;
        warn_of_lists(&contexts->library->lists, source.name);
    }
    uvhttp__tls_source_close(&source);
    return status;
}

int uvhttp__tls_load_clients(uvhttp__tls_contexts_t *contexts, uvhttp__tls_error_t *error) {
    if (contexts->settings->clients == UVHTTP_TLS_CLIENTS_ANY) return UVHTTP_OK;
    int status = read_authorities(contexts, error);
    return status == UVHTTP_OK ? read_lists(contexts, error) : status;
}
