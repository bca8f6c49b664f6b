/* Owns: names of the other servers, in place of getaddrinfo(3), which takes its time, and the addresses that they have:
 * one that works, behind some that refuse or that nobody hears of. */
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernel.h"

static sim_random_t random_of_names;

void sim_names_reset(uint64_t seed) {
    random_of_names = sim_random_of(seed, 0x4a3e);
}

static struct addrinfo *address_new(uint32_t ip, const char *port, struct addrinfo *next) {
    struct {
        struct addrinfo info;
        struct sockaddr_in address;
    } *made = calloc(1, sizeof *made);
    if (!made) abort();
    made->address = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_addr = {htonl(ip)}, .sin_port = htons((uint16_t)strtoul(port, NULL, 10))};
    made->info = (struct addrinfo){.ai_family = AF_INET,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_addrlen = sizeof made->address,
                                   .ai_addr = (void *)&made->address,
                                   .ai_next = next};
    return &made->info;
}

int __wrap_getaddrinfo(const char *name, const char *port, const struct addrinfo *hints, struct addrinfo **found) {
    if (hints->ai_socktype != SOCK_STREAM) sim_fail("a lookup of %s for something else than a stream", name);
    uint32_t ms = sim_log_uniform(&random_of_names, 500);
    uint32_t refuse = sim_below(&random_of_names, 3), lost = sim_below(&random_of_names, 3);
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
    *found = NULL;
    if (strcmp(name, SIM_NAME) != 0) return EAI_NONAME;
    *found = address_new(SIM_ADDRESS_GOOD, port, NULL);
    while (refuse-- > 0) *found = address_new(SIM_ADDRESS_REFUSES, port, *found);
    while (lost-- > 0) *found = address_new(SIM_ADDRESS_SILENT, port, *found);
    return 0;
}

void __wrap_freeaddrinfo(struct addrinfo *found) {
    for (struct addrinfo *next; found; found = next) {
        next = found->ai_next;
        free(found);
    }
}
