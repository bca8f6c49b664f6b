/* Owns: responses that come later, from a thread of their own. */
#include "later.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct job {
    struct job *next;
    later_t *later;
    uvhttp_deferred_t *deferred;
    later_how_t how;
    bool held;
    struct timespec due;
    char key[64];
} job_t;

struct later {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    job_t *jobs;
    bool stopping;
    later_counts_t counts;
};

static bool is_due(const job_t *job, const struct timespec *now) {
    if (job->held) return false;
    return job->due.tv_sec != now->tv_sec ? job->due.tv_sec < now->tv_sec : job->due.tv_nsec <= now->tv_nsec;
}

static void count_release(void *arg) {
    later_t *later = arg;
    atomic_fetch_add(&later->counts.released, 1);
}

static void count(later_t *later, int status) {
    atomic_uint *counter = status == 0                  ? &later->counts.responded
                           : status == UVHTTP_E_ABORTED ? &later->counts.aborted
                                                        : &later->counts.refused;
    atomic_fetch_add(counter, 1);
}

/* On the loop's thread. */
static void run_response(uvhttp_response_t *res, void *user) {
    job_t *job = user;
    int status = UVHTTP_E_ABORTED;
    if (res && job->how == LATER_RUN) {
        status = uvhttp_response_text(res, 200, "later");
    } else if (res) {
        status = uvhttp_response_begin(res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN);
        if (status == 0) status = uvhttp_response_write(res, "la", 2);
        if (status == 0) status = uvhttp_response_write(res, "ter", 3);
        if (status == 0) status = uvhttp_response_end(res);
    }
    count(job->later, status);
    uvhttp_deferred_release(job->deferred);
    free(job);
}

static int respond_target(uvhttp_deferred_t *deferred) {
    if (uvhttp_deferred_aborted(deferred)) return UVHTTP_E_ABORTED;
    uvhttp_str_t target = uvhttp_request_target(uvhttp_deferred_request(deferred));
    return uvhttp_deferred_send(deferred, 200, "text/plain", target.data, target.size);
}

/* Responds and frees the job. */
static void respond(job_t *job) {
    uvhttp_deferred_t *deferred = job->deferred;
    later_t *later = job->later;
    switch (job->how) {
        case LATER_TEXT:
            uvhttp_deferred_header(deferred, "X-Later", "yes");
            count(later, uvhttp_deferred_text(deferred, 200, "later"));
            break;
        case LATER_JSON: count(later, uvhttp_deferred_json(deferred, 200, "\"later\"")); break;
        case LATER_SEND: count(later, uvhttp_deferred_send(deferred, 200, "text/plain", "later", 5)); break;
        case LATER_REF:
            count(later, uvhttp_deferred_send_ref(deferred, 200, "text/plain", "later", 5, count_release, later));
            break;
        case LATER_RUN:
        case LATER_PIECES:
            if (uvhttp_deferred_run(deferred, run_response, job) == 0) return;
            count(later, UVHTTP_E_ABORTED);
            break;
        case LATER_NOTHING: break;
        case LATER_TWICE:
            count(later, uvhttp_deferred_text(deferred, 200, "later"));
            count(later, uvhttp_deferred_text(deferred, 200, "again"));
            break;
        case LATER_REQUEST: count(later, respond_target(deferred)); break;
    }
    uvhttp_deferred_release(deferred);
    free(job);
}

static job_t *take_due(later_t *later, const struct timespec *now) {
    for (job_t **at = &later->jobs; *at; at = &(*at)->next) {
        job_t *job = *at;
        if (!is_due(job, now)) continue;
        *at = job->next;
        return job;
    }
    return NULL;
}

static void *run(void *arg) {
    later_t *later = arg;
    pthread_mutex_lock(&later->lock);
    while (!later->stopping) {
        struct timespec now, wake;
        clock_gettime(CLOCK_MONOTONIC, &now);
        job_t *job = take_due(later, &now);
        if (job) {
            pthread_mutex_unlock(&later->lock);
            respond(job);
            pthread_mutex_lock(&later->lock);
            continue;
        }
        wake = now;
        wake.tv_sec += 3600;
        for (const job_t *at = later->jobs; at; at = at->next) {
            if (is_due(at, &wake)) wake = at->due;
        }
        pthread_cond_timedwait(&later->changed, &later->lock, &wake);
    }
    pthread_mutex_unlock(&later->lock);
    return NULL;
}

static void on_abort(uvhttp_deferred_t *deferred, void *user) {
    later_t *later = user;
    /* The request is still readable here. */
    if (uvhttp_request_target(uvhttp_deferred_request(deferred)).size > 0) atomic_fetch_add(&later->counts.on_abort, 1);
}

int later_add(later_t *later, uvhttp_deferred_t *deferred, later_how_t how, unsigned ms, uvhttp_str_t key) {
    job_t *job = calloc(1, sizeof *job);
    if (!job || key.size >= sizeof job->key) {
        free(job);
        return UVHTTP_E_NOMEM;
    }
    uvhttp_deferred_on_abort(deferred, on_abort, later);
    *job = (job_t){.later = later, .deferred = deferred, .how = how, .held = key.size > 0};
    if (key.size > 0) memcpy(job->key, key.data, key.size);
    clock_gettime(CLOCK_MONOTONIC, &job->due);
    job->due.tv_sec += ms / 1000;
    job->due.tv_nsec += ms % 1000 * 1000000L;
    if (job->due.tv_nsec >= 1000000000L) {
        job->due.tv_nsec -= 1000000000L;
        ++job->due.tv_sec;
    }
    pthread_mutex_lock(&later->lock);
    job->next = later->jobs;
    later->jobs = job;
    if (job->held) atomic_fetch_add(&later->counts.held, 1);
    pthread_cond_signal(&later->changed);
    pthread_mutex_unlock(&later->lock);
    return 0;
}

unsigned later_release(later_t *later, uvhttp_str_t key) {
    unsigned released = 0;
    pthread_mutex_lock(&later->lock);
    for (job_t *job = later->jobs; job; job = job->next) {
        if (!job->held || strlen(job->key) != key.size || memcmp(job->key, key.data, key.size) != 0) continue;
        job->held = false;
        atomic_fetch_sub(&later->counts.held, 1);
        ++released;
    }
    pthread_cond_signal(&later->changed);
    pthread_mutex_unlock(&later->lock);
    return released;
}

later_counts_t *later_counts(later_t *later) {
    return &later->counts;
}

later_t *later_new(void) {
    later_t *later = calloc(1, sizeof *later);
    if (!later) return NULL;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&later->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&later->lock, NULL);
    if (pthread_create(&later->thread, NULL, run, later) != 0) {
        free(later);
        return NULL;
    }
    return later;
}

void later_free(later_t *later) {
    pthread_mutex_lock(&later->lock);
    later->stopping = true;
    pthread_cond_signal(&later->changed);
    pthread_mutex_unlock(&later->lock);
    pthread_join(later->thread, NULL);
    while (later->jobs) {
        job_t *job = later->jobs;
        later->jobs = job->next;
        uvhttp_deferred_release(job->deferred);
        free(job);
    }
    pthread_cond_destroy(&later->changed);
    pthread_mutex_destroy(&later->lock);
    free(later);
}
