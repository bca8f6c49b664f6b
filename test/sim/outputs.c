/* Owns: what lines are written to: standard error and the file of the access log. Each is a plain file, a pipe or a
 * socket, with a reader that is quick, slow, or away for a while, and a disk that is full for a while. Lines are read
 * from it as their bytes are accepted. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel.h"

enum { PIPE_BUFFER = 4096, ACCESS_LOGS_MAX = 256 };

typedef enum kind_of_output { PLAIN, FIFO, SOCKET_OUTPUT } kind_of_output_t;

typedef struct output {
    kind_of_output_t kind;
    bool good; /* nothing fails, and nobody waits for it */
    sim_random_t random;
    uint64_t number;            /* its inode */
    uint32_t queued, capacity;  /* bytes that its reader has not read, and how many there may be */
    uint64_t read_ns, pause_ns; /* when the reader comes, and how often */
    uint32_t read_size;         /* what it reads then */
    uint64_t away_ns, back_ns;  /* between them there is no reader, or the disk is full */
    void (*take)(const char *line, const char *end);
    char *begun; /* a line whose end has not come */
    size_t begun_size;
    uint64_t lines, bytes;
    bool open;
} output_t;

static output_t standard_error, access_logs[ACCESS_LOGS_MAX];
static uint32_t access_log_count;
static sim_random_t of_access_logs;
static uint64_t outputs_made;

bool sim_logged;

static void output_open(output_t *output, sim_random_t *random, kind_of_output_t kind, bool good,
                        void (*take)(const char *line, const char *end)) {
    free(output->begun);
    uint64_t away_ns = sim_now_ns + sim_log_uniform(random, 60000) * SIM_MS;
    *output = (output_t){.kind = kind, .good = good, .number = ++outputs_made, .take = take, .open = true};
    output->capacity = (uint32_t)PIPE_BUFFER << sim_below(random, 5);
    output->pause_ns = sim_log_uniform(random, 2000) * SIM_MS;
    output->read_size = sim_log_uniform(random, 65536);
    output->away_ns = sim_one_in(random, 2) ? away_ns : SIM_NEVER;
    output->back_ns = away_ns + sim_log_uniform(random, 60000) * SIM_MS;
    output->random = sim_random_of(sim_random(random), 0x0f);
}

void sim_outputs_reset(uint64_t seed) {
    sim_random_t random = sim_random_of(seed, 0x0e);
    for (uint32_t i = 0; i < access_log_count; i++) {
        free(access_logs[i].begun);
        access_logs[i] = (output_t){.open = false};
    }
    access_log_count = 0;
    outputs_made = 0;
    of_access_logs = sim_random_of(seed, 0x0d);
    kind_of_output_t kind = sim_below(&random, 3);
    output_open(&standard_error, &random, kind, sim_one_in(&random, 3), sim_log_take);
}

/* --- the reader --- */

static void read_what_is_due(output_t *output) {
    if (output->good) output->queued = 0;
    while (output->queued > 0 && output->read_ns <= sim_now_ns) {
        output->queued -= output->queued < output->read_size ? output->queued : output->read_size;
        output->read_ns += output->pause_ns;
    }
    if (output->queued == 0) output->read_ns = sim_now_ns + output->pause_ns;
}

static bool is_away(const output_t *output) {
    return !output->good && sim_now_ns >= output->away_ns && sim_now_ns < output->back_ns;
}

static void take_bytes(output_t *output, const char *data, size_t size) {
    output->bytes += size;
    output->queued += output->kind == PLAIN ? 0 : (uint32_t)size;
    for (const char *stop = data + size; data < stop;) {
        const char *newline = memchr(data, '\n', (size_t)(stop - data));
        size_t part = newline ? (size_t)(newline - data) : (size_t)(stop - data);
        output->begun = realloc(output->begun, output->begun_size + part + 1);
        if (!output->begun) abort();
        memcpy(output->begun + output->begun_size, data, part);
        output->begun_size += part;
        output->begun[output->begun_size] = '\0';
        if (!newline) return;
        output->lines++;
        output->take(output->begun, output->begun + output->begun_size);
        output->begun_size = 0;
        data = newline + 1;
    }
}

/* --- what the server calls --- */

static output_t *output_of(int fd) {
    if (fd == STDERR_FILENO) return sim_logged ? &standard_error : NULL;
    return sim_is_simulated(fd) ? sim_output_of(fd) : NULL;
}

bool sim_output_is(int fd) {
    return output_of(fd) != NULL;
}

uint32_t sim_output_events(int fd) {
    output_t *output = output_of(fd);
    read_what_is_due(output);
    if (output->kind == PLAIN) return POLLOUT;
    if (is_away(output)) return POLLOUT | POLLERR;
    uint32_t left = output->capacity - output->queued;
    return left >= (output->kind == FIFO ? (uint32_t)PIPE_BUFFER : 1) ? POLLOUT : 0;
}

static ssize_t refuse(int error) {
    errno = error;
    return -1;
}

static ssize_t refuse_for_want_of_reader(void) {
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    if (!sigismember(&blocked, SIGPIPE)) sim_fail("SIGPIPE ends the process");
    return refuse(EPIPE);
}

static ssize_t write_plain(output_t *output, const char *data, size_t size) {
    size_t part = sim_share(&output->random, size);
    if (is_away(output) && (part == size || sim_one_in(&output->random, 2))) return refuse(ENOSPC);
    if (sim_one_in(&output->random, 64)) return refuse(EIO);
    take_bytes(output, data, part);
    return (ssize_t)part;
}

ssize_t sim_output_write(int fd, const char *data, size_t size) {
    output_t *output = output_of(fd);
    if (fd == STDERR_FILENO) sim_log_check_writer();
    read_what_is_due(output);
    sim_trace("lines", (uint64_t)output->kind, size);
    if (output->good) {
        take_bytes(output, data, size);
        return (ssize_t)size;
    }
    if (sim_one_in(&output->random, 32)) return refuse(EINTR);
    if (output->kind == PLAIN) return write_plain(output, data, size);
    if (is_away(output)) return refuse_for_want_of_reader();
    size_t left = output->capacity - output->queued;
    if (output->kind == SOCKET_OUTPUT) {
        if (left == 0 || sim_one_in(&output->random, 16)) return refuse(EAGAIN);
        size = sim_share(&output->random, size < left ? size : left);
    } else if (size > left) {
        sim_fail("a write of %zu bytes to a pipe that has %zu left: its writer waits", size, left);
    }
    take_bytes(output, data, size);
    return (ssize_t)size;
}

int sim_output_stat(int fd, struct stat *info) {
    const output_t *output = output_of(fd);
    static const mode_t modes[] = {[PLAIN] = S_IFREG, [FIFO] = S_IFIFO, [SOCKET_OUTPUT] = S_IFSOCK};
    *info = (struct stat){.st_mode = modes[output->kind], .st_dev = 1, .st_ino = (ino_t)output->number};
    return 0;
}

/* --- the file of the access log --- */

bool sim_access_log_is_good(void) {
    return access_log_count == 0 || access_logs[0].good;
}

/* Each time it is another file, as after a rotation. The first is always there. */
int sim_access_log_open(void) {
    static const int errors[] = {EMFILE, ENOSPC, EACCES};
    const bool first = access_log_count == 0;
    if (access_log_count == ACCESS_LOGS_MAX || (!first && sim_one_in(&of_access_logs, 4)))
        return (int)refuse(errors[sim_below(&of_access_logs, 3)]);
    int fd = sim_descriptor_new(OUTPUT);
    if (fd < 0) return -1;
    output_t *output = &access_logs[access_log_count++];
    kind_of_output_t kind = first ? sim_below(&of_access_logs, 2) : access_logs[0].kind;
    bool good = first ? sim_one_in(&of_access_logs, 2) : access_logs[0].good;
    output_open(output, &of_access_logs, kind, good, sim_access_log_take);
    sim_find(fd, "open")->output = output;
    sim_trace("access log", (uint64_t)kind, (uint64_t)fd);
    return fd;
}

uint64_t sim_access_log_lines(void) {
    uint64_t lines = 0;
    for (uint32_t i = 0; i < access_log_count; i++) lines += access_logs[i].lines;
    return lines;
}

/* --- the end of the log --- */

bool sim_standard_error_is_good(void) {
    return standard_error.good || !sim_logged;
}

/* From now on everything is accepted. */
void sim_standard_error_relieve(void) {
    standard_error.good = true;
}

uint64_t sim_standard_error_lines(uint64_t *bytes) {
    if (standard_error.begun_size > 0) sim_fail("the log ends inside of a line: %s", standard_error.begun);
    *bytes = standard_error.bytes;
    return standard_error.lines;
}
