/* Owns: the thread that sends spans to the collector: a loop of its own, one request at a time, retries with backoff.
 * A span leaves its ring when it is in a request; a collector that is slow or gone fills the rings, and what does not
 * fit there is dropped and counted by the loops. May include: client, exec, conn, io, base, obs. */
#include "trace/exporter.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <uvhttp/client.h>
#include <uvhttp/log.h>
#include <uvhttp/str.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/str.h"
#include "base/thread.h"
#include "client/message.h"
#include "conn/tcp_server.h"
#include "exec/work.h"
#include "trace/span.h"

enum {
    BATCH_SPANS_MAX = 512,
    BATCH_SIZE_SOON = 1 << 20, /* bytes of JSON: a request that has so many gets no more spans */
    REQUEST_TIMEOUT_MS = 10000,
    RESPONSE_SIZE_MAX = 65536,
    ATTEMPTS_MAX = 7, /* of a request: about a minute */
    BACKOFF_FIRST_MS = 1000,
    BACKOFF_MAX_MS = 30000,
    RETRY_AFTER_MAX_S = 300,
    LAST_S = 2, /* for what waits when the server has ended */
};

typedef enum state { IDLE, SENDING, WAITING } state_t;

struct uvhttp__exporter {
    uvhttp__tcp_server_t *server; /* its only loop is the exporter's */
    uvhttp__work_t *work;         /* for names of hosts */
    uvhttp__work_port_t port;
    const _Atomic(uvhttp__span_queue_t *) *queues;
    uint32_t delay_ms;
    bool running; /* of the tracer's thread: the thread was started */
    pthread_t thread;
    pthread_mutex_t lock;
    uvhttp__loop_t *loop; /* under the lock; NULL: it does not run */
    uvhttp__post_t wake;
    atomic_bool wake_posted;
    _Atomic uint64_t exported, failed, retries;
    /* From here on the exporter's thread. */
    uvhttp__tcp_loop_t *tcp_loop;
    uvhttp__timer_t timer; /* IDLE: for the next batch; WAITING: for the next attempt */
    uvhttp_client_response_t *response;
    uvhttp__otlp_t otlp;         /* the request in hand */
    uvhttp__span_queue_t *first; /* to be looked at first, so that each has its share; NULL: the first of the list */
    state_t state;
    uint32_t attempts;
    bool draining, broken; /* broken: the last request failed, and the log says so */
    char *service;
    char endpoint[];
};

static void add(_Atomic uint64_t *counter, uint64_t count) {
    atomic_fetch_add_explicit(counter, count, memory_order_relaxed);
}

static uvhttp__loop_t *io_of(const uvhttp__exporter_t *exporter) {
    return exporter->tcp_loop->io;
}

static void set_timer(uvhttp__exporter_t *exporter, uint32_t ms) {
    uvhttp__timer_set_after(&io_of(exporter)->wheel, &exporter->timer, io_of(exporter)->now_ns, ms);
}

/* --- a batch --- */

static bool is_full(const uvhttp__exporter_t *exporter) {
    return exporter->otlp.spans >= BATCH_SPANS_MAX || exporter->otlp.out.size >= BATCH_SIZE_SOON;
}

static void take_queue(uvhttp__exporter_t *exporter, const uvhttp__span_queue_t *queue) {
    const uvhttp__span_record_t *record;
    while (!is_full(exporter) && (record = uvhttp__ring_peek(queue->ring))) {
        uvhttp__otlp_span(&exporter->otlp, record);
        uvhttp__ring_release(queue->ring, record);
    }
}

static int64_t real_offset_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - (int64_t)uvhttp__clock_ns();
}

/* Returns how many spans are in the request. */
static uint32_t take_batch(uvhttp__exporter_t *exporter) {
    uvhttp__otlp_begin(&exporter->otlp, exporter->service, real_offset_ns());
    uvhttp__span_queue_t *head = atomic_load_explicit(exporter->queues, memory_order_acquire);
    uvhttp__span_queue_t *start = exporter->first ? exporter->first : head, *queue = start;
    for (bool wrapped = false; queue && !is_full(exporter);) {
        take_queue(exporter, queue);
        queue = queue->next;
        if (!queue && !wrapped) {
            wrapped = true;
            queue = head;
        }
        if (wrapped && queue == start) break;
    }
    exporter->first = start ? start->next : NULL;
    uvhttp__otlp_end(&exporter->otlp);
    return exporter->otlp.spans;
}

/* --- a request --- */

static void settle(uvhttp__exporter_t *exporter, bool more);

static const char *reason_text(int status, int code, char text[64]) {
    if (status != UVHTTP_OK) return uvhttp_error_message(status);
    snprintf(text, 64, "it responded with status %d", code);
    return text;
}

static void report(uvhttp__exporter_t *exporter, bool broken, const char *reason) {
    if (broken && !exporter->broken)
        UVHTTP_LOG_WARN("trace: spans are not delivered to %.300s: %s", exporter->endpoint, reason);
    if (!broken && exporter->broken) UVHTTP_LOG_INFO("trace: spans are delivered to %.300s again", exporter->endpoint);
    exporter->broken = broken;
}

/* The request is over, one way or the other. */
static void conclude(uvhttp__exporter_t *exporter, uint64_t rejected) {
    add(&exporter->exported, exporter->otlp.spans - rejected);
    add(&exporter->failed, rejected);
    exporter->attempts = 0;
    settle(exporter, is_full(exporter));
}

/* Three quarters to all of 1, 2, 4 ... s, so that servers do not come back together. */
static uint32_t backoff_ms(const uvhttp__exporter_t *exporter) {
    uint32_t ms = (uint32_t)BACKOFF_FIRST_MS << (exporter->attempts - 1);
    if (ms > BACKOFF_MAX_MS) ms = BACKOFF_MAX_MS;
    uint64_t spread = uvhttp__hash_seeded(&exporter->tcp_loop->io->now_ns, sizeof(uint64_t), uvhttp__hash_seed());
    return ms - (uint32_t)(spread % (ms / 4));
}

static void retry(uvhttp__exporter_t *exporter, uint64_t retry_after_s) {
    if (exporter->draining || exporter->attempts >= ATTEMPTS_MAX) {
        conclude(exporter, exporter->otlp.spans);
        return;
    }
    if (retry_after_s > RETRY_AFTER_MAX_S) retry_after_s = RETRY_AFTER_MAX_S;
    uint32_t ms = backoff_ms(exporter);
    exporter->state = WAITING;
    set_timer(exporter, retry_after_s > 0 ? (uint32_t)retry_after_s * 1000 : ms);
}

static uint64_t retry_after_of(const uvhttp_client_response_t *response) {
    uint64_t seconds = 0;
    if (uvhttp__str_parse_u64(uvhttp_client_response_header(response, "Retry-After"), &seconds) != UVHTTP_OK) return 0;
    return seconds;
}

/* As the specification of OTLP/HTTP says. */
static bool may_retry(int code) {
    return code == 429 || code == 502 || code == 503 || code == 504;
}

/* The response has a final head, and a body above the limit of the client. */
static bool has_large_body(const uvhttp_client_response_t *response, int status) {
    return status == UVHTTP_E_PEER_TOO_LARGE && uvhttp_client_response_status(response) >= 200;
}

/* The status says what became of the spans (OTLP/HTTP: a 2xx is success), however large the body is. */
static void on_done(uvhttp_client_response_t *response, int status, void *user) {
    uvhttp__exporter_t *exporter = user;
    if (has_large_body(response, status)) status = UVHTTP_OK;
    int code = status == UVHTTP_OK ? uvhttp_client_response_status(response) : 0;
    bool accepted = code >= 200 && code < 300;
    uint64_t retry_after_s = 0, rejected = exporter->otlp.spans;
    if (accepted) {
        uint64_t refused = uvhttp__otlp_rejected(uvhttp_client_response_body(response));
        if (refused < rejected) rejected = refused;
    } else if (status == UVHTTP_OK) {
        retry_after_s = retry_after_of(response);
    }
    uvhttp_client_response_free(response);
    exporter->response = NULL;
    char text[64];
    report(exporter, !accepted, reason_text(status, code, text));
    if (status != UVHTTP_OK || may_retry(code))
        retry(exporter, retry_after_s);
    else
        conclude(exporter, rejected);
}

static void transmit(uvhttp__exporter_t *exporter) {
    static const uvhttp_client_header_t headers[] = {{"Content-Type", "application/json"}};
    const uvhttp_client_request_t request = {.url = exporter->endpoint,
                                             .method = "POST",
                                             .headers = headers,
                                             .header_count = 1,
                                             .body = exporter->otlp.out.data,
                                             .body_size = exporter->otlp.out.size,
                                             .timeout_ms = REQUEST_TIMEOUT_MS,
                                             .response_size_max = RESPONSE_SIZE_MAX};
    exporter->state = SENDING;
    if (exporter->attempts++ > 0) add(&exporter->retries, 1);
    int status = uvhttp_client_send(&request, on_done, exporter, &exporter->response);
    if (status == UVHTTP_OK) return;
    char text[64];
    report(exporter, true, reason_text(status, 0, text));
    retry(exporter, 0);
}

static void send_batch(uvhttp__exporter_t *exporter) {
    uint32_t spans = take_batch(exporter);
    if (spans == 0) {
        settle(exporter, false);
    } else if (exporter->otlp.out.failed) {
        report(exporter, true, uvhttp_error_message(UVHTTP_E_NOMEM));
        conclude(exporter, spans);
    } else {
        transmit(exporter);
    }
}

/* What comes next: another batch at once, or later, or the end. `state` is IDLE when a timer or a message may come. */
static void settle(uvhttp__exporter_t *exporter, bool more) {
    exporter->state = IDLE;
    if (exporter->draining && exporter->otlp.spans == 0)
        uvhttp__tcp_loop_check_done(exporter->tcp_loop);
    else
        set_timer(exporter, more || exporter->draining ? 0 : exporter->delay_ms);
}

static void on_timer(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user) {
    (void)wheel, (void)timer;
    uvhttp__exporter_t *exporter = user;
    if (exporter->state == WAITING)
        transmit(exporter);
    else if (exporter->state == IDLE)
        send_batch(exporter);
}

static void on_wake(uvhttp__post_t *post) {
    uvhttp__exporter_t *exporter = UVHTTP__CONTAINER_OF(post, uvhttp__exporter_t, wake);
    atomic_store(&exporter->wake_posted, false);
    if (exporter->state == IDLE) set_timer(exporter, 0);
}

/* --- its loop --- */

static uvhttp__exporter_t *exporter_of(const uvhttp__tcp_loop_t *loop) {
    return loop->tcp_server->options.user;
}

static void publish_loop(uvhttp__exporter_t *exporter, uvhttp__loop_t *loop) {
    pthread_mutex_lock(&exporter->lock);
    exporter->loop = loop;
    pthread_mutex_unlock(&exporter->lock);
}

static int on_loop_start(uvhttp__tcp_loop_t *loop) {
    uvhttp__exporter_t *exporter = exporter_of(loop);
    exporter->tcp_loop = loop;
    uvhttp__work_port_open(&exporter->port, exporter->work, loop->io);
    uvhttp__work_port_assign(loop->io, &exporter->port);
    uvhttp__timer_init(&exporter->timer, uvhttp__wheel_kind(&loop->io->wheel, on_timer, exporter));
    publish_loop(exporter, loop->io);
    set_timer(exporter, exporter->delay_ms);
    return UVHTTP_OK;
}

static void on_loop_stop(uvhttp__tcp_loop_t *loop) {
    uvhttp__exporter_t *exporter = exporter_of(loop);
    publish_loop(exporter, NULL);
    uvhttp_client_response_free(exporter->response);
    exporter->response = NULL;
    uvhttp__timer_stop(&loop->io->wheel, &exporter->timer);
    uvhttp__work_port_close(&exporter->port);
    uvhttp__work_port_assign(loop->io, NULL);
}

/* What waits is counted: it will not be sent. */
static void lose_the_rest(uvhttp__exporter_t *exporter) {
    if (exporter->state != IDLE) add(&exporter->failed, exporter->otlp.spans);
    exporter->state = IDLE;
    while (take_batch(exporter) > 0) add(&exporter->failed, exporter->otlp.spans);
}

/* The server whose spans these are has ended. cut: the time for the rest is over. */
static void on_loop_drain(uvhttp__tcp_loop_t *loop, bool cut) {
    uvhttp__exporter_t *exporter = exporter_of(loop);
    exporter->draining = true;
    if (cut) {
        uvhttp_client_response_free(exporter->response);
        exporter->response = NULL;
        lose_the_rest(exporter);
        uvhttp__tcp_loop_check_done(loop);
    } else if (exporter->state == WAITING) {
        transmit(exporter);
    } else if (exporter->state == IDLE) {
        send_batch(exporter);
    }
}

/* An empty batch is the sign that there is nothing left. A lookup that was abandoned is waited for in on_loop_stop. */
static bool is_busy(const uvhttp__tcp_loop_t *loop) {
    const uvhttp__exporter_t *exporter = exporter_of(loop);
    return exporter->state != IDLE || exporter->otlp.spans > 0;
}

static const uvhttp__conn_ops_t ops = {.conn_size = sizeof(uvhttp__conn_t),
                                       .on_loop_start = on_loop_start,
                                       .on_loop_stop = on_loop_stop,
                                       .on_loop_drain = on_loop_drain,
                                       .is_busy = is_busy};

static void *run(void *arg) {
    uvhttp__exporter_t *exporter = arg;
    int status = uvhttp__tcp_server_run(exporter->server);
    if (status != UVHTTP_OK)
        UVHTTP_LOG_ERROR("trace: the exporter has ended, spans are lost: %s", exporter->server->error);
    return NULL;
}

/* --- life --- */

static const char path[] = "/v1/traces";

/* The URL of the signal, unless it names a path already. */
static int set_endpoint(uvhttp__exporter_t *exporter, const char *endpoint) {
    uvhttp__client_url_t url;
    int status = uvhttp__client_url_parse(uvhttp__str_from(endpoint), &url);
    if (status != UVHTTP_OK) return status;
    bool bare = url.target.size == 0 || uvhttp__str_equal(url.target, UVHTTP__STR("/"));
    size_t size = (size_t)(url.authority.data - endpoint) + url.authority.size + (bare ? 0 : url.target.size);
    memcpy(exporter->endpoint, endpoint, size);
    memcpy(exporter->endpoint + size, bare ? path : "", bare ? sizeof path : 1);
    return UVHTTP_OK;
}

static int make_server(uvhttp__exporter_t *exporter) {
    const uvhttp__tcp_server_options_t options = {.engine = UVHTTP__ENGINE_EPOLL,
                                                  .io_threads = 1,
                                                  .max_connections = 1,
                                                  .read_buffer_size = 16384,
                                                  .read_buffer_count = 8,
                                                  .drain_timeout = LAST_S,
                                                  .name = "trace",
                                                  .ops = &ops,
                                                  .user = exporter};
    const uvhttp__work_options_t work = {.threads_max = 1, .backlog_max = 4, .idle_ms = 10000};
    exporter->work = uvhttp__work_new(&work);
    return exporter->work ? uvhttp__tcp_server_new(&options, &exporter->server) : UVHTTP_E_NOMEM;
}

int uvhttp__exporter_new(const uvhttp__exporter_options_t *options, uvhttp__exporter_t **made) {
    uvhttp__exporter_t *exporter = uvhttp__calloc(1, sizeof *exporter + strlen(options->endpoint) + sizeof path);
    if (!exporter) return UVHTTP_E_NOMEM;
    pthread_mutex_init(&exporter->lock, NULL);
    exporter->queues = options->queues;
    exporter->delay_ms = options->delay_ms;
    exporter->wake.run = on_wake;
    int status = set_endpoint(exporter, options->endpoint);
    exporter->service = uvhttp_str_dup(uvhttp__str_from(options->service));
    if (status == UVHTTP_OK && !exporter->service) status = UVHTTP_E_NOMEM;
    if (status == UVHTTP_OK) status = make_server(exporter);
    if (status == UVHTTP_OK)
        *made = exporter;
    else
        uvhttp__exporter_free(exporter);
    return status;
}

void uvhttp__exporter_free(uvhttp__exporter_t *exporter) {
    if (!exporter) return;
    if (exporter->running) {
        uvhttp__tcp_server_stop(exporter->server);
        pthread_join(exporter->thread, NULL);
    }
    uvhttp__tcp_server_free(exporter->server);
    uvhttp__work_free(exporter->work);
    pthread_mutex_destroy(&exporter->lock);
    uvhttp__writer_free(&exporter->otlp.out);
    uvhttp_free(exporter->service);
    uvhttp__free(exporter);
}

int uvhttp__exporter_start(uvhttp__exporter_t *exporter) {
    if (!exporter->running) exporter->running = uvhttp__thread_start(&exporter->thread, run, exporter);
    return exporter->running ? UVHTTP_OK : UVHTTP_E_LIMIT;
}

void uvhttp__exporter_kick(uvhttp__exporter_t *exporter) {
    if (atomic_exchange(&exporter->wake_posted, true)) return;
    pthread_mutex_lock(&exporter->lock);
    if (exporter->loop)
        uvhttp__loop_post(exporter->loop, &exporter->wake);
    else
        atomic_store(&exporter->wake_posted, false);
    pthread_mutex_unlock(&exporter->lock);
}

void uvhttp__exporter_read(const uvhttp__exporter_t *exporter, uvhttp__exporter_stats_t *stats) {
    stats->exported = atomic_load_explicit(&exporter->exported, memory_order_relaxed);
    stats->failed = atomic_load_explicit(&exporter->failed, memory_order_relaxed);
    stats->retries = atomic_load_explicit(&exporter->retries, memory_order_relaxed);
}
