/* Owns: the TLS side of the test server: its options, and routes that tell what a request knows.
 *
 *   --tls-listen ADDRESS, --cert FILE (begins a certificate), --key FILE, --ocsp FILE, --names LIST, --client-ca FILE,
 * --client-crl FILE,
 *   --clients verify|require, --alpn LIST, --tls-min 1.2|1.3, --tls-max, --handshake-timeout SECONDS,
 *   --ticket-period SECONDS, --tickets off, --kernel-tls on, --development yes, --tls-static DIRECTORY */
#include "tls.h"

#include <stdlib.h>
#include <string.h>

#include "json.h"

#define MOST 16

static uvhttp_tls_certificate_t certificates[MOST];
static uvhttp_tls_options_t options = {.certificates = certificates};
static const char *addresses[MOST], *directory;
static size_t address_count;
static bool development;
static uvhttp_tls_t *tls;

static uvhttp_tls_version_t version(const char *text) {
    return strcmp(text, "1.2") == 0 ? UVHTTP_TLS_1_2 : UVHTTP_TLS_1_3;
}

static uvhttp_tls_certificate_t *last(void) {
    return &certificates[options.certificate_count ? options.certificate_count - 1 : 0];
}

bool tls_option(const char *name, const char *value) {
    if (strcmp(name, "--tls-listen") == 0 && address_count < MOST)
        addresses[address_count++] = value;
    else if (strcmp(name, "--cert") == 0 && options.certificate_count < MOST)
        certificates[options.certificate_count++].certificate_file = value;
    else if (strcmp(name, "--key") == 0)
        last()->key_file = value;
    else if (strcmp(name, "--ocsp") == 0)
        last()->ocsp_file = value;
    else if (strcmp(name, "--names") == 0)
        last()->names = value;
    else if (strcmp(name, "--client-ca") == 0)
        options.client_ca_file = value;
    else if (strcmp(name, "--client-crl") == 0)
        options.client_crl_file = value;
    else if (strcmp(name, "--clients") == 0)
        options.clients = strcmp(value, "require") == 0 ? UVHTTP_TLS_CLIENTS_REQUIRE : UVHTTP_TLS_CLIENTS_VERIFY;
    else if (strcmp(name, "--alpn") == 0)
        options.alpn = value;
    else if (strcmp(name, "--tls-min") == 0)
        options.min_version = version(value);
    else if (strcmp(name, "--tls-max") == 0)
        options.max_version = version(value);
    else if (strcmp(name, "--handshake-timeout") == 0)
        options.handshake_timeout = (uint32_t)atoi(value);
    else if (strcmp(name, "--ticket-period") == 0)
        options.ticket_period = (uint32_t)atoi(value);
    else if (strcmp(name, "--tickets") == 0)
        options.no_tickets = strcmp(value, "off") == 0;
    else if (strcmp(name, "--kernel-tls") == 0)
        options.kernel_tls = strcmp(value, "on") == 0;
    else if (strcmp(name, "--tls-static") == 0)
        directory = value;
    else if (strcmp(name, "--development") == 0)
        development = true;
    else
        return false;
    return true;
}

int tls_listen(uvhttp_server_t *server) {
    if (address_count == 0) return UVHTTP_OK;
    tls = development ? uvhttp_tls_development(&options) : uvhttp_tls_new(&options);
    int status = UVHTTP_OK;
    for (size_t i = 0; i < address_count && status == UVHTTP_OK; i++)
        status = uvhttp_server_listen_tls(server, addresses[i], tls, NULL);
    return status;
}

static void about(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    json_t json;
    json_open(&json);
    const char *subject = uvhttp_request_client_subject(req);
    fputc('{', json.out);
    json_number(&json, "tls", uvhttp_request_is_tls(req));
    fputs("\"subject\":", json.out);
    json_str(&json, (uvhttp_str_t){subject, subject ? strlen(subject) : 0});
    fputc('}', json.out);
    json_response(&json, res);
}

/* Blocks the loop, which a real program must not. */
static void reload(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    int status = tls ? uvhttp_tls_reload(tls) : UVHTTP_E_STATE;
    uvhttp_response_text(res, status == UVHTTP_OK ? 200 : 500,
                         status == UVHTTP_OK ? "reloaded" : uvhttp_tls_error_text(tls));
}

/* Missing in a build without WebSocket, which leaves its file out. */
__attribute__((weak)) void tls_websocket_route(uvhttp_server_t *server);

void tls_routes(uvhttp_server_t *server) {
    uvhttp_get(server, "/tls", about, NULL);
    uvhttp_post(server, "/tls/reload", reload, NULL);
    tls_body_routes(server, directory);
    if (tls_websocket_route) tls_websocket_route(server);
}

void tls_free(void) {
    uvhttp_tls_release(tls);
}
