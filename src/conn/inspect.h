/* Owns: looking at a server's loops and connections from other threads. May include: io, base, obs. */
#ifndef UVHTTP_SRC_CONN_INSPECT_H
#define UVHTTP_SRC_CONN_INSPECT_H

#include "conn/tcp_server.h"

/* Runs the message on the thread of the index-th loop, soon. Returns false if the loops do not run yet or not any more;
 * post->run is not called then, else exactly once. Any thread, until the server is freed. */
bool uvhttp__tcp_server_post(uvhttp__tcp_server_t *tcp_server, uint32_t index, uvhttp__post_t *post);

/* With options.keeps_ages: the connection was accepted now. Loop's thread. */
void uvhttp__conn_keep_age(uvhttp__conn_t *conn);

#define UVHTTP__AGE_UNKNOWN UINT64_MAX
/* Time since the accept, ms. Loop's thread. */
uint64_t uvhttp__conn_age_ms(const uvhttp__conn_t *conn);

/* Calls `each` for at most `max` connections of a loop: busy ones first, then those that are idle for longest. Returns
 * how many the loop has. Loop's thread. */
size_t uvhttp__tcp_loop_each(uvhttp__tcp_loop_t *loop, size_t max, void (*each)(uvhttp__conn_t *conn, void *user),
                             void *user);

#endif
