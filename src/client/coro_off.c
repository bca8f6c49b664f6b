/* Owns: what is left of coroutines that ask other servers, in a build without coroutines. May include: base. */
#include <uvhttp/client.h>
#include <uvhttp/coro.h>

int uvhttp_coro_connect(const char *address, uint32_t timeout_ms, int *fd) {
    (void)address, (void)timeout_ms;
    if (fd) *fd = -1;
    return UVHTTP_E_STATE;
}

int uvhttp_coro_request_sized(const uvhttp_client_request_t *request, size_t request_size,
                              uvhttp_client_response_t **response) {
    (void)request, (void)request_size;
    if (response) *response = NULL;
    return UVHTTP_E_STATE;
}
