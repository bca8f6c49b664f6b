/* Owns: what the parts of the simulation share. One real server runs on a kernel of ours: its system calls and its
 * waits end in kernel.c and scheduler.c (the linker puts them in their place, CMakeLists.txt), so that the clock, the
 * network, the order of events and of threads come from a seed. May include: everything. */
#ifndef UVHTTP_TEST_SIM_SIM_H
#define UVHTTP_TEST_SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uvhttp/request.h>
#include <uvhttp/route.h>
#include <uvhttp/websocket.h>

#define SIM_NEVER UINT64_MAX
#define SIM_MS UINT64_C(1000000)

/* --- random numbers and the trace (main.c) --- */

typedef struct sim_random {
    uint64_t state;
} sim_random_t;

uint64_t sim_random(sim_random_t *random);
/* 0..below-1; 0 if below is 0. */
uint32_t sim_below(sim_random_t *random, uint32_t below);
/* True in one of `in` calls. */
static inline bool sim_one_in(sim_random_t *random, uint32_t in) {
    return sim_below(random, in) == 0;
}
/* A number whose size is as likely small as large, 1..max. */
uint32_t sim_log_uniform(sim_random_t *random, uint32_t max);
/* Independent of other numbers: what one client draws does not change with the others. */
sim_random_t sim_random_of(uint64_t seed, uint64_t stream);

/* Adds to the hash of the run. Neither pointers nor real time may go into it. */
void sim_trace(const char *event, uint64_t a, uint64_t b);
/* A connection was accepted: a moment at which memory may begin to fail. */
void sim_memory_accepts(void);
void sim_trace_bytes(const void *data, size_t size);
/* An allocation of somebody's who is not the library: whether it fails on purpose, as those of the library do. */
bool sim_memory_fails(void);
/* One has failed in this run. */
bool sim_memory_has_failed(void);
extern bool sim_verbose;

/* Ends the process: prints the seed and what is wrong. */
_Noreturn void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define SIM_FILE_BIT 0x20000000u /* of tags of files, which outlive a run */
extern uint64_t sim_mask;        /* of what is no file: bits that are not 0. coding.c */

/* Bytes 8 * index to 8 * index + 7 of the body `tag`, the first one lowest: every byte says whose it is. */
static inline uint64_t sim_word(uint32_t tag, uint64_t index) {
    uint64_t x = ((uint64_t)tag << 32 ^ index) * UINT64_C(0x9E3779B97F4A7C15);
    x ^= x >> 29;
    x *= UINT64_C(0xBF58476D1CE4E5B9);
    return tag & SIM_FILE_BIT ? x : x & sim_mask;
}
static inline unsigned char sim_byte(uint32_t tag, uint64_t offset) {
    return (unsigned char)(sim_word(tag, offset >> 3) >> (offset & 7) * 8);
}
void sim_fill(char *out, uint32_t tag, uint64_t offset, size_t size);
/* Index of the first byte that is not what it should be; size: none. */
size_t sim_mismatch(const char *data, uint32_t tag, uint64_t offset, size_t size);
/* Numbers of messages, the lowest byte first. */
static inline void sim_put32(char *out, uint32_t number) {
    for (int i = 0; i < 4; i++) out[i] = (char)(number >> 8 * i);
}
static inline uint32_t sim_get32(const char *data) {
    uint32_t number = 0;
    for (int i = 0; i < 4; i++) number |= (uint32_t)(unsigned char)data[i] << 8 * i;
    return number;
}
/* What a client sends has another tag than what it gets. */
#define SIM_REQUEST_TAG(tag) ((tag) ^ 0x80000000u)

/* --- kernel.c: descriptors, sockets, clock --- */

extern uint64_t sim_now_ns;
uint64_t sim_wall_ns(void); /* since 1970; it may be set by this call */

typedef struct sim_conn sim_conn_t; /* the connection as its client sees it */

void sim_kernel_reset(uint64_t seed);
/* NULL: nobody listens, or the backlog is full. */
sim_conn_t *sim_connect(uint32_t client, uint16_t port, void (*wake)(void *arg), void *arg);
/* Bytes that were accepted; 0: there is no space, or the server has gone. */
size_t sim_client_send(sim_conn_t *conn, const char *data, size_t size);
/* Returns bytes, 0 for nothing yet, -1 for FIN, -2 for RST. */
long sim_client_receive(sim_conn_t *conn, char *data, size_t size);
/* Bytes, or the end. */
bool sim_client_readable(const sim_conn_t *conn);
void sim_client_fin(sim_conn_t *conn);
void sim_client_reset(sim_conn_t *conn);
/* The client is done with it: its memory goes when the server has closed, too. */
void sim_client_close(sim_conn_t *conn);
bool sim_server_has_closed(const sim_conn_t *conn);
bool sim_is_unix(const sim_conn_t *conn);
/* For want of descriptors or memory it was still in the backlog when the listener closed. */
bool sim_was_never_accepted(const sim_conn_t *conn);
/* Bytes of the client that the server has read. */
uint64_t sim_server_received(const sim_conn_t *conn);
/* Whether it asked for bytes that wait, and found none, last when no more than `size` had come in all. */
bool sim_server_has_looked(const sim_conn_t *conn, uint64_t size);

/* The epoll set or the ring has something to tell. */
bool sim_fd_ready(int fd);
struct pollfd;
/* Its events, as poll(2) reports them. */
short sim_polled(const struct pollfd *fd);
/* The next moment at which a descriptor becomes ready by itself. */
uint64_t sim_kernel_next_ns(void);
/* Nobody can run before next_ns: is a connection waiting for nothing? */
void sim_kernel_check_idle(uint64_t next_ns);
/* It has lately refused what was submitted to a ring: descriptors may be closed late. */
bool sim_kernel_is_excused(void);
extern uint64_t sim_ring_refused_ns; /* when that was last */
/* Descriptors of the server that are open. */
uint32_t sim_open_descriptors(void);

/* --- scheduler.c: threads --- */

void sim_scheduler_reset(uint64_t seed);
/* The calling thread waits for events of an epoll set, or completions of a ring. */
void sim_wait_fd(int fd, uint64_t deadline_ns);
void sim_wait_poll(const struct pollfd *fds, uint64_t count, uint64_t deadline_ns);
void sim_wait_time(uint64_t deadline_ns);
/* Another thread, or the world, may go first. */
void sim_yield(void);
/* The same, seldom, unless the thread has a lock: of a call that takes no time. */
void sim_interrupt(void);
uint64_t sim_steps(void);
/* What the world and threads other than the calling one have done. */
uint64_t sim_steps_of_others(void);
uint32_t sim_threads_made(void);
/* A thread that could run waits now and then. Of the seed. */
bool sim_threads_stall(void);

/* --- clients.c: the world outside of the server --- */

typedef struct sim_plan sim_plan_t;

#define SIM_CLIENTS_MAX 2048u

/* What is dropped, for shrinking. */
typedef struct sim_drop {
    bool clients[SIM_CLIENTS_MAX];
    uint32_t ops[SIM_CLIENTS_MAX]; /* a bit for each */
} sim_drop_t;

void sim_world_new(uint64_t seed, const sim_drop_t *drop, bool failing);
void sim_world_free(void);
/* Unless it is 0, clients act at multiples of it only, most of them before a thread of the server continues: it finds
 * together what they did. */
extern uint64_t sim_beat_ns;
uint64_t sim_world_next_ns(void);
/* Does something that is due. */
void sim_world_step(sim_random_t *random);
/* The server has sent something, or has closed. */
void sim_world_wake(void *arg);
void sim_world_check_end(void);
/* The server has ended: no callback follows. */
void sim_world_check_callbacks(void);
/* An operator asks the server to stop. */
void sim_world_drain(void);
/* It has stopped. */
void sim_world_stopped(void);
/* A handler that waits for capacity has written so many bytes of a response. */
void sim_world_wrote(uint32_t tag, uint64_t size);
uint32_t sim_world_clients(void);
uint32_t sim_world_ops(uint32_t client);
void sim_world_describe(uint32_t client, uint32_t op, char *text, size_t size);

/* Whether what comes of this client may be wrong. */
bool sim_may_misbehave(uint32_t client);

/* --- files.c --- */

#define SIM_FILES 8
extern const uint32_t sim_file_sizes[SIM_FILES];
#define SIM_FILE_TAG(file) (SIM_FILE_BIT + (file)) /* no request's */
#define SIM_SHARED_TAG(body) (SIM_FILE_BIT + SIM_FILES + (body))
#define SIM_EDITED_TAG(version) (SIM_FILE_BIT + 0x1000 + (version))
void sim_files_init(void);
void sim_files_reset(uint64_t seed);
void sim_files_end(void);
const char *sim_files_root(void);

/* --- editor.c: files of that directory that change while they are served --- */

extern bool sim_edits;                  /* of the seed */
extern uint32_t sim_edit_revalidate_ms; /* 0: the default */
extern bool sim_inodes_are_reused;      /* all content that can be in memory is: its ETags come from the bytes */
void sim_editor_reset(uint64_t seed);
/* The world begins. */
void sim_editor_new(void);
void sim_editor_end(void);
struct stat;
/* What a real file's information is in the run; false: it is none of these files. */
bool sim_edited_level(struct stat *info);

/* --- channels.c, jobs.c --- */

void sim_channels_add(struct uvhttp_server *server);
void sim_channels_check_end(void);
void sim_jobs_add(struct uvhttp_server *server);
void sim_jobs_check_end(void);

/* --- disk.c: what uploads are saved to; forms.c: handlers that do so --- */

void sim_disk_reset(uint64_t seed);
void sim_disk_check_end(void);
/* Of a request whose handler or whose spool uses the disk: whether a failure of that is the reason of the status. */
bool sim_disk_refuses(uint32_t tag, int status);
void sim_forms_add(struct uvhttp_server *server);
void sim_forms_check_server(const struct uvhttp_server *server);
void sim_forms_check_end(void);
extern uint32_t sim_spool_max;    /* bytes of all bodies that are spooled; 0: no limit. Of the seed */
extern bool sim_jobs_are_watched; /* those that are slow are counted */
/* --- access_log.c: lines that are written, and those that have to be --- */

void sim_access_log_reset(void);
void sim_access_log_write(const char *lines, size_t size, void *user);
#define SIM_ACCESS_LOG "/sim/access.log" /* a path of the simulation's */
void sim_access_log_take(const char *line, const char *end);
/* Whole ones of the file; and whether nothing there fails or waits. outputs.c. */
uint64_t sim_access_log_lines(void);
bool sim_access_log_is_good(void);
/* What lines say of requests that are missing. */
uint64_t sim_access_log_dropped(void);
/* The middleware behind the log has this request. */
void sim_access_log_saw(struct uvhttp_request *req);
/* A client has this response whole, with so many bytes of body; SIM_NEVER: nobody knows. */
void sim_access_log_expect(uint32_t tag, int status, uint64_t bytes);
/* complete: none was dropped. */
void sim_access_log_check(bool complete);

/* --- metrics.c: what clients and the kernel know, and the metrics --- */

/* Of connections to the server that is tested. */
typedef struct sim_traffic {
    uint64_t accepted, closed, received, sent;
    uint64_t accepted_late; /* of them: behind the stop, when there may be no place */
    uint64_t accept_errors;
    uint64_t resets;     /* by clients, or by the systems of those that have gone */
    uint64_t handshakes; /* of TLS behind which something has come */
} sim_traffic_t;
extern sim_traffic_t sim_traffic;
extern bool sim_metered;       /* requests are counted by their attributes. Of the seed */
#define SIM_SERIES_ENOUGH 250u /* the default of the library takes time to clear */
extern uint32_t sim_series_max;
void sim_metrics_reset(uint64_t seed);
/* Nobody runs. */
void sim_metrics_check_quiet(void);
/* Of a server that has stopped, before it is freed. */
void sim_metrics_check_end(struct uvhttp_server *server);
void sim_metrics_check_limits(void);
/* As it was read last. */
uint64_t sim_metrics_last(const char *name);

/* --- addresses.c: addresses of clients --- */

extern uint32_t sim_address_max; /* connections_per_address_max; 0: no limit, and one address. Of the seed */
void sim_addresses_plan(uint64_t seed);
/* If there is a limit. */
uint32_t sim_address_of(uint32_t client);
/* Of its socket: that of a proxy, or its own. */
uint32_t sim_socket_address_of(uint32_t client, uint16_t port);
/* The same with its port. */
void sim_peer_text(uint32_t client, char *text, size_t size);
/* It comes through a proxy. */
bool sim_is_proxied(uint32_t client);
/* So many bytes of its own precede what the connection is for. */
void sim_client_announces(sim_conn_t *conn, uint32_t header_size);
/* The server has reset it for its address. */
bool sim_was_refused(const sim_conn_t *conn);
void sim_addresses_check_quiet(uint64_t next_ns);
void sim_addresses_check_end(void);
bool sim_clients_have_stopped(void);

/* --- outputs.c: what lines are written to; log.c: the log --- */

extern bool sim_logged; /* it goes to a standard error of the simulation */
void sim_outputs_reset(uint64_t seed);
void sim_standard_error_relieve(void);
bool sim_standard_error_is_good(void);
uint64_t sim_standard_error_lines(uint64_t *bytes);

void sim_log_reset(uint64_t seed);
/* A handler logs. */
void sim_log_lines(void);
void sim_log_server_runs(bool runs);
void sim_log_check_writer(void);
void sim_log_take(const char *line, const char *end);
void sim_log_end(void);

/* --- server.c: the server that is tested --- */

struct uvhttp_server;
struct uvhttp_request;
struct uvhttp_response;
typedef void sim_handler_t(struct uvhttp_request *req, struct uvhttp_response *res, void *user);
struct uvhttp_server *sim_server_new(uint64_t seed);
/* A parameter of the path. */
uint32_t sim_number(const char *data, size_t size, int base); /* of a text of the library: without NUL behind it */
uint32_t sim_request_number(const struct uvhttp_request *req, const char *name, int base);
/* Of a server that has stopped, before it is freed. */
void sim_server_check_counters(struct uvhttp_server *server);
/* No handler of it runs, and all that it held has come back. */
void sim_server_check_end(void);
void sim_server_check_log(void);
/* Of whom a handler has a request. */
void sim_server_check_origin(struct uvhttp_request *req, uint32_t tag);
/* Allocations fail on purpose in this run. */
extern bool sim_failing;
extern bool sim_ring_has_died; /* in such a run: a loop has failed, and its server with it */
extern bool sim_ring_has_lost; /* because the kernel had no memory for a completion: nobody knows what it was of */
extern struct uvhttp_server *sim_server;
/* Adds the addresses; returns as uvhttp_server_listen. */
int sim_server_listen(struct uvhttp_server *server);
/* Of the seed, known before there is a server. */
void sim_server_plan(uint64_t seed);
extern uint32_t sim_popular; /* a route_t that most requests of the seed go to, or others of its kind; 0: none */
extern bool sim_tls_listens, sim_proxy_listens, sim_access_logged;
extern bool sim_access_log_is_file; /* else a function of the application's gets its lines */
/* What the server may take ahead of its use, of a connection and of a stream of HTTP/2. */
extern uint32_t sim_h2_connection_window, sim_h2_stream_window;
/* http2_connection_memory_max, if it is small; else 0. http2_memory.c */
extern uint32_t sim_h2_memory_max;
void sim_h2_memory_plan(uint64_t seed);
extern bool sim_wall_jumps;              /* somebody sets the clock while the server runs */
extern bool sim_look_ups_wait;           /* of files, however many: none is refused */
extern bool sim_threads_are_patient;     /* a request waits for one as long as it takes */
extern uint32_t sim_response_timeout_ms; /* of some routes; 0: none */
extern bool sim_half_close;              /* a client that has ended its half still gets the responses */
extern bool sim_places_are_few;          /* fewer than clients: idle connections are evicted */
/* One seed in so many has hundreds or thousands of clients, which are lighter than those of the others. */
#define SIM_CROWD_EVERY 1000u
extern uint32_t sim_places;      /* max_connections */
extern uint32_t sim_crowd;       /* so many clients; 0: no crowd */
extern uint32_t sim_streams_max; /* connections that the server has descriptors for; 0: enough */

/* --- guest.c: a server that is a guest of an application's libuv loop --- */

extern bool sim_is_guest; /* of the seed */
void sim_guest_plan(uint64_t seed);
/* Runs and frees the server. */
void sim_guest_run(struct uvhttp_server *server, uint64_t seed);
/* The server is to be stopped: in a callback of the application, or by another thread. */
void sim_guest_stop(void);
/* The application is busy: it serves nobody. */
bool sim_guest_is_blocked(void);
/* Since then: by a call of the library that may take time. */
void sim_guest_was_blocked(uint64_t since_ns);
/* A callback of a handler, which had something to do. */
void sim_guest_called(void);
/* Frees a server of the loop: its handles are to go, and the loop is blocked as long as it takes. */
void sim_guest_free(struct uvhttp_server *server);
/* second.c: there is a second server. */
bool sim_second_lives(void);
#define SIM_SECOND_PORT 8300u
/* Calls run(arg) in `ms` or more, in one of the callbacks that an application's loop has. On the loop's thread. */
typedef struct sim_later sim_later_t;
sim_later_t *sim_guest_later(uint32_t ms, void (*run)(void *arg), void *arg);
/* Before it has run. */
void sim_guest_cancel(sim_later_t *later);

#define SIM_PORT 8000u
#define SIM_PEER_PORT 20000u /* of client 0, and so on */
#define SIM_PORT_TLS 1u
#define SIM_PORT_PROXY 2u

/* --- actors.c: who is at the other end of connections that no client has --- */

typedef struct sim_actor {
    struct sim_actor *next; /* in the list of all */
    uint64_t next_ns;       /* when it acts by itself; SIM_NEVER */
    bool done;              /* it is freed; its connection has forgotten it */
    void (*step)(struct sim_actor *actor);
    void (*woken)(struct sim_actor *actor); /* the server has sent something, read something, or closed */
    void (*free)(struct sim_actor *actor);  /* also when it is not done */
} sim_actor_t;

void sim_actor_add(sim_actor_t *actor);
/* Of a connection. */
void sim_actor_wake(void *arg);
uint64_t sim_actors_next_ns(void);
/* Whether there was something due. */
bool sim_actors_step(void);
void sim_actors_free(void);

/* --- origin.c: the other server; gateway.c: handlers that ask it --- */

#define SIM_ORIGIN_WHOLE 9000u /* ports, by what it does */
#define SIM_ORIGIN_BROKEN 9001u
#define SIM_ORIGIN_REFUSES 9002u
/* Of a handler's request with this tag. */
#define SIM_ORIGIN_PORT(tag)                                                                                           \
    ((uint16_t)((tag) % 8 == 3 ? SIM_ORIGIN_BROKEN : (tag) % 8 == 5 ? SIM_ORIGIN_REFUSES : SIM_ORIGIN_WHOLE))
#define SIM_ORIGIN_TAG(tag) ((tag) ^ 0x40000000u)
#define SIM_NAME "good.sim" /* has addresses of all three kinds, the good one last. names.c */
#define SIM_ADDRESS_GOOD 0x7f000001u
#define SIM_ADDRESS_REFUSES 0x7f000002u
#define SIM_ADDRESS_SILENT 0x7f000003u
void sim_names_reset(uint64_t seed);
/* Of a connection that the server has begun; the number-th. */
sim_actor_t *sim_origin_new(sim_conn_t *conn, uint16_t port, uint64_t seed, uint32_t number);
void sim_gateway_add(struct uvhttp_server *server);
/* Responds when the other server has: a body of the tag, in memory of its own. */
struct uvhttp_deferred;
void sim_pass_on(struct uvhttp_response *res, uint32_t tag, uint32_t size);
void sim_pass_on_deferred(struct uvhttp_deferred *deferred, uint32_t tag, uint32_t size);
/* Releases a handle without a response, and forgets it first: the library makes one. */
void sim_give_up(struct uvhttp_deferred **deferred);
void sim_gateway_check_end(void);

/* --- coding.c: responses that are compressed --- */

extern bool sim_compresses;
void sim_coding_reset(uint64_t seed);
/* Returns as uvhttp_use. */
int sim_coding_add(struct uvhttp_server *server);

/* --- handles.c --- */

void sim_handles_add(struct uvhttp_server *server);
void sim_handles_check_end(void);

/* --- replies.c: responses with more than a head and a body of their own --- */

void sim_replies_add(struct uvhttp_server *server);
void sim_replies_check_end(void);

/* --- events.c --- */

void sim_events_add(struct uvhttp_server *server);
void sim_events_check_end(void);
/* Behind the last client. */
void sim_events_forget(void);

/* --- dial.c: handlers with sockets of their own --- */

void sim_dial_add(struct uvhttp_server *server);
/* 502 may come. */
bool sim_dial_may_fail(uint32_t tag);
void sim_dial_check_end(void);

/* --- tcp.c: connections of bytes, upgraded ones and those of a TCP server --- */

#define SIM_TCP_PORT 8200u
struct uvhttp_server_config;
extern bool sim_tcp_listens;      /* there is a TCP server. Of the seed */
extern uint32_t sim_tcp_idle_s;   /* its idle_timeout; 0: none */
extern uint32_t sim_tcp_min_rate; /* its min_send_rate; 0: none */
void sim_tcp_plan(uint64_t seed);
void sim_tcp_add(struct uvhttp_server *server, const struct uvhttp_server_config *config);
void sim_tcp_start(uint64_t seed);
void sim_tcp_stop(void);
void sim_tcp_http_stopped(void); /* ... or is about to be */
/* Waits for the TCP server, and frees it. */
void sim_tcp_join(void);
/* There is no server any more. */
void sim_tcp_end(void);

/* --- collector.c: what spans are sent to --- */

#define SIM_COLLECTOR 9010u /* port */
/* Whether requests are traced, and the collector accepts all that it gets. Of the seed. */
extern bool sim_traces, sim_collector_is_good;
void sim_collector_reset(uint64_t seed);
sim_actor_t *sim_collector_new(sim_conn_t *conn, uint64_t seed, uint32_t number);
/* Before the server is freed, and behind that, which sends the rest. */
void sim_collector_check_server(const struct uvhttp_server *server);
void sim_collector_check_end(void);

/* --- operators.c: clients of the admin listener --- */

#define SIM_ADMIN_PORT 8100u
extern bool sim_admin_listens;
void sim_operators_new(uint64_t seed, uint32_t clients);
/* The server is being asked to stop, by somebody else; it was asked. */
void sim_operators_stopping(void);
void sim_operators_stopped(void);

/* --- endpoints.c: WebSocket --- */

/* Of the seed. */
typedef struct sim_ws_settings {
    bool compresses, takeover;
    uint8_t level, memory_level, server_bits, client_bits;
    uint32_t size_min, high_watermark;
    uint32_t size_max; /* of a message */
} sim_ws_settings_t;
extern sim_ws_settings_t sim_ws;
#define SIM_WS_SIZE_MAX 250000u
/* Written in parts, and so never compressed. */
#define SIM_WS_IS_STREAMED(tag) ((tag) % 3 == 0)
/* ... and what follows the request is read meanwhile. */
#define SIM_WS_READS_ON(tag) ((tag) % 6 == 0)

void sim_ws_plan(uint64_t seed);
struct uvhttp_ws_options sim_ws_options(void);
/* As sim_fill and sim_mismatch, of bytes that can be compressed if the seed compresses. */
void sim_ws_fill(char *out, uint32_t tag, uint64_t offset, size_t size);
size_t sim_ws_mismatch(const char *data, uint32_t tag, uint64_t offset, size_t size);
void sim_endpoints_add(struct uvhttp_server *server);
void sim_endpoints_check_end(void);

/* --- websocket.c: what handlers have seen --- */

/* on_upgrade: the number of the request becomes uvhttp_ws_data. */
uvhttp_flow_t sim_ws_upgrade_request(struct uvhttp_request *req, struct uvhttp_response *res, void *user);
void sim_ws_app_opened(uint32_t tag);
void sim_ws_app_closed(uint32_t tag, int code);

/* --- topics.c: WebSocket publications --- */

#define SIM_TOPIC "topic"
/* By a thread of the pool, else by the loop of the client that has sent it. */
#define SIM_PUBLISHED_BY_THREAD(tag) ((tag) % 5 == 0)
void sim_topics_add(struct uvhttp_server *server);
void sim_topics_check_counters(const struct uvhttp_server *server);
void sim_topics_check_end(void);

/* --- limiter.c: a route whose requests share one bucket --- */

/* `handler` calls sim_limiter_served. Returns as uvhttp_use. */
int sim_limiter_add(struct uvhttp_server *server, sim_handler_t *handler, uint32_t loop_count);
void sim_limiter_served(void);
void sim_limiter_check_end(void);

/* --- redis.c: a route whose requests Redis decides about --- */

#define SIM_REDIS 9020u /* port */
extern const bool sim_has_redis;
extern bool sim_redis_is_popular; /* every second request goes there */
void sim_redis_reset(uint64_t seed);
/* Returns as uvhttp_use. */
int sim_redis_add(struct uvhttp_server *server, sim_handler_t *handler);
sim_actor_t *sim_redis_new(sim_conn_t *conn, uint64_t seed, uint32_t number);
/* Nobody listens now. */
bool sim_redis_is_away(void);
/* The status of this request if it is refused; 0: it is not. */
int sim_redis_refusal(uint32_t tag);
/* A request may get 503. */
bool sim_redis_may_fail(void);
void sim_redis_check_end(void);

/* --- limits that both sides know --- */
#define SIM_HEAD_TIMEOUT_S 30u
#define SIM_KEEPALIVE_S 60u
#define SIM_FIN_S 40u
#define SIM_BODY_TIMEOUT_S 100u
#define SIM_WRITE_TIMEOUT_S 120u
#define SIM_DRAIN_S 600u
#define SIM_BREAK_S 2u                /* from a FIN in the middle of a handshake or a head to the end */
#define SIM_SILENCE_S 90u             /* until who sends no request is cut off */
#define SIM_END_MS 1000u              /* from the last byte to FIN */
#define SIM_QUEUED_MAX 200000u        /* bytes of a response that are written and not read: queues of both systems */
#define SIM_CREDIT_S 90u              /* nobody waits for credit longer */
#define SIM_PROBED_WINDOW_MAX 119999u /* a body of half of it is cheap */

#endif
