/* Owns: descriptors 0, 1 and 2 of a process that was started without one of them. May include: nothing. */
#ifndef UVHTTP_SRC_BASE_STANDARD_FDS_H
#define UVHTTP_SRC_BASE_STANDARD_FDS_H

/* Opens /dev/null in place of each closed one, and leaves it open. Otherwise a connection could become standard output
 * or standard error, and its client would receive the output of the program and the lines of the log. Call it before
 * the library makes descriptors for connections and files. Returns UVHTTP_OK, or UVHTTP_E_NO_DESCRIPTORS or
 * UVHTTP_E_IO with errno. Any thread. */
int uvhttp__standard_fds_hold(void);

#endif
