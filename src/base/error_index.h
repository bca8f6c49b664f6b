/* Owns: a dense numbering of the error codes, for arrays that hold one thing per error. May include: nothing. */
#ifndef UVHTTP_SRC_BASE_ERROR_INDEX_H
#define UVHTTP_SRC_BASE_ERROR_INDEX_H

#include <uvhttp/error.h>

enum {
#define UVHTTP__ERROR_INDEX(name, number, status, message) UVHTTP__ERROR_INDEX_##name,
    UVHTTP_ERROR_MAP(UVHTTP__ERROR_INDEX)
#undef UVHTTP__ERROR_INDEX
    /* UVHTTP_OK and every number that is not in the table. */
    UVHTTP__ERROR_INDEX_UNKNOWN,
    UVHTTP__ERROR_COUNT
};

/* 0..UVHTTP__ERROR_COUNT - 1, in the order of UVHTTP_ERROR_MAP. */
unsigned uvhttp__error_index(int code);

/* The way back; 0 for UVHTTP__ERROR_INDEX_UNKNOWN. */
int uvhttp__error_at(unsigned index);

#endif
