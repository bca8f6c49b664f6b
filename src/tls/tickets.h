/* Owns: the keys of session tickets (RFC 5077, RFC 8446 section 4.6.1): the current one encrypts, and the previous one
 * still decrypts. Shared by all loops. May include: base. */
#ifndef UVHTTP_SRC_TLS_TICKETS_H
#define UVHTTP_SRC_TLS_TICKETS_H

#include <pthread.h>
#include <uvhttp/error.h>
#include <uvhttp/types.h>

typedef struct uvhttp__ticket_key {
    uint8_t name[16]; /* in the clear in a ticket: which key it is for */
    uint8_t cipher[32];
    uint8_t mac[32];
} uvhttp__ticket_key_t;

typedef struct uvhttp__tickets {
    pthread_mutex_t lock;
    uvhttp__ticket_key_t current, previous;
    uint64_t period_ms; /* under lock */
    uint64_t since_ms;  /* when `current` was made */
    bool has_current, has_previous;
    bool (*random)(void *memory, size_t size);
} uvhttp__tickets_t;

void uvhttp__tickets_init(uvhttp__tickets_t *tickets, uint64_t period_ms, bool (*random)(void *memory, size_t size));
/* Any thread. */
void uvhttp__tickets_set_period(uvhttp__tickets_t *tickets, uint64_t period_ms);
void uvhttp__tickets_deinit(uvhttp__tickets_t *tickets);

/* now_ms: monotonic. The key for a new ticket. Returns false without random numbers. Any thread. */
bool uvhttp__tickets_current(uvhttp__tickets_t *tickets, uint64_t now_ms, uvhttp__ticket_key_t *key);
/* The key of a ticket; *old: a new ticket should take its place. Returns false if it is not known (any more). Any
 * thread. */
bool uvhttp__tickets_find(uvhttp__tickets_t *tickets, uint64_t now_ms, const uint8_t name[16],
                          uvhttp__ticket_key_t *key, bool *old);

#endif
