/* Owns: responses that come later, from a thread of their own: after some milliseconds, or when a test asks for it. */
#ifndef UVHTTP_TEST_LATER_H
#define UVHTTP_TEST_LATER_H

#include <stdatomic.h>
#include <uvhttp.h>

typedef struct later later_t;

typedef enum later_how {
    LATER_TEXT,
    LATER_JSON,
    LATER_SEND,
    LATER_REF,
    LATER_RUN,     /* uvhttp_deferred_run, then a complete response */
    LATER_PIECES,  /* uvhttp_deferred_run, then begin, write, end */
    LATER_NOTHING, /* only release */
    LATER_TWICE,   /* the second response has to be refused */
    LATER_REQUEST, /* responds with the request's target, read on the other thread */
} later_how_t;

typedef struct later_counts {
    atomic_uint held, responded, aborted, refused, on_abort, released;
} later_counts_t;

later_t *later_new(void);
void later_free(later_t *later);

/* Takes a deferred handle: the response is sent `ms` from now, or, with a key, when later_release is called with the
 * same key. */
int later_add(later_t *later, uvhttp_deferred_t *deferred, later_how_t how, unsigned ms, uvhttp_str_t key);

/* Makes the thread respond to what is held under a key; returns how many there were. */
unsigned later_release(later_t *later, uvhttp_str_t key);

later_counts_t *later_counts(later_t *later);

#endif
