/* Owns: descriptors 0, 1 and 2 of a process that was started without one of them. May include: nothing. */
#ifndef UVHTTP_SRC_BASE_STANDARD_FDS_H
#define UVHTTP_SRC_BASE_STANDARD_FDS_H

/* Opens /dev/null in place of those that are closed, for good. Otherwise a connection would become standard output or
 * standard error, and would get what is printed there: lines of the log, too. Called before the library makes
 * descriptors of its own that others write to. Returns UVHTTP_OK, UVHTTP_E_NO_DESCRIPTORS or UVHTTP_E_IO. Any thread.
 */
int uvhttp__standard_fds_hold(void);

#endif
