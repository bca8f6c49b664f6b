/* Lets system calls of pattern_server fail, without the cost of strace. Two ways to say which:
 *
 *   FAIL_CALLS=CALL:ERRNO[+ERRNO...]:EVERY[:AFTER][,...]   every EVERYth call after the first AFTER (default 40) is not
 *   made and fails with the next of the errors. SHORT: half of the bytes; PARTIAL: half of the entries of
 *   io_uring_enter. FAIL_CALLS_REPORT: a file that says at the end how many calls there were, and how many failed.
 *
 *   FAIL_CALLS_CONTROL=FILE   a page of memory that is shared with the test (test/torture/control.py): it says which
 *   call, or which allocation of the library, shall fail next, and counts them. */
#include "fail_calls.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/failing_allocator.h"

#define ERRORS_MAX 8
#define NAME_SIZE 24
#define CALLS_MAX 128
#define FRAMES_MAX 16

/* test/torture/control.py knows this layout. Calls are numbered from `counts` being set to 0 by the test. */
typedef struct control {
    char names[CALLS_MAX][NAME_SIZE];
    atomic_int_fast64_t call, error; /* call -1: none */
    atomic_uint_fast64_t first, last, failed;
    atomic_int_fast64_t clock_offset;
    uint64_t base;                           /* where the program is mapped */
    atomic_uint_fast64_t frames[FRAMES_MAX]; /* of the last failure */
    atomic_uint_fast64_t counts[CALLS_MAX];
    test_allocator_t allocator;
} control_t;

_Static_assert(FAIL_CALL_COUNT <= CALLS_MAX, "the page has room for all");

#define NAME(name) #name
static const char *const names[FAIL_CALL_COUNT] = {FAIL_CALLS(NAME)};

static struct rule {
    int errors[ERRORS_MAX];
    unsigned error_count;
    unsigned long every, after;
    atomic_ulong calls, failed;
} rules[FAIL_CALL_COUNT];
static control_t *control;

/* --- rules --- */

static int error_of(const char *name, size_t size) {
    static const struct {
        const char *name;
        int number;
    } known[] = {{"EAGAIN", EAGAIN},    {"EBUSY", EBUSY},         {"ENOMEM", ENOMEM},
                 {"EINTR", EINTR},      {"EPERM", EPERM},         {"EINVAL", EINVAL},
                 {"EPROTO", EPROTO},    {"EMFILE", EMFILE},       {"ENOSPC", ENOSPC},
                 {"EIO", EIO},          {"EFBIG", EFBIG},         {"ECONNABORTED", ECONNABORTED},
                 {"SHORT", FAIL_SHORT}, {"PARTIAL", FAIL_PARTIAL}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].name) == size && memcmp(known[i].name, name, size) == 0) return known[i].number;
    fprintf(stderr, "FAIL_CALLS: unknown error %.*s\n", (int)size, name);
    exit(2);
}

static void read_rule(char *text) {
    char *save = NULL, *name = strtok_r(text, ":", &save), *errors = strtok_r(NULL, ":", &save);
    char *every = strtok_r(NULL, ":", &save), *after = strtok_r(NULL, ":", &save);
    int call = 0;
    while (call < FAIL_CALL_COUNT && (!name || strcmp(names[call], name) != 0)) call++;
    if (call == FAIL_CALL_COUNT || !errors || !every) {
        fprintf(stderr, "FAIL_CALLS: expected CALL:ERRNO:EVERY\n");
        exit(2);
    }
    struct rule *rule = &rules[call];
    while (*errors && rule->error_count < ERRORS_MAX) {
        size_t size = strcspn(errors, "+");
        rule->errors[rule->error_count++] = error_of(errors, size);
        errors += size + (errors[size] == '+');
    }
    rule->after = after ? strtoul(after, NULL, 10) : 40;
    rule->every = strtoul(every, NULL, 10);
}

static int next_of_rule(struct rule *rule) {
    if (rule->every == 0) return 0;
    unsigned long number = atomic_fetch_add(&rule->calls, 1) + 1;
    if (number <= rule->after || (number - rule->after) % rule->every != 0) return 0;
    return rule->errors[atomic_fetch_add(&rule->failed, 1) % rule->error_count];
}

__attribute__((destructor)) static void report(void) {
    const char *path = getenv("FAIL_CALLS_REPORT");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    for (int i = 0; i < FAIL_CALL_COUNT; i++)
        if (rules[i].every) fprintf(file, "%s %lu %lu\n", names[i], rules[i].calls, rules[i].failed);
    fclose(file);
}

/* --- the page --- */

/* Who called, for the test's report. */
static void note_frames(void) {
    void *frames[FRAMES_MAX] = {NULL};
    int count = backtrace(frames, FRAMES_MAX);
    for (int i = 0; i < FRAMES_MAX; i++)
        atomic_store(&control->frames[i], i < count ? (uint64_t)(uintptr_t)frames[i] : 0);
}

static int first_module(struct dl_phdr_info *info, size_t size, void *base) {
    (void)size;
    *(uint64_t *)base = info->dlpi_addr;
    return 1;
}

static void map_control(const char *path) {
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *memory = fd < 0 || ftruncate(fd, sizeof *control) != 0
                       ? MAP_FAILED
                       : mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        perror(path);
        exit(2);
    }
    close(fd);
    void *frame;
    backtrace(&frame, 1); /* loads what it needs */
    control_t *made = memory;
    for (int i = 0; i < FAIL_CALL_COUNT; i++) memcpy(made->names[i], names[i], strlen(names[i]));
    dl_iterate_phdr(first_module, &made->base);
    test_allocator_install_at(&made->allocator, note_frames);
    control = made;
}

static int next_of_page(int call) {
    uint64_t number = atomic_fetch_add(&control->counts[call], 1) + 1;
    if (atomic_load(&control->call) != call) return 0;
    if (number < atomic_load(&control->first) || number > atomic_load(&control->last)) return 0;
    atomic_fetch_add(&control->failed, 1);
    note_frames();
    return (int)atomic_load(&control->error);
}

int fail_next(int call) {
    int error = next_of_rule(&rules[call]);
    return error == 0 && control ? next_of_page(call) : error;
}

long fail_clock_offset(void) {
    return control ? (long)atomic_load(&control->clock_offset) : 0;
}

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("FAIL_CALLS_CONTROL"), *text = getenv("FAIL_CALLS");
    if (path) map_control(path);
    if (!text) return;
    char *copy = strdup(text), *save = NULL;
    for (char *rule = strtok_r(copy, ",", &save); rule; rule = strtok_r(NULL, ",", &save)) read_rule(rule);
    free(copy);
}
