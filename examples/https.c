/* HTTPS: https ADDRESS CERTIFICATE KEY, or https ADDRESS for a certificate of its own, for development.
 *
 *   build/dist/bin/https 127.0.0.1:8443 chain.pem key.pem
 *   curl --cacert chain.pem https://localhost:8443/
 *
 * SIGHUP reads certificate and key again, without dropping a connection: what a renewal calls. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <uvhttp.h>

static void hello(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_response_text(res, 200, uvhttp_request_is_tls(req) ? "Hello, privately!" : "Hello, World!");
}

/* Files are read here, not on a loop's thread. */
static void *reload_at_signal(void *arg) {
    sigset_t hangup;
    sigemptyset(&hangup);
    sigaddset(&hangup, SIGHUP);
    for (int number; sigwait(&hangup, &number) == 0;)
        if (uvhttp_tls_reload(arg) == UVHTTP_OK) fprintf(stderr, "https: certificates read again\n");
    return NULL;
}

static uvhttp_tls_t *read_certificate(const char *certificate, const char *key) {
    uvhttp_tls_certificate_t one = {.certificate_file = certificate, .key_file = key};
    uvhttp_tls_options_t options = {.certificates = &one, .certificate_count = 1};
    return uvhttp_tls_new(&options);
}

int main(int argc, char **argv) {
    if (argc == 3 || argc > 4) {
        fprintf(stderr, "usage: https [ADDRESS [CERTIFICATE KEY]]\n");
        return 2;
    }
    const char *address = argc > 1 ? argv[1] : "127.0.0.1:8443";
    uvhttp_tls_t *tls = argc == 4 ? read_certificate(argv[2], argv[3]) : uvhttp_tls_development(NULL);
    if (!tls) {
        fprintf(stderr,
                "https: no certificate, no HTTPS: the line above says what is wrong. To make one:\n"
                "  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 \\\n"
                "    -subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout key.pem -out chain.pem\n");
        return 1;
    }
    /* Before the loops' threads, which inherit it: only the thread below sees the signal. */
    sigset_t hangup;
    sigemptyset(&hangup);
    sigaddset(&hangup, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &hangup, NULL);
    pthread_t reloader;
    int status = pthread_create(&reloader, NULL, reload_at_signal, tls);
    if (status == 0) pthread_detach(reloader);

    uvhttp_server_t *server = uvhttp_server_new(NULL);
    uvhttp_get(server, "/", hello, NULL);
    status = uvhttp_server_listen_tls(server, address, tls, NULL);
    if (status == UVHTTP_OK) status = uvhttp_server_run(server, NULL);
    uvhttp_server_free(server);
    return status != UVHTTP_OK;
}
