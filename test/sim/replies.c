/* Owns: routes whose response is more than a head and a body of their own: /hinted has interim responses before it and
 * a trailer behind it, /shared sends a body that other requests send as well, and that is replaced meanwhile, /part
 * sends a part of a file by its descriptor. Each of them has a sibling on worker threads. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uvhttp.h>

#include "client.h"

enum { SHARED_BODIES = 5, PIECE_MAX = 3000 };

/* From the second last on they have a descriptor. */
static const uint32_t shared_sizes[SHARED_BODIES] = {0, 700, 7000, 66000, 140000};

static uvhttp_shared_body_t *shared[SHARED_BODIES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of `shared` */
static atomic_uint hinted_open;

/* --- what they are, from their request --- */

static uint32_t shared_of(uint32_t size) {
    uint32_t i = SHARED_BODIES - 1;
    while (shared_sizes[i] > size) i--;
    return i;
}

typedef struct part {
    uint32_t file, from, size;
} part_t;

static part_t part_of(uint32_t tag, uint32_t size) {
    part_t part = {.file = tag % SIM_FILES};
    uint32_t all = sim_file_sizes[part.file];
    part.size = size < all ? size : all;
    part.from = tag * 31 % (all - part.size + 1);
    return part;
}

void sim_reply_of(request_t *request, const op_t *op) {
    if (op->route == HINTED || op->route == WHINTED) {
        request->trailed = true;
    } else if (op->route == SHARED || op->route == WSHARED) {
        uint32_t i = shared_of(op->size);
        request->content = SIM_SHARED_TAG(i);
        request->size = shared_sizes[i];
    } else if (op->route == PART || op->route == WPART) {
        part_t part = part_of(request->tag, op->size);
        request->content = SIM_FILE_TAG(part.file);
        request->size = part.size;
        request->from = part.from;
    }
}

/* --- what clients see --- */

static uint32_t hints_of(uint32_t tag) {
    return tag % 4;
}

void sim_reply_hint(const client_t *client, request_t *request, const char *link) {
    char expected[32];
    if (!request || !request->trailed) return; /* other handlers have other ones */
    snprintf(expected, sizeof expected, "<%x>", request->tag);
    if (!link || strncmp(link, expected, strlen(expected)) != 0)
        sim_fail("client %u: an interim response to %x links %.20s", client->id, request->tag, link ? link : "nothing");
    if (++request->hints > hints_of(request->tag))
        sim_fail("client %u: %u interim responses to %x", client->id, request->hints, request->tag);
}

static void trailer_text(char *text, size_t capacity, uint32_t tag, uint32_t size) {
    snprintf(text, capacity, "%x of %u", tag, size);
}

void sim_reply_trailer(const client_t *client, request_t *request, const char *sum) {
    char expected[32];
    if (!request) return;
    trailer_text(expected, sizeof expected, request->tag, request->size);
    if (!request->trailed || request->has_trailer || strncmp(sum, expected, strlen(expected)) != 0)
        sim_fail("client %u: the trailer of the response to %x is %.20s", client->id, request->tag, sum);
    request->has_trailer = true;
}

void sim_reply_ended(const client_t *client, const request_t *request) {
    if (!request->trailed || sim_failing) return;
    if (!request->has_trailer) sim_fail("client %u: the response to %x has no trailer", client->id, request->tag);
    bool alone = !client->h2 && request == client->requests; /* else the queue may have been full */
    if (request->kind == HINTED + 1 && request->hints != hints_of(request->tag) && alone)
        sim_fail("client %u: %u interim responses to %x", client->id, request->hints, request->tag);
}

/* --- interim responses, and trailers --- */

typedef struct hinted {
    uint32_t tag, size, ms, hints, done;
    uvhttp_deferred_t *deferred;
    uvhttp_timer_t timer;
    bool waits; /* for the client, where a queue is full */
} hinted_t;

static void set_tag(uvhttp_response_t *res, uint32_t tag) {
    char text[16];
    snprintf(text, sizeof text, "%x", tag);
    if (uvhttp_response_header(res, "X-Tag", text) != UVHTTP_OK) uvhttp_response_close(res);
}

static void clear_tag(uvhttp_response_t *res, int status) {
    if (status != UVHTTP_OK) (void)uvhttp_response_header_remove(res, "X-Tag");
}

static int begin(uvhttp_response_t *res, uint32_t tag) {
    set_tag(res, tag);
    (void)uvhttp_response_header(res, "Trailer", "X-Sum");
    int status = uvhttp_response_begin(res, 200, NULL, UVHTTP_SIZE_UNKNOWN);
    clear_tag(res, status);
    return status;
}

static void end(uvhttp_response_t *res, uint32_t tag, uint32_t size) {
    char text[32];
    trailer_text(text, sizeof text, tag, size);
    int status = uvhttp_response_trailer(res, "X-Sum", text);
    bool excused = status == UVHTTP_E_ABORTED || sim_failing;
    if (status != UVHTTP_OK && !excused) sim_fail("the trailer of %x: %s", tag, uvhttp_error_name(status));
    (void)uvhttp_response_end(res);
}

/* Returns what a write has refused; 0: all is written. */
static int write_on(uvhttp_response_t *res, hinted_t *it) {
    char piece[PIECE_MAX];
    while (it->done < it->size) {
        uint32_t size = 1 + (it->tag * 31 + it->done) % PIECE_MAX;
        if (size > it->size - it->done) size = it->size - it->done;
        sim_fill(piece, it->tag, it->done, size);
        int status = uvhttp_response_write(res, piece, size);
        if (status != UVHTTP_OK) return status;
        it->done += size;
        if (it->waits) sim_world_wrote(it->tag, it->done);
    }
    return UVHTTP_OK;
}

static uvhttp_response_field_t link_of(char *text, size_t capacity, uint32_t tag) {
    snprintf(text, capacity, "<%x>", tag);
    return (uvhttp_response_field_t){"Link", text};
}

static void on_drain(uvhttp_response_t *res, void *user) {
    hinted_t *it = user;
    int status = write_on(res, it);
    if (status != UVHTTP_E_LIMIT) end(res, it->tag, it->size);
}

static void run_begin(uvhttp_response_t *res, void *user) {
    hinted_t *it = user;
    if (!res) return; /* it is gone */
    if (begin(res, it->tag) == UVHTTP_OK) {
        on_drain(res, it);
        return;
    }
    sim_give_up(&it->deferred);
}

static void hint_on(uvhttp_timer_t *timer, void *user) {
    (void)timer;
    hinted_t *it = user;
    char text[32];
    uvhttp_response_field_t link = link_of(text, sizeof text, it->tag);
    if (it->hints == 0) {
        if (uvhttp_deferred_run(it->deferred, run_begin, it) != UVHTTP_OK) sim_give_up(&it->deferred);
        return;
    }
    it->hints--;
    (void)uvhttp_deferred_interim(it->deferred, 103, &link, 1);
    if (uvhttp_timer_start(&it->timer, it->ms / 4, hint_on, it) != UVHTTP_OK) sim_give_up(&it->deferred);
}

static void on_hinted_done(uvhttp_response_t *res, int status, void *user) {
    (void)res, (void)status;
    hinted_t *it = user;
    uvhttp_timer_stop(&it->timer);
    uvhttp_deferred_release(it->deferred);
    free(it);
    hinted_open--;
}

static hinted_t read_hinted(const uvhttp_request_t *req) {
    uint32_t tag = sim_request_number(req, "tag", 16);
    return (hinted_t){.tag = tag,
                      .size = sim_request_number(req, "size", 10),
                      .ms = sim_request_number(req, "ms", 10),
                      .hints = hints_of(tag)};
}

static void on_hinted(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    hinted_t *it = calloc(1, sizeof *it);
    if (!it) abort();
    *it = read_hinted(req);
    if (uvhttp_response_on_done(res, on_hinted_done, it) != UVHTTP_OK) {
        free(it);
        return;
    }
    hinted_open++;
    char text[32];
    uvhttp_response_field_t link = link_of(text, sizeof text, it->tag);
    if (it->hints > 0) {
        it->hints--;
        (void)uvhttp_response_interim(res, 103, &link, 1);
    }
    it->deferred = uvhttp_response_defer(res);
    if (!it->deferred) return;
    uvhttp_deferred_on_drain(it->deferred, on_drain, it);
    hint_on(NULL, it);
}

static void on_whinted(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    hinted_t it = read_hinted(req);
    it.waits = true;
    char text[32];
    uvhttp_response_field_t link = link_of(text, sizeof text, it.tag);
    uint32_t ms = it.ms / 4;
    for (; it.hints > 0; it.hints--) {
        (void)uvhttp_response_interim(res, 103, &link, 1);
        if (ms) nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
    }
    if (begin(res, it.tag) == UVHTTP_OK && write_on(res, &it) == UVHTTP_OK) end(res, it.tag, it.size);
}

/* --- shared bodies --- */

/* NULL: there is no memory for it. Some requests renew it for the later ones. */
static uvhttp_shared_body_t *take_shared(uint32_t i, bool renew) {
    uvhttp_shared_body_t *fresh = NULL, *old = NULL;
    if (renew || !shared[i]) {
        char *data = malloc(shared_sizes[i] + 1);
        sim_fill(data, SIM_SHARED_TAG(i), 0, shared_sizes[i]);
        int status = uvhttp_shared_body_new(data, shared_sizes[i], &fresh);
        if (status != UVHTTP_OK && !sim_failing) sim_fail("a shared body: %s", uvhttp_error_name(status));
        free(data);
    }
    pthread_mutex_lock(&lock);
    if (fresh) {
        old = shared[i];
        shared[i] = fresh;
    }
    uvhttp_shared_body_t *body = shared[i];
    if (body) uvhttp_shared_body_retain(body);
    pthread_mutex_unlock(&lock);
    uvhttp_shared_body_release(old);
    return body;
}

static void on_shared(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uint32_t tag = sim_request_number(req, "tag", 16);
    uvhttp_shared_body_t *body = take_shared(shared_of(sim_request_number(req, "size", 10)), tag % 3 == 0);
    if (!body) return;
    set_tag(res, tag);
    clear_tag(res, uvhttp_response_send_shared_body(res, 200, NULL, body));
    uvhttp_shared_body_release(body);
}

static void release_shared(void) {
    for (uint32_t i = 0; i < SHARED_BODIES; i++) {
        uvhttp_shared_body_release(shared[i]);
        shared[i] = NULL;
    }
}

/* --- files --- */

static void on_part(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uint32_t tag = sim_request_number(req, "tag", 16);
    part_t part = part_of(tag, sim_request_number(req, "size", 10));
    char path[96];
    snprintf(path, sizeof path, "%s/f%u", sim_files_root(), part.file);
    set_tag(res, tag);
    if (part.size == sim_file_sizes[part.file] && tag % 2) {
        clear_tag(res, uvhttp_response_send_file(res, 200, NULL, path));
        return;
    }
    int fd = open64(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) sim_fail("no file %s", path);
    clear_tag(res, uvhttp_response_send_fd(res, 200, NULL, fd, part.from, part.size));
}

/* --- all of them --- */

void sim_replies_add(uvhttp_server_t *server) {
    hinted_open = 0;
    uvhttp_get(server, "/hinted/:tag/:size/:ms", on_hinted, NULL);
    uvhttp_get(server, "/shared/:tag/:size/:ms", on_shared, NULL);
    uvhttp_get(server, "/part/:tag/:size/:ms", on_part, NULL);
    uvhttp_route(server, UVHTTP_GET, "/whinted/:tag/:size/:ms", on_whinted, NULL, UVHTTP_EXEC_WORKER);
    uvhttp_route(server, UVHTTP_GET, "/wshared/:tag/:size/:ms", on_shared, NULL, UVHTTP_EXEC_WORKER);
    uvhttp_route(server, UVHTTP_GET, "/wpart/:tag/:size/:ms", on_part, NULL, UVHTTP_EXEC_WORKER);
}

void sim_replies_check_end(void) {
    release_shared();
    if (hinted_open) sim_fail("%u hinted responses have not ended", hinted_open);
}
