/* Owns: the thread that talks to Redis, because hiredis' blocking parts and a slow network must not block a loop. Loops
 * pass it queries through a queue. It sends them without waiting for earlier replies (pipelining), and replies come in
 * the same order. A query is decided exactly once: by its reply, by its deadline, or because Redis is unreachable. May
 * include: base, obs. */
#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "base/libc.h"
#include "base/thread.h"
#include "middleware/rate_limit.h"
#include "middleware/rate_limit_redis.h"

#define BACKOFF_MS_MAX 2000
#define DEAD_MS 2000   /* with a reply that is so late the connection is closed */
#define AWAY_LINE_S 10 /* a line that says that Redis is away, at most every so many seconds */
#define MS UINT64_C(1000000)

/* The bucket of rate_limit.h. Times are sixteenths of a microsecond since 9 October 2025: whole numbers that a double
 * holds exactly until 2043. The clock is Redis' own, so that machines need not agree. It can be set back: a bucket that
 * would be full later than an empty one is an empty one. */
static const char script[] =
    "local t = redis.call('TIME')\n"
    "local now = ((tonumber(t[1]) - 1760000000) * 1000000 + tonumber(t[2])) * 16\n"
    "local interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2])\n"
    "local capacity = interval * burst\n"
    "local used = (tonumber(redis.call('GET', KEYS[1]) or now) or now) - now\n"
    "if used < 0 then used = 0 end\n"
    "local ahead = used > capacity\n"
    "if ahead then used = capacity end\n"
    "local allowed = 0\n"
    "if used + interval <= capacity then\n"
    "  allowed = 1\n"
    "  used = used + interval\n"
    "end\n"
    "if allowed == 1 or ahead then\n"
    "  redis.call('SET', KEYS[1], string.format('%.0f', now + used), 'PX', math.ceil(used / 16000) + 1)\n"
    "end\n"
    "local remaining = 0\n"
    "if used < capacity then remaining = math.floor((capacity - used) / interval) end\n"
    "return {allowed, remaining, math.ceil((used + (remaining + 1) * interval - capacity) / 16)}\n";

uint64_t uvhttp__redis_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- lists of jobs --- */

static void list_add(uvhttp__redis_list_t *list, uvhttp__redis_job_t *job) {
    job->next = NULL;
    *list->last = job;
    list->last = &job->next;
}

static uvhttp__redis_job_t *list_take(uvhttp__redis_list_t *list) {
    uvhttp__redis_job_t *job = list->first;
    if (!job) return NULL;
    list->first = job->next;
    if (!list->first) list->last = &list->first;
    return job;
}

static void decide(uvhttp__redis_job_t *job, int status, const uvhttp_rate_limit_decision_t *decision) {
    uvhttp_rate_limit_ticket_t *ticket = job->ticket;
    job->ticket = NULL;
    if (ticket) uvhttp_rate_limit_decided(ticket, status, decision);
}

static void end_job(uvhttp__redis_store_t *store, uvhttp__redis_job_t *job) {
    atomic_fetch_sub_explicit(&store->pending, 1, memory_order_relaxed);
    uvhttp__free(job);
}

static void fail_all(uvhttp__redis_store_t *store, uvhttp__redis_list_t *list, int status) {
    for (uvhttp__redis_job_t *job; (job = list_take(list)) != NULL;) {
        decide(job, status, NULL);
        end_job(store, job);
    }
}

/* --- the connection --- */

/* Not for each time that it comes and goes, which may be many in a second. */
static void report_away(uvhttp__redis_store_t *store, const char *why) {
    uint64_t now = uvhttp__redis_now_ns();
    if (store->reported_away) return;
    if (store->reported_ns != 0 && now - store->reported_ns < AWAY_LINE_S * 1000 * MS) {
        store->unreported++;
        return;
    }
    UVHTTP_LOG_WARN(UVHTTP__REDIS_NAME
                    ": %s is unavailable: %s; requests are decided by refuse_on_error until it is back (%" PRIu32
                    " more times since the last such line)",
                    store->address_text, why, store->unreported);
    store->reported_away = true;
    store->reported_ns = now;
    store->unreported = 0;
}

/* Only a decision shows that it works: one that cannot write (a replica, maxmemory) takes connections and scripts. */
static void be_there(uvhttp__redis_store_t *store) {
    if (store->reported_away) UVHTTP_LOG_WARN(UVHTTP__REDIS_NAME ": %s is available again", store->address_text);
    store->reported_away = false;
    store->backoff_ms = UVHTTP__REDIS_BACKOFF_MS_MIN;
}

static void disconnect(uvhttp__redis_store_t *store) {
    if (store->redis) redisFree(store->redis);
    store->redis = NULL;
    store->state = UVHTTP__REDIS_AWAY;
    store->retry_ns = uvhttp__redis_now_ns() + store->backoff_ms * MS;
    store->backoff_ms = store->backoff_ms * 2 < BACKOFF_MS_MAX ? store->backoff_ms * 2 : BACKOFF_MS_MAX;
    fail_all(store, &store->sent, UVHTTP_E_ABORTED);
    fail_all(store, &store->waiting, UVHTTP_E_ABORTED);
}

static void go_away(uvhttp__redis_store_t *store, const char *why) {
    report_away(store, why);
    disconnect(store);
}

static void connect_now(uvhttp__redis_store_t *store) {
    store->redis =
        store->path[0] ? redisConnectUnixNonBlock(store->path) : redisConnectNonBlock(store->host, store->port);
    if (!store->redis || store->redis->err) {
        go_away(store, store->redis ? store->redis->errstr : "out of memory");
        return;
    }
    /* hiredis leaves the descriptor to programs that the process starts, and it asks without the password. */
    (void)fcntl(store->redis->fd, F_SETFD, FD_CLOEXEC);
    store->state = UVHTTP__REDIS_CONNECTING;
    store->input_size = 0;
    store->connect_until_ns = uvhttp__redis_now_ns() + DEAD_MS * MS;
}

/* True: the command is in the buffer, and a reply will come for it. */
static bool append(uvhttp__redis_store_t *store, int count, const char **words, const size_t *sizes) {
    return redisAppendCommandArgv(store->redis, count, words, sizes) == REDIS_OK;
}

static bool append_text(uvhttp__redis_store_t *store, const char *const *words, int count) {
    const char *copy[4];
    size_t sizes[4];
    for (int i = 0; i < count; i++) {
        copy[i] = words[i];
        sizes[i] = strlen(words[i]);
    }
    return append(store, count, copy, sizes);
}

static bool prepare_command(uvhttp__redis_store_t *store, const char *const *words, int count) {
    if (!append_text(store, words, count)) return false;
    store->preparing++;
    return true;
}

static void prepare(uvhttp__redis_store_t *store) {
    char number[16];
    snprintf(number, sizeof number, "%" PRIu32, store->database);
    bool sent = true;
    store->preparing = 0;
    store->state = UVHTTP__REDIS_PREPARING;
    if (store->password && store->user)
        sent = prepare_command(store, (const char *const[]){"AUTH", store->user, store->password}, 3);
    else if (store->password)
        sent = prepare_command(store, (const char *const[]){"AUTH", store->password}, 2);
    if (sent && store->database > 0) sent = prepare_command(store, (const char *const[]){"SELECT", number}, 2);
    if (sent) sent = prepare_command(store, (const char *const[]){"SCRIPT", "LOAD", script}, 3);
    if (!sent) go_away(store, "out of memory");
}

/* --- queries and replies --- */

static bool ask(uvhttp__redis_store_t *store, uvhttp__redis_job_t *job) {
    char interval[24], burst[16];
    snprintf(interval, sizeof interval, "%" PRIu64, job->interval);
    snprintf(burst, sizeof burst, "%" PRIu32, job->burst);
    const char *words[] = {"EVALSHA", store->sha, "1", job->key, interval, burst};
    const size_t sizes[] = {7, strlen(store->sha), 1, job->key_size, strlen(interval), strlen(burst)};
    return append(store, 6, words, sizes);
}

static void ask_all(uvhttp__redis_store_t *store) {
    for (uvhttp__redis_job_t *job; store->state == UVHTTP__REDIS_READY && (job = list_take(&store->waiting)) != NULL;) {
        if (ask(store, job)) {
            list_add(&store->sent, job);
        } else {
            decide(job, UVHTTP_E_NOMEM, NULL);
            end_job(store, job);
        }
    }
}

static bool read_decision(const uvhttp__redis_reply_t *reply, uvhttp_rate_limit_decision_t *decision) {
    if (reply->type != '*') return false;
    for (int i = 0; i < UVHTTP__REDIS_NUMBERS; i++)
        if (reply->numbers[i] < 0) return false;
    decision->allowed = reply->numbers[0] == 1;
    decision->remaining = (uint32_t)reply->numbers[1];
    decision->next_ns = (uint64_t)reply->numbers[2] * 1000;
    return true;
}

static void say_error(const uvhttp__redis_reply_t *reply, const char *otherwise, char *why, size_t size) {
    bool error = reply->type == '-';
    snprintf(why, size, "%.*s", error ? (int)(reply->text.size < 100 ? reply->text.size : 100) : 100,
             error ? reply->text.data : otherwise);
}

/* Returns false if the connection is of no use. */
static bool on_prepared(uvhttp__redis_store_t *store, const uvhttp__redis_reply_t *reply, char *why, size_t size) {
    bool last = store->preparing == 1;
    bool good = reply->type != '-' && (!last || (reply->type == '$' && reply->text.size == sizeof store->sha - 1));
    if (!good) {
        say_error(reply, "no reply of Redis to SCRIPT LOAD", why, size);
        return false;
    }
    store->preparing--;
    if (!last) return true;
    memcpy(store->sha, reply->text.data, reply->text.size);
    store->sha[reply->text.size] = '\0';
    store->state = UVHTTP__REDIS_READY;
    store->ready_ns = uvhttp__redis_now_ns();
    return true;
}

static bool on_reply(uvhttp__redis_store_t *store, const uvhttp__redis_reply_t *reply, char *why, size_t size) {
    uvhttp__redis_job_t *job = list_take(&store->sent);
    uvhttp_rate_limit_decision_t decision;
    if (!job) {
        snprintf(why, size, "a reply without a request");
        return false;
    }
    bool good = read_decision(reply, &decision);
    if (good) {
        be_there(store);
        atomic_fetch_add_explicit(decision.allowed ? &store->allowed : &store->refused, 1, memory_order_relaxed);
        decide(job, UVHTTP_OK, &decision);
    } else {
        /* NOSCRIPT after a SCRIPT FLUSH, a replica, out of memory: a new connection prepares everything anew. */
        say_error(reply, "unexpected reply", why, size);
    }
    decide(job, UVHTTP_E_IO, NULL);
    end_job(store, job);
    return good;
}

/* What is there now, at most so much as fits. Returns false if the connection has ended. */
static bool receive(uvhttp__redis_store_t *store, char *why, size_t size) {
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

/* Redis or a firewall ends a connection that has been idle for long. The next one shows whether it is an outage. It
 * follows at once, so that no question meets a pause, unless this one has not even lasted as long as the pause. */
static void end_idle(uvhttp__redis_store_t *store) {
    uint64_t now = uvhttp__redis_now_ns();
    bool lasted = now - store->ready_ns >= store->backoff_ms * MS;
    disconnect(store);
    if (!lasted) return;
    store->backoff_ms = UVHTTP__REDIS_BACKOFF_MS_MIN;
    store->retry_ns = now;
}

static void read_replies(uvhttp__redis_store_t *store) {
    char why[128] = "";
    bool good = receive(store, why, sizeof why);
    if (!good && store->state == UVHTTP__REDIS_READY && !store->sent.first) {
        end_idle(store);
        return;
    }
    const char *at = store->input, *end = at + store->input_size;
    while (good && at < end) {
        uvhttp__redis_reply_t reply;
        uvhttp__redis_parsed_t parsed = uvhttp__redis_parse_reply(&at, end, &reply);
        if (parsed == UVHTTP__REDIS_PART && (at > store->input || store->input_size < sizeof store->input)) break;
        if (parsed == UVHTTP__REDIS_COMPLETE) {
            good = store->preparing > 0 ? on_prepared(store, &reply, why, sizeof why)
                                        : on_reply(store, &reply, why, sizeof why);
        } else {
            snprintf(why, sizeof why, "a reply that matches no request, or one of more than %d bytes",
                     UVHTTP__REDIS_REPLY_SIZE_MAX);
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

/* Deadlines are in order, because all are equally far from the arrival of their query. The replies of sent ones are
 * still to come. */
static void expire(uvhttp__redis_store_t *store, uint64_t now) {
    while (store->waiting.first && store->waiting.first->deadline_ns <= now) {
        uvhttp__redis_job_t *job = list_take(&store->waiting);
        decide(job, UVHTTP_E_TIMEOUT, NULL);
        end_job(store, job);
    }
    for (uvhttp__redis_job_t *job = store->sent.first; job && job->deadline_ns <= now; job = job->next)
        decide(job, UVHTTP_E_TIMEOUT, NULL);
    if (store->sent.first && store->sent.first->deadline_ns + DEAD_MS * MS <= now) go_away(store, "it does not reply");
    if ((store->state == UVHTTP__REDIS_CONNECTING || store->state == UVHTTP__REDIS_PREPARING) &&
        store->connect_until_ns <= now)
        go_away(store, "no connection in time");
    if (store->state == UVHTTP__REDIS_AWAY && store->retry_ns <= now) connect_now(store);
}

static void sooner(uint64_t *until, uint64_t other) {
    if (other < *until) *until = other;
}

static int wait_ms(const uvhttp__redis_store_t *store, uint64_t now) {
    uint64_t until = UINT64_MAX;
    if (store->waiting.first) sooner(&until, store->waiting.first->deadline_ns);
    for (const uvhttp__redis_job_t *job = store->sent.first; job; job = job->next) {
        if (!job->ticket) continue;
        sooner(&until, job->deadline_ns);
        break;
    }
    if (store->sent.first) sooner(&until, store->sent.first->deadline_ns + DEAD_MS * MS);
    if (store->state == UVHTTP__REDIS_AWAY) sooner(&until, store->retry_ns);
    if (store->state == UVHTTP__REDIS_CONNECTING || store->state == UVHTTP__REDIS_PREPARING)
        sooner(&until, store->connect_until_ns);
    if (until == UINT64_MAX) return -1;
    return until <= now ? 0 : (int)((until - now + MS - 1) / MS);
}

/* --- the thread --- */

static void take_queue(uvhttp__redis_store_t *store) {
    uvhttp__mpsc_node_t *next;
    for (uvhttp__mpsc_node_t *node = uvhttp__mpsc_take(&store->queue); node; node = next) {
        next = node->next;
        uvhttp__redis_job_t *job = (uvhttp__redis_job_t *)(void *)node;
        list_add(&store->waiting, job);
    }
    /* Who is away is not waited for. */
    if (store->state == UVHTTP__REDIS_AWAY) fail_all(store, &store->waiting, UVHTTP_E_ABORTED);
}

static void on_connected(uvhttp__redis_store_t *store) {
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(store->redis->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)
        go_away(store, strerrordesc_np(error ? error : errno));
    else
        prepare(store);
}

/* Returns whether something is left in the buffer. */
static bool write_questions(uvhttp__redis_store_t *store) {
    int done = 0;
    if (store->state < UVHTTP__REDIS_PREPARING) return false;
    if (redisBufferWrite(store->redis, &done) == REDIS_OK) return !done;
    char why[128];
    snprintf(why, sizeof why, "%.100s", store->redis->errstr);
    go_away(store, why);
    return false;
}

static void iteration(uvhttp__redis_store_t *store) {
    take_queue(store);
    ask_all(store);
    bool unsent = write_questions(store);
    struct pollfd fds[2] = {{.fd = store->wake, .events = POLLIN}, {.fd = -1}};
    if (store->redis) {
        fds[1].fd = store->redis->fd;
        fds[1].events = (short)(store->state == UVHTTP__REDIS_CONNECTING ? POLLOUT
                                : unsent                                 ? POLLIN | POLLOUT
                                                                         : POLLIN);
    }
    (void)poll(fds, 2, wait_ms(store, uvhttp__redis_now_ns()));
    uint64_t count;
    if (fds[0].revents) (void)!read(store->wake, &count, sizeof count);
    if (store->redis && fds[1].revents) {
        if (store->state == UVHTTP__REDIS_CONNECTING)
            on_connected(store);
        else if (fds[1].revents & (POLLIN | POLLHUP | POLLERR))
            read_replies(store);
    }
    expire(store, uvhttp__redis_now_ns());
}

static void *run(void *arg) {
    uvhttp__redis_store_t *store = arg;
    connect_now(store);
    while (!atomic_load(&store->stopping)) iteration(store);
    take_queue(store);
    fail_all(store, &store->sent, UVHTTP_E_ABORTED);
    fail_all(store, &store->waiting, UVHTTP_E_ABORTED);
    if (store->redis) redisFree(store->redis);
    return NULL;
}

bool uvhttp__redis_start(uvhttp__redis_store_t *store) {
    pthread_mutex_lock(&store->lock);
    if (!store->running) {
        store->running = uvhttp__thread_start(&store->thread, run, store);
        atomic_store(&store->started, store->running);
    }
    bool running = store->running;
    pthread_mutex_unlock(&store->lock);
    return running;
}
