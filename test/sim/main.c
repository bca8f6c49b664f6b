/* Owns: running seeds: `sim [options] FIRST [COUNT]`. Random numbers, the trace, memory that is counted and fails on
 * purpose, and making a failing run smaller. See docs/internals/simulation.md. */
#include <endian.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uvhttp.h>

#include "sim.h"
#include "tls.h"

/* A run takes milliseconds, with a sanitizer tens of them: longer is a loop that asks the kernel for nothing. */
#define SEED_SECONDS_MAX 30
#define CROWD_SECONDS_MAX 300

bool sim_verbose;

static uint64_t seed_now, trace_hash;
static sim_drop_t dropped;
static bool shrinking;

/* --- random numbers --- */

uint64_t sim_random(sim_random_t *random) { /* splitmix64 */
    uint64_t z = random->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

uint32_t sim_below(sim_random_t *random, uint32_t below) {
    return below ? (uint32_t)(sim_random(random) % below) : 0;
}

uint32_t sim_log_uniform(sim_random_t *random, uint32_t max) {
    if (max <= 1) return 1;
    uint32_t bits = 32 - (uint32_t)__builtin_clz(max);
    uint32_t bound = (uint32_t)(UINT64_C(1) << (1 + sim_below(random, bits)));
    return 1 + sim_below(random, bound < max ? bound : max);
}

sim_random_t sim_random_of(uint64_t seed, uint64_t stream) {
    sim_random_t random = {.state = seed * UINT64_C(0xD1342543DE82EF95) ^ stream * UINT64_C(0xA0761D6478BD642F)};
    (void)sim_random(&random);
    return random;
}

/* --- bytes with a tag --- */

/* Whole words from the next multiple of 8 on; what is before and behind them byte by byte. */
void sim_fill(char *out, uint32_t tag, uint64_t offset, size_t size) {
    size_t i = 0;
    for (; i < size && (offset + i) % 8; i++) out[i] = (char)sim_byte(tag, offset + i);
    for (; i + 8 <= size; i += 8) {
        uint64_t word = htole64(sim_word(tag, (offset + i) / 8));
        memcpy(out + i, &word, 8);
    }
    for (; i < size; i++) out[i] = (char)sim_byte(tag, offset + i);
}

size_t sim_mismatch(const char *data, uint32_t tag, uint64_t offset, size_t size) {
    for (size_t i = 0; i < size; i++) {
        for (uint64_t word; (offset + i) % 8 == 0 && i + 8 <= size; i += 8) {
            memcpy(&word, data + i, 8);
            if (le64toh(word) != sim_word(tag, (offset + i) / 8)) break;
        }
        if (i < size && (unsigned char)data[i] != sim_byte(tag, offset + i)) return i;
    }
    return size;
}

/* --- the trace --- */

static void mix(uint64_t value) {
    trace_hash = (trace_hash ^ value) * UINT64_C(0x100000001B3);
    trace_hash ^= trace_hash >> 32;
}

void sim_trace(const char *event, uint64_t a, uint64_t b) {
    mix((unsigned char)event[0] + strlen(event));
    mix(a);
    mix(b);
    mix(sim_now_ns);
    if (sim_verbose)
        fprintf(stderr, "%14.6f ms  %-20s %" PRIu64 " %" PRIu64 "\n", (double)sim_now_ns / 1e6, event, a, b);
}

void sim_trace_bytes(const void *data, size_t size) {
    const unsigned char *bytes = data;
    for (; size >= 8; bytes += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        mix(word);
    }
    for (size_t i = 0; i < size; i++) mix(bytes[i]);
}

void sim_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (!shrinking || sim_verbose) {
        fprintf(stderr, "sim: seed %" PRIu64 " fails: ", seed_now);
        vfprintf(stderr, format, arguments);
        fprintf(stderr, "\n");
    }
    va_end(arguments);
    sim_files_end();
    _exit(1);
}

ssize_t __real_write(int fd, const void *data, size_t size);

static void on_crash(int number) {
    char line[64];
    int size = snprintf(line, sizeof line, "sim: seed %" PRIu64 " fails: signal %d\n", seed_now, number);
    if (size > 0 && !shrinking) (void)!__real_write(STDERR_FILENO, line, (size_t)size);
    sim_files_end();
    _exit(1);
}

/* --- memory --- */

static struct {
    uint64_t live, count, failed;
    uint64_t fail_at;  /* the allocation that fails; 0: none */
    uint32_t fails_in; /* from there on one in so many fails, too; 0: none */
    sim_random_t random;
    uint32_t accepts; /* until the connection for which memory is missing; 0: there is none */
} memory;

/* What a connection asks for when it begins is little of all that is asked for: half of the failures are there. */
void sim_memory_accepts(void) {
    if (memory.accepts == 0 || --memory.accepts > 0) return;
    memory.fail_at = memory.count + 1 + sim_below(&memory.random, 4);
}

typedef struct block {
    size_t size;
    uint64_t live; /* MARK while it is */
} block_t;

#define MARK UINT64_C(0x6c697665626c6f63)

static bool fails(void) {
    memory.count++;
    bool again = memory.fails_in > 0 && memory.count > memory.fail_at && sim_one_in(&memory.random, memory.fails_in);
    if (memory.count != memory.fail_at && !again) return false;
    memory.failed++;
    sim_trace("allocation fails", memory.count, 0);
    return true;
}

bool sim_memory_fails(void) {
    return fails();
}

bool sim_memory_has_failed(void) {
    return memory.failed > 0;
}

static void *take(size_t size, bool zero) {
    block_t *block = fails() ? NULL : malloc(sizeof *block + size);
    if (!block) return NULL;
    memset(block + 1, zero ? 0 : 0xa5, size); /* what nobody has written must not decide anything */
    *block = (block_t){.size = size, .live = MARK};
    memory.live++;
    return block + 1;
}

static void give(void *data) {
    if (!data) return;
    block_t *block = (block_t *)data - 1;
    if (block->live != MARK) sim_fail("memory is released twice");
    block->live = 0;
    memset(data, 0xd7, block->size);
    memory.live--;
    free(block);
}

static void *hook_malloc(size_t size, void *user) {
    (void)user;
    return take(size, false);
}

static void *hook_calloc(size_t count, size_t size, void *user) {
    (void)user;
    size_t all;
    return __builtin_mul_overflow(count, size, &all) ? NULL : take(all, true);
}

static void *hook_realloc(void *data, size_t size, void *user) {
    (void)user;
    void *made = take(size, false);
    if (!made) return NULL;
    if (data) {
        size_t before = ((block_t *)data - 1)->size;
        memcpy(made, data, before < size ? before : size);
        give(data);
    }
    return made;
}

static void hook_free(void *data, void *user) {
    (void)user;
    give(data);
}

/* --- a seed --- */

static void run_server(uvhttp_server_t *server) {
    int status = sim_server_listen(server);
    if (status != UVHTTP_OK && !memory.failed) sim_fail("listen: %s", uvhttp_server_error_text(server));
    sim_server = server;
    sim_log_server_runs(true);
    sim_tcp_start(seed_now);
    if (status == UVHTTP_OK) status = uvhttp_server_run(server, NULL);
    sim_log_server_runs(false);
    if (status != UVHTTP_OK && !memory.failed && !sim_ring_has_died)
        sim_fail("run: %s", uvhttp_server_error_text(server));
    sim_tcp_join();
    sim_world_check_end();
    sim_server_check_counters(server);
    sim_server_check_end();
    sim_jobs_check_end();
    uvhttp_server_free(server); /* its last spans go to a collector */
    sim_server = NULL;
    sim_server_check_log();
}

static uint64_t run_seed(uint64_t seed) {
    seed_now = seed;
    alarm(SEED_SECONDS_MAX);
    trace_hash = 0xcbf29ce484222325;
    sim_random_t random = sim_random_of(seed, 0x3a);
    bool memory_fails = sim_one_in(&random, 4);
    uint64_t live_before = memory.live;
    sim_kernel_reset(seed);
    sim_scheduler_reset(seed);
    sim_files_reset(seed);
    sim_editor_reset(seed);
    sim_disk_reset(seed);
    sim_outputs_reset(seed);
    sim_server_plan(seed);
    sim_log_reset(seed);
    if (sim_crowd) alarm(CROWD_SECONDS_MAX);
    sim_world_new(seed, &dropped, memory_fails);
    memory.count = memory.failed = 0;
    memory.random = random;
    memory.fail_at = memory_fails ? sim_log_uniform(&random, 4000) : 0;
    memory.accepts = memory_fails && sim_one_in(&random, 2) ? 1 + sim_below(&random, 8) : 0;
    if (memory.accepts > 0) memory.fail_at = UINT64_MAX; /* until then */
    memory.fails_in = memory_fails && sim_one_in(&random, 2) ? 1 + sim_log_uniform(&random, 200) : 0;
    uvhttp_server_t *server = sim_server_new(seed);
    if (!server && !memory.failed) sim_fail("no server");
    if (server && sim_is_guest)
        sim_guest_run(server, seed);
    else if (server)
        run_server(server);
    sim_tcp_end();
    sim_log_end();
    sim_world_free();
    if (sim_open_descriptors()) sim_fail("%u descriptors are open at the end", sim_open_descriptors());
    if (memory.live != live_before) sim_fail("%" PRId64 " allocations leaked", (int64_t)(memory.live - live_before));
    return trace_hash;
}

/* --- a smaller run that fails, too --- */

static bool child_fails(uint64_t seed) {
    pid_t child = fork();
    if (child == 0) {
        static sim_drop_t of_seed;
        of_seed = dropped;
        dropped = (sim_drop_t){0};
        (void)run_seed(0); /* what a process has once is there before */
        dropped = of_seed;
        (void)run_seed(seed);
        _exit(0);
    }
    int status = 0;
    (void)waitpid(child, &status, 0);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

/* Clients first..first + count - 1. */
static void try_to_drop_clients(uint64_t seed, uint32_t first, uint32_t count) {
    bool before[SIM_CLIENTS_MAX];
    memcpy(before, dropped.clients, sizeof before);
    bool all_are = true;
    for (uint32_t i = first; i < first + count; i++) all_are = all_are && before[i];
    if (all_are) return;
    for (uint32_t i = first; i < first + count; i++) dropped.clients[i] = true;
    if (!child_fails(seed)) memcpy(dropped.clients, before, sizeof before);
}

static void try_to_drop_op(uint64_t seed, uint32_t client, uint32_t op) {
    uint32_t before = dropped.ops[client];
    dropped.ops[client] |= UINT32_C(1) << op;
    if (before != dropped.ops[client] && !child_fails(seed)) dropped.ops[client] = before;
}

/* Halves, quarters, ... and single ones: a crowd would take too long one by one. */
static void drop_what_can(uint64_t seed, uint32_t count) {
    uint32_t step = 1;
    while (2 * step < count) step *= 2;
    for (; step > 0; step /= 2)
        for (uint32_t first = 0; first < count; first += step)
            try_to_drop_clients(seed, first, step < count - first ? step : count - first);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t op = sim_world_ops(i); op-- > 0 && !dropped.clients[i];) try_to_drop_op(seed, i, op);
}

static void print_rest(uint64_t seed, uint32_t count) {
    fprintf(stderr, "sim: seed %" PRIu64 " still fails with\n", seed);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t op = 0; op < sim_world_ops(i) && !dropped.clients[i]; op++) {
            char text[160];
            if (dropped.ops[i] >> op & 1) continue;
            sim_world_describe(i, op, text, sizeof text);
            fprintf(stderr, "  client %u: %s\n", i, text);
        }
    }
    shrinking = false;
    (void)child_fails(seed); /* says what is wrong */
    fprintf(stderr, "replay: sim");
    for (uint32_t i = 0, end; i < count; i = end + 1) {
        for (end = i; end < count && dropped.clients[end];) end++;
        if (end > i) fprintf(stderr, " --drop %u-%u", i, end - 1);
    }
    for (uint32_t i = 0; i < count; i++)
        if (dropped.ops[i]) fprintf(stderr, " --drop-ops %u:%x", i, dropped.ops[i]);
    fprintf(stderr, " --trace %" PRIu64 "\n", seed);
}

static int shrink(uint64_t seed) {
    shrinking = true;
    if (!child_fails(seed)) {
        fprintf(stderr, "sim: seed %" PRIu64 " does not fail\n", seed);
        return 0;
    }
    sim_editor_reset(seed);
    sim_server_plan(seed);
    sim_world_new(seed, &dropped, false);
    uint32_t count = sim_world_clients();
    drop_what_can(seed, count);
    print_rest(seed, count);
    return 1;
}

static _Noreturn void usage(void) {
    fprintf(
        stderr,
        "usage: sim [--trace] [--twice] [--shrink] [--crowd] [--drop FIRST-LAST]... [--drop-ops CLIENT:MASK]... FIRST "
        "[COUNT]\n--crowd: seeds with many clients only; FIRST is the first one's number among them\n");
    exit(2);
}

int main(int argc, char **argv) {
    bool twice = false, smaller = false, trace = false;
    uint64_t step = 1;
    int at = 1;
    for (; at < argc && argv[at][0] == '-'; at++) {
        if (strcmp(argv[at], "--trace") == 0)
            trace = true;
        else if (strcmp(argv[at], "--twice") == 0)
            twice = true;
        else if (strcmp(argv[at], "--shrink") == 0)
            smaller = true;
        else if (strcmp(argv[at], "--crowd") == 0)
            step = SIM_CROWD_EVERY;
        else if (strcmp(argv[at], "--drop") == 0 && at + 1 < argc && strchr(argv[at + 1], '-')) {
            unsigned long first = strtoul(argv[++at], NULL, 10), last = strtoul(strchr(argv[at], '-') + 1, NULL, 10);
            for (; first <= last && first < SIM_CLIENTS_MAX; first++) dropped.clients[first] = true;
        } else if (strcmp(argv[at], "--drop-ops") == 0 && at + 1 < argc && strchr(argv[at + 1], ':')) {
            unsigned long client = strtoul(argv[++at], NULL, 10);
            if (client < SIM_CLIENTS_MAX) dropped.ops[client] = (uint32_t)strtoul(strchr(argv[at], ':') + 1, NULL, 16);
        } else
            usage();
    }
    if (at >= argc) usage();
    uint64_t first = strtoull(argv[at], NULL, 10), count = at + 1 < argc ? strtoull(argv[at + 1], NULL, 10) : 1;
    uvhttp_allocator_t hook = {hook_malloc, hook_calloc, hook_realloc, hook_free, NULL};
    if (uvhttp_set_allocator(&hook) != UVHTTP_OK) return 2;
    (void)uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    static const int crashes[] = {SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE, SIGALRM};
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) signal(crashes[i], on_crash);
    if (!sim_tls_init()) return 2;
    sim_files_init();
    (void)atexit(sim_files_end);
    if (step > 1) first = first * step + step - 1;
    if (smaller) return shrink(first);
    static sim_drop_t of_seed;
    of_seed = dropped;
    dropped = (sim_drop_t){0};
    (void)run_seed(0); /* what a process has once is there before */
    dropped = of_seed;
    sim_verbose = trace;
    uint64_t all = 0;
    for (uint64_t seed = first; seed < first + count * step; seed += step) {
        uint64_t hash = run_seed(seed);
        if (twice && run_seed(seed) != hash) sim_fail("another trace in a second run");
        if (count == 1) printf("seed %" PRIu64 ": trace %016" PRIx64 ", %" PRIu64 " steps\n", seed, hash, sim_steps());
        all = all * UINT64_C(0x100000001B3) + hash;
    }
    if (count > 1) printf("%" PRIu64 " seeds from %" PRIu64 ": traces %016" PRIx64 "\n", count, first, all);
    return 0;
}
