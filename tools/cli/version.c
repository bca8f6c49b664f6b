/* Owns: the command version: what was built, with which libraries, and what works on this machine. */
#include <stdio.h>
#include <string.h>
#include <uvhttp/features.h>

#include "cli/commands.h"
#include "io/io.h"

#if CLI_WITH_OPENSSL
#include <openssl/crypto.h>
#endif
#if CLI_WITH_MBEDTLS
#include <mbedtls/version.h>
#endif
#if UVHTTP_WITH_COMPRESSION
#include <brotli/encode.h>
#include <zlib.h>
#endif
#if UVHTTP_WITH_YAML
#include <yaml.h>
#endif
#if UVHTTP_WITH_MIMALLOC
#include <mimalloc.h>
#endif

static void print_features(void) {
    static const struct {
        const char *name;
        bool present;
    } features[] = {{"tls", UVHTTP_WITH_TLS},
                    {"http2", true},
                    {"websocket", UVHTTP_WITH_WEBSOCKET},
                    {"static", UVHTTP_WITH_STATIC},
                    {"compression", UVHTTP_WITH_COMPRESSION},
                    {"yaml", UVHTTP_WITH_YAML},
                    {"coroutines", UVHTTP_WITH_COROUTINES},
                    {"redis", UVHTTP_WITH_REDIS},
                    {"mimalloc", UVHTTP_WITH_MIMALLOC}};
    const char *without = "without: ";
    fputs("features:", stdout);
    for (size_t i = 0; i < sizeof features / sizeof *features; i++)
        if (features[i].present) printf(" %s", features[i].name);
    putchar('\n');
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        if (features[i].present) continue;
        printf("%s%s", without, features[i].name);
        without = ", ";
    }
    if (*without == ',') putchar('\n');
}

static void print_libraries(void) {
    printf("libraries: libuv %s", uvhttp__uv_version());
#if CLI_WITH_OPENSSL
    printf(", %s", OpenSSL_version(OPENSSL_VERSION));
#endif
#if CLI_WITH_MBEDTLS
    char text[32];
    mbedtls_version_get_string_full(text);
    printf(", %s", text);
#endif
#if UVHTTP_WITH_COMPRESSION
    uint32_t brotli = BrotliEncoderVersion();
    printf(", zlib %s, brotli %u.%u.%u", zlibVersion(), brotli >> 24, brotli >> 12 & 0xfff, brotli & 0xfff);
#endif
#if UVHTTP_WITH_YAML
    printf(", libyaml %s", yaml_get_version_string());
#endif
#if UVHTTP_WITH_MIMALLOC
    int mimalloc = mi_version();
    printf(", mimalloc %d.%d", mimalloc / 100, mimalloc % 100);
#endif
    putchar('\n');
}

static void print_backends(void) {
    char why[128] = "";
    if (uvhttp__io_uring_works(why, sizeof why))
        puts("backends: io_uring (used), epoll");
    else
        printf("backends: epoll (used); io_uring does not work here: %s\n", why);
}

int version_run(char **argv) {
    commands_no_arguments(argv);
    printf("uvhttp %s\n", uvhttp_version());
    print_features();
    print_libraries();
    print_backends();
    fputs(uvhttp_build_info(), stdout);
    return 0;
}
