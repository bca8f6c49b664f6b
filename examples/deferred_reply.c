/* Responses that are made elsewhere: the handler puts the request into a queue and returns, a thread of the application
 * responds when it is done. The loop serves others meanwhile. If the client goes away first, the call returns
 * UVHTTP_E_ABORTED and nothing else happens; the abort callback lets the worker skip what nobody waits for.
 *
 *   build/dist/bin/deferred_reply          # or: deferred_reply 127.0.0.1:9000
 *   curl 'http://127.0.0.1:8080/work?ms=500'
 *   curl -m 0.1 'http://127.0.0.1:8080/work?ms=500'; curl http://127.0.0.1:8080/stats
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <uvhttp.h>

#define JOBS_MAX 100 /* a queue without a bound would only move the trouble */

typedef struct job {
    struct job *next;
    uvhttp_deferred_t *later;
    unsigned ms;
} job_t;

typedef struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    job_t *first, **last;
    unsigned count;
    bool stopping;
    atomic_uint done, skipped, clients_gone;
} queue_t;

static bool queue_push(queue_t *queue, job_t *job) {
    pthread_mutex_lock(&queue->lock);
    bool accepted = queue->count < JOBS_MAX;
    if (accepted) {
        ++queue->count;
        *queue->last = job;
        queue->last = &job->next;
        pthread_cond_signal(&queue->changed);
    }
    pthread_mutex_unlock(&queue->lock);
    return accepted;
}

/* Waits for a job; NULL when the program ends. */
static job_t *queue_pop(queue_t *queue) {
    pthread_mutex_lock(&queue->lock);
    while (!queue->first && !queue->stopping) pthread_cond_wait(&queue->changed, &queue->lock);
    job_t *job = queue->first;
    if (job) {
        --queue->count;
        queue->first = job->next;
        if (!queue->first) queue->last = &queue->first;
    }
    pthread_mutex_unlock(&queue->lock);
    return job;
}

static void *worker(void *arg) {
    queue_t *queue = arg;
    for (job_t *job; (job = queue_pop(queue)) != NULL;) {
        int status = UVHTTP_E_ABORTED;
        if (!uvhttp_deferred_aborted(job->later)) {
            /* The work: here it only takes its time. */
            nanosleep(&(struct timespec){.tv_sec = job->ms / 1000, .tv_nsec = job->ms % 1000 * 1000000L}, NULL);
            char text[64];
            snprintf(text, sizeof text, "done after %u ms\n", job->ms);
            status = uvhttp_deferred_text(job->later, 200, text);
        }
        atomic_fetch_add(status == 0 ? &queue->done : &queue->skipped, 1);
        uvhttp_deferred_release(job->later);
        free(job);
    }
    return NULL;
}

/* On the loop's thread, at once when the client goes. */
static void on_abort(uvhttp_deferred_t *deferred, void *user) {
    (void)deferred;
    queue_t *queue = user;
    atomic_fetch_add(&queue->clients_gone, 1);
}

static void start_work(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    queue_t *queue = user;
    uvhttp_str_t value;
    unsigned ms = 100;
    if (uvhttp_request_query_param(req, "ms", &value)) {
        ms = 0;
        for (size_t i = 0; i < value.size && ms <= 10000; ++i) {
            ms = value.data[i] >= '0' && value.data[i] <= '9' ? ms * 10 + (unsigned)(value.data[i] - '0') : 10001;
        }
        if (ms > 10000) {
            uvhttp_response_text(res, 400, "ms is not in 0..10000\n");
            return;
        }
    }
    job_t *job = calloc(1, sizeof *job);
    if (job) job->later = uvhttp_response_defer(res);
    if (!job || !job->later) {
        free(job);
        uvhttp_response_text(res, 503, "out of memory\n");
        return;
    }
    job->ms = ms;
    uvhttp_deferred_on_abort(job->later, on_abort, queue);
    if (!queue_push(queue, job)) {
        uvhttp_deferred_header(job->later, "Retry-After", "1");
        uvhttp_deferred_text(job->later, 503, "too much to do\n");
        uvhttp_deferred_release(job->later);
        free(job);
    }
}

static void show_stats(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    queue_t *queue = user;
    char text[96];
    snprintf(text, sizeof text, "done %u, skipped %u, clients gone %u\n", atomic_load(&queue->done),
             atomic_load(&queue->skipped), atomic_load(&queue->clients_gone));
    uvhttp_response_text(res, 200, text);
}

int main(int argc, char **argv) {
    static queue_t queue = {
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .last = &queue.first};
    pthread_t threads[4];
    const unsigned thread_count = sizeof threads / sizeof threads[0];

    uvhttp_server_t *server = uvhttp_server_new(NULL);
    if (!server) return 1;
    uvhttp_get(server, "/work", start_work, &queue);
    uvhttp_get(server, "/stats", show_stats, &queue);
    unsigned started = 0;
    while (started < thread_count && pthread_create(&threads[started], NULL, worker, &queue) == 0) ++started;
    int status = 1;
    if (started > 0) status = uvhttp_server_run(server, argc > 1 ? argv[1] : "127.0.0.1:8080");

    /* The server is drained: what is left in the queue has lost its client, and the workers see that at once. */
    pthread_mutex_lock(&queue.lock);
    queue.stopping = true;
    pthread_cond_broadcast(&queue.changed);
    pthread_mutex_unlock(&queue.lock);
    for (unsigned i = 0; i < started; ++i) pthread_join(threads[i], NULL);
    uvhttp_server_free(server);
    return status != 0;
}
