/* Owns: the pool of helper threads. May include: io, base, obs. */
#include "exec/work.h"

#include <pthread.h>
#include <signal.h>

#include "base/alloc.h"

struct uvhttp__work {
    pthread_mutex_t lock;
    pthread_cond_t wanted;   /* a job waits, or the threads are to end */
    pthread_cond_t returned; /* a job has gone back to its loop */
    uvhttp__job_t *first, **last;
    uint32_t backlog, backlog_max;
    uint32_t idle; /* threads that wait for a job */
    uint32_t count, threads_max;
    bool ending;
    pthread_t threads[];
};

uvhttp__work_t *uvhttp__work_new(uint32_t threads_max, uint32_t backlog_max) {
    assert(threads_max > 0 && backlog_max > 0);
    uvhttp__work_t *work = uvhttp__calloc(1, sizeof *work + threads_max * sizeof *work->threads);
    if (!work) return NULL;
    pthread_mutex_init(&work->lock, NULL);
    pthread_cond_init(&work->wanted, NULL);
    pthread_cond_init(&work->returned, NULL);
    work->last = &work->first;
    work->threads_max = threads_max;
    work->backlog_max = backlog_max;
    return work;
}

void uvhttp__work_free(uvhttp__work_t *work) {
    if (!work) return;
    pthread_mutex_lock(&work->lock);
    assert(!work->first);
    work->ending = true;
    pthread_cond_broadcast(&work->wanted);
    pthread_mutex_unlock(&work->lock);
    for (uint32_t i = 0; i < work->count; i++) pthread_join(work->threads[i], NULL);
    pthread_cond_destroy(&work->returned);
    pthread_cond_destroy(&work->wanted);
    pthread_mutex_destroy(&work->lock);
    uvhttp__free(work);
}

/* --- helper threads --- */

/* The next job, or NULL: the thread is to end. Under the lock. */
static uvhttp__job_t *take(uvhttp__work_t *work) {
    while (!work->first && !work->ending) {
        work->idle++;
        pthread_cond_wait(&work->wanted, &work->lock);
        work->idle--;
    }
    uvhttp__job_t *job = work->first;
    if (!job) return NULL;
    work->first = job->next;
    if (!work->first) work->last = &work->first;
    work->backlog--;
    return job;
}

/* Under the lock, which also orders one use of the port's message with the next. */
static void give_back(uvhttp__work_t *work, uvhttp__job_t *job) {
    uvhttp__work_port_t *port = job->port;
    bool first = port->finished == NULL;
    job->next = NULL;
    *port->finished_last = job;
    port->finished_last = &job->next;
    if (first) uvhttp__loop_post(port->loop, &port->post);
    /* Only now may the loop go: a post wakes it after it has pushed. */
    port->out--;
    pthread_cond_broadcast(&work->returned);
}

static void *help(void *arg) {
    uvhttp__work_t *work = arg;
    pthread_mutex_lock(&work->lock);
    for (uvhttp__job_t *job; (job = take(work));) {
        pthread_mutex_unlock(&work->lock);
        job->run(job);
        pthread_mutex_lock(&work->lock);
        give_back(work, job);
    }
    pthread_mutex_unlock(&work->lock);
    return NULL;
}

/* Signals are for the application's threads. Under the lock. */
static void start_thread(uvhttp__work_t *work) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&work->threads[work->count], NULL, help, work) == 0) work->count++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* --- the loop's side --- */

static void run_done(uvhttp__work_port_t *port) {
    pthread_mutex_lock(&port->work->lock);
    uvhttp__job_t *next, *job = port->finished;
    port->finished = NULL;
    port->finished_last = &port->finished;
    pthread_mutex_unlock(&port->work->lock);
    for (; job; job = next) {
        next = job->next;
        job->done(job, false);
    }
}

static void on_post(uvhttp__post_t *post) {
    run_done(UVHTTP__CONTAINER_OF(post, uvhttp__work_port_t, post));
}

void uvhttp__work_port_open(uvhttp__work_port_t *port, uvhttp__work_t *work, uvhttp__loop_t *loop) {
    *port = (uvhttp__work_port_t){.work = work, .loop = loop, .post.run = on_post};
    port->finished_last = &port->finished;
}

int uvhttp__work_submit(uvhttp__work_port_t *port, uvhttp__job_t *job) {
    uvhttp__work_t *work = port->work;
    int status = UVHTTP_OK;
    pthread_mutex_lock(&work->lock);
    if (work->backlog >= work->backlog_max) {
        status = UVHTTP_E_LIMIT;
    } else {
        if (work->idle <= work->backlog && work->count < work->threads_max) start_thread(work);
        if (work->count == 0) status = UVHTTP_E_NOMEM;
    }
    if (status == UVHTTP_OK) {
        job->port = port;
        job->next = NULL;
        *work->last = job;
        work->last = &job->next;
        work->backlog++;
        port->out++;
        pthread_cond_signal(&work->wanted);
    }
    pthread_mutex_unlock(&work->lock);
    return status;
}

/* Takes the jobs of a port out of the queue. Under the lock. */
static uvhttp__job_t *withdraw(uvhttp__work_t *work, const uvhttp__work_port_t *port) {
    uvhttp__job_t *withdrawn = NULL, **at = &work->first;
    while (*at) {
        uvhttp__job_t *job = *at;
        if (job->port != port) {
            at = &job->next;
            continue;
        }
        *at = job->next;
        job->next = withdrawn;
        withdrawn = job;
        work->backlog--;
    }
    work->last = at;
    return withdrawn;
}

void uvhttp__work_port_close(uvhttp__work_port_t *port) {
    if (!port->loop) return;
    uvhttp__work_t *work = port->work;
    pthread_mutex_lock(&work->lock);
    uvhttp__job_t *next, *withdrawn = withdraw(work, port);
    for (const uvhttp__job_t *job = withdrawn; job; job = job->next) port->out--;
    while (port->out > 0) pthread_cond_wait(&work->returned, &work->lock);
    pthread_mutex_unlock(&work->lock);
    run_done(port);
    for (uvhttp__job_t *job = withdrawn; job; job = next) {
        next = job->next;
        job->done(job, true);
    }
    port->loop = NULL;
}
