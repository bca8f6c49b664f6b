/* Owns: the certificate for development, made in memory by mbedTLS. May include: io, base. */
#include <mbedtls/oid.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "tls/mbedtls.h"

#define VALID_DAYS 30
#define PEM_SIZE_MAX 4096

/* localhost, 127.0.0.1, ::1 */
static const unsigned char alternatives[] = {0x30, 35, 0x82, 9, 'l', 'o', 'c',  'a', 'l', 'h', 'o', 's', 't',
                                             0x87, 4,  127,  0, 0,   1,   0x87, 16,  0,   0,   0,   0,   0,
                                             0,    0,  0,    0, 0,   0,   0,    0,   0,   0,   1};
/* serverAuth */
static const unsigned char usage[] = {0x30, 10, 6, 8, 0x2b, 6, 1, 5, 5, 7, 3, 1};

static int set_days(mbedtls_x509write_cert *certificate) {
    time_t now = (time_t)(uvhttp__clock_unix_ms() / 1000), from = now - 86400, to = now + VALID_DAYS * 86400;
    char texts[2][MBEDTLS_X509_RFC5280_UTC_TIME_LEN];
    struct tm parts;
    strftime(texts[0], sizeof texts[0], "%Y%m%d%H%M%S", gmtime_r(&from, &parts));
    strftime(texts[1], sizeof texts[1], "%Y%m%d%H%M%S", gmtime_r(&to, &parts));
    return mbedtls_x509write_crt_set_validity(certificate, texts[0], texts[1]);
}

static int set_serial(mbedtls_x509write_cert *certificate) {
    unsigned char bytes[16];
    mbedtls_mpi serial;
    mbedtls_mpi_init(&serial);
    int code = uvhttp__tls_random(bytes, sizeof bytes) ? 0 : -1;
    bytes[0] &= 0x7f; /* positive */
    if (code == 0) code = mbedtls_mpi_read_binary(&serial, bytes, sizeof bytes);
    if (code == 0) code = mbedtls_x509write_crt_set_serial(certificate, &serial);
    mbedtls_mpi_free(&serial);
    return code;
}

static int fill(mbedtls_x509write_cert *certificate, mbedtls_pk_context *key) {
    mbedtls_x509write_crt_set_version(certificate, MBEDTLS_X509_CRT_VERSION_3);
    mbedtls_x509write_crt_set_md_alg(certificate, MBEDTLS_MD_SHA256);
    mbedtls_x509write_crt_set_subject_key(certificate, key);
    mbedtls_x509write_crt_set_issuer_key(certificate, key);
    int code = set_serial(certificate);
    if (code == 0) code = set_days(certificate);
    if (code == 0) code = mbedtls_x509write_crt_set_subject_name(certificate, "CN=localhost");
    if (code == 0) code = mbedtls_x509write_crt_set_issuer_name(certificate, "CN=localhost");
    if (code == 0)
        code = mbedtls_x509write_crt_set_extension(certificate, MBEDTLS_OID_SUBJECT_ALT_NAME,
                                                   MBEDTLS_OID_SIZE(MBEDTLS_OID_SUBJECT_ALT_NAME), 0, alternatives,
                                                   sizeof alternatives);
    if (code == 0)
        code = mbedtls_x509write_crt_set_extension(certificate, MBEDTLS_OID_EXTENDED_KEY_USAGE,
                                                   MBEDTLS_OID_SIZE(MBEDTLS_OID_EXTENDED_KEY_USAGE), 0, usage,
                                                   sizeof usage);
    if (code == 0) code = mbedtls_x509write_crt_set_basic_constraints(certificate, 0, -1);
    if (code == 0) code = mbedtls_x509write_crt_set_key_usage(certificate, MBEDTLS_X509_KU_DIGITAL_SIGNATURE);
    return code;
}

int uvhttp__tls_development_pem(char **certificate, char **key) {
    mbedtls_pk_context pair;
    mbedtls_x509write_cert made;
    mbedtls_pk_init(&pair);
    mbedtls_x509write_crt_init(&made);
    *certificate = uvhttp__calloc(1, PEM_SIZE_MAX);
    *key = uvhttp__calloc(1, PEM_SIZE_MAX);
    int code = *certificate && *key ? 0 : -1;
    if (code == 0) code = mbedtls_pk_setup(&pair, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY));
    if (code == 0) code = mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(pair), uvhttp__tls_f_rng, NULL);
    if (code == 0) code = fill(&made, &pair);
    if (code == 0)
        code = mbedtls_x509write_crt_pem(&made, (unsigned char *)*certificate, PEM_SIZE_MAX, uvhttp__tls_f_rng, NULL);
    if (code == 0) code = mbedtls_pk_write_key_pem(&pair, (unsigned char *)*key, PEM_SIZE_MAX);
    mbedtls_x509write_crt_free(&made);
    mbedtls_pk_free(&pair);
    if (code == 0) return UVHTTP_OK;
    if (*key) explicit_bzero(*key, PEM_SIZE_MAX);
    uvhttp__free(*certificate);
    uvhttp__free(*key);
    *certificate = *key = NULL;
    return UVHTTP_E_NOMEM;
}
