/* Owns: the certificate for development, made in memory. May include: io, base. */
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "base/alloc.h"
#include "tls/openssl.h"

#define VALID_DAYS 30

static bool add_extension(X509 *certificate, int kind, const char *value) {
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, certificate, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, kind, value);
    bool added = extension && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return added;
}

static bool fill(X509 *certificate, EVP_PKEY *key) {
    unsigned char serial[16];
    if (RAND_bytes(serial, sizeof serial) != 1) return false;
    serial[0] &= 0x7f; /* positive */
    BIGNUM *number = BN_bin2bn(serial, sizeof serial, NULL);
    bool numbered = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate));
    BN_free(number);
    X509_NAME *name = X509_get_subject_name(certificate);
    return numbered && X509_set_version(certificate, X509_VERSION_3) == 1 &&
           X509_gmtime_adj(X509_getm_notBefore(certificate), -86400) &&
           X509_gmtime_adj(X509_getm_notAfter(certificate), VALID_DAYS * 86400L) &&
           X509_set_pubkey(certificate, key) == 1 &&
           X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"localhost", -1, -1, 0) == 1 &&
           X509_set_issuer_name(certificate, name) == 1 &&
           add_extension(certificate, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1,IP:::1") &&
           add_extension(certificate, NID_basic_constraints, "critical,CA:FALSE") &&
           add_extension(certificate, NID_key_usage, "critical,digitalSignature") &&
           add_extension(certificate, NID_ext_key_usage, "serverAuth") && X509_sign(certificate, key, EVP_sha256()) > 0;
}

static char *text_of(BIO *bio) {
    char *data;
    long size = BIO_get_mem_data(bio, &data);
    char *copy = size > 0 ? uvhttp__malloc((size_t)size + 1) : NULL;
    if (!copy) return NULL;
    memcpy(copy, data, (size_t)size);
    copy[size] = '\0';
    return copy;
}

int uvhttp__tls_development_pem(char **certificate, char **key) {
    EVP_PKEY *pair = EVP_EC_gen("P-256");
    X509 *made = X509_new();
    BIO *certificate_text = BIO_new(BIO_s_mem()), *key_text = BIO_new(BIO_s_secmem());
    *certificate = *key = NULL;
    if (pair && made && certificate_text && key_text && fill(made, pair) &&
        PEM_write_bio_X509(certificate_text, made) == 1 &&
        PEM_write_bio_PrivateKey(key_text, pair, NULL, NULL, 0, NULL, NULL) == 1) {
        *certificate = text_of(certificate_text);
        *key = text_of(key_text);
    }
    BIO_free(certificate_text);
    BIO_free(key_text);
    X509_free(made);
    EVP_PKEY_free(pair);
    ERR_clear_error();
    if (*certificate && *key) return UVHTTP_OK;
    uvhttp__free(*certificate);
    if (*key) explicit_bzero(*key, strlen(*key));
    uvhttp__free(*key);
    return UVHTTP_E_NOMEM;
}
