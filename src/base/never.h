/* Owns: what UVHTTP_NEVER of an option is to the layers below: 0. They ask whether a time, a rate or a limit is there.
 */
#ifndef UVHTTP_SRC_BASE_NEVER_H
#define UVHTTP_SRC_BASE_NEVER_H

#include <uvhttp/types.h>

static inline uint32_t uvhttp__or_none(uint32_t option) {
    return option == UVHTTP_NEVER ? 0 : option;
}

#endif
