/* Owns: an allocator of the test server that has no more than a number of bytes. */
#ifndef UVHTTP_TEST_SERVER_MEMORY_LIMIT_H
#define UVHTTP_TEST_SERVER_MEMORY_LIMIT_H

/* Lets the library have at most `bytes` from now on (--memory-max). Before everything else of it. */
int limit_memory(const char *bytes);

#endif
