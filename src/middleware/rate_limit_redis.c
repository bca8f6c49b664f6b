/* Owns: buckets in a Redis server, which several processes and machines share. May include: base, obs.
 *
 * A thread of its own talks to Redis, because hiredis' blocking parts and a slow network must not be a loop's. Loops
 * hand it questions through a queue; it sends them without waiting for the answers to those before (pipelining), and
 * answers come in the same order. A question is decided exactly once: by its answer, by its deadline, or because Redis
 * is away. */
#include <arpa/inet.h>
#include <errno.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/ip.h"
#include "base/mpsc.h"
#include "base/str.h"
#include "base/thread.h"
#include "middleware/middleware.h"
#include "middleware/rate_limit.h"

#define NAME "rate_limit_redis"
#define PREFIX_SIZE_MAX 64
#define SECRET_SIZE_MAX 512
#define TIMEOUT_MS_MAX 10000
#define PENDING_MAX 1000000
#define KEY_PLAIN_MAX 64 /* bytes of a key that are sent as they are; of longer ones 128 bits of hash */
#define BACKOFF_MS_MIN 50
#define BACKOFF_MS_MAX 2000
#define DEAD_MS 2000        /* with an answer that is so late the connection is given up */
#define REPLY_SIZE_MAX 4096 /* bytes of an answer; those that are expected have less than 100, errors some hundred */
#define AWAY_LINE_S 10      /* a line that says that Redis is away, at most every so many seconds */
#define MS UINT64_C(1000000)

/* The bucket of rate_limit.h. Times are sixteenths of a microsecond since 9 October 2025: whole numbers that a double
 * holds exactly until 2043. The clock is Redis' own, so that machines need not agree. */
static const char script[] =
    "local t = redis.call('TIME')\n"
    "local now = ((tonumber(t[1]) - 1760000000) * 1000000 + tonumber(t[2])) * 16\n"
    "local interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2])\n"
    "local capacity = interval * burst\n"
    "local used = (tonumber(redis.call('GET', KEYS[1]) or now) or now) - now\n"
    "if used < 0 then used = 0 end\n"
    "local allowed = 0\n"
    "if used + interval <= capacity then\n"
    "  allowed = 1\n"
    "  used = used + interval\n"
    "  redis.call('SET', KEYS[1], string.format('%.0f', now + used), 'PX', math.ceil(used / 16000) + 1)\n"
    "end\n"
    "local remaining = 0\n"
    "if used < capacity then remaining = math.floor((capacity - used) / interval) end\n"
    "return {allowed, remaining, math.ceil((used + (remaining + 1) * interval - capacity) / 16)}\n";

/* A question. Its key is the whole key in Redis. */
typedef struct job {
    uvhttp__mpsc_node_t node;           /* first; in the queue of the loops */
    struct job *next;                   /* in a list of the thread's */
    uvhttp_rate_limit_ticket_t *ticket; /* NULL: decided; the answer is awaited only to be thrown away */
    uint64_t deadline_ns;
    uint64_t interval; /* sixteenths of a microsecond */
    uint32_t burst;
    size_t key_size;
    char key[];
} job_t;

typedef struct list {
    job_t *first, **last;
} list_t;

typedef enum state { AWAY, CONNECTING, PREPARING, READY } state_t;

typedef struct store {
    char address_text[128];
    char path[108]; /* of a Unix socket; "": none */
    char host[UVHTTP__IP_TEXT_MAX];
    int port;
    char *user, *password; /* NULL: none */
    uint32_t database;
    char prefix[PREFIX_SIZE_MAX + 1];
    uint32_t timeout_ms, pending_max;

    pthread_mutex_t lock; /* starting the thread */
    bool running;         /* under the lock */
    atomic_bool started;
    pthread_t thread;
    int wake; /* eventfd */
    atomic_bool stopping;
    uvhttp__mpsc_t queue;
    _Atomic uint32_t pending; /* questions that are not decided, or whose answer is still awaited */
    _Atomic uint64_t allowed, refused;

    /* The thread's. */
    redisContext *redis; /* connects, and makes and writes commands; answers are read here, with a bound */
    state_t state;
    char input[REPLY_SIZE_MAX];
    size_t input_size;
    bool told_away;     /* the log has been told */
    uint64_t told_ns;   /* when, the last time; 0: never */
    uint32_t untold;    /* how often it has gone since then */
    unsigned preparing; /* answers to AUTH, SELECT and SCRIPT LOAD that are still to come */
    char sha[41];
    list_t waiting, sent;
    uint64_t retry_ns, connect_until_ns;
    uint32_t backoff_ms;
} store_t;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- lists of jobs --- */

static void list_init(list_t *list) {
    list->first = NULL;
    list->last = &list->first;
}

static void list_add(list_t *list, job_t *job) {
    job->next = NULL;
    *list->last = job;
    list->last = &job->next;
}

static job_t *list_take(list_t *list) {
    job_t *job = list->first;
    if (!job) return NULL;
    list->first = job->next;
    if (!list->first) list->last = &list->first;
    return job;
}

static void decide(job_t *job, int status, const uvhttp_rate_limit_decision_t *decision) {
    uvhttp_rate_limit_ticket_t *ticket = job->ticket;
    job->ticket = NULL;
    if (ticket) uvhttp_rate_limit_decided(ticket, status, decision);
}

static void end_job(store_t *store, job_t *job) {
    atomic_fetch_sub_explicit(&store->pending, 1, memory_order_relaxed);
    uvhttp__free(job);
}

static void fail_all(store_t *store, list_t *list, int status) {
    for (job_t *job; (job = list_take(list)) != NULL;) {
        decide(job, status, NULL);
        end_job(store, job);
    }
}

/* --- the connection --- */

/* Not for each time that it comes and goes, which may be many in a second. */
static void tell_away(store_t *store, const char *why) {
    uint64_t now = now_ns();
    if (store->told_away) return;
    if (store->told_ns != 0 && now - store->told_ns < AWAY_LINE_S * 1000 * MS) {
        store->untold++;
        return;
    }
    UVHTTP_LOG_WARN(NAME ": %s is away: %s; requests are decided by refuse_on_error until it is back (%" PRIu32
                         " more times since the last such line)",
                    store->address_text, why, store->untold);
    store->told_away = true;
    store->told_ns = now;
    store->untold = 0;
}

/* Only a decision shows that it works: one that cannot write (a replica, maxmemory) takes connections and scripts. */
static void be_there(store_t *store) {
    if (store->told_away) UVHTTP_LOG_WARN(NAME ": %s is there", store->address_text);
    store->told_away = false;
    store->backoff_ms = BACKOFF_MS_MIN;
}

static void go_away(store_t *store, const char *why) {
    tell_away(store, why);
    if (store->redis) redisFree(store->redis);
    store->redis = NULL;
    store->state = AWAY;
    store->retry_ns = now_ns() + store->backoff_ms * MS;
    store->backoff_ms = store->backoff_ms * 2 < BACKOFF_MS_MAX ? store->backoff_ms * 2 : BACKOFF_MS_MAX;
    fail_all(store, &store->sent, UVHTTP_E_ABORTED);
    fail_all(store, &store->waiting, UVHTTP_E_ABORTED);
}

static void connect_now(store_t *store) {
    store->redis =
        store->path[0] ? redisConnectUnixNonBlock(store->path) : redisConnectNonBlock(store->host, store->port);
    if (!store->redis || store->redis->err) {
        go_away(store, store->redis ? store->redis->errstr : "out of memory");
        return;
    }
    store->state = CONNECTING;
    store->input_size = 0;
    store->connect_until_ns = now_ns() + DEAD_MS * MS;
}

/* True: the command is in the buffer, and an answer will come for it. */
static bool append(store_t *store, int count, const char **words, const size_t *sizes) {
    return redisAppendCommandArgv(store->redis, count, words, sizes) == REDIS_OK;
}

static bool append_text(store_t *store, const char *const *words, int count) {
    const char *copy[4];
    size_t sizes[4];
    for (int i = 0; i < count; i++) {
        copy[i] = words[i];
        sizes[i] = strlen(words[i]);
    }
    return append(store, count, copy, sizes);
}

static bool prepare_command(store_t *store, const char *const *words, int count) {
    if (!append_text(store, words, count)) return false;
    store->preparing++;
    return true;
}

static void prepare(store_t *store) {
    char number[16];
    snprintf(number, sizeof number, "%" PRIu32, store->database);
    bool sent = true;
    store->preparing = 0;
    store->state = PREPARING;
    if (store->password && store->user)
        sent = prepare_command(store, (const char *const[]){"AUTH", store->user, store->password}, 3);
    else if (store->password)
        sent = prepare_command(store, (const char *const[]){"AUTH", store->password}, 2);
    if (sent && store->database > 0) sent = prepare_command(store, (const char *const[]){"SELECT", number}, 2);
    if (sent) sent = prepare_command(store, (const char *const[]){"SCRIPT", "LOAD", script}, 3);
    if (!sent) go_away(store, "out of memory");
}

/* --- questions and answers --- */

static bool ask(store_t *store, job_t *job) {
    char interval[24], burst[16];
    snprintf(interval, sizeof interval, "%" PRIu64, job->interval);
    snprintf(burst, sizeof burst, "%" PRIu32, job->burst);
    const char *words[] = {"EVALSHA", store->sha, "1", job->key, interval, burst};
    const size_t sizes[] = {7, strlen(store->sha), 1, job->key_size, strlen(interval), strlen(burst)};
    return append(store, 6, words, sizes);
}

static void ask_all(store_t *store) {
    for (job_t *job; store->state == READY && (job = list_take(&store->waiting)) != NULL;) {
        if (ask(store, job)) {
            list_add(&store->sent, job);
        } else {
            decide(job, UVHTTP_E_NOMEM, NULL);
            end_job(store, job);
        }
    }
}

/* --- answers ---
 *
 * RESP2, as far as it is expected: a line, a string, or three integers. Whatever else a server sends, however long it
 * says that it is, ends the connection before anything is kept for it. */

#define NUMBER_COUNT 3 /* of a decision */

typedef struct reply {
    char type; /* '+' '-' ':' '$' '*' */
    uvhttp_str_t text;
    int64_t numbers[NUMBER_COUNT];
} reply_t;

typedef enum parsed { WHOLE, PART, WRONG } parsed_t;

/* A line from *at on, which moves behind it. */
static parsed_t parse_line(const char **at, const char *end, uvhttp_str_t *line) {
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    if (!stop) return PART;
    if (stop == *at || stop[-1] != '\r') return WRONG;
    *line = (uvhttp_str_t){*at, (size_t)(stop - 1 - *at)};
    *at = stop + 1;
    return WHOLE;
}

static bool parse_number(uvhttp_str_t text, int64_t *number) {
    uint64_t value;
    bool negative = text.size > 0 && *text.data == '-';
    if (negative) text = (uvhttp_str_t){text.data + 1, text.size - 1};
    if (uvhttp__str_parse_u64(text, &value) != UVHTTP_OK || value > INT64_MAX) return false;
    *number = negative ? -(int64_t)value : (int64_t)value;
    return true;
}

static parsed_t parse_string(const char **at, const char *end, int64_t size, uvhttp_str_t *text) {
    if (size < 0 || size > REPLY_SIZE_MAX - 32) return WRONG;
    if (end - *at < size + 2) return PART;
    *text = (uvhttp_str_t){*at, (size_t)size};
    *at += size + 2;
    return memcmp(*at - 2, "\r\n", 2) == 0 ? WHOLE : WRONG;
}

static parsed_t parse_numbers(const char **at, const char *end, int64_t count, int64_t *numbers) {
    if (count != NUMBER_COUNT) return WRONG;
    for (int i = 0; i < NUMBER_COUNT; i++) {
        uvhttp_str_t line;
        parsed_t parsed = parse_line(at, end, &line);
        if (parsed != WHOLE) return parsed;
        if (line.size < 2 || *line.data != ':') return WRONG;
        if (!parse_number((uvhttp_str_t){line.data + 1, line.size - 1}, &numbers[i])) return WRONG;
    }
    return WHOLE;
}

/* The answer from *at on, which moves behind it when it is whole. */
static parsed_t parse_reply(const char **at, const char *end, reply_t *reply) {
    const char *next = *at;
    uvhttp_str_t line;
    int64_t size;
    parsed_t parsed = parse_line(&next, end, &line);
    if (parsed != WHOLE) return parsed;
    *reply = (reply_t){.type = line.size ? *line.data : '\0'};
    reply->text = line.size ? (uvhttp_str_t){line.data + 1, line.size - 1} : line;
    switch (reply->type) {
        case '+':
        case '-': break;
        case '$':
            if (!parse_number(reply->text, &size)) return WRONG;
            parsed = parse_string(&next, end, size, &reply->text);
            break;
        case '*':
            if (!parse_number(reply->text, &size)) return WRONG;
            parsed = parse_numbers(&next, end, size, reply->numbers);
            break;
        default: return WRONG;
    }
    if (parsed == WHOLE) *at = next;
    return parsed;
}

static bool read_decision(const reply_t *reply, uvhttp_rate_limit_decision_t *decision) {
    if (reply->type != '*') return false;
    for (int i = 0; i < NUMBER_COUNT; i++)
        if (reply->numbers[i] < 0) return false;
    decision->allowed = reply->numbers[0] == 1;
    decision->remaining = (uint32_t)reply->numbers[1];
    decision->next_ns = (uint64_t)reply->numbers[2] * 1000;
    return true;
}

static void say_error(const reply_t *reply, const char *otherwise, char *why, size_t size) {
    bool error = reply->type == '-';
    snprintf(why, size, "%.*s", error ? (int)(reply->text.size < 100 ? reply->text.size : 100) : 100,
             error ? reply->text.data : otherwise);
}

/* Returns false if the connection is of no use. */
static bool on_prepared(store_t *store, const reply_t *reply, char *why, size_t size) {
    bool last = store->preparing == 1;
    bool good = reply->type != '-' && (!last || (reply->type == '$' && reply->text.size == sizeof store->sha - 1));
    if (!good) {
        say_error(reply, "no answer of Redis to SCRIPT LOAD", why, size);
        return false;
    }
    store->preparing--;
    if (!last) return true;
    memcpy(store->sha, reply->text.data, reply->text.size);
    store->sha[reply->text.size] = '\0';
    store->state = READY;
    return true;
}

static bool on_answer(store_t *store, const reply_t *reply, char *why, size_t size) {
    job_t *job = list_take(&store->sent);
    uvhttp_rate_limit_decision_t decision;
    if (!job) {
        snprintf(why, size, "an answer without a question");
        return false;
    }
    bool good = read_decision(reply, &decision);
    if (good) {
        be_there(store);
        atomic_fetch_add_explicit(decision.allowed ? &store->allowed : &store->refused, 1, memory_order_relaxed);
        decide(job, UVHTTP_OK, &decision);
    } else {
        /* NOSCRIPT after a SCRIPT FLUSH, a replica, out of memory: a new connection prepares everything anew. */
        say_error(reply, "unexpected answer", why, size);
    }
    decide(job, UVHTTP_E_IO, NULL);
    end_job(store, job);
    return good;
}

/* What is there now, at most so much as fits. Returns false if the connection has ended. */
static bool receive(store_t *store, char *why, size_t size) {
    ssize_t got =
        recv(store->redis->fd, store->input + store->input_size, sizeof store->input - store->input_size, MSG_DONTWAIT);
    if (got > 0) {
        store->input_size += (size_t)got;
        return true;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    snprintf(why, size, "%s", got == 0 ? "Server closed the connection" : strerrordesc_np(errno));
    return false;
}

static void read_answers(store_t *store) {
    char why[128] = "";
    bool good = receive(store, why, sizeof why);
    const char *at = store->input, *end = at + store->input_size;
    while (good && at < end) {
        reply_t reply;
        parsed_t parsed = parse_reply(&at, end, &reply);
        if (parsed == PART && (at > store->input || store->input_size < sizeof store->input)) break;
        if (parsed == WHOLE) {
            good = store->preparing > 0 ? on_prepared(store, &reply, why, sizeof why)
                                        : on_answer(store, &reply, why, sizeof why);
        } else {
            snprintf(why, sizeof why, "an answer that no question of ours has, or one of more than %d bytes",
                     REPLY_SIZE_MAX);
            good = false;
        }
    }
    if (!good) {
        go_away(store, why);
        return;
    }
    store->input_size = (size_t)(end - at);
    memmove(store->input, at, store->input_size);
}

/* --- time --- */

/* Deadlines are in order, for all are equally far from when their question came. Of sent ones the answer is still to
 * come. */
static void expire(store_t *store, uint64_t now) {
    while (store->waiting.first && store->waiting.first->deadline_ns <= now) {
        job_t *job = list_take(&store->waiting);
        decide(job, UVHTTP_E_TIMEOUT, NULL);
        end_job(store, job);
    }
    for (job_t *job = store->sent.first; job && job->deadline_ns <= now; job = job->next)
        decide(job, UVHTTP_E_TIMEOUT, NULL);
    if (store->sent.first && store->sent.first->deadline_ns + DEAD_MS * MS <= now) go_away(store, "it does not answer");
    if ((store->state == CONNECTING || store->state == PREPARING) && store->connect_until_ns <= now)
        go_away(store, "no connection in time");
    if (store->state == AWAY && store->retry_ns <= now) connect_now(store);
}

static void sooner(uint64_t *until, uint64_t other) {
    if (other < *until) *until = other;
}

static int wait_ms(const store_t *store, uint64_t now) {
    uint64_t until = UINT64_MAX;
    if (store->waiting.first) sooner(&until, store->waiting.first->deadline_ns);
    for (const job_t *job = store->sent.first; job; job = job->next) {
        if (!job->ticket) continue;
        sooner(&until, job->deadline_ns);
        break;
    }
    if (store->sent.first) sooner(&until, store->sent.first->deadline_ns + DEAD_MS * MS);
    if (store->state == AWAY) sooner(&until, store->retry_ns);
    if (store->state == CONNECTING || store->state == PREPARING) sooner(&until, store->connect_until_ns);
    if (until == UINT64_MAX) return -1;
    return until <= now ? 0 : (int)((until - now + MS - 1) / MS);
}

/* --- the thread --- */

static void take_queue(store_t *store) {
    uvhttp__mpsc_node_t *next;
    for (uvhttp__mpsc_node_t *node = uvhttp__mpsc_take(&store->queue); node; node = next) {
        next = node->next;
        job_t *job = (job_t *)(void *)node;
        list_add(&store->waiting, job);
    }
    /* Who is away is not waited for. */
    if (store->state == AWAY) fail_all(store, &store->waiting, UVHTTP_E_ABORTED);
}

static void on_connected(store_t *store) {
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(store->redis->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)
        go_away(store, strerrordesc_np(error ? error : errno));
    else
        prepare(store);
}

/* Returns whether something is left in the buffer. */
static bool write_questions(store_t *store) {
    int done = 0;
    if (store->state < PREPARING) return false;
    if (redisBufferWrite(store->redis, &done) == REDIS_OK) return !done;
    char why[128];
    snprintf(why, sizeof why, "%.100s", store->redis->errstr);
    go_away(store, why);
    return false;
}

static void turn(store_t *store) {
    take_queue(store);
    ask_all(store);
    bool unsent = write_questions(store);
    struct pollfd fds[2] = {{.fd = store->wake, .events = POLLIN}, {.fd = -1}};
    if (store->redis) {
        fds[1].fd = store->redis->fd;
        fds[1].events = (short)(store->state == CONNECTING ? POLLOUT : unsent ? POLLIN | POLLOUT : POLLIN);
    }
    (void)poll(fds, 2, wait_ms(store, now_ns()));
    uint64_t count;
    if (fds[0].revents) (void)!read(store->wake, &count, sizeof count);
    if (store->redis && fds[1].revents) {
        if (store->state == CONNECTING)
            on_connected(store);
        else if (fds[1].revents & (POLLIN | POLLHUP | POLLERR))
            read_answers(store);
    }
    expire(store, now_ns());
}

static void *run(void *arg) {
    store_t *store = arg;
    connect_now(store);
    while (!atomic_load(&store->stopping)) turn(store);
    take_queue(store);
    fail_all(store, &store->sent, UVHTTP_E_ABORTED);
    fail_all(store, &store->waiting, UVHTTP_E_ABORTED);
    if (store->redis) redisFree(store->redis);
    return NULL;
}

/* With the first question, so that a program may fork before. */
static bool start(store_t *store) {
    pthread_mutex_lock(&store->lock);
    if (!store->running) {
        store->running = uvhttp__thread_start(&store->thread, run, store);
        atomic_store(&store->started, store->running);
    }
    bool running = store->running;
    pthread_mutex_unlock(&store->lock);
    return running;
}

/* --- the store, on the loops --- */

/* prefix, policy, kind and key; addresses in hex, so that people can read them in Redis. */
static size_t write_key(const store_t *store, const uvhttp_rate_limit_take_t *take, char *out) {
    size_t size = (size_t)snprintf(out, PREFIX_SIZE_MAX + UVHTTP__RATE_LIMIT_NAME_MAX + 8, "%s%s:%c:", store->prefix,
                                   take->policy, take->kind);
    bool address = take->kind == '4' || take->kind == '6';
    if (take->key.size > KEY_PLAIN_MAX) {
        XXH128_canonical_t hash;
        XXH128_canonicalFromHash(&hash, XXH3_128bits(take->key.data, take->key.size));
        memcpy(out + size, "#", 1);
        memcpy(out + size + 1, hash.digest, sizeof hash.digest);
        return size + 1 + sizeof hash.digest;
    }
    if (!address) {
        if (take->key.size) memcpy(out + size, take->key.data, take->key.size);
        return size + take->key.size;
    }
    for (size_t i = 0; i < take->key.size; i++) {
        out[size++] = "0123456789abcdef"[(uint8_t)take->key.data[i] >> 4];
        out[size++] = "0123456789abcdef"[(uint8_t)take->key.data[i] & 15];
    }
    return size;
}

static void take_later(void *user, const uvhttp_rate_limit_take_t *take, uvhttp_rate_limit_ticket_t *ticket) {
    store_t *store = user;
    char key[PREFIX_SIZE_MAX + UVHTTP__RATE_LIMIT_NAME_MAX + KEY_PLAIN_MAX + 16];
    size_t size = write_key(store, take, key);
    int status = UVHTTP_OK;
    if (atomic_fetch_add_explicit(&store->pending, 1, memory_order_relaxed) >= store->pending_max)
        status = UVHTTP_E_LIMIT;
    else if (!atomic_load_explicit(&store->started, memory_order_acquire) && !start(store))
        status = UVHTTP_E_LIMIT;
    job_t *job = status == UVHTTP_OK ? uvhttp__malloc(sizeof *job + size) : NULL;
    if (!job) {
        atomic_fetch_sub_explicit(&store->pending, 1, memory_order_relaxed);
        uvhttp_rate_limit_decided(ticket, status == UVHTTP_OK ? UVHTTP_E_NOMEM : status, NULL);
        return;
    }
    *job = (job_t){.ticket = ticket,
                   .deadline_ns = now_ns() + store->timeout_ms * MS,
                   .interval = (take->interval_ns * 16 + 999) / 1000,
                   .burst = take->burst,
                   .key_size = size};
    memcpy(job->key, key, size);
    if (!uvhttp__mpsc_push(&store->queue, &job->node)) return;
    uint64_t one = 1;
    (void)!write(store->wake, &one, sizeof one);
}

static void read_stats(void *user, uvhttp_rate_limit_stats_t *stats) {
    store_t *store = user;
    stats->allowed = atomic_load(&store->allowed);
    stats->refused = atomic_load(&store->refused);
}

static void free_store(store_t *store) {
    if (store->wake >= 0) close(store->wake);
    if (store->password) explicit_bzero(store->password, strlen(store->password));
    pthread_mutex_destroy(&store->lock);
    uvhttp__free(store->user);
    uvhttp__free(store->password);
    uvhttp__free(store);
}

static void destroy(void *user) {
    store_t *store = user;
    if (store->running) {
        uint64_t one = 1;
        atomic_store(&store->stopping, true);
        (void)!write(store->wake, &one, sizeof one);
        pthread_join(store->thread, NULL);
    }
    free_store(store);
}

/* --- making it --- */

/* Numeric, as everywhere: a name could take seconds to look up, again and again. */
static bool read_address(store_t *store, const char *text) {
    uvhttp_str_t all = uvhttp__str_from(text);
    if (all.size >= sizeof store->address_text) return false;
    memcpy(store->address_text, text, all.size + 1);
    if (uvhttp__str_starts_with(all, UVHTTP__STR("unix:/"))) {
        if (all.size - 5 >= sizeof store->path) return false;
        memcpy(store->path, text + 5, all.size - 4);
        return true;
    }
    const char *colon = strrchr(text, ':');
    uint64_t port;
    uvhttp__ip_t ip;
    if (!colon || uvhttp__str_parse_u64(uvhttp__str_from(colon + 1), &port) != UVHTTP_OK || port == 0 || port > 65535)
        return false;
    uvhttp_str_t host = {text, (size_t)(colon - text)};
    if (uvhttp__str_equal_nocase(host, UVHTTP__STR("localhost"))) host = UVHTTP__STR("127.0.0.1");
    if (host.size > 2 && host.data[0] == '[' && host.data[host.size - 1] == ']')
        host = (uvhttp_str_t){host.data + 1, host.size - 2};
    if (!uvhttp__ip_parse(host, &ip) || host.size >= sizeof store->host) return false;
    memcpy(store->host, host.data, host.size);
    store->port = (int)port;
    return true;
}

static const char *fault_of(const uvhttp_rate_limit_redis_options_t *options) {
    if (options->timeout_ms > TIMEOUT_MS_MAX) return "timeout_ms: expected 1..10000, or 0 for the default";
    if (options->pending_max > PENDING_MAX) return "pending_max: expected 1..1000000, or 0 for the default";
    if (options->prefix && strlen(options->prefix) > PREFIX_SIZE_MAX) return "prefix: expected at most 64 bytes";
    if (options->user && !options->password) return "user is set and password is not";
    if ((options->user && strlen(options->user) > SECRET_SIZE_MAX) ||
        (options->password && strlen(options->password) > SECRET_SIZE_MAX))
        return "user or password: expected at most 512 bytes";
    return NULL;
}

static int copy_text(char **to, const char *text) {
    if (!text) return UVHTTP_OK;
    size_t size = strlen(text) + 1;
    *to = uvhttp__malloc(size);
    if (!*to) return UVHTTP_E_NOMEM;
    memcpy(*to, text, size);
    return UVHTTP_OK;
}

static store_t *make(const uvhttp_rate_limit_redis_options_t *options) {
    store_t *store = uvhttp__calloc(1, sizeof *store);
    if (!store) return NULL;
    pthread_mutex_init(&store->lock, NULL);
    uvhttp__mpsc_init(&store->queue);
    list_init(&store->waiting);
    list_init(&store->sent);
    store->timeout_ms = options->timeout_ms ? options->timeout_ms : 50;
    store->pending_max = options->pending_max ? options->pending_max : 10000;
    store->database = options->database;
    store->backoff_ms = BACKOFF_MS_MIN;
    snprintf(store->prefix, sizeof store->prefix, "%s", options->prefix ? options->prefix : "uvhttp:");
    store->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (store->wake >= 0 && copy_text(&store->user, options->user) == UVHTTP_OK &&
        copy_text(&store->password, options->password) == UVHTTP_OK)
        return store;
    free_store(store);
    return NULL;
}

int uvhttp_rate_limit_redis(const uvhttp_rate_limit_redis_options_t *options, uvhttp_rate_limit_store_t *store) {
    static const uvhttp_rate_limit_redis_options_t defaults;
    if (!store) return UVHTTP_E_INVALID;
    memset(store, 0, sizeof *store);
    if (!options) options = &defaults;
    const char *fault = fault_of(options);
    if (fault) {
        (void)uvhttp__middleware_refused(NAME, "%s", fault);
        return UVHTTP_E_CONFIG;
    }
    store_t *made = make(options);
    if (!made) {
        (void)uvhttp__middleware_refused(NAME, "out of memory");
        return UVHTTP_E_NOMEM;
    }
    const char *address = options->address ? options->address : "127.0.0.1:6379";
    if (!read_address(made, address)) {
        (void)uvhttp__middleware_refused(NAME,
                                         "address is \"%.100s\": expected 192.0.2.1:6379, [2001:db8::1]:6379, "
                                         "localhost:6379 or unix:/path",
                                         address);
        free_store(made);
        return UVHTTP_E_CONFIG;
    }
    *store =
        (uvhttp_rate_limit_store_t){.take_later = take_later, .stats = read_stats, .destroy = destroy, .user = made};
    return UVHTTP_OK;
}
