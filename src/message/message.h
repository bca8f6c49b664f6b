/* Owns: the request and the response of one exchange, as the server's session sees them. The session owns both (with
 * one arena, pooled and used again), fills the request from a parsed head, and serialises what the response has
 * recorded. Nothing here is locked: one thread at a time. May include: base, obs. */
#ifndef UVHTTP_SRC_MESSAGE_MESSAGE_H
#define UVHTTP_SRC_MESSAGE_MESSAGE_H

#include <uvhttp/error.h>
#include <uvhttp/request.h>
#include <uvhttp/response.h>

#include "base/arena.h"
#include <stdatomic.h>
#include <string.h>

#include "base/hot_path.h"
#include "base/http_head.h"
#include "base/ip.h"
#include "base/ref.h"
#include "obs/trace.h"

#define UVHTTP__QUERY_PARAM_MAX 1000               /* pairs of a query that can be seen; later ones are left out */
#define UVHTTP__PARAM_MAX 32                       /* parameters of a route's pattern */
#define UVHTTP__PEER_TEXT_MAX 128                  /* bytes with the terminator */
#define UVHTTP__RESPONSE_HEADERS_SIZE_MAX 65536u   /* bytes of a response's own header fields */
#define UVHTTP__RESPONSE_CONTENT_TYPE_SIZE_MAX 256 /* bytes */

/* --- request --- */

/* Who a request comes from. */
typedef struct uvhttp__client {
    uvhttp__peer_t address;
    bool https;        /* the client speaks https, with us or with a proxy */
    uvhttp_str_t host; /* what it has addressed; size 0: what the request says. Lives as long as the request */
} uvhttp__client_t;

/* What a request shows of its connection: a copy, so that no path leads from a request to a connection. Each part is
 * learnt when somebody asks for it on the loop, and all of them before another thread sees the request or the request
 * may outlive its connection. From then on nothing in it is written, and any thread may read it. */
typedef struct uvhttp__origin {
    uvhttp_str_t peer; /* as uvhttp_request_peer */
    uvhttp__client_t client;
    uvhttp_str_t client_text; /* as uvhttp_request_client */
    const char *subject;      /* of the client's certificate, terminated; NULL: none */
    bool tls;                 /* the connection is encrypted */
    uint8_t known;            /* UVHTTP__ORIGIN_*: the parts that have been learnt */
} uvhttp__origin_t;

enum { /* parts of it */
       UVHTTP__ORIGIN_PEER = 1 << 0,
       UVHTTP__ORIGIN_CLIENT = 1 << 1, /* client and client_text */
       UVHTTP__ORIGIN_TLS = 1 << 2,    /* tls and subject */
       UVHTTP__ORIGIN_ALL = UVHTTP__ORIGIN_PEER | UVHTTP__ORIGIN_CLIENT | UVHTTP__ORIGIN_TLS,
};

/* What the owner of a request knows and the request does not. peer, client and tls are called on the loop's thread, at
 * most once per request if there is memory; NULL: nothing is known. The others are for any thread. */
typedef struct uvhttp__request_ops {
    /* Writes the peer's address, terminated: "192.0.2.1:50000", "[2001:db8::1]:50000" or "unix:". */
    void (*peer)(const uvhttp_request_t *req, char text[UVHTTP__PEER_TEXT_MAX]);
    /* Who the request comes from, by what trusted proxies say. */
    void (*client)(uvhttp_request_t *req, struct uvhttp__client *client);
    /* Whether the connection is encrypted. *subject: of the client's certificate, valid during the caller's call; NULL
     * before. */
    bool (*tls)(const uvhttp_request_t *req, const char **subject);
    /* The shard of the loop that the caller runs on; NULL on any other thread. May be NULL. */
    struct uvhttp__counters *(*counters)(const uvhttp_request_t *req);
    /* CLOCK_MONOTONIC, on the request's loop at the start of its iteration. */
    uint64_t (*time_ns)(const uvhttp_request_t *req);
    /* CLOCK_MONOTONIC when the head was seen whole, and now. */
    void (*times)(const uvhttp_request_t *req, uint64_t *begin_ns, uint64_t *now_ns);
    /* For hooks on the loop's thread: the code by which the server has sent a response of its own in place of this one,
     * which is another thread's; 0: it has not. May be NULL. */
    int (*refused)(const uvhttp_request_t *req);
} uvhttp__request_ops_t;

typedef struct uvhttp__query_param {
    uvhttp__span_t name;
    uvhttp__span_t value;
} uvhttp__query_param_t;

/* What one part of the library leaves with a request for another to find, in the arena. */
typedef struct uvhttp__note {
    struct uvhttp__note *next;
    const void *key;
    uvhttp_str_t text;
} uvhttp__note_t;

/* A place in the Cookie fields, as numbers: the head may move. Zeros: the first. */
typedef struct uvhttp__cookie_place {
    uint32_t field; /* as of uvhttp_request_header_next */
    uint32_t left;  /* how many bytes of the field before that have not been looked at */
} uvhttp__cookie_place_t;

/* What most requests do not have, so that one that waits need not hold it; pointers are into the arena. */
typedef struct uvhttp__request_extras {
    uvhttp_str_t trailer;    /* "Name: value" lines with CRLF, well-formed; the session sets it */
    const char *decoded;     /* the decoded path; NULL: the raw path */
    uint32_t decoded_size;   /* bytes */
    uint32_t slash_count;    /* how many %2F were left in it */
    const uint32_t *slashes; /* where those stand, ascending */
    uvhttp__note_t *notes;   /* last one first */
    uint32_t param_count;
    uint32_t query_count;
    uvhttp__span_t *params; /* of the route's pattern */
    const uvhttp_str_t *param_names;
    const char *param_text; /* what params are offsets into; NULL: the decoded path */
    const char *query_text;
    const uvhttp__query_param_t *query_params;
    struct {
        uint32_t index;                       /* of the cookie that was asked for last */
        uvhttp__cookie_place_t before, after; /* where it is found, and the next one */
    } last_cookie;                            /* so that asking for one cookie after the other reads the fields once */
    struct {
        uint32_t index, offset; /* of the trailer field that was asked for last, in `trailer` */
    } last_trailer;             /* the same */
    bool cookie_known;          /* last_cookie holds */
    bool trailer_known;         /* last_trailer does */
    bool query_parsed;
} uvhttp__request_extras_t;

/* The first group is the session's; everything is an offset from `base`, so that the head can be copied elsewhere. The
 * second group belongs to this folder. */
struct uvhttp_request {
    const char *base; /* first byte of the head */
    uvhttp__head_t head;

    uvhttp_str_t
        body; /* whole, unchunked; the session sets it, also after a rebase. From here on: zero after a reset */
    void *data;
    /* In the arena; NULL: there are none. Atomic: hooks of an aborted response look for what was there before another
     * thread got the request, which may be adding what it asks for. */
    _Atomic(uvhttp__request_extras_t *) extras;
    uvhttp__origin_t *origin; /* in the arena; NULL: nothing of it is known. To here */
    uvhttp__arena_t *arena;   /* the session's to set: what the thread that reads the request takes memory from */
    const uvhttp__request_ops_t *ops; /* set once by init */
};

/* For the life of the exchange: memory of the request comes from `arena`, which the session resets between requests. */
void uvhttp__request_init(uvhttp_request_t *req, uvhttp__arena_t *arena, const uvhttp__request_ops_t *ops);

/* Forgets the last request (a few ns: base and head are the session's to write, all of them). The arena is the
 * session's to reset. */
static inline void uvhttp__request_reset(uvhttp_request_t *req) {
    memset(&req->body, 0, offsetof(uvhttp_request_t, arena) - offsetof(uvhttp_request_t, body));
}

/* NULL: there are none. */
static inline uvhttp__request_extras_t *uvhttp__request_find_extras(const uvhttp_request_t *req) {
    return atomic_load_explicit(&req->extras, memory_order_acquire);
}
/* For writing; NULL: out of memory. */
uvhttp__request_extras_t *uvhttp__request_make_extras(uvhttp_request_t *req);
static inline uvhttp__request_extras_t *uvhttp__request_extras(uvhttp_request_t *req) {
    uvhttp__request_extras_t *extras = uvhttp__request_find_extras(req);
    return extras ? extras : uvhttp__request_make_extras(req);
}
/* For reading. */
extern const uvhttp__request_extras_t uvhttp__request_no_extras;
static inline const uvhttp__request_extras_t *uvhttp__request_see_extras(const uvhttp_request_t *req) {
    const uvhttp__request_extras_t *extras = uvhttp__request_find_extras(req);
    return extras ? extras : &uvhttp__request_no_extras;
}

/* The head has been copied to new_base, and its fields array to new_fields. Earlier views are invalid. */
static inline void uvhttp__request_rebase(uvhttp_request_t *req, const char *new_base, uvhttp__field_t *new_fields) {
    req->base = new_base;
    req->head.headers = new_fields;
}

/* Makes the path that is routed (see uvhttp_request_path). To be called once, before routing. Returns 0,
 * UVHTTP_E_HTTP_TARGET (malformed escape, %00, a dot segment that climbs above the root) or UVHTTP_E_NOMEM (also when
 * the arena's limit is reached). */
int uvhttp__request_decode_path(uvhttp_request_t *req);

/* Takes what a route's pattern matched: `params` are views into the decoded path, copied; `names` must live as long as
 * the request. Decodes what %2F is left in them. count <= UVHTTP__PARAM_MAX. Returns 0 or UVHTTP_E_NOMEM. */
int uvhttp__request_set_params(uvhttp_request_t *req, const uvhttp_str_t *names, const uvhttp__span_t *params,
                               size_t count);

/* The names, which are the route's, become copies: the request may outlive the server. Returns 0 or UVHTTP_E_NOMEM. */
int uvhttp__request_own_params(uvhttp_request_t *req);

/* Leaves a copy of `text` under the address `key`: for middleware, for uvhttp_request_data is the application's. A
 * later one of the same key hides it. Returns 0 or UVHTTP_E_NOMEM (also when the arena's limit is reached). */
int uvhttp__request_set_note(uvhttp_request_t *req, const void *key, uvhttp_str_t text);

/* What was left under `key`, valid as long as the request; data NULL if nothing was. */
uvhttp_str_t uvhttp__request_note(const uvhttp_request_t *req, const void *key);

/* What the server notes of a request that it traces or times; lower than what it exports of it (src/trace). */
typedef struct uvhttp__trace_record {
    uvhttp__trace_context_t context;
    _Atomic uint64_t handler_ns; /* when the handler started, CLOCK_MONOTONIC; 0: unknown. By the thread that runs it */
    bool traced;                 /* `context` is valid */
} uvhttp__trace_record_t;

/* The note of such a request, `size` bytes that begin with a record; a copy of *record. Returns 0 or UVHTTP_E_NOMEM. */
int uvhttp__request_set_trace_record(uvhttp_request_t *req, const uvhttp__trace_record_t *record, size_t size);
/* NULL: there is none. */
uvhttp__trace_record_t *uvhttp__request_trace_record(const uvhttp_request_t *req);
/* NULL: the request is not traced. */
static inline const uvhttp__trace_context_t *uvhttp__request_trace_context(const uvhttp_request_t *req) {
    const uvhttp__trace_record_t *record = uvhttp__request_trace_record(req);
    return record && record->traced ? &record->context : NULL;
}

/* Goes through the members of a list-valued field over all of its lines, which are one list (RFC 9110 section 5.3):
 * `uvhttp__members_t at = {.req = req, .name = "TE"};`. Empty members are left out; a comma in quotes is no end. */
typedef struct uvhttp__members {
    const uvhttp_request_t *req;
    const char *name;
    size_t index; /* of the field to look at next */
    uvhttp_str_t rest;
} uvhttp__members_t;
bool uvhttp__member_next(uvhttp__members_t *at, uvhttp_str_t *member);
/* Whether one of the members is the token `wanted`, in any case. */
bool uvhttp__members_have(const uvhttp_request_t *req, const char *name, uvhttp_str_t wanted);

/* Learns the parts (UVHTTP__ORIGIN_*) that are not known. Loop's thread, unless all are known. Returns 0 or
 * UVHTTP_E_NOMEM. */
int uvhttp__request_learn_missing(uvhttp_request_t *req, unsigned parts);
static inline int uvhttp__request_learn(uvhttp_request_t *req, unsigned parts) {
    bool known = req->origin && (req->origin->known & parts) == parts;
    return known ? UVHTTP_OK : uvhttp__request_learn_missing(req, parts);
}

/* Who the request comes from. Threads as for uvhttp__request_learn. */
const uvhttp__client_t *uvhttp__request_client(uvhttp_request_t *req);

/* --- proxies (forwarded.c) --- */

/* Who may speak for others, and how. */
typedef struct uvhttp__trust {
    uint8_t header;   /* uvhttp_proxy_header_t, with these values: */
    uint8_t hops_max; /* elements that are looked at */
    uint8_t fields;   /* uvhttp_proxy_field_t, combined: what is believed */
    uvhttp__ip_ranges_t *ranges;
} uvhttp__trust_t;

enum { UVHTTP__PROXY_HEADER_NONE, UVHTTP__PROXY_HEADER_FORWARDED, UVHTTP__PROXY_HEADER_X_FORWARDED };
enum { UVHTTP__PROXY_FOR = 1, UVHTTP__PROXY_PROTO = 2, UVHTTP__PROXY_HOST = 4, UVHTTP__PROXY_FIELDS_ALL = 7 };

/* client->address is the sender of the request, and is trusted. Follows the fields from the last element, which that
 * peer has added, to the first address that is not trusted, and sets *client. Returns false if something was ignored: a
 * malformed element, or more than hops_max of them. Then the client is the last address that a trusted proxy has
 * reported. */
bool uvhttp__forwarded_resolve(uvhttp_request_t *req, const uvhttp__trust_t *trust, uvhttp__client_t *client);

/* --- response --- */

typedef enum uvhttp__body_kind {
    UVHTTP__BODY_NONE,
    UVHTTP__BODY_MEMORY, /* in the arena: lives as long as the exchange */
    UVHTTP__BODY_STATIC, /* lives as long as the server */
    UVHTTP__BODY_REF,    /* until release(arg) */
    UVHTTP__BODY_SHARED, /* the same; arg is the content, which may have a descriptor, too */
    UVHTTP__BODY_FILE,   /* fd, to be closed */
    UVHTTP__BODY_PARTS,  /* several pieces of memory and of one file, each held until its release(arg) */
} uvhttp__body_kind_t;

/* A piece of a body in parts; all of it in the arena. */
typedef struct uvhttp__body_part {
    const char *data; /* NULL: of the file */
    uint64_t offset;  /* in the file */
    uint64_t size;
    bool held; /* release(arg) is called for it; else the text is copied when it is sent */
} uvhttp__body_part_t;

typedef struct uvhttp__body_parts {
    void *blocking;              /* what is to read parts of the file: of the kind that the sender of the body uses */
    int fd;                      /* -1: no part is of a file */
    _Atomic(uint64_t) *found_ms; /* for uvhttp__page_cache_holds, if a part is the whole file; else NULL */
    bool copied;                 /* they read all of it, for there is to be no sendfile(2) */
    uint32_t count;
    uvhttp__body_part_t parts[];
} uvhttp__body_parts_t;

typedef struct uvhttp__body {
    uint8_t kind;  /* uvhttp__body_kind_t */
    int fd;        /* FILE only */
    uint64_t size; /* bytes */
    union {
        const char *data;
        uint64_t offset; /* FILE */
        const uvhttp__body_parts_t *parts;
    };
    union {
        struct {
            void (*release)(void *arg); /* REF, CONTENT and PARTS only, else not written; may be NULL for REF */
            void *arg;                  /* the same */
        };
        struct {                  /* of a streamed response, whose kind is NONE */
            uint64_t stream_size; /* what begin() was given: bytes or UVHTTP_SIZE_UNKNOWN */
            uint64_t stream_left; /* bytes of it not yet written */
        };
    };
} uvhttp__body_t;

/* From this size on what is sent often goes by sendfile(2). */
#define UVHTTP__SENDFILE_MIN (64u * 1024) /* bytes; docs/internals/decisions.md says how it was measured */

struct uvhttp_shared_body {
    uvhttp__ref_t ref;
    int fd; /* of the same bytes, which nobody can change; -1: less than UVHTTP__SENDFILE_MIN */
    size_t size;
    const char *data; /* behind the struct, or the mapped descriptor */
};

enum {                                      /* uvhttp_response.flags */
       UVHTTP__RESPONSE_COMPLETE = 1 << 0,  /* a buffered response is recorded */
       UVHTTP__RESPONSE_BEGUN = 1 << 1,     /* a streamed response */
       UVHTTP__RESPONSE_ENDED = 1 << 2,     /* ... is over */
       UVHTTP__RESPONSE_DEFERRED = 1 << 3,  /* only the deferred handle responds */
       UVHTTP__RESPONSE_FINISHING = 1 << 4, /* on_finish hooks have been started */
       UVHTTP__RESPONSE_COMMITTED = 1 << 5, /* the head is written: nothing can change any more */
       UVHTTP__RESPONSE_DONE = 1 << 6,      /* on_done hooks have been called */
       UVHTTP__RESPONSE_CLOSE = 1 << 7,     /* close the connection afterwards */
       UVHTTP__RESPONSE_MISSIZED =
           1 << 8, /* pieces do not add up to the size that begin() was given, or one was lost: must not be reused */
       UVHTTP__RESPONSE_ABORTED = 1 << 9,    /* the client has gone */
       UVHTTP__RESPONSE_TYPE_KEPT = 1 << 10, /* content_type was set by uvhttp_response_header */
       UVHTTP__RESPONSE_BODY_OPEN = 1 << 11, /* the session's: more of a streamed request body is to come */
       UVHTTP__RESPONSE_BRIEFLY = 1 << 12,   /* deferred by the library itself: a FIN of the client does not end it */
       UVHTTP__RESPONSE_BY_SERVER = 1 << 13, /* the server generated the buffered response, for the reason `code` */
       UVHTTP__RESPONSE_ON_ERROR =
           1 << 14, /* the function for generated responses runs: it responds now or not at all */
};

/* The session's part of a response. Called on the thread of the caller of the public function: the loop's, or a
 * worker's when the handler runs there, which the session knows. */
typedef struct uvhttp__response_sink {
    /* uvhttp_response_begin: status, content_type, headers and stream_size are set. Runs uvhttp__response_finish on the
     * loop's thread, then uvhttp__response_commit, and writes the head; returns when that is done. Returns 0,
     * UVHTTP_E_ABORTED or UVHTTP_E_NOMEM. */
    int (*begin)(uvhttp_response_t *res);
    /* Takes all of it or nothing (UVHTTP_E_LIMIT, UVHTTP_E_ABORTED, UVHTTP_E_NOMEM). */
    int (*write)(uvhttp_response_t *res, const char *data, size_t size);
    /* For a coder: whether write would take so many bytes now (0 or its codes), and writing without asking. */
    int (*capacity)(uvhttp_response_t *res, size_t size);
    int (*push)(uvhttp_response_t *res, const char *data, size_t size);
    /* An interim response with `fields`, "Name: value\r\n" each, to a client that understands it. Returns 0,
     * UVHTTP_E_ABORTED, UVHTTP_E_LIMIT or UVHTTP_E_NOMEM. */
    int (*interim)(uvhttp_response_t *res, int status, uvhttp_str_t fields);
    /* The last piece has been written; closes the connection if UVHTTP__RESPONSE_MISSIZED is set. */
    int (*end)(uvhttp_response_t *res);
    /* A piece is lost: the client shall see that the body is not complete, and gets nothing behind it. */
    void (*cut_off)(uvhttp_response_t *res);
    /* Makes a handle (count 1). NULL: there is one already, or the response is a 503 now: out of memory, refused. */
    uvhttp_deferred_t *(*defer)(uvhttp_response_t *res);
} uvhttp__response_sink_t;

typedef struct uvhttp__hook uvhttp__hook_t;

#define UVHTTP__RESPONSE_TRAILERS_SIZE_MAX 8192u /* bytes */

/* Converts the bytes of a streamed response to other bytes, of another size: for a hook of on_finish to set. */
typedef struct uvhttp__coder {
    /* As uvhttp__response_sink_t.write, by means of sink->capacity and sink->push. A code other than those of
     * sink->capacity means that the response cannot be completed. */
    int (*write)(struct uvhttp__coder *coder, uvhttp_response_t *res, const char *data, size_t size);
    /* Passes the rest to sink->push. Returns 0 or why the response cannot be completed. */
    int (*end)(struct uvhttp__coder *coder, uvhttp_response_t *res);
} uvhttp__coder_t;

/* Fields behind a chunked body: "Name: value\r\n" each. */
typedef struct uvhttp__trailers {
    uint32_t size, capacity;
    char text[];
} uvhttp__trailers_t;

/* Bytes of a Content-Type that is remembered, with its terminator: "application/json; charset=utf-8" and shorter. */
#define UVHTTP__CHECKED_TYPE_MAX 32

struct uvhttp_response {
    uint16_t status; /* 0: none yet. From here on: zero after a reset */
    uint16_t flags;
    uint32_t headers_size;
    uint32_t headers_capacity;
    uint32_t content_type_size;
    uvhttp__hook_t *finish_hooks; /* last registered first */
    uvhttp__hook_t *done_hooks;
    uvhttp__trailers_t *trailers; /* in the arena; NULL: none */
    uvhttp__coder_t *coder;       /* NULL: pieces leave as they are */
    uvhttp__body_t body;          /* to here */
    const char *content_type;     /* in the arena or static, without CR or LF; content_type_size 0: none */
    char *headers;                /* "Name: value\r\n" of the user's fields but Content-Type, in the arena */
    char checked_type[UVHTTP__CHECKED_TYPE_MAX]; /* the last Content-Type that was checked, kept over resets */
    uint8_t checked_type_size;                   /* 0: none */
    int16_t code;                                /* BY_SERVER only, else not written: a UVHTTP_E_* code */
    uint64_t sent_size;                  /* bytes of the body submitted; the session's, once the head is written */
    uvhttp_request_t *request;           /* set once by init */
    uvhttp__arena_t *arena;              /* set once by init */
    const uvhttp__response_sink_t *sink; /* set once by init */
};

/* --- response_interim.c --- */

/* The fields of an interim response as "Name: value\r\n" lines on the heap, for the caller to free (uvhttp__free).
 * Returns 0, UVHTTP_E_INVALID (status or a field), UVHTTP_E_LIMIT or UVHTTP_E_NOMEM. Any thread. */
int uvhttp__interim_text(int status, const uvhttp_response_field_t *fields, size_t count, uvhttp_str_t *text);
/* uvhttp_response_interim, for a status and text from uvhttp__interim_text. */
int uvhttp__response_interim(uvhttp_response_t *res, int status, uvhttp_str_t text);

/* --- response.c --- */

void uvhttp__response_init(uvhttp_response_t *res, uvhttp_request_t *req, uvhttp__arena_t *arena,
                           const uvhttp__response_sink_t *sink);

/* Forgets the last response (a few ns). uvhttp__response_done must have been called for it. */
static inline void uvhttp__response_reset(uvhttp_response_t *res) {
    memset(res, 0, offsetof(uvhttp_response_t, body) + offsetof(uvhttp__body_t, release));
}

/* The session's order of calls:
 *   buffered:        chain -> (COMPLETE?) -> uvhttp__response_finish -> uvhttp__response_commit -> head and body ->
 *                    uvhttp__response_done
 *   streamed:        sink->begin { finish, commit, head } -> sink->write ... sink->end -> uvhttp__response_done
 *   deferred:        sink->defer; later, on the loop's thread: uvhttp__response_undefer, respond, then as above If
 * neither COMPLETE, BEGUN nor DEFERRED is set when the handler has returned: uvhttp__response_fail(res, 500, ...).
 */

/* As uvhttp_response_on_finish, for a hook that runs behind all others: it sees the body that is sent. */
int uvhttp__response_on_finish_last(uvhttp_response_t *res, void (*callback)(uvhttp_response_t *res, void *user),
                                    void *user);
/* Runs the on_finish hooks, last registered first; at most once. */
void uvhttp__response_run_finish(uvhttp_response_t *res);
static inline void uvhttp__response_finish(uvhttp_response_t *res) {
    if (res->flags & UVHTTP__RESPONSE_FINISHING) return;
    res->flags |= UVHTTP__RESPONSE_FINISHING;
    if (__builtin_expect(res->finish_hooks != NULL, 0)) uvhttp__response_run_finish(res);
}

/* The head is about to be written: from here on every change is refused with UVHTTP_E_STATE. */
static inline void uvhttp__response_commit(uvhttp_response_t *res) {
    res->flags |= UVHTTP__RESPONSE_COMMITTED;
}

/* Releases what a body holds; it is none afterwards. */
void uvhttp__body_release_held(uvhttp__body_t *body);
static inline void uvhttp__body_release(uvhttp__body_t *body) {
    if (__builtin_expect(body->kind >= UVHTTP__BODY_REF, 0)) uvhttp__body_release_held(body);
    body->kind = UVHTTP__BODY_NONE;
    body->size = 0;
}

/* The end: releases a body that was not sent, runs the on_done hooks with `status`, last registered first; at most
 * once. */
void uvhttp__response_run_done(uvhttp_response_t *res, int status);
static inline void uvhttp__response_done(uvhttp_response_t *res, int status) {
    if (res->flags & UVHTTP__RESPONSE_DONE) return;
    res->flags |= UVHTTP__RESPONSE_COMMITTED | UVHTTP__RESPONSE_DONE;
    uvhttp__body_release(&res->body);
    if (__builtin_expect(res->done_hooks != NULL, 0)) uvhttp__response_run_done(res, status);
}

/* The client has gone: writes are refused with UVHTTP_E_ABORTED from here on. */
static inline void uvhttp__response_abort(uvhttp_response_t *res) {
    res->flags |= UVHTTP__RESPONSE_ABORTED;
}

/* Drops the header fields that describe the body that was to be sent, or say how long caches may keep it: they keep any
 * status for that long (RFC 9111 section 3). For an error that is sent instead. */
void uvhttp__response_forget_body(uvhttp_response_t *res);
/* Replaces whatever is recorded by a text/plain response of the library, in any state but COMMITTED; needs no memory.
 * status: 400..599; text: static, or NULL for no body. The user's header fields stay (CORS must reach a 404), but those
 * that describe a body are dropped. */
void uvhttp__response_fail(uvhttp_response_t *res, int status, const char *text);
/* The same for the reason `code`, a UVHTTP_E_* code. uvhttp__response_fail finds the code that goes with the status. */
void uvhttp__response_fail_by(uvhttp_response_t *res, int code, int status, const char *text);
/* The same for an overload: 503. */
void uvhttp__response_unavailable(uvhttp_response_t *res, int code);
/* Every 503 of the library has Retry-After (RFC 9110 section 10.2.3), unless there is no memory for it: those of the
 * functions above, and what middleware and the routes of the library send by other functions. */
void uvhttp__response_retry_later(uvhttp_response_t *res);
/* For hooks on the loop's thread: the status that the client has got, or 0. *refused: it is of a response of the
 * server, in place of this one, which is another thread's. */
int uvhttp__response_outcome(uvhttp_response_t *res, bool *refused);
/* The recorded response was generated by the server: the application may replace it (uvhttp_server_on_error). */
static inline void uvhttp__response_by_server(uvhttp_response_t *res, int code) {
    res->flags |= UVHTTP__RESPONSE_BY_SERVER;
    res->code = (int16_t)code;
}

/* The way in for the deferred handle, on the loop's thread: functions work again until redefer. */
static inline void uvhttp__response_undefer(uvhttp_response_t *res) {
    res->flags &= (uint16_t) ~(UVHTTP__RESPONSE_DEFERRED | UVHTTP__RESPONSE_BRIEFLY);
}
static inline void uvhttp__response_redefer(uvhttp_response_t *res) {
    res->flags |= UVHTTP__RESPONSE_DEFERRED;
}

static inline bool uvhttp__response_is(const uvhttp_response_t *res, unsigned flags) {
    return (res->flags & flags) != 0;
}

/* Records a buffered response with a body of any kind; what it holds is released on failure. Returns what
 * uvhttp_response_send does. */
int uvhttp__response_complete(uvhttp_response_t *res, int status, const char *content_type, uvhttp__body_t body);

/* Adds fields that are written already, "Name: value\r\n" one after the other, none of them the library's or
 * Content-Type. What is there of the same names is replaced, but for Vary. Returns 0, UVHTTP_E_NOMEM or UVHTTP_E_LIMIT.
 */
int uvhttp__response_put_fields(uvhttp_response_t *res, const char *text, size_t size);

/* Whether the list in all fields called `name` has an item (the case of ASCII letters is ignored). */
bool uvhttp__response_lists(const uvhttp_response_t *res, uvhttp_str_t name, uvhttp_str_t item);

/* Whether uvhttp_response_header accepts the field: it is well-formed, and not the library's (but `Connection: close`
 * is). */
bool uvhttp__response_may_have_field(uvhttp_str_t name, uvhttp_str_t value);

/* Sets (replace) or adds a field, with the checks on syntax but without those on state and on names that are the
 * library's: for the library's own fields. Returns 0, UVHTTP_E_INVALID, UVHTTP_E_NOMEM or UVHTTP_E_LIMIT. */
int uvhttp__response_put_header(uvhttp_response_t *res, uvhttp_str_t name, uvhttp_str_t value, bool replace);
/* Removes all fields of that name, without checks. */
void uvhttp__response_remove_fields(uvhttp_response_t *res, uvhttp_str_t name);

/* Whether a response with this status has a body (RFC 9110 section 6.4.1): not 1xx, 204, 205, 304. Of them, 205 alone
 * may have a Content-Length: 0. */
static inline bool uvhttp__status_has_body(int status) {
    return LIKELY(status == 200) || (status >= 200 && status != 204 && status != 205 && status != 304);
}

#endif
