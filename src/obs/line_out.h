/* Owns: writing complete lines to a descriptor that may be slow or fail. The writers of the log and of the access log
 * use it. May include: base. */
#ifndef UVHTTP_SRC_OBS_LINE_OUT_H
#define UVHTTP_SRC_OBS_LINE_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef enum uvhttp__line_outcome {
    UVHTTP__LINES_WRITTEN,
    UVHTTP__LINES_FAILED,     /* errno says why; ETIMEDOUT: nobody reads, and `wait` says that this is enough */
    UVHTTP__LINES_INTERRUPTED /* nobody reads, and `wait` wants the thread for something else; the lines stay */
} uvhttp__line_outcome_t;

/* One thread uses it at a time. */
typedef struct uvhttp__line_out {
    int fd;          /* -1: none, which is a failure of whoever opens it */
    bool plain_file; /* it never makes its writer wait for a reader */
    dev_t device;    /* of the file behind fd, by which another one is recognised */
    ino_t inode;
    char *data;       /* whole lines, which the owner appends */
    size_t size;      /* bytes of them */
    size_t head_done; /* bytes of the first line that are written: the disk was full, or a reader is slow */
    /* Asked when nobody reads, then every 100 ms. WRITTEN: continue to wait. */
    uvhttp__line_outcome_t (*wait)(void *user);
    void *user;
} uvhttp__line_out_t;

typedef struct uvhttp__line_counts {
    uint64_t lines, bytes; /* written: whole lines, and bytes including those of incomplete lines */
    uint64_t failed;       /* lines that are lost */
} uvhttp__line_counts_t;

/* Looks at what `fd` is. Call it when it may be another file than before; a line that was begun in that is written
 * whole then. */
void uvhttp__line_out_look(uvhttp__line_out_t *out);
/* Whether a line for `fd` would not wait. */
bool uvhttp__line_out_accepts(int fd);
/* Writes to another descriptor from now on. */
void uvhttp__line_out_use(uvhttp__line_out_t *out, int fd);
/* Writes what is there, and adds to *counts. A pipe gets whole lines, up to 4096 bytes at a time where they fit, so
 * that lines of several processes do not mix. FAILED: the lines are lost, except for one whose start is written: its
 * rest is kept, and is written first when writing works again, so that there are whole lines only. */
uvhttp__line_outcome_t uvhttp__line_out_flush(uvhttp__line_out_t *out, uvhttp__line_counts_t *counts);
/* What a failure loses. Returns how many lines. */
uint64_t uvhttp__line_out_lose(uvhttp__line_out_t *out);
uint64_t uvhttp__count_lines(const char *at, size_t size);

#endif
