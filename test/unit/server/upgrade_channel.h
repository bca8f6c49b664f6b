/* Owns: the descriptor by which a new process talks to the one that it replaces, in a process that has it already. */
#ifndef TEST_UNIT_SERVER_UPGRADE_CHANNEL_H
#define TEST_UNIT_SERVER_UPGRADE_CHANNEL_H

#include <fcntl.h>
#include <unistd.h>

#include <cmocka.h>

enum { CHANNEL = 3 };
#define VARIABLE "UVHTTP_UPGRADE_FD"

/* What has descriptor 3 in this process stays open meanwhile. */
static inline int put_at_channel(int fd) {
    int saved = fcntl(CHANNEL, F_DUPFD_CLOEXEC, 16);
    assert_int_equal(dup2(fd, CHANNEL), CHANNEL);
    close(fd);
    return saved;
}

static inline void restore_channel(int saved) {
    close(CHANNEL);
    if (saved < 0) return;
    assert_int_equal(dup2(saved, CHANNEL), CHANNEL);
    close(saved);
}

#endif
