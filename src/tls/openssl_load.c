/* Owns: reading certificates, keys, OCSP responses and authorities, and saying what is wrong with them. May include:
 * io, base, obs. */
#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "tls/openssl.h"

const char *uvhttp__tls_reason(void) {
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    return reason ? reason : "unknown reason";
}

/* --- PEM, from a file or from memory --- */

typedef struct source {
    uvhttp__tls_source_t text;
    BIO *bio;
} source_t;

static int source_open(source_t *source, const char *file, const void *memory, size_t size,
                       uvhttp__tls_error_t *error) {
    int status = uvhttp__tls_source_open(&source->text, file, memory, size, error);
    if (status != UVHTTP_OK) return status;
    source->bio = BIO_new_mem_buf(source->text.data, (int)source->text.size);
    if (source->bio) return UVHTTP_OK;
    uvhttp__tls_source_close(&source->text);
    return uvhttp__tls_fail(error, UVHTTP_E_NOMEM, "%s: out of memory", source->text.name);
}

static void source_close(source_t *source) {
    BIO_free(source->bio);
    uvhttp__tls_source_close(&source->text);
}

/* A key that needs a password is refused instead of asking at the terminal. */
static int no_password(char *buffer, int size, int writing, void *user) {
    (void)buffer, (void)size, (void)writing, (void)user;
    return -1;
}

static int read_chain(const uvhttp_tls_certificate_t *from, uvhttp__tls_loaded_t *loaded, uvhttp__tls_error_t *error) {
    source_t source;
    int status = source_open(&source, from->certificate_file, from->certificate, from->certificate_size, error);
    if (status != UVHTTP_OK) return status;
    const char *name = uvhttp__tls_label(from->certificate_file);
    loaded->leaf = PEM_read_bio_X509(source.bio, NULL, no_password, NULL);
    loaded->chain = sk_X509_new_null();
    if (!loaded->chain) {
        status = uvhttp__tls_fail(error, UVHTTP_E_NOMEM, "%s: out of memory", name);
    } else if (!loaded->leaf) {
        status =
            uvhttp__tls_fail(error, UVHTTP_E_TLS_CERTIFICATE, "%s: no PEM certificate: %s", name, uvhttp__tls_reason());
    } else {
        X509 *next;
        while ((next = PEM_read_bio_X509(source.bio, NULL, no_password, NULL)))
            if (sk_X509_push(loaded->chain, next) <= 0) {
                X509_free(next);
                status = uvhttp__tls_fail(error, UVHTTP_E_NOMEM, "%s: out of memory", name);
                break;
            }
        if (status == UVHTTP_OK && ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
            status = uvhttp__tls_fail(error, UVHTTP_E_TLS_CERTIFICATE, "%s: certificate %d of the chain: %s", name,
                                      sk_X509_num(loaded->chain) + 2, uvhttp__tls_reason());
    }
    ERR_clear_error();
    source_close(&source);
    return status;
}

static int read_key(const uvhttp_tls_certificate_t *from, uvhttp__tls_loaded_t *loaded, uvhttp__tls_error_t *error) {
    source_t source;
    int status = source_open(&source, from->key_file, from->key, from->key_size, error);
    if (status != UVHTTP_OK) return status;
    const char *name = uvhttp__tls_label(from->key_file);
    loaded->key = PEM_read_bio_PrivateKey(source.bio, NULL, no_password, NULL);
    if (!loaded->key)
        status = uvhttp__tls_fail(error, UVHTTP_E_TLS_CERTIFICATE,
                                  "%s: no PEM private key (or one with a password): %s", name, uvhttp__tls_reason());
    else if (X509_check_private_key(loaded->leaf, loaded->key) != 1)
        status = uvhttp__tls_fail(error, UVHTTP_E_TLS_CERTIFICATE, "%s: is not the key of %s: %s", name,
                                  uvhttp__tls_label(from->certificate_file), uvhttp__tls_reason());
    ERR_clear_error();
    source_close(&source);
    if (status == UVHTTP_OK) uvhttp__tls_warn_of_key(from);
    return status;
}

/* --- OCSP --- */

/* Whether a CertID (RFC 6960 section 4.1.1) is that of the certificate. The key of the issuer is compared if the chain
 * has it. */
static bool is_for(const OCSP_CERTID *id, const uvhttp__tls_loaded_t *loaded) {
    ASN1_OCTET_STRING *name_hash, *key_hash;
    ASN1_OBJECT *algorithm;
    ASN1_INTEGER *serial;
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    if (OCSP_id_get0_info(&name_hash, &algorithm, &key_hash, &serial, (OCSP_CERTID *)(uintptr_t)id) != 1) return false;
    const EVP_MD *md = EVP_get_digestbyobj(algorithm);
    if (!md || ASN1_INTEGER_cmp(serial, X509_get0_serialNumber(loaded->leaf)) != 0) return false;
    if (X509_NAME_digest(X509_get_issuer_name(loaded->leaf), md, digest, &size) != 1 ||
        ASN1_STRING_length(name_hash) != (int)size || memcmp(ASN1_STRING_get0_data(name_hash), digest, size) != 0)
        return false;
    const X509 *issuer = sk_X509_value(loaded->chain, 0);
    if (!issuer) return true;
    return X509_pubkey_digest(issuer, md, digest, &size) == 1 && ASN1_STRING_length(key_hash) == (int)size &&
           memcmp(ASN1_STRING_get0_data(key_hash), digest, size) == 0;
}

static OCSP_SINGLERESP *find_single(OCSP_BASICRESP *basic, const uvhttp__tls_loaded_t *loaded) {
    for (int i = 0; i < OCSP_resp_count(basic); i++) {
        OCSP_SINGLERESP *single = OCSP_resp_get0(basic, i);
        if (is_for(OCSP_SINGLERESP_get0_id(single), loaded)) return single;
    }
    return NULL;
}

/* Seconds since 1970; the largest time if there is none. */
static time_t time_of(const ASN1_GENERALIZEDTIME *at) {
    struct tm parts;
    if (!at) return (time_t)INT64_MAX;
    return ASN1_TIME_to_tm(at, &parts) == 1 ? timegm(&parts) : 0;
}

/* One that has expired is kept back, and is no reason not to serve: a client then asks for itself, or does without. */
static int check_ocsp(const char *file, OCSP_BASICRESP *basic, uvhttp__tls_loaded_t *loaded,
                      const uvhttp_tls_certificate_t *from, uvhttp__tls_error_t *error) {
    OCSP_SINGLERESP *single = find_single(basic, loaded);
    if (!single)
        return uvhttp__tls_fail(error, UVHTTP_E_TLS_CERTIFICATE, "%s: an OCSP response for another certificate than %s",
                                file, uvhttp__tls_label(from->certificate_file));
    ASN1_GENERALIZEDTIME *since, *until;
    if (OCSP_single_get0_status(single, NULL, NULL, &since, &until) != V_OCSP_CERTSTATUS_GOOD)
        return uvhttp__tls_fail(error, UVHTTP_E_TLS_CERTIFICATE,
                                "%s: the OCSP response says that %s is revoked or unknown", file,
                                uvhttp__tls_label(from->certificate_file));
    loaded->ocsp_until = time_of(until);
    if ((time_t)(uvhttp__clock_unix_ms() / 1000) >= loaded->ocsp_until)
        UVHTTP_LOG_WARN("tls: %s: the OCSP response has expired and is not sent: fetch a new one, then reload", file);
    return UVHTTP_OK;
}

static int read_ocsp(const uvhttp_tls_certificate_t *from, uvhttp__tls_loaded_t *loaded, uvhttp__tls_error_t *error) {
    if (!from->ocsp_file) return UVHTTP_OK;
    char *data;
    size_t size;
    int status = uvhttp__tls_read_file(from->ocsp_file, &data, &size, error);
    if (status != UVHTTP_OK) return status;
    const unsigned char *at = (const unsigned char *)data;
    OCSP_RESPONSE *response = d2i_OCSP_RESPONSE(NULL, &at, (long)size);
    if (!response || OCSP_response_status(response) != OCSP_RESPONSE_STATUS_SUCCESSFUL)
        status = uvhttp__tls_fail(error, UVHTTP_E_TLS_CERTIFICATE, "%s: %s", from->ocsp_file,
                                  response ? "an OCSP response that says failure" : "not an OCSP response (DER)");
    OCSP_BASICRESP *basic = status == UVHTTP_OK ? OCSP_response_get1_basic(response) : NULL;
    if (basic)
        status = check_ocsp(from->ocsp_file, basic, loaded, from, error);
    else if (status == UVHTTP_OK)
        status = uvhttp__tls_fail(error, UVHTTP_E_TLS_CERTIFICATE, "%s: not a basic OCSP response", from->ocsp_file);
    OCSP_BASICRESP_free(basic);
    OCSP_RESPONSE_free(response);
    ERR_clear_error();
    if (status == UVHTTP_OK) {
        loaded->ocsp = OPENSSL_memdup(data, size);
        loaded->ocsp_size = (int)size;
        if (!loaded->ocsp) status = uvhttp__tls_fail(error, UVHTTP_E_NOMEM, "%s: out of memory", from->ocsp_file);
    }
    uvhttp__free(data);
    return status;
}

/* --- names --- */

static int add_name(uvhttp__tls_names_t *names, const ASN1_STRING *text, uint32_t index) {
    uvhttp_str_t name = {(const char *)ASN1_STRING_get0_data(text), (size_t)ASN1_STRING_length(text)};
    int status = uvhttp__tls_names_add(names, name, index);
    return status == UVHTTP_E_INVALID ? UVHTTP_OK : status; /* nothing that a client can ask for */
}

static int add_own_names(uvhttp__tls_names_t *names, X509 *leaf, uint32_t index) {
    GENERAL_NAMES *alternatives = X509_get_ext_d2i(leaf, NID_subject_alt_name, NULL, NULL);
    int status = UVHTTP_OK;
    for (int i = 0; i < sk_GENERAL_NAME_num(alternatives) && status == UVHTTP_OK; i++) {
        const GENERAL_NAME *one = sk_GENERAL_NAME_value(alternatives, i);
        if (one->type == GEN_DNS) status = add_name(names, one->d.dNSName, index);
    }
    if (alternatives) {
        GENERAL_NAMES_free(alternatives);
        return status;
    }
    int at = X509_NAME_get_index_by_NID(X509_get_subject_name(leaf), NID_commonName, -1);
    if (at < 0) return UVHTTP_OK;
    const X509_NAME_ENTRY *entry = X509_NAME_get_entry(X509_get_subject_name(leaf), at);
    return add_name(names, X509_NAME_ENTRY_get_data(entry), index);
}

/* --- a certificate --- */

int uvhttp__tls_load(uvhttp__tls_contexts_t *contexts, uint32_t index, uvhttp__tls_error_t *error) {
    const uvhttp_tls_certificate_t *from = &contexts->settings->certificates[index];
    uvhttp__tls_loaded_t *loaded = &contexts->library->loaded[index];
    uvhttp__tls_names_t *names = &contexts->names;
    int status = read_chain(from, loaded, error);
    if (status == UVHTTP_OK) status = read_key(from, loaded, error);
    if (status == UVHTTP_OK) status = read_ocsp(from, loaded, error);
    if (status != UVHTTP_OK) return status;
    struct tm since, until;
    if (ASN1_TIME_to_tm(X509_get0_notBefore(loaded->leaf), &since) == 1 &&
        ASN1_TIME_to_tm(X509_get0_notAfter(loaded->leaf), &until) == 1)
        uvhttp__tls_log_dates(from, &since, &until);
    status = from->names ? uvhttp__tls_add_given_names(names, from->names, index, error)
                         : add_own_names(names, loaded->leaf, index);
    ERR_clear_error();
    return status == UVHTTP_E_NOMEM ? uvhttp__tls_fail(error, status, "out of memory") : status;
}

void uvhttp__tls_unload(uvhttp__tls_loaded_t *loaded) {
    X509_free(loaded->leaf);
    EVP_PKEY_free(loaded->key);
    sk_X509_pop_free(loaded->chain, X509_free);
    OPENSSL_free(loaded->ocsp);
}

/* --- authorities of clients --- */

static int add_authority(uvhttp__tls_contexts_t *contexts, X509 *authority) {
    X509_NAME *name = X509_NAME_dup(X509_get_subject_name(authority));
    if (!name || sk_X509_NAME_push(contexts->library->client_names, name) <= 0) {
        X509_NAME_free(name);
        return UVHTTP_E_NOMEM;
    }
    return X509_STORE_add_cert(contexts->library->client_store, authority) == 1 ? UVHTTP_OK : UVHTTP_E_NOMEM;
}

static int digest_clients(uvhttp__tls_contexts_t *contexts, const void *data, size_t size) {
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    unsigned char mode = (unsigned char)contexts->settings->clients;
    bool done = digest && EVP_DigestInit_ex(digest, EVP_sha256(), NULL) == 1 &&
                EVP_DigestUpdate(digest, &mode, 1) == 1 && EVP_DigestUpdate(digest, data, size) == 1 &&
                EVP_DigestFinal_ex(digest, contexts->clients_digest, NULL) == 1;
    EVP_MD_CTX_free(digest);
    return done ? UVHTTP_OK : UVHTTP_E_NOMEM;
}

static int read_authorities(uvhttp__tls_contexts_t *contexts, uvhttp__tls_error_t *error) {
    const uvhttp__tls_settings_t *settings = contexts->settings;
    const char *name = uvhttp__tls_label(settings->client_ca_file);
    source_t source;
    int status = source_open(&source, settings->client_ca_file, settings->client_ca, settings->client_ca_size, error);
    if (status != UVHTTP_OK) return status;
    contexts->library->client_store = X509_STORE_new();
    contexts->library->client_names = sk_X509_NAME_new_null();
    if (!contexts->library->client_store || !contexts->library->client_names) status = UVHTTP_E_NOMEM;
    X509 *authority = NULL;
    int count = 0;
    while (status == UVHTTP_OK && (authority = PEM_read_bio_X509(source.bio, NULL, no_password, NULL))) {
        status = add_authority(contexts, authority);
        X509_free(authority);
        count++;
    }
    if (status == UVHTTP_OK) status = digest_clients(contexts, source.text.data, source.text.size);
    source_close(&source);
    if (status != UVHTTP_OK) {
        ERR_clear_error();
        return uvhttp__tls_fail(error, status, "%s: out of memory", name);
    }
    if (count > 0 && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE) {
        ERR_clear_error();
        return UVHTTP_OK;
    }
    return uvhttp__tls_fail(error, UVHTTP_E_TLS_CERTIFICATE, "%s: certificate %d of the authorities: %s", name,
                            count + 1, uvhttp__tls_reason());
}

/* --- revocation lists --- */

/* With a list that has expired nobody is trusted whom it could name: the log says so before clients do. A list may
 * leave out when the next one comes (RFC 5280 section 5.1: nextUpdate is optional). */
static int add_list(X509_STORE *store, X509_CRL *list, const char *name) {
    const ASN1_TIME *until = X509_CRL_get0_nextUpdate(list);
    if (until && X509_cmp_current_time(until) < 0)
        UVHTTP_LOG_WARN("tls: %s: the revocation list has expired: no certificate of its authority is accepted", name);
    return X509_STORE_add_crl(store, list) == 1 ? UVHTTP_OK : UVHTTP_E_NOMEM;
}

static int read_lists(uvhttp__tls_contexts_t *contexts, uvhttp__tls_error_t *error) {
    const uvhttp__tls_settings_t *settings = contexts->settings;
    X509_STORE *store = contexts->library->client_store;
    if (!settings->client_crl_file && !settings->client_crl) return UVHTTP_OK;
    const char *name = uvhttp__tls_label(settings->client_crl_file);
    source_t source;
    int status =
        source_open(&source, settings->client_crl_file, settings->client_crl, settings->client_crl_size, error);
    if (status != UVHTTP_OK) return status;
    X509_CRL *list;
    int count = 0;
    while (status == UVHTTP_OK && (list = PEM_read_bio_X509_CRL(source.bio, NULL, no_password, NULL))) {
        status = add_list(store, list, name);
        X509_CRL_free(list);
        count++;
    }
    source_close(&source);
    if (status == UVHTTP_OK && X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL) != 1)
        status = UVHTTP_E_NOMEM;
    bool whole = count > 0 && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    if (status != UVHTTP_OK)
        status = uvhttp__tls_fail(error, status, "%s: out of memory", name);
    else if (!whole)
        status = uvhttp__tls_fail(error, UVHTTP_E_TLS_CERTIFICATE, "%s: revocation list %d: %s", name, count + 1,
                                  uvhttp__tls_reason());
    ERR_clear_error();
    return status;
}

int uvhttp__tls_load_clients(uvhttp__tls_contexts_t *contexts, uvhttp__tls_error_t *error) {
    if (contexts->settings->clients == UVHTTP_TLS_CLIENTS_ANY) return UVHTTP_OK;
    int status = read_authorities(contexts, error);
    return status == UVHTTP_OK ? read_lists(contexts, error) : status;
}
