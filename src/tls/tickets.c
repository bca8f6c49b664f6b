/* Owns: see tickets.h. May include: base. */
#include "tls/tickets.h"

#include <string.h>

void uvhttp__tickets_init(uvhttp__tickets_t *tickets, uint64_t period_ms, bool (*random)(void *memory, size_t size)) {
    memset(tickets, 0, sizeof *tickets);
    pthread_mutex_init(&tickets->lock, NULL);
    tickets->period_ms = period_ms;
    tickets->random = random;
}

void uvhttp__tickets_set_period(uvhttp__tickets_t *tickets, uint64_t period_ms) {
    pthread_mutex_lock(&tickets->lock);
    tickets->period_ms = period_ms;
    pthread_mutex_unlock(&tickets->lock);
}

void uvhttp__tickets_deinit(uvhttp__tickets_t *tickets) {
    pthread_mutex_destroy(&tickets->lock);
    explicit_bzero(&tickets->current, sizeof tickets->current);
    explicit_bzero(&tickets->previous, sizeof tickets->previous);
}

/* Keys grow old by themselves; who asks next finds them so. */
static void rotate(uvhttp__tickets_t *tickets, uint64_t now_ms) {
    /* Loops read the clock each for itself: one may be behind the other. */
    uint64_t age_ms = now_ms > tickets->since_ms ? now_ms - tickets->since_ms : 0;
    if (!tickets->has_current || age_ms < tickets->period_ms) {
        if (tickets->has_current) return;
    } else if (age_ms < 2 * tickets->period_ms) {
        tickets->previous = tickets->current;
        tickets->has_previous = true;
        tickets->since_ms += tickets->period_ms;
        tickets->has_current = false;
    } else {
        tickets->has_previous = tickets->has_current = false;
    }
    if (!tickets->has_previous) {
        explicit_bzero(&tickets->previous, sizeof tickets->previous);
        tickets->since_ms = now_ms;
    }
    tickets->has_current = tickets->random(&tickets->current, sizeof tickets->current);
}

bool uvhttp__tickets_current(uvhttp__tickets_t *tickets, uint64_t now_ms, uvhttp__ticket_key_t *key) {
    pthread_mutex_lock(&tickets->lock);
    rotate(tickets, now_ms);
    bool found = tickets->has_current;
    if (found) *key = tickets->current;
    pthread_mutex_unlock(&tickets->lock);
    return found;
}

bool uvhttp__tickets_find(uvhttp__tickets_t *tickets, uint64_t now_ms, const uint8_t name[16],
                          uvhttp__ticket_key_t *key, bool *old) {
    pthread_mutex_lock(&tickets->lock);
    rotate(tickets, now_ms);
    bool found = true;
    *old = false;
    if (tickets->has_current && memcmp(name, tickets->current.name, sizeof tickets->current.name) == 0) {
        *key = tickets->current;
    } else if (tickets->has_previous && memcmp(name, tickets->previous.name, sizeof tickets->previous.name) == 0) {
        *key = tickets->previous;
        *old = true;
    } else {
        found = false;
    }
    pthread_mutex_unlock(&tickets->lock);
    return found;
}
