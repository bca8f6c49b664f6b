/* Owns: an OCSP response (RFC 6960) about a certificate that is its own issuer, for the tests of OpenSSL. */
#ifndef TEST_UNIT_TLS_OCSP_RESPONSE_H
#define TEST_UNIT_TLS_OCSP_RESPONSE_H

#include <stdio.h>
#include <time.h>

#include <cmocka.h>
#include <openssl/ocsp.h>

#define NO_END 0

/* Writes it to the file, in DER. until: seconds from now; NO_END: it says nothing. */
static inline void write_ocsp_response(const char *path, X509 *leaf, EVP_PKEY *key, int verdict, long until) {
    ASN1_TIME *since = ASN1_GENERALIZEDTIME_adj(NULL, time(NULL), 0, -2 * 3600);
    ASN1_TIME *end = until == NO_END ? NULL : ASN1_GENERALIZEDTIME_adj(NULL, time(NULL), 0, until);
    OCSP_BASICRESP *basic = OCSP_BASICRESP_new();
    OCSP_CERTID *id = OCSP_cert_to_id(EVP_sha1(), leaf, leaf);
    assert_non_null(OCSP_basic_add1_status(basic, id, verdict, 0, since, since, end));
    assert_int_equal(OCSP_basic_sign(basic, leaf, key, EVP_sha256(), NULL, 0), 1);
    OCSP_RESPONSE *response = OCSP_response_create(OCSP_RESPONSE_STATUS_SUCCESSFUL, basic);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    unsigned char *der = NULL;
    int size = i2d_OCSP_RESPONSE(response, &der);
    assert_true(size > 0 && fwrite(der, 1, (size_t)size, file) == (size_t)size);
    fclose(file);
    OPENSSL_free(der);
    OCSP_RESPONSE_free(response);
    OCSP_CERTID_free(id);
    OCSP_BASICRESP_free(basic);
    ASN1_TIME_free(since);
    ASN1_TIME_free(end);
}

#endif
