/* Owns: the list of those who are at the other end of connections that no client has: other servers, collectors of
 * spans, operators. */
#include <stdlib.h>

#include "sim.h"

static sim_actor_t *actors;

void sim_actor_add(sim_actor_t *actor) {
    actor->next = actors;
    actors = actor;
}

void sim_actor_wake(void *arg) {
    sim_actor_t *actor = arg;
    if (!actor->done) actor->woken(actor);
}

uint64_t sim_actors_next_ns(void) {
    uint64_t next = SIM_NEVER;
    for (const sim_actor_t *actor = actors; actor; actor = actor->next)
        if (actor->next_ns < next) next = actor->next_ns;
    return next;
}

bool sim_actors_step(void) {
    for (sim_actor_t **link = &actors; *link; link = &(*link)->next) {
        sim_actor_t *actor = *link;
        if (actor->next_ns > sim_now_ns) continue;
        actor->step(actor);
        if (!actor->done) return true;
        while (*link != actor) link = &(*link)->next; /* others may have come in front of it */
        *link = actor->next;
        actor->free(actor);
        return true;
    }
    return false;
}

void sim_actors_free(void) {
    while (actors) {
        sim_actor_t *actor = actors;
        actors = actor->next;
        actor->free(actor);
    }
}
