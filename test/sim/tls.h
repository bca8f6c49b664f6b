/* Owns: TLS of the simulation: the client's side, and what the server's is in most seeds, a null cipher. */
#ifndef UVHTTP_TEST_SIM_TLS_H
#define UVHTTP_TEST_SIM_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "sim.h"

/* The certificate of a client, by its number, as the null cipher has it. */
#define SIM_SUBJECT "CN=client %u"
#define SIM_SUBJECT_SIZE 24

typedef struct sim_tls sim_tls_t;
typedef void (*sim_tls_sink)(void *arg, const char *data, size_t size);

/* Once in a process. Without TLS there is nothing to make. */
bool sim_tls_init(void);
/* real: a session of the library's in this run; else a null cipher. */
void sim_tls_reset(uint64_t seed, bool real);

/* The client's end of a connection: writes its first flight, and all that follows, with `put`. h2: it asks for HTTP/2.
 */
sim_tls_t *sim_tls_new(uint32_t client, bool h2, sim_random_t *random, sim_tls_sink put, void *arg);
void sim_tls_free(sim_tls_t *tls);
bool sim_tls_is_open(const sim_tls_t *tls);
void sim_tls_write(sim_tls_t *tls, const char *data, size_t size);
void sim_tls_end(sim_tls_t *tls);
/* NULL, or what is wrong with what has come. */
const char *sim_tls_read(sim_tls_t *tls, const char *data, size_t size, sim_tls_sink take, void *arg);

/* The server's, for uvhttp_server_listen_tls; NULL: there is none. */
struct uvhttp_tls;
extern struct uvhttp_tls *sim_tls_server;

#endif
