#include "support/process.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "io/io.h"

bool again_as_user;

uint64_t clock_ms(void) {
    return uvhttp__clock_ns() / 1000000u;
}

struct timespec deadline_in(int timeout_ms) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += timeout_ms / 1000;
    at.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

void wait_semaphore(sem_t *semaphore) {
    struct timespec until = deadline_in(TIMEOUT_MS);
    int problem;
    while ((problem = sem_timedwait(semaphore, &until)) != 0 && errno == EINTR) continue;
    assert_int_equal(problem, 0);
}

void remove_tree(const char *folder) {
    char command[256];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

int count_fds(void) {
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    if (!folder) return -1;
    while (readdir(folder)) count++;
    closedir(folder);
    return count;
}

void warm_up_epoll(void) {
    static bool done;
    uv_loop_t loop;
    if (done || uv_loop_init(&loop) != 0) return;
    uv_loop_close(&loop);
    done = true;
}

int run_again_as_user(int (*group)(void)) {
    int failed = group();
    if (geteuid() != 0) return failed;
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) {
        struct rlimit small = {.rlim_cur = 64 * 1024, .rlim_max = 64 * 1024};
        if (setrlimit(RLIMIT_MEMLOCK, &small) != 0 || setgid(65534) != 0 || setuid(65534) != 0) _exit(1);
        prctl(PR_SET_DUMPABLE, 1); /* for /proc/self and the leak checker */
        again_as_user = true;
        print_message("--- again as uid %d with 64 KiB of RLIMIT_MEMLOCK\n", (int)getuid());
        exit(group());
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child) return 1;
    return failed || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}
