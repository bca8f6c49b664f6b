/* Owns: jobs of the application for the server's pool. */
#include <uvhttp/work.h>

#include "base/alloc.h"
#include "base/ref.h"
#include "base/sized.h"
#include "server/server.h"

struct uvhttp_work_s {
    uvhttp__job_t job;
    uvhttp__ref_t ref; /* the pool's, until done, and the application's */
    uvhttp__work_t *work;
    uvhttp_work_cb run;
    uvhttp_work_done_cb done;
    void *user;
};

static void run(uvhttp__job_t *job) {
    uvhttp_work_t *handle = UVHTTP__CONTAINER_OF(job, uvhttp_work_t, job);
    handle->run(handle->user);
}

static void finish(uvhttp__job_t *job, bool cancelled) {
    uvhttp_work_t *handle = UVHTTP__CONTAINER_OF(job, uvhttp_work_t, job);
    if (handle->done) handle->done(handle->user, cancelled ? UVHTTP_E_WORK_CANCELLED : UVHTTP_OK);
    uvhttp_work_release(handle);
}

/* Of the loop that the caller runs on; NULL if it is none of the server's. */
static uvhttp__work_port_t *own_port(const uvhttp_server_t *server) {
    const uvhttp__loop_t *loop = uvhttp__tcp_server_current_loop();
    uvhttp__work_port_t *port = loop ? uvhttp__work_port_of(loop) : NULL;
    return port && port->work == server->service.work ? port : NULL;
}

int uvhttp_work_with_sized(uvhttp_server_t *server, const uvhttp_work_options_t *options, size_t options_size,
                           uvhttp_work_cb run_cb, void *user, uvhttp_work_t **handle) {
    if (!server || !run_cb) return UVHTTP_E_INVALID;
    uvhttp_work_options_t full;
    if (!uvhttp__sized_read(&full, sizeof full, options, options_size)) return UVHTTP_E_UNSUPPORTED;
    options = &full;
    uvhttp_work_t *made = uvhttp__malloc(sizeof *made);
    if (!made) return UVHTTP_E_NOMEM;
    *made = (uvhttp_work_t){.work = server->service.work, .run = run_cb, .done = options->done, .user = user};
    uvhttp__ref_init(&made->ref);
    uvhttp__job_init(&made->job, run, finish);
    made->job.name = options->name;
    made->job.tag = options->tag;
    made->job.delay_ns = options->delay_ms * UINT64_C(1000000);
    made->job.period_ns = options->period_ms * UINT64_C(1000000);
    if (handle) {
        uvhttp__ref_acquire(&made->ref);
        *handle = made;
    }
    int status = uvhttp__work_submit(server->service.work, own_port(server), &made->job);
    if (status == UVHTTP_OK) return UVHTTP_OK;
    if (handle) *handle = NULL;
    uvhttp__free(made);
    return status;
}

int uvhttp_work(uvhttp_server_t *server, uvhttp_work_cb run_cb, uvhttp_work_done_cb done, void *user) {
    return uvhttp_work_with(server, &(uvhttp_work_options_t){.done = done}, run_cb, user, NULL);
}

int uvhttp_work_cancel(uvhttp_work_t *handle) {
    return handle ? uvhttp__work_cancel(handle->work, &handle->job) : UVHTTP_E_INVALID;
}

void uvhttp_work_release(uvhttp_work_t *handle) {
    if (handle && uvhttp__ref_release(&handle->ref)) uvhttp__free(handle);
}
