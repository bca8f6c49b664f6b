/* Owns: which of several names is meant by one that does not exist. */
#ifndef UVHTTP_TOOLS_SUPPORT_NEAREST_H
#define UVHTTP_TOOLS_SUPPORT_NEAREST_H

#include <stddef.h>

#define NEAREST_NAME_SIZE 64 /* of names with their 0; longer ones are like nothing */

/* Begins as {.wrong = text, .distance = how many letters make a name another one}; text stays the caller's. */
typedef struct nearest {
    const char *wrong;
    size_t distance;
    char name[NEAREST_NAME_SIZE]; /* "": none of those that were offered */
} nearest_t;

/* Copies the name if it is nearer than those before it. */
void nearest_offer(nearest_t *nearest, const char *name);

#endif
