/* Owns: where jobs wait before they are ready: the chains of tags, the heap of those whose time has not come. May
 * include: io, base, obs. */
#include "base/alloc.h"
#include "exec/work_internal.h"

/* --- tags --- */

/* The job that has its tag stands in a chain, and those that wait for the tag behind it: no memory is needed. */
static uvhttp__job_t **tag_place(uvhttp__work_t *work, uint64_t tag) {
    uint64_t mixed = tag * UINT64_C(0x9e3779b97f4a7c15);
    uvhttp__job_t **at = &work->tags[mixed >> 32 & (UVHTTP__WORK_BUCKETS - 1)];
    while (*at && (*at)->tag != tag) at = &(*at)->next;
    return at;
}

bool uvhttp__work_make_ready(uvhttp__work_t *work, uvhttp__job_t *job, uint64_t now_ns) {
    if (job->tag != 0) {
        uvhttp__job_t **at = tag_place(work, job->tag);
        if (*at) {
            job->state = UVHTTP__JOB_BEHIND;
            uvhttp__list_push_back(&(*at)->behind, &job->link);
            return false;
        }
        *at = job;
        job->next = NULL;
        uvhttp__list_init(&job->behind);
    }
    uvhttp__work_push(work, job, now_ns);
    return true;
}

bool uvhttp__work_pass_tag(uvhttp__work_t *work, uvhttp__job_t *job, uint64_t now_ns) {
    if (job->tag == 0) return false;
    uvhttp__job_t **at = tag_place(work, job->tag);
    assert(*at == job);
    *at = job->next;
    if (uvhttp__list_empty(&job->behind)) return false;
    uvhttp__job_t *heir = UVHTTP__CONTAINER_OF(job->behind.next, uvhttp__job_t, link);
    uvhttp__list_remove(&heir->link);
    heir->next = job->next;
    *at = heir;
    /* The rest moves over: the heir's node takes the place of the old head in the ring. */
    uvhttp__list_init(&heir->behind);
    if (!uvhttp__list_empty(&job->behind)) {
        uvhttp__list_push_front(&job->behind, &heir->behind);
        uvhttp__list_remove(&job->behind);
    }
    uvhttp__work_push(work, heir, now_ns);
    return true;
}

/* --- the heap --- */

static void put(uvhttp__work_t *work, uvhttp__job_t *job, uint32_t index) {
    work->heap[index] = job;
    job->heap_index = index;
}

static void sift_up(uvhttp__work_t *work, uvhttp__job_t *job, uint32_t index) {
    while (index > 0) {
        uint32_t parent = (index - 1) / 2;
        if (work->heap[parent]->due_ns <= job->due_ns) break;
        put(work, work->heap[parent], index);
        index = parent;
    }
    put(work, job, index);
}

static void sift_down(uvhttp__work_t *work, uvhttp__job_t *job, uint32_t index) {
    for (;;) {
        uint32_t child = 2 * index + 1;
        if (child >= work->heap_count) break;
        if (child + 1 < work->heap_count && work->heap[child + 1]->due_ns < work->heap[child]->due_ns) child++;
        if (work->heap[child]->due_ns >= job->due_ns) break;
        put(work, work->heap[child], index);
        index = child;
    }
    put(work, job, index);
}

int uvhttp__work_heap_reserve(uvhttp__work_t *work) {
    if (work->timed < work->heap_capacity) return UVHTTP_OK;
    uint32_t capacity = work->heap_capacity ? 2 * work->heap_capacity : 16;
    uvhttp__job_t **heap = uvhttp__realloc(work->heap, capacity * sizeof *heap);
    if (!heap) return UVHTTP_E_NOMEM;
    work->heap = heap;
    work->heap_capacity = capacity;
    return UVHTTP_OK;
}

void uvhttp__work_heap_push(uvhttp__work_t *work, uvhttp__job_t *job) {
    assert(work->heap_count < work->heap_capacity);
    job->state = UVHTTP__JOB_TIMED;
    sift_up(work, job, work->heap_count++);
}

void uvhttp__work_heap_remove(uvhttp__work_t *work, uvhttp__job_t *job) {
    uint32_t index = job->heap_index;
    uvhttp__job_t *moved = work->heap[--work->heap_count];
    if (moved == job) return;
    if (index > 0 && work->heap[(index - 1) / 2]->due_ns > moved->due_ns)
        sift_up(work, moved, index);
    else
        sift_down(work, moved, index);
}

/* --- both --- */

void uvhttp__work_unqueue(uvhttp__work_t *work, uvhttp__job_t *job) {
    if (job->state == UVHTTP__JOB_TIMED)
        uvhttp__work_heap_remove(work, job);
    else
        uvhttp__list_remove(&job->link);
    atomic_fetch_sub(&work->waiting, 1);
}
