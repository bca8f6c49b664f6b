/* Owns: a rate limiter whose buckets are in Redis: its route, who plays Redis, and in place of hiredis' connections
 * those of the simulated kernel. A decision comes from its key, so that the decision about another request is seen. */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <hiredis/sds.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uvhttp.h>

#include "sim.h"

enum { INPUT_MAX = 16384, WORDS_MAX = 8, SHA_SIZE = 40 };

typedef struct redis {
    sim_actor_t actor; /* the first, so that it can be cast */
    sim_conn_t *conn;
    sim_random_t random;
    uint32_t number;
    char input[INPUT_MAX];
    size_t input_size;
    char output[INPUT_MAX];
    size_t output_size;
    bool silent, resets, ends;
} redis_t;

const bool sim_has_redis = true;

static uvhttp_middleware_t limiter; /* .run is NULL: there is none */
static bool is_good, refuses_on_error;
static uint32_t timeout_ms, pending_max;
static uint64_t said_yes, said_no;
static atomic_uint passed; /* requests that Redis refuses or would have refused */
bool sim_redis_is_popular;
static sim_random_t moods;

/* --- decisions --- */

static bool allows(uint32_t tag) {
    return tag * 0x9E3779B1u >> 31;
}

int sim_redis_refusal(uint32_t tag) {
    return allows(tag) ? 0 : 429;
}

bool sim_redis_may_fail(void) {
    return !is_good && refuses_on_error;
}

static uvhttp_str_t key_of(uvhttp_request_t *req, void *user) {
    (void)user;
    return uvhttp_request_param(req, "tag");
}

static uvhttp_flow_t check_passed(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)res, (void)user;
    uint32_t tag = sim_request_number(req, "tag", 16);
    if (is_good && !sim_failing && !allows(tag)) sim_fail("Redis has refused %x, which passes", tag);
    passed += !allows(tag);
    return UVHTTP_NEXT;
}

/* --- who plays Redis --- */

static void finish(redis_t *redis) {
    if (redis->actor.done) return;
    sim_client_close(redis->conn);
    redis->actor.done = true;
    redis->actor.next_ns = SIM_NEVER;
}

static void say(redis_t *redis, const char *text) {
    size_t size = strlen(text);
    if (redis->output_size + size > INPUT_MAX) sim_fail("Redis has more questions than it may");
    memcpy(redis->output + redis->output_size, text, size);
    redis->output_size += size;
}

static void put_sha(const redis_t *redis, char *sha) {
    snprintf(sha, SHA_SIZE + 1, "%0*x", SHA_SIZE, redis->number);
}

static void decide(redis_t *redis, const char *const *words, uint32_t count) {
    char sha[SHA_SIZE + 1], text[64];
    put_sha(redis, sha);
    if (count != 6 || strcmp(words[1], sha) != 0 || strcmp(words[2], "1") != 0)
        sim_fail("Redis is asked for %s, and the script is %s", words[1], sha);
    const char *colon = strrchr(words[3], ':');
    if (!colon || strncmp(words[3], "sim:default:c:", 14) != 0) sim_fail("Redis is asked for the key %s", words[3]);
    uint32_t tag = (uint32_t)strtoul(colon + 1, NULL, 16);
    bool allowed = allows(tag);
    said_yes += allowed;
    said_no += !allowed;
    snprintf(text, sizeof text, "*3\r\n:%d\r\n:%u\r\n:1000\r\n", allowed, tag & 0xffff);
    say(redis, text);
}

/* False: it does something else. */
static bool behaves(redis_t *redis) {
    static const char *const wrong[] = {
        "-ERR busy\r\n", "+OK\r\n", "*2\r\n:1\r\n:1\r\n", "*3\r\n:1\r\n:-1\r\n:0\r\n", "$5000\r\n", "HTTP\r\n", ":\n"};
    if (is_good || !sim_one_in(&moods, 8)) return true;
    switch (sim_below(&moods, 5)) {
        case 0: redis->silent = true; break;
        case 1: redis->resets = true; break;
        case 2: redis->ends = true; break;
        case 3: redis->actor.next_ns = sim_now_ns + sim_log_uniform(&moods, 5000) * SIM_MS; return true;
        default: say(redis, wrong[sim_below(&moods, sizeof wrong / sizeof *wrong)]);
    }
    return false;
}

static void take_command(redis_t *redis, const char *const *words, uint32_t count) {
    char text[64], sha[SHA_SIZE + 1];
    sim_trace("Redis", redis->number, count);
    if (!behaves(redis)) return;
    put_sha(redis, sha);
    snprintf(text, sizeof text, "$%d\r\n%s\r\n", SHA_SIZE, sha);
    if (strcmp(words[0], "SCRIPT") == 0)
        say(redis, text);
    else if (strcmp(words[0], "EVALSHA") == 0)
        decide(redis, words, count);
    else
        sim_fail("Redis has a command %s", words[0]);
}

/* A number between `kind` and CRLF at *at; false: it is not there yet. */
static bool read_number(const redis_t *redis, char kind, size_t *at, uint32_t *number) {
    const char *line = redis->input + *at, *end = memchr(line, '\n', redis->input_size - *at);
    if (!end) return false;
    if (*line != kind || end[-1] != '\r') sim_fail("Redis has what is no command");
    *number = (uint32_t)strtoul(line + 1, NULL, 10);
    *at = (size_t)(end + 1 - redis->input);
    return true;
}

/* Bytes of the first command; 0: it is not whole. */
static size_t read_command(redis_t *redis) {
    const char *words[WORDS_MAX];
    size_t at = 0, ends[WORDS_MAX];
    uint32_t count, size;
    if (!read_number(redis, '*', &at, &count)) return 0;
    if (count == 0 || count > WORDS_MAX) sim_fail("Redis has a command of %u words", count);
    for (uint32_t i = 0; i < count; i++) {
        if (!read_number(redis, '$', &at, &size) || redis->input_size - at < size + 2) return 0;
        words[i] = redis->input + at;
        ends[i] = at + size;
        at += size + 2;
    }
    for (uint32_t i = 0; i < count; i++) redis->input[ends[i]] = '\0';
    take_command(redis, words, count);
    return at;
}

static void receive(redis_t *redis) {
    long got = sim_client_receive(redis->conn, redis->input + redis->input_size, INPUT_MAX - redis->input_size);
    if (got < 0) {
        finish(redis);
        return;
    }
    redis->input_size += (size_t)got;
    for (size_t size; !redis->resets && !redis->ends && !redis->silent && redis->input_size > 0;) {
        size = read_command(redis);
        if (size == 0) break;
        redis->input_size -= size;
        memmove(redis->input, redis->input + size, redis->input_size);
    }
    if (redis->silent) redis->input_size = 0;
}

static void respond(redis_t *redis) {
    size_t part = sim_log_uniform(&redis->random, (uint32_t)redis->output_size);
    size_t sent = sim_client_send(redis->conn, redis->output, part);
    redis->output_size -= sent;
    memmove(redis->output, redis->output + sent, redis->output_size);
    if (sent > 0 && redis->output_size > 0) redis->actor.next_ns = sim_now_ns + 1000;
}

static void step(sim_actor_t *actor) {
    redis_t *redis = (redis_t *)actor;
    actor->next_ns = SIM_NEVER;
    if (sim_server_has_closed(redis->conn)) {
        finish(redis);
        return;
    }
    if (!redis->resets && !redis->ends) receive(redis);
    if (actor->done || actor->next_ns != SIM_NEVER) return;
    if (redis->output_size > 0)
        respond(redis);
    else if (redis->resets)
        sim_client_reset(redis->conn);
    else if (redis->ends)
        sim_client_fin(redis->conn);
    if (redis->resets && redis->output_size == 0) finish(redis);
}

static void woken(sim_actor_t *actor) {
    redis_t *redis = (redis_t *)actor;
    uint64_t at = sim_now_ns + 1 + sim_below(&redis->random, 200) * UINT64_C(1000);
    bool takes_its_time = actor->next_ns != SIM_NEVER && !sim_server_has_closed(redis->conn);
    if (at < actor->next_ns && !takes_its_time) actor->next_ns = at;
}

static void free_redis(sim_actor_t *actor) {
    finish((redis_t *)actor);
    free(actor);
}

bool sim_redis_is_away(void) {
    return !is_good && sim_one_in(&moods, 4);
}

sim_actor_t *sim_redis_new(sim_conn_t *conn, uint64_t seed, uint32_t number) {
    redis_t *redis = calloc(1, sizeof *redis);
    if (!redis) abort();
    *redis = (redis_t){.actor = {.next_ns = SIM_NEVER, .step = step, .woken = woken, .free = free_redis},
                       .conn = conn,
                       .number = number,
                       .random = sim_random_of(seed, 0x70000 + number)};
    sim_actor_add(&redis->actor);
    return &redis->actor;
}

/* --- in place of hiredis' connections --- */

void __real_redisFree(redisContext *context);

redisContext *__wrap_redisConnectNonBlock(const char *host, int port) {
    (void)host;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    bool good = fd >= 0 && (connect(fd, (const void *)&address, sizeof address) == 0 || errno == EINPROGRESS);
    redisContext *context = redisConnectFd(fd);
    if (!context) abort();
    if (!good) context->err = REDIS_ERR_IO;
    if (!good) snprintf(context->errstr, sizeof context->errstr, "no connection");
    return context;
}

void __wrap_redisFree(redisContext *context) {
    if (context->fd >= 0) close(context->fd);
    context->fd = -1;
    __real_redisFree(context);
}

int __wrap_redisBufferWrite(redisContext *context, int *done) {
    const size_t size = sdslen(context->obuf);
    ssize_t sent = size ? send(context->fd, context->obuf, size, MSG_NOSIGNAL) : 0;
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        context->err = REDIS_ERR_IO;
        snprintf(context->errstr, sizeof context->errstr, "it has gone");
        return REDIS_ERR;
    }
    if (sent == (ssize_t)size)
        sdsclear(context->obuf);
    else if (sent > 0)
        (void)sdsrange(context->obuf, (int)sent, -1);
    *done = sdslen(context->obuf) == 0;
    return REDIS_OK;
}

/* --- life --- */

void sim_redis_reset(uint64_t seed) {
    moods = sim_random_of(seed, 0x4ed15);
    sim_redis_is_popular = !sim_crowd && sim_one_in(&moods, 8);
    is_good = !sim_crowd && sim_one_in(&moods, sim_redis_is_popular ? 4 : 2);
    refuses_on_error = sim_one_in(&moods, 2);
    timeout_ms = is_good ? 10000 : sim_log_uniform(&moods, 400);
    pending_max = is_good || sim_one_in(&moods, 2) ? 0 : 1 + sim_below(&moods, 3);
    said_yes = said_no = 0;
    passed = 0;
}

int sim_redis_add(uvhttp_server_t *server, uvhttp_handler_cb handler) {
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", SIM_REDIS);
    uvhttp_rate_limit_store_t store;
    limiter.run = NULL;
    const uvhttp_rate_limit_redis_options_t redis = {
        .address = address, .prefix = "sim:", .timeout_ms = timeout_ms, .pending_max = pending_max};
    int status = uvhttp_rate_limit_redis(&redis, &store);
    if (status != UVHTTP_OK) return status;
    limiter = uvhttp_rate_limit(&(uvhttp_rate_limit_options_t){
        .by = UVHTTP_RATE_LIMIT_BY_CALLBACK, .key = key_of, .store = &store, .refuse_on_error = refuses_on_error});
    uvhttp_group_t *group = uvhttp_group(server, "/quota");
    status = uvhttp_group_use(group, limiter); /* in any case: it is the server's then */
    if (status == UVHTTP_OK) status = uvhttp_group_use(group, (uvhttp_middleware_t){.run = check_passed});
    if (status == UVHTTP_OK && !uvhttp_group_get(group, "/:tag/:size/:ms", handler, NULL))
        status = uvhttp_server_error(server);
    if (status != UVHTTP_OK) limiter.run = NULL;
    return status;
}

void sim_redis_check_end(void) {
    uvhttp_rate_limit_stats_t stats;
    if (!limiter.run || uvhttp_rate_limit_stats(limiter, &stats) != UVHTTP_OK) return;
    sim_trace("quota", stats.allowed, stats.refused);
    if (stats.allowed > said_yes || stats.refused > said_no)
        sim_fail("Redis has allowed %llu requests and refused %llu, and %llu and %llu count",
                 (unsigned long long)said_yes, (unsigned long long)said_no, (unsigned long long)stats.allowed,
                 (unsigned long long)stats.refused);
    if (is_good && !sim_failing && stats.store_errors)
        sim_fail("%llu requests are not decided", (unsigned long long)stats.store_errors);
    if (passed > stats.store_errors)
        sim_fail("%u requests pass that Redis would refuse, and %llu are not decided", passed,
                 (unsigned long long)stats.store_errors);
}
