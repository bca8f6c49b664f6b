/* Owns: whether io_uring works where the tests run. */
#ifndef UVHTTP_TEST_UNIT_SUPPORT_URING_H
#define UVHTTP_TEST_UNIT_SUPPORT_URING_H

#include <stdbool.h>

/* A build may be without io_uring, and a container may forbid it. Each program that calls this, by whatever setup,
 * skips its tests whose name has "(...uring...)": that filter is set before main. */
bool uring_works(void);

#endif
