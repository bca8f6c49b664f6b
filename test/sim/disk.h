/* Owns: the disk of disk.c, as handlers and the simulated kernel see it. */
#ifndef UVHTTP_TEST_SIM_DISK_H
#define UVHTTP_TEST_SIM_DISK_H

#include <sys/types.h>

#include "sim.h"

#define SIM_SPOOL "/sim/spool" /* the directory of temporary files */

/* Calls of this thread are of this request, until the next call. */
void sim_disk_begin(uint32_t tag);
/* The error of the first that has failed; 0: none has. */
int sim_disk_end(void);
/* A handler refuses its request with this status for such an error. */
void sim_disk_refuse(uint32_t tag, int status);

/* A descriptor of the directory in which files are saved. */
int sim_disk_directory(void);
/* Makes a file there; returns a descriptor. */
int sim_disk_create(const char *name);
/* Returns the size of a saved file of the request, all bytes of which are those of the tag `content`. */
uint64_t sim_disk_check(uint32_t tag, const char *name, uint32_t content);
/* Of one that was made here: does not fail. */
void sim_disk_close(int fd);
void sim_disk_remove(uint32_t tag, const char *name);
/* Of this request, no file is left. */
void sim_disk_check_none(uint32_t tag);

/* --- for the kernel --- */

struct sim_file;
bool sim_disk_is(int fd);
ssize_t sim_disk_write(int fd, const char *data, size_t size);
/* What close(2) returns. */
int sim_disk_closed(struct sim_file *file);
/* A file without a name in SIM_SPOOL, as open(2) with O_TMPFILE. */
int sim_disk_open_unnamed(void);

#endif
