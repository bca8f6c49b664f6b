#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/io.h"
#include "obs/counters.h"
#include "support/uring.h"

static bool works;

static int try_uring(void) {
    uvhttp__counters_t *counters = aligned_alloc(64, (sizeof *counters + 63) / 64 * 64);
    uvhttp__loop_options_t options = {
        .engine = UVHTTP__ENGINE_URING, .receive_buffer_size = 16384, .receive_buffer_count = 64, .counters = counters};
    uvhttp__loop_t *loop = NULL;
    return uvhttp__loop_new(&options, &loop) == UVHTTP_OK ? 0 : 1;
}

/* It is tried in a child: what the kernel cleans up after a ring interrupts system calls of the process that has made
 * it, and a test may count on being the first. */
static __attribute__((constructor)) void skip_uring_where_it_does_not_work(void) {
    int status = 1;
    pid_t child = UVHTTP_WITH_URING ? fork() : -1;
    if (child == 0) _exit(try_uring());
    works = child > 0 && waitpid(child, &status, 0) == child && status == 0;
    if (works) return;
    print_message("io_uring is not available here: its variants are skipped\n");
    cmocka_set_skip_filter("*(*uring*");
}

bool uring_works(void) {
    return works;
}
