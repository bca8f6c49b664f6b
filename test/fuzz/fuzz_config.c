/* Owns: fuzzing of the configuration file (libFuzzer): what is taken is in range, what is refused changes nothing and
 * has a message of printable lines. Input: the file. */
/* Needs: yaml. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <uvhttp/server.h>

static void die(const char *what) {
    fprintf(stderr, "fuzz_config: %s\n", what);
    abort();
}

static void check_message(const char *message) {
    for (const char *at = message; *at; at++) {
        unsigned char byte = (unsigned char)*at;
        if ((byte < 0x20 && byte != '\n') || byte == 0x7f) die("a control character in a message");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("fuzz_config", MFD_CLOEXEC);
        if (fd < 0) die("no memory file");
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size) die("the input cannot be written");
    uvhttp_server_config_t config, before;
    uvhttp_server_config_default(&config);
    before = config;
    size_t message_size = size > 0 ? (size_t)data[0] * 8 : 0; /* at any size */
    char *message = malloc(message_size + 1);
    if (!message) die("out of memory");
    int status = uvhttp_server_config_load(&config, path, message, message_size);
    if (status == UVHTTP_OK) {
        if (uvhttp_server_config_check(&config, NULL, 0) != UVHTTP_OK) die("a wrong value was taken");
    } else {
        if (memcmp(&config, &before, sizeof config) != 0) die("something was taken of a wrong file");
        if (message_size > 0 && !*message) die("no reason");
    }
    if (message_size > 0) check_message(message);
    free(message);
    return 0;
}
